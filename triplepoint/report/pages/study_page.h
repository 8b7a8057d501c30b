// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// The page of a study: what its Document says, and charts per model and machine. One HTML file
/// that needs no network.
std::string study_page(const Study& study);

/// Few large GPUs against many smaller ones; empty if no model ran on two machines.
std::string machines_section(const std::vector<Group>& groups);

/// The list of jobs for the page's script.
Json jobs_data(const Study& study);

}  // namespace triplepoint::report
