// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// The page of a study: findings, then charts per model and machine, then a temperature map and all
/// jobs. One HTML file that needs no network.
std::string study_page(const Study& study);

// The parts of a study's page, from top to bottom.

std::string study_header(const Study& study);
/// The picture of all choices of the group with the most jobs, its four key figures, and the first
/// findings; empty if no job ran.
std::string overview_section(const std::vector<Group>& groups,
                             const std::vector<Finding>& findings);
/// Fastest, thriftiest, what limits and what to change, per model and machine.
std::string answers_section(const std::vector<Group>& groups);
std::string findings_section(const std::vector<Finding>& findings);
/// Few large GPUs against many smaller ones; empty if no model ran on two machines.
std::string machines_section(const std::vector<Group>& groups);
/// One group's charts. `tables` takes the numbers that are too many for the markup.
std::string group_section(const Group& group, Json& tables);
/// Every job with its verdict.
std::string jobs_section(const Study& study);

/// The list of jobs for the page's script.
Json jobs_data(const Study& study);

}  // namespace triplepoint::report
