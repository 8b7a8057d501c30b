// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/flags/job_results.h"
#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/report/study.h"

namespace triplepoint::app {

/// What the runner asks of the world; tests give it another one.
struct StudyWorld {
  std::function<run::Run(const spec::Job&)> simulate;
  Watch watch = {};            // each job is a piece
  std::string program_digest;  // runs of another program or data are not reused
  // Runs a job instead of calling `simulate`. The error says how it failed, which is a result;
  // nothing if a stop was asked for in the middle. What only a prediction would need may be
  // missing.
  std::function<Result<std::optional<run::Run>>(const spec::Job&, const std::string& file_stem)>
      measure = {};
  bool retry_failures = false;  // failures of an earlier call are not results
};

/// Results of a study so far.
struct StudyResults {
  report::Study study;          // rows of the jobs that are done, in the study's order
  std::vector<Path> run_files;  // of each row; empty for jobs that were not simulated
  std::string json;             // the same as results.json
  std::string csv;              // the same as results.csv
  std::size_t reused = 0;       // jobs whose run was there already
  std::size_t failed = 0;       // jobs that were measured and failed
  std::size_t left = 0;         // jobs not begun because a stop was asked for
};

/// Simulates every valid job on `threads` threads and keeps each run as FOLDER/runs/NAME.run as
/// soon as it is finished. A run that is there already and belongs to the same job, program and
/// data is used again. Results do not depend on the number of threads.
///
/// A job that fails while it is measured is a row with its diagnosis, kept in its run, which has no
/// steps.
Result<StudyResults> run_study(const spec::StudyPlan& wanted, const Path& folder, int threads,
                               const StudyWorld& world);

/// Writes results.csv, results.json and report.html, each at once.
Result<void> write_results(const StudyResults& results, const Path& folder);

/// The results of a folder that `characterize` made, or of any folder of runs.
Result<StudyResults> load_results(const spec::Library& library, const Path& folder, int threads);

/// Links every row to the page of its run, where one lies beside it.
void link_run_pages(StudyResults& results, const Path& folder);

/// The page of a run's file.
Path page_of(Path run_file);

/// A digest of this program and of everything in the data folder.
std::string program_digest(const spec::Library& library);

using flags::as_json;
using flags::results_schema;

// Jobs of a study on their way into its results; for the modules that simulate and read them.

inline constexpr const char* study_plan_file = "study.json";
inline constexpr const char* results_csv_file = "results.csv";
inline constexpr const char* results_json_file = "results.json";

/// One job of a study.
struct StudyItem {  // NOLINT(bugprone-exception-escape): moving ordered JSON may allocate
  const spec::StudyJob* job = nullptr;
  Path file;           // of its run
  std::string digest;  // of what the run depends on
  std::optional<report::StudyRow> row;
  Json json;
  std::vector<std::string> cells;
  bool reused = false;
  const spec::StudyPlan* suite = nullptr;    // that the job belongs to
  std::optional<metrics::ScoredRun> scored;  // its run
  std::string problem;                       // why its run could not be kept
  std::optional<spec::StudyJob> failed;      // with the diagnosis of how its measurement ended
};

/// The run as object, as cells and as a row of the page. All go by the job's name in the study: a
/// folder may hold two recordings of one job.
void take_run(StudyItem& item, const run::Run& run);
/// A job that cannot run has the columns that describe it, and its diagnoses.
void take_diagnoses(StudyItem& item);

/// The first that could not be kept or read.
Result<void> first_problem(const std::vector<StudyItem>& items);

/// The results of those that are done; what they hold is moved out of them.
StudyResults collect(std::vector<StudyItem>& items, const spec::StudyPlan& plan);

}  // namespace triplepoint::app
