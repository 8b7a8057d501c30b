// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"

namespace triplepoint::sim {

/// How many ranks of a lockstep group send over one link.
struct LinkUse {
  int32_t link = 0;
  int32_t ranks = 1;
  friend auto operator<=>(const LinkUse&, const LinkUse&) = default;
};

/// A boundary tensor on its way to a neighbour stage: every rank of the lockstep group sends its
/// part to its own peer at the same moment. The ranks advance together, so one flow stands for all
/// of them and only its use of links counts them.
struct Boundary {
  Bytes bytes_per_rank;
  Seconds latency;   // first; it uses no link
  Seconds transfer;  // of one rank's part, alone: its own limit is bytes_per_rank / transfer
  int32_t microbatches = 1;  // whose tensors leave together
  std::vector<LinkUse> links;
};

struct StageBoundaries {
  Boundary next, previous;
};
enum class Direction { next, previous };

/// blocking: the stage's stream waits until its send is out. overlapped: it works on; sends over
/// one boundary leave in order, one at a time, as they do on a communication stream.
enum class SendMode { blocking, overlapped };

/// Which sends have to be simulated as flows. Both give the same bits; `everywhere` is for tests.
enum class FlowChoice { where_links_bind, everywhere };

/// A boundary as the schedulers see it.
struct Wire {
  static constexpr int32_t no_flow = -1;
  Seconds latency;
  Seconds alone;  // latency and data, on unshared links
  double bytes = 0;
  int32_t microbatches = 1;      // of one send, which leaves behind the last of them
  int32_t flow_class = no_flow;  // no_flow: without contention, it always takes `alone`
  friend bool operator==(const Wire&, const Wire&) = default;
};

/// Flows that load the same links in the same way have the same rate at any time.
struct FlowClass {
  std::vector<LinkUse> links;  // indices into Wiring::capacities
  double limit = 0;            // bytes/s of one rank on unshared links
  friend auto operator<=>(const FlowClass&, const FlowClass&) = default;
};

/// Who can ever slow down whom: made once per job from boundaries and links, used by every
/// schedule.
///
/// A link stays out if all that its senders can push at once fits into it:
///   sum over senders of ranks * alone rate <= capacity   (a blocking stage sends one way at a
///   time)
/// Of links with the same users only the tightest stays. Pipelines that share none of the links
/// that stay cannot meet, and are simulated apart.
class Wiring {
 public:
  /// [pipeline][stage]; capacities by link, zero is not allowed.
  Wiring(std::span<const std::vector<StageBoundaries>> pipelines,
         std::span<const BytesPerSecond> capacities, SendMode mode,
         FlowChoice choice = FlowChoice::where_links_bind);

  SendMode mode() const { return mode_; }
  size_t num_pipelines() const { return wires_.size(); }
  /// Two per stage: stage * 2 + Direction.
  std::span<const Wire> wires(size_t pipeline) const { return wires_[pipeline]; }
  std::span<const FlowClass> classes() const { return classes_; }
  std::span<const BytesPerSecond> capacities() const { return capacities_; }  // of links that stay

  /// Pipelines that have to be simulated together, in order of their first member.
  struct Cluster {
    std::vector<size_t> pipelines;
    bool has_flows = false;
  };
  const std::vector<Cluster>& clusters() const { return clusters_; }

 private:
  SendMode mode_;
  std::vector<std::vector<Wire>> wires_;
  std::vector<FlowClass> classes_;
  std::vector<BytesPerSecond> capacities_;
  std::vector<Cluster> clusters_;
};

}  // namespace triplepoint::sim
