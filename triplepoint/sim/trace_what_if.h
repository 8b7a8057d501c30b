// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "triplepoint/base/units.h"

#include "triplepoint/run/timeline.h"
#include "triplepoint/spec/cluster.h"

namespace triplepoint::sim {

/// One collective of a timeline, all its ranks together.
struct CollectiveInstance {
  std::optional<spec::Collective> collective;
  Bytes payload;
  int64_t ranks = 1;  // of the group, as far as known
  int32_t first_rank = 0, last_rank = 0;
  Seconds transfer;  // measured, from the last rank's begin
};

/// What is different when a measured step is repeated. The defaults change nothing.
struct TraceScaling {
  double compute_time = 1;  // factors on the time of kernels, by kind
  double memory_time = 1;
  double other_time = 1;
  double copy_time = 1;
  double host_time = 1;  // of the host's own work; waits follow from what is waited for
  std::function<Seconds(const CollectiveInstance&)> transfer;  // empty: as measured
};

/// At `clock_ratio` times the measured SM clock. compute: (1 - q) / ratio + q, with q the GPU's
/// clock-insensitive share; kernels of unknown kind likewise. Memory kernels do not change.
TraceScaling at_clock(double clock_ratio, double insensitive_share);

/// On another cluster. Collectives take the model's time there, times what they took over the
/// model's time on the cluster they were measured on, if that is given. Kernels change by the ratio
/// of dense bf16 peaks and of memory bandwidths, if it is given; else not.
TraceScaling on_cluster(const spec::Cluster& there, const spec::Cluster* measured_on);

struct TraceWhatIf {
  run::Timeline timeline;  // spans of the timeline that was given, instances expanded
  int64_t rendezvous = 0;  // collectives of which several ranks are known
  int64_t single = 0;      // of which one is: they keep their length, waiting included
  int64_t waits = 0;       // host calls that were found to wait for a device
  int64_t inferred = 0;    // order between streams or threads that only times show
};

/// Repeats a timeline with other lengths: what it shows of a step becomes a graph of begins and
/// ends, and every one of them comes as soon as all it needs has come.
///
///   t'(p) = max over needs q of p ( t'(q) + lag(q, p) )
///   lag = t(p) - t(q) for the need that bound p in the measurement; for the others what the need
///   costs at least (0; for a launch, the rank's shortest launch latency)
///
/// Needs: the span before in the lane; a kernel's launch; a span's own begin (lag: its length,
/// scaled); of a collective, the kernels before it on other streams and the begins of all ranks
/// (its end comes a transfer after the last); of a host call that synchronizes, the device span
/// whose end it shows to have waited for; where neither explains a begin, the end on another stream
/// or thread just before it. Unscaled, every span comes out where it was measured, to the
/// nanosecond.
///
/// Holds while the program does the same work in the same order: what decides by time (dynamic
/// batching, autotuning, a full launch queue) is not modelled; and what a kernel waits for on
/// another stream is only seen where it waited in the measurement, too.
TraceWhatIf what_if_from_trace(const run::Timeline&, const TraceScaling&);

}  // namespace triplepoint::sim
