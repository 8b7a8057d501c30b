// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/metrics/economics/score_card.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// What a study found: score, short answers, findings, and every job. The page draws more beside it
/// (pages/study_page.h).
answers::Document study_document(const Study&);

/// Every job with what came of it, in the words of the catalogue.
DataTable jobs_table(const Study&);

/// The group with the most jobs that ran; null if no job ran.
const Group* group_with_most_jobs(const std::vector<Group>&);

/// A change that a study has tried, and its gain.
struct Recommendation {
  const StudyRow *from = nullptr, *to = nullptr;
  PlanSetting setting = PlanSetting::layout;
  double gain = 0;  // of speed, 0.12 is 12 %
  Finding text;
  bool is_compared = false;  // with the default stack
};

/// What to change in a group, the most worth first: from the layout that the study names first to
/// the best one that leaves memory free, then every other setting at the best job's settings or,
/// where those were not tried, where it gains most. Each gains at least 1 %.
std::vector<Recommendation> recommendations_for(const Group& group);

/// The short answers for a group, as cells of a table.
struct Answers {
  const StudyRow *fastest = nullptr, *thriftiest = nullptr, *hottest = nullptr;
  Finding fastest_text, energy_text, limit_text, change_text, heat_text;
  bool is_compared = false;  // the change, with the default stack
};
Answers answers_for(const Group& group);

/// The job with the least energy a token; the fastest where it needs as little.
const StudyRow* thriftiest_of(const std::vector<const StudyRow*>& ran);

/// What takes most of the step of a job, as a sentence of few words.
Finding what_limits(const StudyRow& row);

/// What results.json says of a study besides its jobs: `summary`, `findings`, `groups` with their
/// recommendations. Every number in a sentence names the keys that it was made from.
Json conclusions_json(const Study& study);

/// What the cards say, in sentences. Every number is one of the cards'.
std::vector<std::string> score_sentences(const metrics::SuiteScore&);

/// Scores, what they are made of, every number, broken rules.
answers::Section score_section(const metrics::SuiteScore&);

}  // namespace triplepoint::report
