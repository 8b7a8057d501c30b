// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/job_results.h"

#include "triplepoint/base/json.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/answers/results.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/search/neighbours.h"

namespace triplepoint::flags {

Json as_json(const std::vector<spec::Diagnosis>& diagnoses) {
  Json json = Json::array();
  for (const spec::Diagnosis& diagnosis : diagnoses) {
    json.push_back(
        {{"code", spec::name_of(diagnosis.code)},
         {"severity", diagnosis.severity == spec::Diagnosis::Severity::error ? "error" : "warning"},
         {"what", diagnosis.what}});
  }
  return json;
}

std::string flags_that_fit(const JobResults& results) {
  const run::Manifest& manifest = results.run.manifest;
  if (manifest.fits_memory || !manifest.job) return "";
  const auto fits = search::nearest_that_fits(*manifest.job);
  return fits ? search::flags_between(*manifest.job, *fits) : "";
}

Json results_json(const JobResults& results) {
  Json json = {{"schema", results_schema}};
  json.update(answers::results_json(results.run, results.metrics));
  json["diagnoses"] = as_json(spec::diagnose(*results.run.manifest.job));
  if (results.step_time) {
    json["step_time_low_s"] = results.step_time->low;
    json["step_time_high_s"] = results.step_time->high;
  }
  if (const std::string flags = flags_that_fit(results); !flags.empty()) json["fits_with"] = flags;
  if (results.profile) json["power_profile"] = metrics::power_profile_json(*results.profile);
  if (results.bill) json["bill"] = metrics::bill_json(*results.bill, results.rates);
  if (results.bill && results.step_time && results.metrics.step_time) {
    const double step = *results.metrics.step_time / unit::s,
                 days = results.bill->total / (24 * unit::h);
    json["bill"]["days_low"] = days * results.step_time->low / step;
    json["bill"]["days_high"] = days * results.step_time->high / step;
  }
  if (!results.run.manifest.job->environment.faults.empty())
    json["faults"] =
        metrics::faults_json(results.run, results.fault_free ? &*results.fault_free : nullptr);
  if (Json phases = metrics::phases_json(metrics::fault_phases_of(results.run)); !phases.empty())
    json["phases"] = std::move(phases);
  return json;
}

}  // namespace triplepoint::flags
