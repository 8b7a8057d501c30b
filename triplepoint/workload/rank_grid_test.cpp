// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/rank_grid.h"

#include <algorithm>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/workload/jobs_testing.h"

namespace triplepoint::workload {
namespace {

using spec::GroupKind;
using spec::RankOrder;

constexpr GroupKind all_kinds[] = {
    GroupKind::tensor,    GroupKind::context,     GroupKind::expert,   GroupKind::expert_tensor,
    GroupKind::data,      GroupKind::expert_data, GroupKind::pipeline, GroupKind::model,
    GroupKind::embedding, GroupKind::shard,       GroupKind::replica};

struct Sizes {
  int64_t tensor, pipeline, expert, context, nodes;
};

spec::Job job_of(Sizes sizes, RankOrder order = RankOrder::tp_cp_ep_dp_pp) {
  spec::Job job = test::with(test::on_nodes(test::mixtral_8x22b(), sizes.nodes),
                             {sizes.tensor, sizes.pipeline, sizes.expert, sizes.context});
  job.plan.rank_order = order;
  return job;
}

/// The slow reference: every group of Megatron's generator, written as nested loops over named
/// dimensions, fastest first. `taken` are the dimensions a group runs through.
struct Dimension {
  int64_t size;
  bool taken;
};
std::vector<std::vector<int64_t>> megatron_groups(const std::vector<Dimension>& order) {
  int64_t world = 1;
  for (const Dimension& dimension : order)
    world *= dimension.size;
  std::vector<std::pair<int64_t, int64_t>> keyed;  // (place in the other dimensions, rank)
  for (int64_t rank = 0; rank < world; ++rank) {
    int64_t rest = rank, key = 0, stride = 1;
    for (const Dimension& dimension : order) {
      if (!dimension.taken) {
        key += rest % dimension.size * stride;
        stride *= dimension.size;
      }
      rest /= dimension.size;
    }
    keyed.emplace_back(key, rank);
  }
  std::ranges::sort(keyed);
  std::vector<std::vector<int64_t>> groups;
  for (size_t i = 0; i < keyed.size(); ++i) {
    if (i == 0 || keyed[i].first != keyed[i - 1].first) groups.emplace_back();
    groups.back().push_back(keyed[i].second);
  }
  return groups;
}

void check_equal(const RankGrid& grid, GroupKind kind, const std::vector<Dimension>& order) {
  for (const std::vector<int64_t>& group : megatron_groups(order))
    for (const int64_t rank : group)
      CHECK(grid.members(kind, rank) == group);
}

constexpr Sizes many[] = {{1, 1, 1, 1, 4}, {8, 4, 1, 1, 4}, {4, 8, 1, 1, 4}, {2, 4, 1, 2, 4},
                          {1, 4, 8, 1, 4}, {4, 1, 8, 1, 4}, {2, 2, 8, 1, 4}, {8, 2, 4, 1, 8},
                          {2, 4, 4, 2, 8}, {1, 2, 2, 4, 2}};

TEST_CASE("dense groups equal Megatron's for tp-cp-ep-dp-pp") {
  for (const Sizes& s : many) {
    const spec::Job job = job_of(s);
    const RankGrid grid(job);
    const int64_t dp = job.data_parallel_size();
    check_equal(grid, GroupKind::tensor,
                {{s.tensor, true}, {s.context, false}, {dp, false}, {s.pipeline, false}});
    check_equal(grid, GroupKind::context,
                {{s.tensor, false}, {s.context, true}, {dp, false}, {s.pipeline, false}});
    check_equal(grid, GroupKind::data,
                {{s.tensor, false}, {s.context, true}, {dp, true}, {s.pipeline, false}});
    check_equal(grid, GroupKind::pipeline,
                {{s.tensor, false}, {s.context, false}, {dp, false}, {s.pipeline, true}});
    check_equal(grid, GroupKind::model,
                {{s.tensor, true}, {s.context, false}, {dp, false}, {s.pipeline, true}});
  }
}

TEST_CASE("dense groups equal Megatron's for tp-pp-dp") {
  for (const Sizes& s : many) {
    const spec::Job job = job_of(s, RankOrder::tp_pp_dp);
    const RankGrid grid(job);
    const int64_t dp = job.data_parallel_size();
    check_equal(grid, GroupKind::data,
                {{s.tensor, false}, {s.context, true}, {s.pipeline, false}, {dp, true}});
    check_equal(grid, GroupKind::pipeline,
                {{s.tensor, false}, {s.context, false}, {s.pipeline, true}, {dp, false}});
    check_equal(grid, GroupKind::model,
                {{s.tensor, true}, {s.context, false}, {s.pipeline, true}, {dp, false}});
  }
}

TEST_CASE("expert groups equal Megatron's expert grid, also with its own expert TP") {
  for (const Sizes& s : many)
    for (const int64_t expert_tensor : {s.tensor, int64_t{1}}) {
      spec::Job job = job_of(s);
      job.plan.expert_tensor_parallel_size = expert_tensor;
      const RankGrid grid(job);
      const int64_t expert_data = job.world_size() / (expert_tensor * s.expert * s.pipeline);
      check_equal(
          grid, GroupKind::expert_tensor,
          {{expert_tensor, true}, {s.expert, false}, {expert_data, false}, {s.pipeline, false}});
      check_equal(
          grid, GroupKind::expert,
          {{expert_tensor, false}, {s.expert, true}, {expert_data, false}, {s.pipeline, false}});
      check_equal(
          grid, GroupKind::expert_data,
          {{expert_tensor, false}, {s.expert, false}, {expert_data, true}, {s.pipeline, false}});
    }
}

TEST_CASE("coordinates and ranks are inverse to each other") {
  for (const Sizes& s : many)
    for (const RankOrder order : {RankOrder::tp_cp_ep_dp_pp, RankOrder::tp_pp_dp}) {
      const RankGrid grid(job_of(s, order));
      for (int64_t rank = 0; rank < grid.world_size(); ++rank)
        CHECK(grid.rank_at(grid.coordinates(rank)) == rank);
    }
}

TEST_CASE("the groups of each kind share out the ranks") {
  for (const Sizes& s : many)
    for (const RankOrder order : {RankOrder::tp_cp_ep_dp_pp, RankOrder::tp_pp_dp})
      for (const GroupKind kind : all_kinds) {
        if (kind == GroupKind::embedding) continue;  // middle stages are in none
        const RankGrid grid(job_of(s, order));
        for (int64_t rank = 0; rank < grid.world_size(); ++rank) {
          const auto group = grid.members(kind, rank);
          CHECK(std::ranges::count(group, rank) == 1);
          CHECK(grid.members(kind, group.back()) == group);
        }
      }
}

TEST_CASE("EP8-TP1-PP4 keeps expert groups inside a node, EP8-TP4-PP1 spreads them over nodes") {
  const GroupShape inside = RankGrid(job_of({1, 4, 8, 1, 4})).shape(GroupKind::expert);
  CHECK(inside == GroupShape{.ranks = 8, .nodes = 1, .ranks_per_node = 8, .groups_per_node = 1});
  const GroupShape across = RankGrid(job_of({4, 1, 8, 1, 4})).shape(GroupKind::expert);
  CHECK(across == GroupShape{.ranks = 8, .nodes = 4, .ranks_per_node = 2, .groups_per_node = 4});
}

TEST_CASE("a group's shape counts its members node by node") {
  const RankGrid grid(job_of({2, 4, 1, 1, 4}));
  CHECK(grid.shape(GroupKind::tensor) == GroupShape{2, 1, 2, 4});
  CHECK(grid.shape(GroupKind::data) == GroupShape{4, 1, 4, 2});
  CHECK(grid.shape(GroupKind::pipeline) == GroupShape{4, 4, 1, 8});
  CHECK(grid.shape(GroupKind::model) == GroupShape{8, 4, 2, 4});
  CHECK(grid.shape(GroupKind::embedding) == GroupShape{2, 2, 1, 8});
}

/// The slow reference: nodes of the members, and the most of them on one.
GroupShape counted_shape(const RankGrid& grid, GroupKind kind, int64_t per_node) {
  GroupShape widest{.ranks = 0, .nodes = 0};
  std::set<std::vector<int64_t>> groups;
  for (int64_t rank = 0; rank < std::min(per_node, grid.world_size()); ++rank) {
    const std::vector<int64_t> members = grid.members(kind, rank);
    if (!groups.insert(members).second) continue;
    std::map<int64_t, int64_t> on_node;
    for (const int64_t member : members)
      ++on_node[member / per_node];
    GroupShape shape{.ranks = static_cast<int64_t>(members.size()),
                     .nodes = static_cast<int64_t>(on_node.size()),
                     .ranks_per_node = 0};
    for (const auto& [node, count] : on_node)
      shape.ranks_per_node = std::max(shape.ranks_per_node, count);
    if (shape.nodes > widest.nodes) widest = shape;
  }
  widest.groups_per_node = static_cast<int64_t>(groups.size());
  return widest;
}

TEST_CASE("a group's shape in closed form is the one that counting its members gives") {
  for (const RankOrder order : {RankOrder::tp_cp_ep_dp_pp, RankOrder::tp_pp_dp})
    for (const Sizes& sizes :
         {Sizes{2, 4, 1, 1, 4}, Sizes{1, 1, 8, 1, 4}, Sizes{4, 2, 2, 2, 8}, Sizes{8, 1, 1, 2, 4},
          Sizes{1, 2, 4, 4, 8}, Sizes{2, 1, 2, 1, 3}, Sizes{1, 3, 1, 1, 3}, Sizes{2, 6, 1, 2, 9}}) {
      const spec::Job job = job_of(sizes, order);
      const RankGrid grid(job);
      for (const GroupKind kind : all_kinds)
        CHECK(grid.shape(kind) == counted_shape(grid, kind, job.cluster.gpus_per_node));
    }
}

TEST_CASE("hybrid sharding cuts the data group into blocks and joins them across") {
  spec::Job job = job_of({2, 1, 1, 1, 4});
  job.plan.sharding = spec::Sharding::parameters;
  job.plan.sharding_group_size = 4;
  const RankGrid grid(job);
  CHECK(grid.members(GroupKind::shard, 0) == std::vector<int64_t>{0, 2, 4, 6});
  CHECK(grid.members(GroupKind::replica, 0) == std::vector<int64_t>{0, 8, 16, 24});
  CHECK(grid.shape(GroupKind::shard).nodes == 1);
}

TEST_CASE("a device order moves ranks inside their nodes and nowhere else") {
  spec::Job job = job_of({8, 4, 1, 1, 4});
  job.plan.device_order = {1, 2, 5, 7, 0, 3, 4, 6};
  const RankGrid grid(job);
  std::set<int64_t> devices;
  for (int64_t rank = 0; rank < grid.world_size(); ++rank) {
    CHECK(grid.node_of(rank) == rank / 8);
    CHECK(grid.device_of(rank) % 8 == job.plan.device_order[as_size(rank % 8)]);
    devices.insert(grid.device_of(rank));
  }
  CHECK(static_cast<int64_t>(devices.size()) == grid.world_size());
}

TEST_CASE("every node may have its own device order, and nodes a rank order of theirs") {
  spec::Job job = job_of({8, 2, 1, 1, 2});
  job.plan.device_order = {1, 2, 5, 7, 0, 3, 4, 6, 7, 6, 5, 4, 3, 2, 1, 0};
  job.plan.node_order = {1, 0};
  const RankGrid grid(job);
  CHECK(grid.device_of(0) == 15);
  CHECK(grid.device_of(7) == 8);
  CHECK(grid.device_of(8) == 1);
  CHECK(grid.node_of(0) == 1);
  CHECK(grid.node_of(15) == 0);
}

}  // namespace
}  // namespace triplepoint::workload
