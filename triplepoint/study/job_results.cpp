// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/job_results.h"

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/metrics/economics/bill_text.h"
#include "triplepoint/metrics/run/fault_report.h"
#include "triplepoint/metrics/run/results_json.h"
#include "triplepoint/tui/fault_text.h"
#include "triplepoint/tui/power_profile_text.h"
#include "triplepoint/tui/run_text.h"

namespace triplepoint::study {
namespace {

const run::Run* fault_free(const JobResults& results) {
  return results.fault_free ? &*results.fault_free : nullptr;
}

}  // namespace

std::optional<metrics::RunLifetimeUse> run_lifetime_use(const run::Run& run,
                                                        const metrics::Metrics& metrics) {
  const Result<spec::Library> library = spec::require_library();
  if (!library) return std::nullopt;
  const Result<metrics::LifetimeModel> model = metrics::load_lifetime_model(*library);
  if (!model) return std::nullopt;
  return metrics::lifetime_use_of(run, metrics, *model);
}

Json results_json(const JobResults& results) {
  Json json = metrics::results_json(results.run, results.metrics);
  if (results.step_time) {
    json["step_time_low_s"] = results.step_time->low;
    json["step_time_high_s"] = results.step_time->high;
  }
  if (results.lifetime_use)
    json["lifetime_use"] = metrics::lifetime_use_json(*results.lifetime_use);
  if (results.profile) json["power_profile"] = metrics::power_profile_json(*results.profile);
  if (results.bill) json["bill"] = metrics::bill_json(*results.bill, results.rates);
  if (!results.run.manifest.job->environment.faults.empty())
    json["faults"] = metrics::faults_json(results.run, fault_free(results));
  return json;
}

void print_results(tui::Console& console, const JobResults& results) {
  tui::print_run(console, results.run, results.metrics, results.step_time);
  tui::print_faults(console, results.run, fault_free(results));
  if (results.lifetime_use) console.print("\n" + tui::lifetime_use_text(*results.lifetime_use));
  if (results.profile) tui::print_power_profile(console, *results.profile);
  if (results.bill)
    console.print("\nBill: " + metrics::bill_text(*results.bill, results.rates) + "\n");
}

std::vector<std::string> lifetime_use_columns() {
  return {"lifetime_use_mean", "lifetime_use_peak", "lifetime_gpu_h_per_mtoken"};
}

std::vector<std::string> lifetime_use_cells(const std::optional<metrics::RunLifetimeUse>& use) {
  if (!use) return {"", "", ""};
  std::vector<std::string> cells = {fmt::format("{}", use->mean), fmt::format("{}", use->highest),
                                    ""};
  if (use->gpu_hours_per_million_tokens)
    cells[2] = fmt::format("{}", *use->gpu_hours_per_million_tokens);
  return cells;
}

}  // namespace triplepoint::study
