// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/own_runs.h"

#include "triplepoint/base/json.h"

#include "triplepoint/calibrate/jobs/job_rows.h"
#include "triplepoint/calibrate/jobs/job_scores.h"

namespace triplepoint::calibrate {
namespace {

void add_row(const JobRow& row, const std::string& file, const spec::Library& library,
             OwnRuns& own) {
  const auto skip = [&](std::string reason) {
    own.skipped.push_back({row.row_id, std::move(reason)});
  };
  if (!row.fault.empty()) return skip(row.fault);
  if (!row.measured.ran) return skip("it ran out of memory, so no step of it was measured");
  std::vector<std::string> notes;
  auto job = job_of(row, file, library, notes);
  if (!job) return skip(job.error().what);
  const auto time = measured_step_time(row.measured, *job);
  if (!time) return skip("there is neither a time, a rate, nor TFLOP/s by a known convention");
  own.runs.push_back({.name = row.row_id, .job = *std::move(job), .seconds = *time / unit::s});
}

}  // namespace

Result<void> add_own_runs(const CsvTable& table, const spec::Library& library, OwnRuns& own) {
  for (const JobRow& row : TPT_TRY(read_job_rows(table)))
    add_row(row, table.name(), library, own);
  return {};
}

namespace {

Json coefficients_json(const learn::Posterior& known) {
  Json json = Json::array();
  for (std::size_t k = 0; k < learn::coefficient_count; ++k) {
    Json one = {{"name", learn::coefficients()[k].name},
                {"what", learn::coefficients()[k].what},
                {"spread_before", known.priors().spread[k]},
                {"log_factor", known.mean()[k]},
                {"spread", known.spreads()[k]},
                {"taught_by", Json::object()}};
    const std::vector<double> taught = known.taught(k);
    for (std::size_t i = 0; i < taught.size(); ++i)
      one["taught_by"][known.evidence()[i].run] = taught[i];
    json.push_back(std::move(one));
  }
  return json;
}

Json power_json(const learn::Calibration& known) {
  const learn::PowerPriors& priors = known.posterior().priors().power;
  const learn::PowerFactors before = {priors.energy, priors.idle};
  Json json = {{"runs", known.power().runs}, {"coefficients", Json::array()}};
  for (std::size_t k = 0; k < learn::power_names.size(); ++k)
    json["coefficients"].push_back({{"name", learn::power_names[k]},
                                    {"what", learn::power_meanings[k]},
                                    {"spread_before", before[k]},
                                    {"log_factor", known.power().mean[k]},
                                    {"spread", known.power().spread[k]}});
  return json;
}

Json runs_json(const learn::Learned& learned) {
  Json json = Json::array();
  for (const learn::RunCheck& run : learned.runs)
    json.push_back({{"run", run.name},
                    {"measured_s", run.measured},
                    {"shipped_s", run.shipped},
                    {"learned_s", run.learned},
                    {"left_out_s", run.left_out}});
  return json;
}

}  // namespace

Json learned_json(const learn::Learned& learned, const OwnRuns& own, const std::string& folder) {
  const learn::Posterior& known = learned.calibration.posterior();
  Json json = {{"schema", 1},
               {"folder", folder},
               {"coefficients", coefficients_json(known)},
               {"unexplained",
                {{"spread_before", known.priors().remainder.common},
                 {"log_factor", known.common()},
                 {"spread", known.common_spread()}}},
               {"power", power_json(learned.calibration)},
               {"runs", runs_json(learned)},
               {"contradictions", Json::array()},
               {"left_out", Json::array()},
               {"next", Json::array()}};
  for (const learn::Contradiction& found : learned.contradictions)
    json["contradictions"].push_back({{"runs", found.runs}, {"ratio", found.ratio}});
  for (const SkippedRow& row : own.skipped)
    json["left_out"].push_back({{"run", row.row_id}, {"reason", row.reason}});
  for (const auto& [run, reason] : learned.left_out)
    json["left_out"].push_back({{"run", run}, {"reason", reason}});
  for (const learn::NextRun& next : learned.next)
    json["next"].push_back({{"of", next.of},
                            {"change", next.change},
                            {"gpus", next.gpus},
                            {"step_s", next.seconds},
                            {"narrowing", next.narrowing}});
  return json;
}

}  // namespace triplepoint::calibrate
