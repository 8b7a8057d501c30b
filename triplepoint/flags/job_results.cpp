// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/job_results.h"

#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/answers/results.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/search/neighbours.h"
#include "triplepoint/workload/memory.h"

namespace triplepoint::flags {

Json as_json(const std::vector<spec::Diagnosis>& diagnoses) {
  return mapped<Json>(diagnoses, [](const spec::Diagnosis& diagnosis) -> Json {
    return {
        {"code", spec::name_of(diagnosis.code)},
        {"severity", diagnosis.severity == spec::Diagnosis::Severity::error ? "error" : "warning"},
        {"what", diagnosis.what}};
  });
}

std::string FittingFlags::text() const {
  return fmt::format(
      "It fits with {}{}", flags,
      barely ? ", but barely (predictions of memory err by more than stays free)" : "");
}

FittingFlags flags_that_fit(const JobResults& results) {
  const run::Manifest& manifest = results.run.manifest;
  if (manifest.fits_memory || !manifest.job) return {};
  const auto fits = search::nearest_that_fits(*manifest.job);
  if (!fits) return {};
  FittingFlags found{search::flags_between(*manifest.job, *fits)};
  const Result<spec::Library> library = spec::require_library();
  if (!library) return found;
  const auto intervals = metrics::PredictionIntervals::load(*library);
  const workload::MemoryVerdict memory = workload::estimate_memory(*fits);
  const Bytes used = memory.stages[as_size(memory.worst_stage)].total();
  const Bytes whole = fits->cluster.gpu.memory.value_or(Bytes());
  found.barely = intervals && used > (1 - intervals->memory_headroom()) * whole;
  return found;
}

void state_interval(run::Run& run, const metrics::PredictionIntervals& intervals,
                    const std::optional<learn::Calibration>& own) {
  const spec::Job& job = *run.manifest.job;
  const bool is_steady = !run.numbers.duration_s && !run.numbers.num_steps;
  if (!is_steady || !job.environment.faults.empty() || run.steps.empty()) return;
  const double seconds = (run.steps.back().end - run.steps.back().begin) / unit::s;
  auto interval = intervals.step_time(job, seconds);
  if (own && own->knows(job)) {
    const double factor = own->interval_factor(job, seconds);
    interval = metrics::Interval{seconds / factor, seconds * factor};
    run.numbers.own_runs = static_cast<int64_t>(own->runs());
  }
  if (!interval) return;
  run.numbers.step_time_low_s = interval->low;
  run.numbers.step_time_high_s = interval->high;
}

Json results_json(const JobResults& results) {
  Json json = {{"schema", results_schema}};
  const run::Run* fault_free = results.fault_free ? &*results.fault_free : nullptr;
  json.update(answers::results_json(results.run, results.metrics, fault_free));
  json["diagnoses"] = as_json(spec::diagnose(*results.run.manifest.job));
  if (const FittingFlags fitting = flags_that_fit(results); !fitting.flags.empty())
    json["fits_with"] = fitting.flags;
  if (results.profile) json["power_profile"] = metrics::power_profile_json(*results.profile);
  if (results.bill) json["bill"] = metrics::bill_json(*results.bill, results.rates);
  if (const auto likely = answers::interval_of(results.run); results.bill && likely) {
    const double step = *results.metrics.step_time / unit::s,
                 days = results.bill->total / (24 * unit::h);
    json["bill"]["days_low"] = days * likely->low / step;
    json["bill"]["days_high"] = days * likely->high / step;
  }
  if (!results.run.manifest.job->environment.faults.empty())
    json["faults"] = metrics::faults_json(results.run, fault_free);
  if (Json phases = metrics::phases_json(metrics::fault_phases_of(results.run)); !phases.empty())
    json["phases"] = std::move(phases);
  return json;
}

}  // namespace triplepoint::flags
