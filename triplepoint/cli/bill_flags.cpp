// SPDX-License-Identifier: Apache-2.0

#include "triplepoint/cli/bill_flags.h"

#include <charconv>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/shared_flags.h"
#include "triplepoint/report/number_text.h"
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

Store into_number(std::optional<double>& target) {
  return [&target](std::string_view text) -> Result<void> {
    target = TPT_TRY(parse_number(text));
    return {};
  };
}

std::string money_text(double money, const std::string& currency) {
  if (money >= 1e6) return fmt::format("{:.2f} M {}", money / 1e6, currency);
  return fmt::format("{:.0f} {}", money, currency);
}

std::string duration_text(Seconds time) {
  if (time >= 48 * unit::h) return fmt::format("{:.1f} days", time / (24 * unit::h));
  if (time >= 2 * unit::h) return fmt::format("{:.1f} h", time / unit::h);
  return fmt::format("{:.0f} min", time / unit::min);
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
        fmt::format("\"{}\" is no number of tokens (M, B and T stand for 10^6, 10^9 and "
                    "10^12); try 15T",
                    text));
  return factor * *value;
}

std::vector<Argument> BillFlags::arguments() {
  const std::string group = "The bill of a whole training";
  const auto number = [&](const char* names, const char* value, const char* help,
                          std::optional<double>& target) {
    return Argument{
        .names = names, .value = value, .help = help, .group = group, .store = into_number(target)};
  };
  constexpr Seconds most = 1e9 * unit::h;
  const auto time = [&](const char* names, const char* help, std::optional<Seconds>& target,
                        Seconds least = {}) {
    return Argument{.names = names,
                    .value = "TIME",
                    .help = help,
                    .group = group,
                    .store = into_time(target, least, most)};
  };
  return {
      {.names = "--tokens",
       .value = "N",
       .help = "train on so many, as in 15T: days, MWh, money, CO2",
       .group = group,
       .store = [this](std::string_view text) -> Result<void> {
         tokens_ = TPT_TRY(parse_tokens(text));
         return {};
       }},
      number("--price-kwh", "MONEY", "of electricity (defaults of all rates: data/economics.toml)",
             price_),
      number("--gpu-hour-price", "MONEY", "of a GPU with its machine, without electricity",
             gpu_hour_),
      number("--pue", "RATIO", "power of the building over that of its computers", pue_),
      number("--grid", "GRAMS", "CO2 of a kWh", grid_),
      time("--mtbf", "of one GPU, until a failure ends the job, as in 50000h; 0s: never", mtbf_),
      time("--checkpoint-time", "the job stands still while it writes one", checkpoint_),
      time("--checkpoint-interval", "between two (default: the best one)", interval_, 1 * unit::s),
      time("--restart-time", "from a failure to the next step", restart_)};
}

Result<void> BillFlags::check_alone() const {
  const bool any =
      price_ || gpu_hour_ || pue_ || grid_ || mtbf_ || checkpoint_ || interval_ || restart_;
  if (!any || given()) return {};
  return error(
      "rates and failures are of the bill of a whole training (how long it is was not said); add "
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

std::string bill_text(const metrics::Bill& bill, const metrics::BillRates& rates) {
  constexpr double hopeless = 1e-6;
  if (bill.goodput < hopeless)
    return fmt::format(
        "it would never end: a failure comes every {}, and hardly a checkpoint (every {}) is "
        "reached between two",
        to_text(bill.job_mtbf), to_text(bill.checkpoint_interval));
  std::string text = fmt::format(
      "{}, {} MWh, {} (machines {}, electricity {}), {:.0f} t CO2", duration_text(bill.total),
      report::significant(bill.energy / unit::MWh), money_text(bill.money(), rates.currency),
      money_text(bill.machines, rates.currency), money_text(bill.electricity, rates.currency),
      bill.tonnes_co2);
  if (bill.failures > 0)
    text +=
        fmt::format("; goodput {:.1f} %: a failure every {}, {} in all, a checkpoint every {}",
                    100 * bill.goodput, duration_text(bill.job_mtbf),
                    report::significant(bill.failures), duration_text(bill.checkpoint_interval));
  return text;
}

Json bill_json(const metrics::Bill& bill, const metrics::BillRates& rates) {
  return {{"steps", bill.steps},
          {"productive_s", bill.productive / unit::s},
          {"total_s", bill.total / unit::s},
          {"goodput", bill.goodput},
          {"failures", bill.failures},
          {"job_mtbf_s", bill.job_mtbf / unit::s},
          {"checkpoint_interval_s", bill.checkpoint_interval / unit::s},
          {"energy_mwh", bill.energy / unit::MWh},
          {"money", bill.money()},
          {"machines_money", bill.machines},
          {"electricity_money", bill.electricity},
          {"currency", rates.currency},
          {"co2_t", bill.tonnes_co2},
          {"rates",
           {{"price_per_kwh", rates.price_per_kwh},
            {"price_per_gpu_hour", rates.price_per_gpu_hour},
            {"pue", rates.pue},
            {"grams_co2_per_kwh", rates.grams_co2_per_kwh},
            {"device_mtbf_s", rates.device_mtbf / unit::s},
            {"checkpoint_write_s", rates.checkpoint_write / unit::s},
            {"restart_s", rates.restart / unit::s}}}};
}

}  // namespace triplepoint::cli
