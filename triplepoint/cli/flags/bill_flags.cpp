// SPDX-License-Identifier: Apache-2.0

#include "triplepoint/cli/flags/bill_flags.h"

#include <charconv>

#include <fmt/format.h>

#include "triplepoint/base/unit_text.h"

#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/cli/flags/shared_flags.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::cli {
namespace {

Result<double> parse_number(std::string_view text) {
  double value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size() || !(value >= 0))
    return error(fmt::format("\"{}\" is no amount (a number of zero or more); try 0.08", text));
  return value;
}

}  // namespace

Result<double> parse_tokens(std::string_view text) {
  double factor = 1;
  std::string_view number = text;
  constexpr std::pair<char, double> suffixes[] = {{'M', 1e6}, {'B', 1e9}, {'T', 1e12}};
  for (const auto& [letter, scale] : suffixes)
    if (!text.empty() && text.back() == letter) {
      factor = scale;
      number.remove_suffix(1);
    }
  const Result<double> value = parse_number(number);
  if (!value || *value <= 0)
    return error(
        fmt::format("\"{}\" is not a number of tokens (M, B and T stand for 10^6, 10^9 and "
                    "10^12); try 15T",
                    text));
  return factor * *value;
}

Arguments BillFlags::arguments() {
  const auto number = [](std::optional<double>& target) { return into(target, parse_number); };
  const auto time = [](std::optional<Seconds>& target, Seconds least = {}) {
    return into_time(target, least, 1e9 * unit::h);
  };
  return Arguments()
      .group("Cost of a full training")
      .flag("--tokens", "N", "estimate time, energy, cost and CO2 for N tokens, as in 15T",
            into(tokens_, parse_tokens))
      .flag("--price-kwh", "MONEY",
            "electricity price (defaults of all rates: data/economics.toml)", number(price_))
      .flag("--gpu-hour-price", "MONEY",
            "price of a GPU with its share of the machine, without electricity", number(gpu_hour_))
      .flag("--pue", "RATIO", "power usage effectiveness: facility power over IT power",
            number(pue_))
      .flag("--grid", "GRAMS", "CO2 per kWh", number(grid_))
      .flag("--mtbf", "TIME",
            "mean time between failures of one GPU, as in 50000h; 0s: no failures", time(mtbf_))
      .flag("--checkpoint-time", "TIME", "time to write a checkpoint; the job is paused",
            time(checkpoint_))
      .flag("--checkpoint-interval", "TIME", "time between checkpoints (default: the optimum)",
            time(interval_, 1 * unit::s))
      .flag("--restart-time", "TIME", "from a failure to the next step", time(restart_));
}

Result<void> BillFlags::check_alone() const {
  const bool any =
      price_ || gpu_hour_ || pue_ || grid_ || mtbf_ || checkpoint_ || interval_ || restart_;
  if (!any || given()) return {};
  return error(
      "rates and failures belong to the cost of a full training (its length is missing); add "
      "--tokens 15T");
}

Result<metrics::BillRates> BillFlags::rates(const spec::Library& library) const {
  metrics::BillRates rates = TPT_TRY(metrics::load_bill_rates(library));
  rates.price_per_kwh = price_.value_or(rates.price_per_kwh);
  rates.price_per_gpu_hour = gpu_hour_.value_or(rates.price_per_gpu_hour);
  rates.pue = pue_.value_or(rates.pue);
  rates.grams_co2_per_kwh = grid_.value_or(rates.grams_co2_per_kwh);
  rates.device_mtbf = mtbf_.value_or(rates.device_mtbf);
  rates.checkpoint_write = checkpoint_.value_or(rates.checkpoint_write);
  rates.checkpoint_interval = interval_.value_or(rates.checkpoint_interval);
  rates.restart = restart_.value_or(rates.restart);
  if (rates.pue < 1)
    return error(
        fmt::format("--pue {} is below 1 (a building draws what its computers draw, and "
                    "more); try 1.2",
                    rates.pue));
  return rates;
}

metrics::Bill BillFlags::bill(const spec::Job& job, const metrics::BillRates& rates,
                              Seconds step_time, Watts device_power) const {
  const Watts node = sim::typical_node_power(job, device_power);
  return metrics::bill_of({.tokens = tokens_.value_or(0),
                           .tokens_per_step = static_cast<double>(workload::tokens_per_step(job)),
                           .step_time = step_time,
                           .devices = static_cast<double>(job.world_size()),
                           .node_power = static_cast<double>(job.cluster.num_nodes) * node},
                          rates);
}

}  // namespace triplepoint::cli
