// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// A change that a study has tried, and its gain.
struct Recommendation {
  const StudyRow *from = nullptr, *to = nullptr;
  PlanSetting setting = PlanSetting::layout;
  double gain = 0;  // of speed, 0.12 is 12 %
  Finding text;
};

/// What to change in a group, the most worth first: from the layout that the study names first to
/// the best one, then every other setting at the best job's settings or, where those were not
/// tried, where it gains most. Each gains at least 1 %.
std::vector<Recommendation> recommendations_for(const Group& group);

/// The short answers for a group, as cells of a table.
struct Answers {
  const StudyRow *fastest = nullptr, *thriftiest = nullptr, *hottest = nullptr;
  Finding fastest_text, energy_text, limit_text, change_text, heat_text;
};
Answers answers_for(const Group& group);

/// The job with the least energy a token; the fastest where it needs as little.
const StudyRow* thriftiest_of(const std::vector<const StudyRow*>& ran);

/// What takes most of the step of a job, as a sentence of few words.
Finding what_limits(const StudyRow& row);

/// What results.json says of a study besides its jobs: `summary`, `findings`, `groups` with their
/// recommendations. Every number in a sentence names the keys that it was made from.
Json conclusions_json(const Study& study);

}  // namespace triplepoint::report
