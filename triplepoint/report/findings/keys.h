// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// The number that results.json has under a dotted key of the job's object ("power_w.mean"), from
/// the row itself; absent if the job does not know it. Throttle reasons are "throttle.<reason>",
/// purposes of energy "energy_ledger_j.<purpose>". Only keys that sentences and charts use are
/// known.
std::optional<double> number_at(const StudyRow& row, std::string_view key);

/// The same where it has been asked before.
double known_number(const StudyRow& row, std::string_view key);

/// All keys but those of throttle reasons, purposes of energy, and inference.
std::vector<std::string_view> known_keys();

}  // namespace triplepoint::report
