// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

/// Peers that keep all channels of a device busy with small point-to-point messages: each gets a
/// few of the channels that a ring has. Assumed with the public NCCL tables of A100 to B300 in
/// sight (data/clusters, lab/fit_tables.py links); no source states it.
inline constexpr double peers_that_fill_all_channels = 16;

/// What one collective costs when all ranks are there.
struct CollectiveTime {
  Seconds latency;                        // launch and protocol steps
  Seconds transfer;                       // data on the wire
  Bytes scale_up_bytes, scale_out_bytes;  // sent by one rank over each kind of link
  Algorithm algorithm = Algorithm::ring;
  Seconds total() const { return latency + transfer; }
};

/// Time of one collective over `payload` bytes (S of nccl-tests: the whole array; per-rank buffer
/// for all_to_all), best of the algorithms and protocols NCCL would choose from. n = 1 costs
/// nothing.
///
///   ring      steps = k (n - 1), W = k (n - 1)/n S; k is 2 for all_reduce, else 1; broadcast W = S
///   one node  t = launch + steps latency + bulk + W/(b e) (1 + sqrt(half/W)) + S/n / (b c)
///             or, where shorter, launch + steps latency + W/(b e_ll); point to point and
///             all-to-all get peers/peers_that_fill_all_channels of that rate
///   nvls      t = launch + 2 latency + nvls_latency + S/(b e_nvls)
///             for an all_reduce of more than 4 ranks in one domain
///   nodes     ring with inter-node steps at the fabric's latency, and hop_latency for each switch
///             beyond the first; b e = the group's share of its nodes' NICs, or the scale-up links
///             where those are slower, divided by what the kind of fabric takes (fabric.h);
///             half = the fabric's, which is of one hop over one NIC, times the inter-node steps
///             and the group's NICs
///   tree      all_reduce over N nodes: 2 (log2 N + r - 1) steps; a node sends 2 S, of two nodes S;
///             inside of it a rank sends 2 S at 0.92 of a ring's rate
///   hierarchical (NVLS trees): reduce in the node's switch, trees over N nodes, broadcast; of both
///             kinds of trees t = max(W_up/B_up, W_out/B_out) + the longer filling
///   pairwise  all_to_all: the part for the own node and the part over the NICs side by side
///
/// b: bandwidth out of one rank; c: local_copy_factor (a ring kernel also copies the rank's own
/// part); half: message at which half of the bandwidth is reached (a pipeline of chunks costs
/// extra in proportion to the square root of the message); n ranks on N nodes, r each.
/// Holds while the links carry nothing else; sharing in time is fair_share.h's part.
/// Sources: nccl-tests doc/PERFORMANCE.md; Thakur et al. 2005 (ring, pairwise);
/// docs/models/collectives.md.
CollectiveTime collective_time(const spec::Cluster&, spec::Collective, Bytes payload,
                               const GroupPlacement&);

/// One message between two devices. `sharers`: messages that use the sender's NICs (or link) at the
/// same time.
///
///   in a domain  t = launch + latency + bulk + S sharers / (b e) * (1 + sqrt(half/S))
///   over a NIC   the same with the NIC's numbers; a message uses one NIC, and its share of all
CollectiveTime point_to_point_time(const spec::Cluster&, Bytes payload, bool same_domain,
                                   double sharers);

/// The same of a send that is spread over `nics` NICs (between domains) and cut into messages of at
/// most `chunk`, one behind the other on each NIC. Zero chunk: one message.
///
///   t = sum over messages of t(message),  messages of S / nics: k of `chunk`, and the rest
CollectiveTime cut_send_time(const spec::Cluster&, Bytes payload, bool same_domain, Bytes chunk,
                             int64_t nics);

/// nccl-tests' conversion from algbw to busbw.
double bus_bandwidth_factor(spec::Collective, int64_t ranks);

}  // namespace triplepoint::perf
