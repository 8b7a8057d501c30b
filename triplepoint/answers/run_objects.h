// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/answers/run_result.h"

namespace triplepoint::answers {

// Quantities that are lists, objects or texts of several numbers; the catalogue documents them.
// Null: not known.

bool is_simulated(const RunResult&);

Json shutdown_of(const RunResult&);
Json records_of(const RunResult&);
Json overlaps_of(const RunResult&);
Json power_limits_of(const RunResult&);
Json clock_locks_of(const RunResult&);
Json faults_of(const RunResult&);
Json horizon_of(const RunResult&);
Json producer_of(const RunResult&);
Json digest_of(const RunResult&);
Json memory_of_stages(const RunResult&);
Json stages_of(const RunResult&);
Json messages_of(const RunResult&);
Json bottlenecks_of(const RunResult&);
/// "power_limit".
std::string_view name_of(run::Cause);

}  // namespace triplepoint::answers
