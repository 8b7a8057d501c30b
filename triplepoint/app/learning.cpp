// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/learning.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"

#include "triplepoint/advise/thermal_groups.h"
#include "triplepoint/app/calibration_answer.h"
#include "triplepoint/app/place_telemetry.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/calibrate/jobs/own_runs.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/learn/priors_file.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/telemetry/timeseries/reader.h"

namespace triplepoint::app {
namespace {

/// The median step: the first of a training compile and fill caches, some write checkpoints.
std::optional<Seconds> usual_step_time(const run::Run& run) {
  std::vector<Seconds> times;
  for (const run::StepRecord& step : run.steps)
    if (step.end > step.begin) times.push_back(step.end - step.begin);
  if (times.empty()) return std::nullopt;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::string jobless(const std::string& file) {
  return "it does not say which job it ran; name the job before it, as in `triplepoint calibrate "
         "--job job.toml " +
         file + "`";
}

void learn_of(const std::string& file, const spec::Job& job, std::optional<Seconds> time,
              const run::Run& run, calibrate::OwnRuns& own) {
  Telemetry seen;
  seen.samples = advise::thermal_samples(run);
  std::vector<learn::GpuHeat> heat = heat_of(seen);
  if (time)
    own.runs.push_back({file, job, *time / unit::s, metrics::measure(run).power_mean_w});
  else if (heat.empty())
    own.skipped.push_back({file, "it has no step and no temperature"});
  if (!heat.empty()) own.heat.push_back({job, std::move(heat)});
}

/// A recording, a training's log or traces, of the job that they name or that stands before them.
Result<void> add_run(const LearnInput& input, const spec::Library& library,
                     calibrate::OwnRuns& own) {
  const run::Run run = TPT_TRY(load_run_source({input.file}, {}));
  std::optional<spec::Job> job = run.manifest.job;
  if (!job && input.job) job = TPT_TRY(formats::read_job(library, *input.job));
  const auto time = usual_step_time(run);
  const auto gpus = static_cast<int64_t>(run.devices.size());
  if (run.manifest.origin == run::Origin::simulated)
    own.skipped.push_back({input.file, "it is a simulation, in which nothing was measured"});
  else if (job && gpus > job->world_size())
    own.skipped.push_back({input.file, fmt::format("it was recorded on {} GPUs, its job has {}",
                                                   gpus, job->world_size())});
  else if (!job)
    own.skipped.push_back({input.file, jobless(input.file)});
  else
    learn_of(input.file, *job, time, run, own);
  return {};
}

/// A table of a column per GPU.
Result<void> add_temperatures(const LearnInput& input, const spec::Library& library,
                              calibrate::OwnRuns& own) {
  const Telemetry seen = TPT_TRY(read_telemetry({input.file}, {}));
  if (!input.job)
    own.skipped.push_back({input.file, jobless(input.file)});
  else
    own.heat.push_back({TPT_TRY(formats::read_job(library, *input.job)), heat_of(seen)});
  return {};
}

Result<void> add_input(const LearnInput& input, const spec::Library& library,
                       calibrate::OwnRuns& own) {
  const std::string& file = input.file;
  if (!file.ends_with(".csv")) return add_run(input, library, own);
  const CsvTable table =
      TPT_TRY(CsvTable::parse(TPT_TRY(read_file(file)), file, CsvTable::BadRows::leave_out));
  if (advise::is_thermal_table(table)) return add_temperatures(input, library, own);
  if (telemetry::looks_like_time_series(file)) return add_run(input, library, own);
  for (const CsvTable::BadRow& row : table.left_out())
    own.skipped.push_back({fmt::format("{}:{}", file, row.line), row.what});
  return calibrate::add_own_runs(table, library, own);
}

std::string nothing_in(const calibrate::OwnRuns& own) {
  if (own.skipped.empty()) return "the tables hold no rows (one row is one measured run); add rows";
  return fmt::format(
      "nothing teaches anything ({}: {}); see docs/formats.md for the columns of tables",
      own.skipped.front().row_id, own.skipped.front().reason);
}

}  // namespace

Result<answers::Document> learn_from_files(const spec::Library& library,
                                           const std::vector<LearnInput>& inputs,
                                           const std::string& folder, int threads) {
  const learn::Priors priors = TPT_TRY(learn::load_priors(library));
  calibrate::OwnRuns own;
  for (const LearnInput& input : inputs)
    TPT_TRY(add_input(input, library, own));
  if (own.runs.empty() && own.heat.empty()) return error(nothing_in(own));
  const learn::Learned learned = TPT_TRY(learn::learn_from(priors, own.runs, own.heat, threads));
  TPT_TRY(learned.calibration.write(folder));
  answers::Document answer = calibration_answer(learned, own, folder);
  TPT_TRY(write_file_atomically(Path(folder) / "report.html", report::document_page(answer)));
  return answer;
}

}  // namespace triplepoint::app
