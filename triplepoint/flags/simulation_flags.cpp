// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/simulation_flags.h"

#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::flags {
namespace {

/// Where one of ten measured jobs would not fit: what nine need at most. Empty elsewhere.
std::string tight_memory(const run::Run& run, double headroom) {
  if (run.memory.empty() || !run.memory_limit || metrics::is_inference(run)) return "";
  const Bytes needed = run.memory[metrics::fullest_stage(run.memory)].total();
  if (needed > *run.memory_limit || needed <= (1 - headroom) * *run.memory_limit) return "";
  return fmt::format(
      "memory is tight: nine of ten measured jobs needed at most {} GiB where {} GiB were "
      "predicted, and a GPU has {} GiB (triplepoint plan keeps {} free)",
      significant(needed / (1 - headroom) / unit::GiB), significant(needed / unit::GiB),
      significant(*run.memory_limit / unit::GiB), percent(headroom));
}

}  // namespace

Arguments SimulationFlags::length() {
  return Arguments()
      .group("Duration and output")
      .flag("--duration", "TIME",
            "simulate a transient of this length from a cold start, as in 10min",
            into_time(duration_, 1 * unit::ms, longest_play))
      .flag("--steps", "N", "simulate N training steps from a cold start", into_count(steps_, 1));
}

Arguments SimulationFlags::profile() {
  return Arguments()
      .group("Duration and output")
      .toggle("--power-profile",
              "power swings, ramps and peaks of nodes, racks and the site over a "
              "step, and the cost of smoothing them",
              power_profile_)
      .flag("--nodes-per-rack", "N", "nodes in a rack of the power profile (default 4)",
            into_count(nodes_per_rack_, 1));
}

Arguments SimulationFlags::faults_and_bill() {
  return faults_.arguments().add(bill_.arguments());
}

Result<JobResults> SimulationFlags::results(const spec::Library& library, spec::Job job,
                                            const std::optional<learn::Calibration>& own) const {
  TPT_TRY(faults_.apply(job, over_time()));
  const metrics::BillRates rates = TPT_TRY(bill_.rates(library, job.environment));
  TPT_TRY(bill_.energy().count_energy(job, rates.pue));
  TPT_TRY(spec::require_valid(job));
  TPT_TRY(check_words());
  JobResults results = simulate(job, rates);
  const auto intervals = TPT_TRY(metrics::PredictionIntervals::load(library));
  if (std::string tight = tight_memory(results.run, intervals.memory_headroom()); !tight.empty())
    results.run.manifest.notes.push_back(std::move(tight));
  state_interval(results.run, intervals, own);
  return results;
}

JobResults SimulationFlags::simulate(const spec::Job& job, const metrics::BillRates& rates) const {
  JobResults results{.rates = rates};
  results.run = sim::simulate(job, {.duration = duration_, .steps = steps_});
  results.metrics = metrics::measure(results.run);
  metrics::count_energy_at(bill_.energy().scope(), results.metrics);
  results.fault_free = without_faults(job);
  if (bill_.given() && !results.run.shutdown) results.bill = bill_of(results);
  results.profile = profile_of(results.run);
  return results;
}

/// Of the nodes as they were simulated, with their fans; typical ones where there are too many.
std::optional<metrics::Bill> SimulationFlags::bill_of(const JobResults& results) const {
  const metrics::Metrics& m = results.metrics;
  const spec::Job& job = *results.run.manifest.job;
  if (!m.step_time || !m.power_mean_w) return std::nullopt;
  const Watts device = *m.power_mean_w * unit::W;
  const Watts node =
      m.node_energy_j ? *m.node_energy_j * unit::J / *m.step_time / as_real(job.cluster.num_nodes)
                      : sim::typical_node_power(job, device);
  return bill_.bill(job, results.rates, *m.step_time, device, node);
}

/// What a steady state with faults is held against.
std::optional<run::Run> SimulationFlags::without_faults(spec::Job job) const {
  if (over_time() || job.environment.faults.empty()) return std::nullopt;
  job.environment.faults.clear();
  return sim::simulate(job, {.timeline = false});
}

Result<void> SimulationFlags::check_words() const {
  if (duration_ && steps_)
    return error("--duration and --steps were both given (each sets the simulated time); keep one");
  if (nodes_per_rack_ && !power_profile_)
    return error("--nodes-per-rack belongs to --power-profile (only it uses racks); add it");
  return bill_.check_alone();
}

std::optional<metrics::PowerProfile> SimulationFlags::profile_of(const run::Run& run) const {
  if (!power_profile_) return std::nullopt;
  metrics::PowerProfileOptions options;
  options.nodes_per_rack = nodes_per_rack_.value_or(options.nodes_per_rack);
  return metrics::power_profile(run, options);
}

}  // namespace triplepoint::flags
