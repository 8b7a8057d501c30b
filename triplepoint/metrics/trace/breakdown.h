// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "triplepoint/run/timeline.h"

#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {

/// Why nothing ran, in nanoseconds. Whatever runs next decides the class of a gap:
///
///   host_wait    its launch began after the gap did: the host was late
///   kernel_wait  it had been launched, and the gap is at most IdleRules::kernel_gap: the device's
///                own delay from one kernel to the next
///   other        it had been launched, and the gap is longer: it waited for another stream, an
///                event, a copy
///   unknown      the trace does not tell when it was launched
///
/// Source: Holistic Trace Analysis, "idle time breakdown". Its threshold, documented as 30 ns, acts
/// on microseconds; ours is that 30 us.
struct IdleTime {
  int64_t host_wait = 0, kernel_wait = 0, other = 0, unknown = 0;
  int64_t total() const { return host_wait + kernel_wait + other + unknown; }
  friend bool operator==(const IdleTime&, const IdleTime&) = default;
};
inline constexpr std::array idle_classes = {&IdleTime::host_wait, &IdleTime::kernel_wait,
                                            &IdleTime::other, &IdleTime::unknown};
struct IdleRules {
  int64_t kernel_gap = 30'000;  // ns
};

/// Where one rank's time went: exact, in whole nanoseconds, over the unions of what ran on its
/// device.
///
///   span    = first begin to last end of a kernel or copy; idle = span - busy
///   busy    = compute + exposed_communication + exposed_copy
///   compute = kernels other than collectives; communication = collectives, waiting included;
///   copy    = memcpy and memset; overlapped = communication and compute at the same time
///   exposed_communication = communication without compute
///   exposed_copy          = copies without compute and without communication
///
/// Source: Holistic Trace Analysis, "temporal breakdown" and "overlap"; TraceLens, "gpu timeline".
struct RankBreakdown {
  int32_t rank = 0;
  Instant begin, end;
  int64_t busy = 0, compute = 0, communication = 0, copy = 0;
  int64_t overlapped = 0, exposed_communication = 0, exposed_copy = 0;
  IdleTime idle_time;  // all unknown in a timeline without launches

  int64_t span() const { return end.nanoseconds() - begin.nanoseconds(); }
  int64_t idle() const { return span() - busy; }
  /// Share of the communication that hides behind compute; nothing without communication.
  std::optional<double> overlap() const;
  friend bool operator==(const RankBreakdown&, const RankBreakdown&) = default;
};

/// Of every rank on whose device something ran, in numeric order. Patterns are looked at once, as
/// in occupancy_of_ranks; only single spans can have launches.
std::vector<RankBreakdown> breakdown_of_ranks(const run::Timeline&, const IdleRules& = {});

/// Kernels and copies that share a name (or a label, see label_of), over the ranks asked for.
struct KernelRow {
  std::string_view label, name;  // name is empty in a table by label
  int64_t count = 0;
  int64_t total = 0, shortest = 0, longest = 0;  // ns
  // Of the spans of which the trace knows a grid:
  int64_t with_grid = 0;
  int64_t blocks = 0, warps = 0;
  std::optional<double> occupancy;  // per cent, weighted by time; nothing where no span knows it
};
enum class KernelTableBy { label, name };

/// Longest total first; equal ones by label and name. `rank`: -1 for all. `warp_size`: threads of a
/// warp, 32 on NVIDIA, 64 on AMD; a block's last warp counts whole. The timeline has no instances.
std::vector<KernelRow> kernel_table(const run::Timeline&, KernelTableBy, int32_t rank = -1,
                                    int32_t warp_size = 32);

}  // namespace triplepoint::metrics
