// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/shared_flags.h"

#include <algorithm>

#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/diagnose_parts.h"
#include "triplepoint/spec/fault.h"

#include "triplepoint/sim/conditions.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::flags {
namespace {

// More would not start on any machine; it is also where an int would end.
constexpr int64_t most_threads = 4096;

constexpr double most_amount = 1e18;

Result<double> parse_number(std::string_view text) {
  const auto split = split_number(text);
  if (split && split->rest.empty() && split->number >= 0 && split->number <= most_amount)
    return split->number;
  return error("\"{}\" is no amount (a number from 0 to 10^18); try 1.2", text);
}

}  // namespace

Result<int64_t> read_count(std::string_view text, int64_t least, int64_t most) {
  const int64_t count = TPT_TRY(parse_count(text));
  if (count >= least && count <= most) return count;
  return error("{} is out of range (it counts from {} to {}); give one of these", count, least,
               most);
}

Result<Seconds> read_time(std::string_view text, Seconds least, Seconds most) {
  const Seconds time = TPT_TRY(parse_quantity<Seconds>(text));
  if (time >= least && time <= most) return time;
  return error("{} is out of range ({:g} s to {:g} h make sense); give one between them", text,
               least / unit::s, most / unit::h);
}

Argument ThreadsFlag::argument() {
  return {{}, "--threads", "N", help_, "", into_count(asked_, 1, most_threads)};
}

int ThreadsFlag::count() const {
  return count_or(available_threads());
}

Result<void> require_lasting_faults(const spec::Job& job, std::string_view instead) {
  for (const spec::Fault& fault : job.environment.faults)
    if (!sim::is_lasting(fault))
      return error("fault {} has a time (a steady state has no time); {}", spec::to_text(fault),
                   instead);
  return {};
}

Result<void> require_power(const spec::Job& job, std::string_view what) {
  if (!spec::predicted_without_power(job)) return {};
  return error(
      "{} needs a machine with power and heat (this cluster's ranks share cores); name "
      "a cluster of GPUs, or compare layouts with triplepoint characterize laptop",
      what);
}

Result<void> require_plannable(const spec::Job& job, std::string_view what) {
  TPT_TRY(spec::require_training(job, fmt::format("{} works", what)));
  TPT_TRY(require_power(job, what));
  if (!job.plan.sends || job.plan.sends->microbatches <= 1) return {};
  return error(
      "{} knows no sends of several microbatches (its bounds and slacks are those of "
      "single sends); leave out sends.microbatches, and simulate the plan with them",
      what);
}

Arguments FaultFlags::arguments() {
  return Arguments().group("Faults").flag(
      "--fault", "WHAT",
      "inject a fault, as in gpu=3,power=0.25@120s..300s; repeatable. power, fan, link: remaining "
      "share; inlet: kelvins; heat_path, host: factor; lost: restart time; every=2s: flapping",
      into(faults_), {.repeats = true});
}

Result<void> FaultFlags::apply(spec::Job& job, bool over_time) const {
  for (const std::string& text : faults_) {
    Result<spec::Fault> fault = spec::parse_fault(text);
    if (!fault) return error("--fault " + text + ": " + fault.error().what);
    job.environment.faults.push_back(*fault);
  }
  if (over_time) return {};
  return require_lasting_faults(job, "add --duration 10min, or leave out the fault's time");
}

Result<double> parse_tokens(std::string_view text) {
  const auto split = split_number(text);
  constexpr std::pair<std::string_view, double> suffixes[] = {
      {"", 1}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
  for (const auto& [letter, scale] : suffixes)
    if (split && split->rest == letter && split->number > 0 && split->number <= most_amount)
      return scale * split->number;
  return error(
      "\"{}\" is not a number of tokens (M, B and T stand for 10^6, 10^9 and 10^12); try 15T",
      text);
}

Arguments ScopeFlags::arguments() {
  return Arguments()
      .group("Energy")
      .flag("--scope", "SCOPE",
            "where energy counts: at the site's meter (default), at the nodes' supplies, or of the "
            "GPUs alone",
            [this](std::string_view text) -> Result<void> {
              const auto& all = metrics::energy_scopes;
              scope_ =
                  static_cast<metrics::EnergyScope>(std::ranges::find(all, text) - all.begin());
              return {};
            },
            {.choices = {metrics::energy_scopes.begin(), metrics::energy_scopes.end()}})
      .flag("--pue", "RATIO", "power usage effectiveness: facility power over IT power",
            into(pue_, parse_number));
}

Result<double> ScopeFlags::pue(const spec::Environment& site, double usual) const {
  const double pue = pue_ ? *pue_ : site.pue.value_or(usual);
  if (pue >= 1) return pue;
  return error("--pue {} is below 1 (a building draws what its computers draw, and more); try 1.2",
               pue);
}

Result<void> ScopeFlags::count_energy(spec::Job& job, double usual_pue) const {
  const double ratio = TPT_TRY(pue(job.environment, usual_pue));
  std::optional<double>& known = job.environment.pue;
  if (spec::predicted_without_power(job)) return {};
  if (scope_ == metrics::EnergyScope::site && !known && !pue_)
    job.notes.push_back(
        fmt::format("energy is the site's, with a PUE of {} (the average of data centers); yours "
                    "is --pue, other scopes are --scope",
                    ratio));
  if (pue_ || scope_ == metrics::EnergyScope::site) known = ratio;
  return {};
}

Result<metrics::SlowGpus> parse_slow_gpus(std::string_view text) {
  constexpr const char* example = "every=20000h,factor=1.3,screen=2min";
  metrics::SlowGpus slow{.factor = 0};
  const auto time = [](std::string_view word) { return parse_quantity<Seconds>(word); };
  for (const auto& [key, assigned] : assignments(text)) {
    const std::string value = assigned.value_or("");
    if (key == "every")
      slow.every = TPT_TRY(time(value));
    else if (key == "screen")
      slow.screen = TPT_TRY(time(value));
    else if (key == "interval")
      slow.interval = TPT_TRY(time(value));
    else if (key == "factor")
      slow.factor = TPT_TRY(parse_number(value));
    else if (key == "start")
      slow.at_start = TPT_TRY(parse_number(value));
    else
      return error("\"{}\" is nothing that is known of slow GPUs; {}", key,
                   did_you_mean(key, std::vector<std::string>{"every", "factor", "screen",
                                                              "interval", "start"}));
  }
  const bool is_valid = slow.every > Seconds() && slow.factor > 1 && slow.screen > Seconds() &&
                        slow.at_start >= 0 && slow.at_start < 1 &&
                        slow.interval.value_or(unit::s) > Seconds();
  if (is_valid) return slow;
  return error(
      "\"{}\" does not say how often a GPU gets slow, by which factor above 1 and how long a test "
      "takes (rates differ from site to site, so none is assumed); write it as in {}",
      text, example);
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
      .flag("--grid", "GRAMS", "CO2 per kWh", number(grid_))
      .flag("--mtbf", "TIME",
            "mean time between failures of one GPU, as in 50000h; 0s: no failures", time(mtbf_))
      .flag("--checkpoint-time", "TIME", "time to write a checkpoint; the job is paused",
            time(checkpoint_))
      .flag("--checkpoint-interval", "TIME", "time between checkpoints (default: the optimum)",
            time(interval_, 1 * unit::s))
      .flag("--restart-time", "TIME", "time from a failure to the next step", time(restart_))
      .flag("--slow-gpus", "RATES",
            "GPUs that get slow, each after this time, and a test that finds them, as in "
            "every=20000h,factor=1.3,screen=2min (docs/why.md)",
            into(slow_, parse_slow_gpus))
      .add(energy_.arguments());
}

Result<void> BillFlags::check_alone() const {
  // A site's PUE counts without a bill, too: the energy of a step at its meter.
  const bool any =
      price_ || gpu_hour_ || grid_ || mtbf_ || checkpoint_ || interval_ || restart_ || slow_;
  if (!any || given()) return {};
  return error(
      "rates and failures belong to the cost of a full training (its length is missing); add "
      "--tokens 15T");
}

Result<metrics::BillRates> BillFlags::rates(const spec::Library& library,
                                            const spec::Environment& site) const {
  metrics::BillRates rates = TPT_TRY(metrics::load_bill_rates(library));
  rates.price_per_kwh = price_.value_or(rates.price_per_kwh);
  rates.price_per_gpu_hour = gpu_hour_.value_or(rates.price_per_gpu_hour);
  rates.pue = TPT_TRY(energy_.pue(site, rates.pue));
  rates.grams_co2_per_kwh = grid_.value_or(rates.grams_co2_per_kwh);
  rates.device_mtbf = mtbf_.value_or(rates.device_mtbf);
  rates.checkpoint_write = checkpoint_.value_or(rates.checkpoint_write);
  rates.checkpoint_interval = interval_.value_or(rates.checkpoint_interval);
  rates.restart = restart_.value_or(rates.restart);
  rates.slow = slow_.value_or(rates.slow);
  return rates;
}

metrics::Bill BillFlags::bill(const spec::Job& job, const metrics::BillRates& rates,
                              Seconds step_time, Watts device, Watts node) const {
  const metrics::EnergyScope scope = energy_.scope();
  metrics::BillRates of_task = rates;
  if (spec::is_inference(job.task)) of_task.device_mtbf = {};  // it repeats no steps
  if (scope == metrics::EnergyScope::gpu) node = as_real(job.cluster.gpus_per_node) * device;
  return metrics::bill_of({.tokens = tokens_.value_or(0),
                           .tokens_per_step = as_real(workload::tokens_per_step(job)),
                           .step_time = step_time,
                           .devices = as_real(job.world_size()),
                           .power = as_real(job.cluster.num_nodes) * node,
                           .scope = scope},
                          of_task);
}

}  // namespace triplepoint::flags
