// SPDX-License-Identifier: Apache-2.0
// Jobs of a study on their way into its results; for the modules that simulate and read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/study/runner.h"

namespace triplepoint::study {

inline constexpr const char* study_plan_file = "study.json";

/// One job of a study.
struct StudyItem {  // NOLINT(bugprone-exception-escape): moving ordered JSON may allocate
  const spec::StudyJob* job = nullptr;
  Path file;           // of its run
  std::string digest;  // of what the run depends on
  std::optional<report::StudyRow> row;
  Json json;
  std::vector<std::string> cells;
  bool reused = false;
  std::string problem;                   // why its run could not be kept
  std::optional<spec::StudyJob> failed;  // with the diagnosis of how its measurement ended
};

/// The run as object, as cells and as a row of the page. All go by the job's name in the study: a
/// folder may hold two recordings of one job.
void take_results(StudyItem& item, const run::Run& run);
/// A job that cannot run has the columns that describe it, and its diagnoses.
void take_diagnoses(StudyItem& item);
/// Of one that has its diagnoses: they say how its measurement ended.
void mark_failed(StudyItem& item);

Json as_json(const std::vector<spec::Diagnosis>& diagnoses);

/// The first that could not be kept or read.
Result<void> first_problem(const std::vector<StudyItem>& items);

/// The results of those that are done; what they hold is moved out of them.
StudyResults collect(std::vector<StudyItem>& items, const spec::StudyPlan& plan);

}  // namespace triplepoint::study
