// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/answers/document.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// What a study found: score, short answers, findings, and every job. The page draws more beside it
/// (pages/study_page.h).
answers::Document study_document(const Study&);

/// Every job with what came of it, in the words of the catalogue.
triplepoint::DataTable jobs_table(const Study&);

/// The group with the most jobs that ran; null if no job ran.
const Group* group_with_most_jobs(const std::vector<Group>&);

}  // namespace triplepoint::report
