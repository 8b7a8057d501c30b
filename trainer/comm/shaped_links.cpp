// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/shaped_links.h"

#include <algorithm>
#include <set>
#include <utility>

#include "triplepoint/base/result.h"

#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

LinkShapes link_shapes(const spec::Cluster& cluster, std::vector<int> nodes) {
  const spec::ScaleOut& out = cluster.scale_out;
  const int64_t ranks = std::max<int64_t>(1, cluster.gpus_per_node);
  const int64_t nics = std::max<int64_t>(1, std::min(out.nics_per_node, ranks));
  const double nics_of_a_rank =
      std::max(1.0, static_cast<double>(out.nics_per_node) / static_cast<double>(ranks));
  LinkShapes shapes{.nodes = std::move(nodes),
                    .nics = {},
                    .bandwidth = out.nic_bandwidth * nics_of_a_rank * out.point_to_point_efficiency,
                    .latency = out.latency};
  for (size_t rank = 0; rank < shapes.nodes.size(); ++rank) {
    const int node = shapes.nodes[rank];
    const auto here = shapes.nodes.begin();
    const int64_t place = std::count(here, here + static_cast<std::ptrdiff_t>(rank), node);
    shapes.nics.push_back(static_cast<int>(node * nics + place % ranks * nics / ranks));
  }
  return shapes;
}

ShapedLinks::ShapedLinks(LinkShapes shapes, Transport& transport)
    : shapes_(std::move(shapes)), rank_(transport.rank()), nic_free_(&own_free_) {
  TPT_EXPECT(static_cast<int>(shapes_.nodes.size()) == transport.size());
  TPT_EXPECT(shapes_.nics.size() == shapes_.nodes.size());
  const int nic = shapes_.nics[static_cast<size_t>(rank_)];
  std::atomic<int64_t>* shared =
      nic < Transport::most_shared_numbers ? transport.shared_number(nic) : nullptr;
  if (shared != nullptr)
    nic_free_ = shared;
  else
    shapes_.bandwidth = shapes_.bandwidth / static_cast<double>(std::count(
                                                shapes_.nics.begin(), shapes_.nics.end(), nic));
}

NicLoad ShapedLinks::collective(spec::Collective collective, const std::vector<int>& ranks,
                                double bytes) const {
  std::set<int> nodes;
  double here = 0;
  for (const int rank : ranks) {
    nodes.insert(node_of(rank));
    here += leaves_node(rank) ? 0 : 1;
  }
  if (nodes.size() == 1) return {};
  const int64_t passes = collective == spec::Collective::all_reduce ? 2 : 1;
  const auto p = static_cast<double>(ranks.size());
  const double out = static_cast<double>(passes) * (p - 1) / p * bytes;
  return {.bytes = out / here,
          .node_bytes = out,
          .steps = passes * static_cast<int64_t>(nodes.size() - 1)};
}

NicLoad ShapedLinks::message(int to, double bytes) const {
  if (!leaves_node(to)) return {};
  return {.bytes = bytes, .node_bytes = bytes, .steps = 1};
}

int64_t ShapedLinks::wire_ns(double bytes) const {
  const double rate = shapes_.bandwidth / (unit::B / unit::s);
  return rate > 0 ? static_cast<int64_t>(bytes / rate * 1e9) : 0;
}

int64_t ShapedLinks::take(int64_t begin_ns, const NicLoad& load) {
  int64_t before = nic_free_->load(), begin = 0, after = 0;
  do {
    begin = std::max(before, begin_ns);
    after = begin + wire_ns(load.bytes);
  } while (!nic_free_->compare_exchange_weak(before, after));
  return std::max(after, begin_ns + wire_ns(load.node_bytes)) +
         load.steps * static_cast<int64_t>(shapes_.latency / unit::s * 1e9);
}

}  // namespace triplepoint::trainer
