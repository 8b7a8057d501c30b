// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/own_runs.h"

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

}  // namespace triplepoint::calibrate
