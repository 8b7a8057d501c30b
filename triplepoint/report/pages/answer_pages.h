// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/data_table.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/advise/place_tables.h"
#include "triplepoint/search/finalists.h"
#include "triplepoint/search/neighbours.h"

namespace triplepoint::report {

/// What a search for plans found, for its page.
struct PlanPageContent {
  const spec::Job& base;
  const search::Ranking& ranking;
  search::Goal goal = search::Goal::throughput;
  triplepoint::DataTable best;            // the plans shown, best first
  std::optional<search::OtherPlan> own;   // the job as the user has it
  std::vector<search::OtherPlan> others;  // plans beside the first
  std::vector<std::string> limits;        // that every plan keeps, in words
  std::vector<std::string> sentences;     // how the ranking came about; the count of plans first
};

/// The page of `triplepoint plan`: speed against energy of all plans with the user's own among
/// them, the best plans, where a step of each goes, and why not another.
std::string plan_page(const PlanPageContent& content);

/// A placement as the chassis has it: its run, and what is said of each device.
struct PlacedRun {
  run::Run run;
  std::vector<std::string> stage_of_device;  // "stage 3"
};

/// The page of `triplepoint place`: stages on their slots before and after, what each placement
/// gains, and what of it another machine would have.
std::string place_page(const std::string& title, const advise::GroupedMachine& seen,
                       const advise::PlaceResult& result, const PlacedRun& before,
                       const PlacedRun& after);

}  // namespace triplepoint::report
