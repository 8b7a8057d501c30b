// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/flags/arguments.h"
#include "triplepoint/flags/job_results.h"
#include "triplepoint/learn/calibration.h"

namespace triplepoint::flags {

// What Python and the explorer ask: flags by name and text, as the command line has them.

/// Stores every text with the argument of its name.
Result<void> store_all(const Arguments& arguments, const FlagTexts& texts);

/// What a job is made of.
struct JobRequest {
  std::string file;       // empty: none is named
  std::string beginning;  // a job.toml as text in place of a file; empty: none
  FlagTexts flags;
};

/// A job, and what it was made of, for other flags to go on top.
struct RequestedJob {
  JobRequest request;
  std::shared_ptr<const spec::Job> spec;
  std::optional<learn::Calibration> own_runs = {};  // what its place taught, of --with
};
Result<RequestedJob> make_job(JobRequest request);
/// A job that no flags have told: of a run or a plan.
RequestedJob whole_job(const spec::Job& job);

/// The flags of `simulate` beside those of a job.
Result<JobResults> simulate(const RequestedJob& job, const FlagTexts& texts);

/// What a search found, and the plans as jobs.
struct FoundPlans {
  answers::Document answer;
  std::vector<RequestedJob> jobs;  // in the order of the answer's plans
};
class PlanFlags;
/// The flags of `plan` beside those of a job.
Arguments plan_arguments(PlanFlags& asked);
Result<FoundPlans> find_plans(const RequestedJob& job, const FlagTexts& texts, const Watch& watch);

}  // namespace triplepoint::flags
