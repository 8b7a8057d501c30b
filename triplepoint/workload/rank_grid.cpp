// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/rank_grid.h"

// Ranks, groups and devices in closed form.
//
// A stage's ranks are numbered by slots (tensor fastest, then context, data). In slots every group
// is an arithmetic sequence (Line), whatever the order of ranks, so members need no search; experts
// count the same slots anew as expert tensor, expert, expert data. rank_order enters only where a
// slot and a stage become a rank (rank_of, place_of). Cost: members O(group), shapes O(step) in the
// usual order; a search asks for shapes of groups of thousands of ranks.

#include <algorithm>

#include "triplepoint/base/result.h"

#include "triplepoint/workload/record_rows.h"

namespace triplepoint::workload {
namespace {

using spec::GroupKind;

}  // namespace

RankGrid::RankGrid(const spec::Job& job)
    : world_(job.world_size()),
      gpus_per_node_(job.cluster.gpus_per_node),
      tensor_(job.plan.tensor_parallel_size),
      context_(job.plan.context_parallel_size),
      expert_(job.plan.expert_parallel_size),
      data_(job.data_parallel_size()),
      pipeline_(job.plan.pipeline_parallel_size),
      expert_tensor_(job.plan.expert_tensor_size()),
      shard_(shard_group_size(job)),
      order_(job.plan.rank_order),
      device_order_(job.plan.device_order),
      node_order_(job.plan.node_order) {
  TPT_EXPECT(tensor_ * context_ * data_ * pipeline_ == world_);
  TPT_EXPECT(tensor_ * context_ * data_ % (expert_tensor_ * expert_) == 0);
  std::vector<Place> first_node;
  for (int64_t rank = 0; rank < std::min(gpus_per_node_, world_); ++rank)
    first_node.push_back(place_of(rank));
  for (size_t kind = 0; kind < shapes_.size(); ++kind)
    shapes_[kind] = widest_shape(static_cast<GroupKind>(kind), first_node);
}

int64_t shard_group_size(const spec::Job& job) {
  const int64_t whole = job.data_parallel_size() * job.plan.context_parallel_size;
  const int64_t asked = job.plan.sharding_group_size;
  return asked > 0 && asked < whole && whole % asked == 0 ? asked : whole;
}

int64_t RankGrid::inner_stride() const {
  return tensor_ * context_;
}

RankGrid::Place RankGrid::place_of(int64_t rank) const {
  const int64_t inner = rank % inner_stride();
  const int64_t outer = rank / inner_stride();
  // The two orders differ in which of data and pipeline varies slowest.
  const bool data_first = order_ == spec::RankOrder::tp_cp_ep_dp_pp;
  const int64_t data = data_first ? outer % data_ : outer / pipeline_;
  const int64_t stage = data_first ? outer / data_ : outer % pipeline_;
  return {inner + inner_stride() * data, stage};
}

int64_t RankGrid::rank_of(Place place) const {
  const int64_t inner = place.slot % inner_stride();
  const int64_t data = place.slot / inner_stride();
  const int64_t outer = order_ == spec::RankOrder::tp_cp_ep_dp_pp ? data + data_ * place.stage
                                                                  : place.stage + pipeline_ * data;
  return inner + inner_stride() * outer;
}

RankCoordinates RankGrid::coordinates(int64_t rank) const {
  TPT_EXPECT(rank >= 0 && rank < world_);
  const Place place = place_of(rank);
  return {.tensor = place.slot % tensor_,
          .context = place.slot / tensor_ % context_,
          .expert = place.slot / expert_tensor_ % expert_,
          .data = place.slot / inner_stride(),
          .pipeline = place.stage};
}

int64_t RankGrid::rank_at(const RankCoordinates& at) const {
  return rank_of({at.tensor + tensor_ * (at.context + context_ * at.data), at.pipeline});
}

RankGrid::Line RankGrid::line_of(GroupKind kind, int64_t slot) const {
  const int64_t expert_block = expert_tensor_ * expert_;
  const int64_t replicas = context_ * data_;
  switch (kind) {
    case GroupKind::tensor:
      return {slot - slot % tensor_, 1, tensor_};
    case GroupKind::context:
      return {slot - slot / tensor_ % context_ * tensor_, tensor_, context_};
    case GroupKind::expert:
      return {slot - slot / expert_tensor_ % expert_ * expert_tensor_, expert_tensor_, expert_};
    case GroupKind::expert_tensor:
      return {slot - slot % expert_tensor_, 1, expert_tensor_};
    case GroupKind::data:
      return {slot % tensor_, tensor_, replicas};
    case GroupKind::expert_data:
      return {slot % expert_block, expert_block, tensor_ * replicas / expert_block};
    case GroupKind::shard:
      return {slot - slot / tensor_ % shard_ * tensor_, tensor_, shard_};
    case GroupKind::replica:
      return {slot % (tensor_ * shard_), tensor_ * shard_, replicas / shard_};
    case GroupKind::model:
      return {slot - slot % tensor_, 1, tensor_};
    case GroupKind::pipeline:
    case GroupKind::embedding:
      break;
  }
  return {slot, 1, 1};
}

RankGrid::Line RankGrid::stages_of(GroupKind kind, int64_t stage) const {
  switch (kind) {
    case GroupKind::model:
    case GroupKind::pipeline:
      return {0, 1, pipeline_};
    case GroupKind::embedding:
      return {0, std::max<int64_t>(1, pipeline_ - 1), std::min<int64_t>(2, pipeline_)};
    default:
      return {stage, 1, 1};
  }
}

std::vector<int64_t> RankGrid::members(GroupKind kind, int64_t rank) const {
  return members(kind, place_of(rank));
}

std::vector<int64_t> RankGrid::members(GroupKind kind, Place place) const {
  const Line slots = line_of(kind, place.slot);
  const Line stages = stages_of(kind, place.stage);
  std::vector<int64_t> ranks;
  ranks.reserve(as_size(slots.count * stages.count));
  for (int64_t i = 0; i < stages.count; ++i)
    for (int64_t j = 0; j < slots.count; ++j)
      ranks.push_back(rank_of({slots.first + j * slots.step, stages.first + i * stages.step}));
  return ranks;
}

int64_t RankGrid::leader_of(GroupKind kind, Place place) const {
  return rank_of({line_of(kind, place.slot).first, stages_of(kind, place.stage).first});
}

namespace {

/// Nodes and the most ranks on one of them, of `count` ranks from `first` on, `step` apart: in
/// closed form, because the search asks for groups of thousands of ranks again and again.
GroupShape shape_of_even_ranks(int64_t first, int64_t step, int64_t count, int64_t per_node) {
  // A stride of a node or more puts every rank on another node.
  if (step >= per_node || count == 1) return {.ranks = count, .nodes = count, .ranks_per_node = 1};
  const int64_t first_node = first / per_node, last = first + (count - 1) * step;
  GroupShape shape{.ranks = count, .nodes = last / per_node - first_node + 1, .ranks_per_node = 0};
  // How ranks lie in a node repeats after at most `step` nodes.
  for (int64_t i = 0; i < std::min(shape.nodes, step + 2); ++i) {
    const int64_t begin = std::max(first, (first_node + i) * per_node);
    const int64_t end = std::min(last + 1, (first_node + i + 1) * per_node);
    const auto below = [&](int64_t rank) { return (rank - first + step - 1) / step; };
    shape.ranks_per_node = std::max(shape.ranks_per_node, below(end) - below(begin));
  }
  return shape;
}

}  // namespace

GroupShape RankGrid::shape_around(GroupKind kind, Place place) const {
  const Line slots = line_of(kind, place.slot);
  const bool is_one_stage = stages_of(kind, place.stage).count == 1;
  if (is_one_stage && order_ == spec::RankOrder::tp_cp_ep_dp_pp)
    return shape_of_even_ranks(rank_of({slots.first, place.stage}), slots.step, slots.count,
                               gpus_per_node_);
  // Blocks of ranks and nodes are one to one, whatever the order of nodes.
  const std::vector<int64_t> ranks = members(kind, place);  // ascending, so nodes come in runs
  GroupShape shape{.ranks = static_cast<int64_t>(ranks.size()), .nodes = 0, .ranks_per_node = 0};
  int64_t run = 0, before = -1;
  for (const int64_t member : ranks) {
    const int64_t block = member / gpus_per_node_;
    shape.nodes += block != before ? 1 : 0;
    run = block != before ? 1 : run + 1;
    shape.ranks_per_node = std::max(shape.ranks_per_node, run);
    before = block;
  }
  return shape;
}

GroupShape RankGrid::widest_shape(GroupKind kind, const std::vector<Place>& first_node) const {
  const bool is_one_slot = line_of(kind, 0).count == 1,
             is_one_stage = stages_of(kind, 0).count == 1;
  if (is_one_slot && is_one_stage)
    return {.groups_per_node = static_cast<int64_t>(first_node.size())};
  // A node holds whole blocks of a regular layout or a whole part of one block, so the first node
  // shows every form a group takes.
  GroupShape widest{.ranks = 0, .nodes = 0};
  std::vector<int64_t> leaders;
  leaders.reserve(first_node.size());
  for (const Place& place : first_node) {
    const int64_t leader = leader_of(kind, place);
    if (std::ranges::find(leaders, leader) != leaders.end()) continue;
    leaders.push_back(leader);
    const GroupShape shape = shape_around(kind, place);
    if (shape.nodes > widest.nodes) widest = shape;
  }
  widest.groups_per_node = static_cast<int64_t>(leaders.size());
  return widest;
}

int64_t RankGrid::device_of(int64_t rank) const {
  const int64_t block = rank / gpus_per_node_, local = rank % gpus_per_node_;
  const int64_t node = node_order_.empty() ? block : node_order_[as_size(block)];
  if (device_order_.empty()) return node * gpus_per_node_ + local;
  const bool alike = static_cast<int64_t>(device_order_.size()) == gpus_per_node_;
  const int64_t first = alike ? 0 : node * gpus_per_node_;
  return node * gpus_per_node_ + device_order_[as_size(first + local)];
}

// One rank's part of the job, divided once, so that makers of ops read widths and do not divide.

namespace {

void divide_ranks(RankShare& share, const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  share.tensor = plan.tensor_parallel_size;
  share.context = plan.context_parallel_size;
  share.expert = plan.expert_parallel_size;
  share.expert_tensor = plan.expert_tensor_size();
  share.data = job.data_parallel_size() * share.context;
  share.expert_data =
      share.data * share.tensor / std::max<int64_t>(1, share.expert * share.expert_tensor);
  share.shard = plan.sharding == spec::Sharding::none ? 1 : shard_group_size(job);
}

void divide_tokens(RankShare& share, const spec::Job& job, int64_t row) {
  const bool decoding = job.task == spec::Task::decode;
  share.sequences = job.plan.micro_batch_size;
  share.key_length = row;
  share.query_length = decoding ? 1 : divide_up(share.key_length, share.context);
  share.tokens = share.sequences * share.query_length;
  share.sequence_parallel = job.plan.sequence_parallel && share.tensor > 1 && !decoding;
  share.sharded_tokens =
      share.sequence_parallel ? divide_up(share.tokens, share.tensor) : share.tokens;
}

void divide_model(RankShare& share, const spec::Job& job) {
  const spec::Model& model = job.model;
  share.hidden = model.hidden_size;
  share.heads = divide_up(model.num_attention_heads, share.tensor);
  share.query_groups = divide_up(model.num_query_groups, share.tensor);
  share.head_dim = model.kv_channels;
  share.vocabulary = spec::padded_vocabulary(model, share.tensor) / share.tensor;
  share.ffn = divide_up(model.ffn_hidden_size, share.tensor);
  share.gates = model.activation == spec::Activation::swiglu ? 2 : 1;
}

RankShare share_of_rows(const spec::Job& job, int64_t row) {
  RankShare share;
  divide_ranks(share, job);
  divide_tokens(share, job, row);
  divide_model(share, job);
  share.element = job.plan.precision == spec::Precision::fp32 ? 4 : 2;
  share.residual = spec::has_fp32_residual(job) ? 4 : share.element;
  share.training = job.task == spec::Task::pretrain || job.task == spec::Task::lora;
  share.frozen = job.plan.lora.has_value();
  return share;
}

}  // namespace

RankShare share_of_rank(const spec::Job& job) {
  const RowShape row = row_shape(job);
  RankShare share = share_of_rows(job, row.length);
  share.squares = row.squares;
  return share;
}

RankShare largest_share_of_rank(const spec::Job& job) {
  const RowShape row = row_shape(job);
  if (row.largest == row.length) return share_of_rank(job);
  RankShare share = share_of_rows(job, row.largest);
  share.squares = real(row.largest) * real(row.largest);
  return share;
}

}  // namespace triplepoint::workload
