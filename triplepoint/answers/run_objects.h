// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::answers {

/// What is known of one job: a view, valid as long as what it was made from.
struct RunResult {
  const metrics::Metrics& metrics;
  const spec::Job* job = nullptr;               // null: a recording of an unknown command
  std::span<const run::MemoryUse> memory = {};  // per pipeline stage
  std::optional<Bytes> memory_limit = {};
  bool has_trained = true;        // neither memory nor heat forbade it
  bool knows_kernels = false;     // by a timeline
  const run::Run* run = nullptr;  // null: a row of a study, which has kept no run
};
/// A job that did not run has no metrics to show.
RunResult result_of(const run::Run&, const metrics::Metrics&);

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
Json producer_numbers_of(const RunResult&);
Json bottlenecks_of(const RunResult&);
/// "power_limit".
std::string_view name_of(run::Cause);

/// What its producer notes, and of a simulated run what its own figures lack.
std::vector<std::string> notes_of(const run::Run&);
/// Of a die of 90 °C (the lowest shutdown temperature that is known of any GPU) or more where no
/// source states a limit of this GPU; nothing otherwise.
std::optional<std::string> unlimited_die_note(const spec::Gpu&, Celsius hottest);

}  // namespace triplepoint::answers
