// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/base/units.h"
#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::perf {

enum class Algorithm { ring, tree, hierarchical, nvls, pairwise, direct };

/// The group as the network sees it (workload::GroupShape without the dependency).
struct GroupPlacement {
  int64_t ranks = 1, nodes = 1, ranks_per_node = 1;
  int64_t groups_per_node = 1;  // groups that use one node's NICs at the same time
};

/// What one collective costs when all ranks are there.
struct CollectiveTime {
  Seconds latency;   // launch and protocol steps
  Seconds transfer;  // data on the wire
  Bytes scale_up_bytes, scale_out_bytes;  // sent by one rank over each kind of link
  Algorithm algorithm = Algorithm::ring;
  Seconds total() const { return latency + transfer; }
};

/// Time of one collective over `payload` bytes (S of nccl-tests: the whole array; per-rank buffer for
/// all_to_all), best of the algorithms NCCL would choose from. n = 1 costs nothing.
/// Formulas, saturation with message size and sources: docs/models/collectives.md.
CollectiveTime collective_time(const spec::Cluster&, spec::Collective, Bytes payload,
                               const GroupPlacement&);

/// One message between two devices. `sharers`: messages that use the sender's NICs (or link) at the same time.
CollectiveTime point_to_point_time(const spec::Cluster&, Bytes payload, bool same_domain, double sharers);

/// nccl-tests' conversion from algbw to busbw.
double bus_bandwidth_factor(spec::Collective, int64_t ranks);

std::string_view name_of(Algorithm);

}  // namespace triplepoint::perf
