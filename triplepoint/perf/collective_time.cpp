// SPDX-License-Identifier: Apache-2.0
// Time of one collective whose ranks are all ready. Formulas, symbols and sources:
// collective_time.h.
//
// A collective stays in one domain (scale-up links only) or runs over several. In each case all
// algorithms that NCCL would consider are estimated and the shortest is taken; for trees over nodes
// NCCL's own estimate, which rates trees lower than this model does, decides, because that is what
// a job gets. All are closed forms: the cost does not depend on ranks or bytes. Bytes and seconds
// are plain numbers in here, units stand at the interface.
//
// Every time is latency + bytes / bandwidth + filling. Filling is what a pipeline of chunks costs
// beyond its bandwidth: with the best chunk size it grows with the square root of the message, and
// it is given by the message at which half of the bandwidth is left (half_size).
#include "triplepoint/perf/collective_time.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/perf/fabric.h"

namespace triplepoint::perf {

namespace {

using spec::Cluster;
using spec::Collective;

/// A group cut into domains: devices inside one reach each other over scale-up links.
struct Layout {
  double ranks, domains, ranks_per_domain;
  double groups_per_node;
  double nodes_per_domain, nodes;
};

/// What a stream of data meets on its way out of one rank.
struct Pipe {
  double bytes_per_s;
  double half_bytes;
};

/// Protocol steps of an algorithm, by the kind of link they cross, and what a rank sends.
struct Work {
  double up_steps, out_steps;
  double bytes;  // sent by one rank over its slowest links
};

double count(int64_t n) {
  return as_real(std::max<int64_t>(1, n));
}

Layout layout_of(const Cluster& cluster, const GroupPlacement& group) {
  const double nodes_in_domain =
      std::max(1.0, std::floor(count(cluster.scale_up.domain_size) / count(cluster.gpus_per_node)));
  const double nodes = std::min(count(group.nodes), count(group.ranks));
  const double domains = std::ceil(nodes / nodes_in_domain);
  // Ranks are taken as spread evenly over domains; an uneven group has fractions here.
  return {.ranks = count(group.ranks),
          .domains = domains,
          .ranks_per_domain = count(group.ranks) / domains,
          .groups_per_node = count(group.groups_per_node),
          .nodes_per_domain = nodes / domains,
          .nodes = nodes};
}

FabricPath path_of(const Cluster& cluster, const Layout& layout, Traffic traffic) {
  return fabric_path(cluster, layout.nodes, traffic);
}

/// In a mesh a group drives the links to its own members only.
double reachable_links(const Cluster& cluster, double ranks) {
  if (cluster.scale_up.kind != spec::ScaleUpKind::mesh) return 1;
  const double others = std::max(1.0, count(cluster.scale_up.domain_size) - 1);
  return std::min(1.0, (ranks - 1) / others);
}

Pipe up_pipe(const Cluster& cluster, double ranks, double efficiency) {
  return {.bytes_per_s = cluster.scale_up.bandwidth.in_base_units() *
                         reachable_links(cluster, ranks) * efficiency,
          .half_bytes = cluster.scale_up.half_size.in_base_units()};
}

/// NICs that belong to a group's devices on one node: a device uses the NIC next to it.
double reachable_nics(const Cluster& cluster, double ranks_on_node) {
  const double nics = count(cluster.scale_out.nics_per_node);
  const double next_to_them = std::ceil(ranks_on_node * nics / count(cluster.gpus_per_node));
  return std::clamp(next_to_them, 1.0, nics);
}

/// Out of one domain, for one of the groups that share its NICs. A chunk passes `steps` hops one
/// after the other before the pipe is full, and hops are in flight on all of the group's NICs.
Pipe out_pipe(const Cluster& cluster, const Layout& layout, const FabricPath& path,
              double efficiency, double steps) {
  const spec::ScaleOut& fabric = cluster.scale_out;
  const double ranks_on_node = layout.ranks_per_domain / layout.nodes_per_domain;
  // Two bounds: the NICs next to the group's devices, and its part of those that all groups of the
  // node use at the same time.
  const double nics = std::min(reachable_nics(cluster, ranks_on_node),
                               count(fabric.nics_per_node) / layout.groups_per_node);
  return {.bytes_per_s = nics * layout.nodes_per_domain * fabric.nic_bandwidth.in_base_units() *
                         efficiency / path.taper,
          // half_size is measured over one hop and one NIC; a chunk must be in flight on each of
          // them.
          .half_bytes = fabric.half_size.in_base_units() * std::max(1.0, steps) * nics *
                        layout.nodes_per_domain};
}

double filling_seconds(const Pipe& pipe, double bytes) {
  return std::sqrt(pipe.half_bytes * bytes) / pipe.bytes_per_s;
}

double transfer_seconds(const Pipe& pipe, double bytes) {
  return bytes / pipe.bytes_per_s + filling_seconds(pipe, bytes);
}

/// Chunks that pass the fabric and the links inside of a node: the slower sets the pace, and the
/// longer pipe has to fill.
double streamed_seconds(const Pipe& out, double out_bytes, const Pipe& up, double up_bytes) {
  return std::max(out_bytes / out.bytes_per_s, up_bytes / up.bytes_per_s) +
         std::max(filling_seconds(out, out_bytes), filling_seconds(up, up_bytes));
}

double passes(Collective collective) {
  return collective == Collective::all_reduce ? 2 : 1;
}

/// Bytes a rank sends in a ring over the whole array.
double ring_bytes(Collective collective, double size, double ranks) {
  if (collective == Collective::broadcast) return size;
  return passes(collective) * (ranks - 1) / ranks * size;
}

CollectiveTime in_domain(const spec::ScaleUp& links, double steps, double transfer, double bytes,
                         Algorithm algorithm) {
  return {.latency = links.launch + steps * links.latency + links.bulk_latency,
          .transfer = transfer * unit::s,
          .scale_up_bytes = bytes * unit::B,
          .algorithm = algorithm};
}

/// The protocol for small messages: flags travel with the data, fewer round trips, less bandwidth.
CollectiveTime low_latency(const Cluster& cluster, double steps, double bytes, double ranks,
                           Algorithm algorithm) {
  const spec::ScaleUp& links = cluster.scale_up;
  const Pipe pipe = up_pipe(cluster, ranks, links.low_latency_efficiency);
  return {.latency = links.launch + steps * links.latency,
          .transfer = bytes / pipe.bytes_per_s * unit::s,
          .scale_up_bytes = bytes * unit::B,
          .algorithm = algorithm};
}

/// Point-to-point messages in that protocol.
CollectiveTime quick_messages(const Cluster& cluster, double steps, double bytes, double peers) {
  CollectiveTime time = low_latency(cluster, steps, bytes, peers + 1, Algorithm::direct);
  time.transfer *= std::max(1.0, peers_that_fill_all_channels / peers);
  return time;
}

CollectiveTime shorter(const CollectiveTime& a, const CollectiveTime& b) {
  return b.total() < a.total() ? b : a;
}

double local_copy_seconds(const Cluster& cluster, double bytes) {
  const spec::ScaleUp& links = cluster.scale_up;
  if (links.local_copy_factor <= 0) return 0;
  return bytes / (links.bandwidth.in_base_units() * links.local_copy_factor);
}

CollectiveTime domain_ring(const Cluster& cluster, Collective collective, double size, double n) {
  const spec::ScaleUp& links = cluster.scale_up;
  const double steps = passes(collective) * (n - 1);
  const double bytes = ring_bytes(collective, size, n);
  // A rank's own part crosses no link but is copied by the same kernel.
  const double transfer = transfer_seconds(up_pipe(cluster, n, links.efficiency), bytes) +
                          local_copy_seconds(cluster, size / n);
  return shorter(in_domain(links, steps, transfer, bytes, Algorithm::ring),
                 low_latency(cluster, steps, bytes, n, Algorithm::ring));
}

/// Every rank writes to every other at once; the switch does not mind.
CollectiveTime domain_all_to_all(const Cluster& cluster, double size, double n) {
  const spec::ScaleUp& links = cluster.scale_up;
  const double steps = std::log2(n);  // peers are set up in parallel
  const double bytes = (n - 1) / n * size;
  const double transfer =
      transfer_seconds(up_pipe(cluster, n, links.all_to_all_efficiency), bytes) +
      local_copy_seconds(cluster, size / n);
  return shorter(in_domain(links, steps, transfer, bytes, Algorithm::direct),
                 quick_messages(cluster, steps, bytes, n - 1));
}

/// NCCL keeps the ring for four ranks and fewer (observed on H200 and B200).
bool reduces_in_switch(const Cluster& cluster, double ranks) {
  return cluster.scale_up.nvls && ranks > 4;
}

CollectiveTime switch_all_reduce(const Cluster& cluster, double size, double n) {
  const spec::ScaleUp& links = cluster.scale_up;
  return {.latency = links.launch + 2 * links.latency + links.nvls_latency,
          .transfer = size / up_pipe(cluster, n, links.nvls_efficiency).bytes_per_s * unit::s,
          .scale_up_bytes = size * unit::B,
          .algorithm = Algorithm::nvls};
}

CollectiveTime time_in_domain(const Cluster& cluster, Collective collective, double size,
                              double n) {
  if (collective == Collective::all_to_all) return domain_all_to_all(cluster, size, n);
  const CollectiveTime ring = domain_ring(cluster, collective, size, n);
  if (collective != Collective::all_reduce || !reduces_in_switch(cluster, n)) return ring;
  return shorter(ring, switch_all_reduce(cluster, size, n));
}

Seconds latency_over_nodes(const Cluster& cluster, const Work& work, const FabricPath& path) {
  const spec::ScaleOut& fabric = cluster.scale_out;
  return fabric.launch + work.up_steps * cluster.scale_up.latency +
         work.out_steps * (fabric.latency + path.extra_hops * fabric.hop_latency);
}

Pipe slower(const Pipe& a, const Pipe& b) {
  return b.bytes_per_s < a.bytes_per_s ? b : a;
}

/// A chain of all ranks leaves each domain once: one hop in r crosses the fabric.
CollectiveTime stream_over_nodes(const Cluster& cluster, const Layout& layout, const Work& work,
                                 Algorithm algorithm) {
  const FabricPath path = path_of(cluster, layout, Traffic::neighbours);
  const Pipe out = out_pipe(cluster, layout, path, cluster.scale_out.efficiency, work.out_steps);
  const Pipe up = up_pipe(cluster, layout.ranks_per_domain, cluster.scale_up.efficiency);
  // One chain: its slowest link sets the pace, links of the other kind keep up.
  const Pipe pipe = layout.ranks_per_domain > 1 ? slower(out, up) : out;
  const double crossing = layout.domains / layout.ranks;
  return {.latency = latency_over_nodes(cluster, work, path),
          .transfer = transfer_seconds(pipe, work.bytes) * unit::s,
          .scale_up_bytes = (1 - crossing) * work.bytes * unit::B,
          .scale_out_bytes = crossing * work.bytes * unit::B,
          .algorithm = algorithm};
}

CollectiveTime ring_over_nodes(const Cluster& cluster, Collective collective, double size,
                               const Layout& layout) {
  const double out_steps = layout.domains - 1;
  const Work work{.up_steps = passes(collective) * (layout.ranks - 1 - out_steps),
                  .out_steps = passes(collective) * out_steps,
                  .bytes = ring_bytes(collective, size, layout.ranks)};
  return stream_over_nodes(cluster, layout, work, Algorithm::ring);
}

/// Of an all-reduce over the domains, there and back.
double tree_steps(const Layout& layout) {
  return 2 * std::ceil(std::log2(layout.domains));
}

/// What the busiest node sends in trees: of the two that carry half of the array each, a node is a
/// leaf of one (half up) and inside of the other (half up, half down to each of two); between two
/// nodes there is one edge a tree.
double tree_bytes(double size, const Layout& layout) {
  return (layout.domains > 2 ? 2 : 1) * size;
}

/// Of a ring's rate over the same links: NCCL's own estimate for its trees (src/graph/tuning.cc).
constexpr double tree_share = 0.92;

/// Inside a node each tree is a chain: a rank passes the array up once and down once.
CollectiveTime tree_all_reduce(const Cluster& cluster, double size, const Layout& layout) {
  const double r = layout.ranks_per_domain, passed_in_node = r > 1 ? 2 * size : 0;
  const Work work{.up_steps = 2 * (r - 1), .out_steps = tree_steps(layout), .bytes = 0};
  const FabricPath path = path_of(cluster, layout, Traffic::neighbours);
  const Pipe out = out_pipe(cluster, layout, path, cluster.scale_out.efficiency, work.out_steps);
  const Pipe up = up_pipe(cluster, std::max(2.0, r), cluster.scale_up.efficiency * tree_share);
  const double sent_by_node = tree_bytes(size, layout);
  return {.latency = latency_over_nodes(cluster, work, path),
          .transfer = streamed_seconds(out, sent_by_node, up, passed_in_node) * unit::s,
          .scale_up_bytes = passed_in_node * unit::B,
          .scale_out_bytes = sent_by_node / r * unit::B,
          .algorithm = Algorithm::tree};
}

/// Reduce in each node's switch, all-reduce the result over the nodes, spread it by the switch; the
/// phases stream through each other, so the slower one sets the pace.
CollectiveTime switch_tree_all_reduce(const Cluster& cluster, double size, const Layout& layout) {
  const Work work{.up_steps = 2, .out_steps = tree_steps(layout), .bytes = 0};
  const FabricPath path = path_of(cluster, layout, Traffic::neighbours);
  const Pipe out = out_pipe(cluster, layout, path, cluster.scale_out.efficiency, work.out_steps);
  const Pipe up = up_pipe(cluster, layout.ranks_per_domain, cluster.scale_up.nvls_efficiency);
  const double sent_by_node = tree_bytes(size, layout);
  return {.latency = latency_over_nodes(cluster, work, path) + cluster.scale_up.nvls_latency,
          .transfer = streamed_seconds(out, sent_by_node, up, size) * unit::s,
          .scale_up_bytes = size * unit::B,
          .scale_out_bytes = sent_by_node / layout.ranks_per_domain * unit::B,
          .algorithm = Algorithm::hierarchical};
}

/// Both parts run side by side: copies inside the domain, messages over the NICs. The ranks of a
/// domain share what the group gets of the NICs, and fill it together.
CollectiveTime all_to_all_over_nodes(const Cluster& cluster, double size, const Layout& layout) {
  const double n = layout.ranks, r = layout.ranks_per_domain;
  const double inside = (r - 1) / n * size, outside = (n - r) / n * size;
  const FabricPath path = path_of(cluster, layout, Traffic::everyone);
  const Pipe out = out_pipe(cluster, layout, path, cluster.scale_out.all_to_all_efficiency, 1);
  const Pipe up = up_pipe(cluster, std::max(2.0, r), cluster.scale_up.all_to_all_efficiency);
  const Work work{.up_steps = std::log2(r), .out_steps = layout.domains - 1, .bytes = outside};
  return {.latency = latency_over_nodes(cluster, work, path),
          .transfer =
              std::max(transfer_seconds(up, inside), transfer_seconds(out, r * outside)) * unit::s,
          .scale_up_bytes = inside * unit::B,
          .scale_out_bytes = outside * unit::B,
          .algorithm = Algorithm::pairwise};
}

/// By NCCL, which takes a tree where its own estimate of it is shorter.
CollectiveTime chosen(const CollectiveTime& ring, const CollectiveTime& tree) {
  return tree.latency + tree.transfer / tree_share < ring.total() ? tree : ring;
}

CollectiveTime time_over_nodes(const Cluster& cluster, Collective collective, double size,
                               const Layout& layout) {
  if (collective == Collective::all_to_all) return all_to_all_over_nodes(cluster, size, layout);
  CollectiveTime best = ring_over_nodes(cluster, collective, size, layout);
  if (collective != Collective::all_reduce) return best;
  best = chosen(best, tree_all_reduce(cluster, size, layout));
  if (!reduces_in_switch(cluster, layout.ranks_per_domain)) return best;
  return shorter(best, switch_tree_all_reduce(cluster, size, layout));
}

CollectiveTime message_in_domain(const Cluster& cluster, double size, double sharers) {
  const spec::ScaleUp& links = cluster.scale_up;
  Pipe pipe = up_pipe(cluster, 2, links.point_to_point_efficiency);
  pipe.bytes_per_s /= sharers;
  // Sharers divide the link, in both protocols; latency is each message's own.
  CollectiveTime quick = quick_messages(cluster, 1, size, 1);
  quick.transfer *= sharers;
  return shorter(in_domain(links, 1, transfer_seconds(pipe, size), size, Algorithm::direct), quick);
}

CollectiveTime message_over_nic(const Cluster& cluster, double size, double sharers) {
  const spec::ScaleOut& fabric = cluster.scale_out;
  const double nics = std::min(1.0, count(fabric.nics_per_node) / sharers);
  const Pipe pipe{
      .bytes_per_s = nics * fabric.nic_bandwidth.in_base_units() * fabric.point_to_point_efficiency,
      .half_bytes = fabric.half_size.in_base_units()};
  return {.latency = fabric.launch + fabric.latency,
          .transfer = transfer_seconds(pipe, size) * unit::s,
          .scale_out_bytes = size * unit::B,
          .algorithm = Algorithm::direct};
}

}  // namespace

CollectiveTime collective_time(const Cluster& cluster, Collective collective, Bytes payload,
                               const GroupPlacement& group) {
  if (group.ranks <= 1 || payload <= Bytes()) return {};
  const Layout layout = layout_of(cluster, group);
  if (collective == Collective::send_recv)
    return point_to_point_time(cluster, payload, layout.domains <= 1,
                               layout.domains <= 1 ? 1 : layout.groups_per_node);
  const double size = payload.in_base_units();
  if (layout.domains <= 1) return time_in_domain(cluster, collective, size, layout.ranks);
  return time_over_nodes(cluster, collective, size, layout);
}

CollectiveTime point_to_point_time(const Cluster& cluster, Bytes payload, bool same_domain,
                                   double sharers) {
  if (payload <= Bytes()) return {};
  const double users = std::max(1.0, sharers);
  return same_domain ? message_in_domain(cluster, payload.in_base_units(), users)
                     : message_over_nic(cluster, payload.in_base_units(), users);
}

CollectiveTime cut_send_time(const Cluster& cluster, Bytes payload, bool same_domain, Bytes chunk,
                             int64_t nics) {
  const double ways = same_domain ? 1 : as_real(std::max<int64_t>(1, nics));
  const Bytes part = payload / ways;
  if (chunk <= Bytes() || part <= chunk) {
    CollectiveTime whole = point_to_point_time(cluster, part, same_domain, 1);
    whole.scale_out_bytes = ways * whole.scale_out_bytes;
    return whole;
  }
  const double full = std::floor(part / chunk);
  const CollectiveTime each = point_to_point_time(cluster, chunk, same_domain, 1);
  // What rounding leaves of a part that its chunks divide is no message.
  const Bytes rest = part - full * chunk;
  const CollectiveTime last =
      rest > 1e-9 * chunk ? point_to_point_time(cluster, rest, same_domain, 1) : CollectiveTime{};
  return {.latency = full * each.latency + last.latency,
          .transfer = full * each.transfer + last.transfer,
          .scale_up_bytes = full * each.scale_up_bytes + last.scale_up_bytes,
          .scale_out_bytes = ways * (full * each.scale_out_bytes + last.scale_out_bytes),
          .algorithm = each.algorithm};
}

// What nccl-tests and NCCL's logs call things.

double bus_bandwidth_factor(spec::Collective collective, int64_t ranks) {
  const auto n = as_real(std::max<int64_t>(1, ranks));
  switch (collective) {
    case spec::Collective::all_reduce:
      return 2 * (n - 1) / n;
    case spec::Collective::all_gather:
    case spec::Collective::reduce_scatter:
    case spec::Collective::all_to_all:
      return (n - 1) / n;
    case spec::Collective::broadcast:
    case spec::Collective::send_recv:
      return 1;
  }
  return 1;
}

}  // namespace triplepoint::perf
