// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/report/findings/findings.h"

namespace triplepoint::report {

/// What is wrong with a sentence, given results.json: a number that is no evidence and no part of a
/// name, evidence that the keys do not yield, a printed number that is not the rounded one, a name
/// that is not what the job's configuration says. Empty: all numbers check out. For tests.
std::vector<std::string> faults_of(const Finding& sentence, const Json& results);

}  // namespace triplepoint::report
