// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/units.h"

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// What a host call is for, by its name.
enum class HostCallKind : uint8_t { other, data_loader, allocator };
HostCallKind host_call_kind(std::string_view name);

/// The kind of call that hosts spent most of the time in while their device had nothing to run.
struct GapCalls {
  HostCallKind kind = HostCallKind::other;
  std::string name;  // of the longest call of this kind
  double share = 0;  // of all gaps
  Seconds time;      // in them, mean over the ranks
};

/// Innermost calls of each rank's busiest thread, over all ranks; gaps of a device shorter than
/// 30 us are left out (IdleRules). Nothing where the timeline has no host calls or no gaps.
std::optional<GapCalls> calls_in_gaps(const run::Timeline&);

}  // namespace triplepoint::metrics
