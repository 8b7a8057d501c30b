// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/data_parallel.h"

// Traffic and optimizer work of data parallelism, by what is sharded (table: data_parallel.h).
//
// Parameters are of two kinds with different copies: dense ones on the data group (or a shard group
// within it), experts on the expert-data group. So each exchange is written once as a function of
// (copies, count) and called for both. Where a bucket size is stated, a payload travels in that
// many messages (Op::kernels), each with its own latency.

#include <algorithm>
#include <cmath>

namespace triplepoint::workload {
namespace {

constexpr std::string_view shard_cast = "fsdp_cast", gathered_copy = "fsdp_copy_out";

using spec::Collective;
using spec::GroupKind;
using spec::Op;
using spec::OpClass;
using spec::Overlap;
using spec::Sharding;

bool is_hybrid(const LayerContext& context) {
  return context.share.shard < context.share.data;
}

GroupKind shard_group(const LayerContext& context) {
  return is_hybrid(context) ? GroupKind::shard : GroupKind::data;
}

/// Copies of one kind of parameters, and the group over which they are sharded.
struct Copies {
  int64_t ranks;
  GroupKind group;
};

Copies dense_copies(const LayerContext& context) {
  return {context.share.shard, shard_group(context)};
}

Copies expert_copies(const LayerContext& context) {
  return {context.share.expert_data, GroupKind::expert_data};
}

void push_collective(std::vector<Op>& ops, const Op& op, const Copies& copies) {
  if (copies.ranks > 1 && op.payload > Bytes()) ops.push_back(op);
}

/// Number of messages for the gradients of `parameters` parameters; what ZeRO gathers afterwards
/// comes in the same pieces.
int gradient_buckets(const LayerContext& context, double parameters) {
  if (!context.plan().gradient_bucket) return 1;
  const double bytes = context.plan().optimizer.gradient_sync_bytes * parameters;
  return static_cast<int>(std::ceil(bytes / (*context.plan().gradient_bucket / unit::B)));
}

void gather_parameters(const LayerContext& context, const RankParameters& parameters,
                       double element, std::string_view name, Overlap overlap,
                       std::vector<Op>& ops) {
  const bool in_buckets = context.plan().sharding != Sharding::parameters;
  const auto gather = [&](const Copies& copies, double count) {
    Op op = collective(name, Collective::all_gather, copies.group, element * count, overlap);
    if (in_buckets) op.kernels = gradient_buckets(context, count);
    push_collective(ops, op, copies);
  };
  gather(dense_copies(context), parameters.dense);
  gather(expert_copies(context), parameters.experts);
}

/// Reduction of all trained gradients to one copy per shard group, and on over the replicas.
void reduce_to_shards(const LayerContext& context, const RankParameters& parameters,
                      std::string_view name, Overlap overlap, std::vector<Op>& ops) {
  const double bytes = context.plan().optimizer.gradient_sync_bytes;
  const auto reduce = [&](const Copies& copies, double count) {
    Op op = collective(name, Collective::reduce_scatter, copies.group, bytes * count, overlap);
    op.kernels = gradient_buckets(context, count);
    push_collective(ops, op, copies);
  };
  reduce(dense_copies(context), parameters.trained_dense);
  if (is_hybrid(context))
    ops.push_back(collective("replica_all_reduce", Collective::all_reduce, GroupKind::replica,
                             bytes * parameters.trained_dense / real(context.share.shard),
                             overlap));
  reduce(expert_copies(context), parameters.trained_experts);
}

void reduce_to_copies(const LayerContext& context, const RankParameters& parameters,
                      Overlap overlap, std::vector<Op>& ops) {
  const double bytes = context.plan().optimizer.gradient_sync_bytes;
  const auto reduce = [&](const Copies& copies, double count) {
    Op op = collective("gradient_all_reduce", Collective::all_reduce, copies.group, bytes * count,
                       overlap);
    op.kernels = gradient_buckets(context, count);
    push_collective(ops, op, copies);
  };
  reduce({context.share.data, GroupKind::data}, parameters.trained_dense);
  reduce(expert_copies(context), parameters.trained_experts);
}

bool shards_each_microbatch(const LayerContext& context) {
  return context.plan().sharding == Sharding::gradients &&
         context.stack().gradient_sync_accumulates && context.share.training;
}

std::vector<Op> sync_gradients(const LayerContext& context, const RankParameters& parameters) {
  const Overlap overlap = context.plan().overlap_gradient ? Overlap::gradient : Overlap::none;
  std::vector<Op> ops;
  switch (context.plan().sharding) {
    case Sharding::none:
      reduce_to_copies(context, parameters, overlap, ops);
      break;
    case Sharding::optimizer:
    case Sharding::gradients:
      if (!shards_each_microbatch(context))
        reduce_to_shards(context, parameters, "gradient_reduce_scatter", overlap, ops);
      break;
    case Sharding::parameters:
      break;  // reduced layer by layer
  }
  return ops;
}

/// Gradients of what TP ranks hold alike are partial under sequence parallelism; tied embeddings
/// add up over the first and the last stage.
void sync_copies_within_model(const LayerContext& context, const RankParameters& parameters,
                              bool holds_tied_embedding, std::vector<Op>& ops) {
  if (context.share.frozen) return;
  const double bytes = context.plan().optimizer.gradient_bytes;
  if (context.share.sequence_parallel)
    ops.push_back(collective("norm_gradient_all_reduce", Collective::all_reduce, GroupKind::tensor,
                             bytes * parameters.unsplit));
  if (holds_tied_embedding)
    ops.push_back(collective("embedding_all_reduce", Collective::all_reduce, GroupKind::embedding,
                             bytes * real(context.share.vocabulary * context.share.hidden)));
}

/// Trained parameters whose states this rank keeps.
double updated_parameters(const LayerContext& context, const RankParameters& parameters) {
  if (context.plan().sharding == Sharding::none)
    return parameters.trained_dense + parameters.trained_experts;
  return parameters.trained_dense / real(context.share.shard) +
         parameters.trained_experts / real(context.share.expert_data);
}

/// Squares of a gradient lie on several data ranks where states are sharded, and those of experts
/// where these are dealt out over more ranks than the tensor group has.
bool spreads_squares(const LayerContext& context) {
  const RankShare& share = context.share;
  const bool experts_apart =
      context.model().moe && !share.frozen && share.expert * share.expert_tensor > share.tensor;
  return share.data > 1 && (context.plan().sharding != Sharding::none || experts_apart);
}

std::vector<Op> find_gradient_norm(const LayerContext& context, double updated) {
  std::vector<Op> ops;
  ops.push_back(streaming(context, "gradient_norm", OpClass::optimizer,
                          context.plan().optimizer.gradient_bytes * updated, 2));
  if (spreads_squares(context))
    // Four bytes, but ranks meet here: the message costs latency and the wait for the last one.
    ops.push_back(collective("norm_all_reduce_shards", Collective::all_reduce, GroupKind::data, 4));
  if (context.share.tensor * context.plan().pipeline_parallel_size > 1)
    ops.push_back(collective("norm_all_reduce", Collective::all_reduce, GroupKind::model, 4));
  return ops;
}

Op update_parameters(const LayerContext& context, const RankParameters& parameters,
                     double updated) {
  const spec::OptimizerState& state = context.plan().optimizer;
  // Without a whole master copy the new value starts from the weight.
  const bool reads_weight = state.master_bytes < 4;
  const double update = state.gradient_bytes + 2 * (state.master_bytes + state.moment_bytes) +
                        state.weight_bytes * (reads_weight ? 2 : 1);
  // Gradient buffers are whole on every rank but under FSDP, also where each rank updates only its
  // part, and all of the buffer is zeroed for the next step.
  const bool whole_buffer = context.plan().sharding != Sharding::parameters;
  const double zeroed =
      whole_buffer ? parameters.trained_dense + parameters.trained_experts : updated;
  return streaming(context, "optimizer", OpClass::optimizer,
                   update * updated + state.gradient_bytes * zeroed, 4);
}

/// FSDP keeps fp32 shards: cast before they are gathered, and gradients added to their shard after
/// they are reduced.
double shard_of(const LayerContext& context, double dense, double experts) {
  return dense / real(context.share.shard) + experts / real(context.share.expert_data);
}

bool are_separate(const LayerContext& context) {
  return context.stack().sharded_tensors == spec::ShardedTensors::per_parameter;
}

Op cast_shard(const LayerContext& context, const RankParameters& parameters, double element) {
  const double shard = shard_of(context, parameters.dense, parameters.experts);
  const double copied_in = are_separate(context) ? 2 * element : 0;
  return streaming(context, shard_cast, OpClass::elementwise, (4 + element + copied_in) * shard);
}

/// A gathered buffer holds the part of every rank in turn; separate parameters are copied out.
void copy_gathered(const LayerContext& context, const RankParameters& parameters, double element,
                   std::vector<Op>& ops) {
  if (!are_separate(context)) return;
  const auto gathered = [](const Copies& copies, double count) {
    return copies.ranks > 1 ? count : 0;
  };
  const double copied = gathered(dense_copies(context), parameters.dense) +
                        gathered(expert_copies(context), parameters.experts);
  if (copied > 0)
    ops.push_back(streaming(context, gathered_copy, OpClass::elementwise, 2 * element * copied));
}

/// Of a whole gradient, per parameter, before it is reduced (table: data_parallel.h).
double reduction_copy_bytes(const LayerContext& context) {
  const double computed = context.share.element;
  const double reduced = context.plan().optimizer.gradient_sync_bytes;
  switch (context.stack().sharded_tensors) {
    case spec::ShardedTensors::in_place:
      break;
    case spec::ShardedTensors::flat:
      return 2 * computed + (reduced > computed ? computed + reduced : 0) + 2 * reduced;
    case spec::ShardedTensors::per_parameter:
      return computed + reduced;
  }
  return 2 * computed;
}

Op add_to_shard(const LayerContext& context, const RankParameters& parameters) {
  const double element = context.share.element;
  const double whole = parameters.trained_dense + parameters.trained_experts;
  const double shard = shard_of(context, parameters.trained_dense, parameters.trained_experts);
  const double added = element + 2 * context.plan().optimizer.gradient_bytes;
  return streaming(context, "fsdp_gradient", OpClass::elementwise,
                   reduction_copy_bytes(context) * whole + added * shard, 3);
}

/// Inference: the last stage knows the next tokens, the first one embeds them. It stands where
/// training has its norm: no pass begins before.
void send_tokens_back(const LayerContext& context, std::vector<Op>& ops) {
  if (context.plan().pipeline_parallel_size == 1) return;
  constexpr double bytes_of_a_token = 8;
  const double sequences = real(context.share.sequences * context.job.num_microbatches());
  ops.push_back(collective("token_broadcast", Collective::broadcast, GroupKind::pipeline,
                           bytes_of_a_token * sequences));
}

}  // namespace

bool gathers_parameters(const Op& op) {
  return op.overlap == Overlap::prefetch || op.name == shard_cast || op.name == gathered_copy;
}

void open_sharded_part(const LayerContext& context, const RankParameters& parameters,
                       double element, Passes& passes) {
  if (context.plan().sharding != Sharding::parameters) return;
  passes.forward.push_back(cast_shard(context, parameters, element));
  gather_parameters(context, parameters, element, "fsdp_all_gather", Overlap::prefetch,
                    passes.forward);
  copy_gathered(context, parameters, element, passes.forward);
  if (!context.share.training) return;
  if (parameters.trained_dense + parameters.trained_experts > 0)
    passes.backward_weight.push_back(add_to_shard(context, parameters));
  // Written front to back: turned round, the reduction ends the part's backward pass.
  std::vector<Op> reduction;
  reduce_to_shards(context, parameters, "fsdp_reduce_scatter", Overlap::gradient, reduction);
  passes.backward_weight.insert(passes.backward_weight.end(), reduction.rbegin(), reduction.rend());
}

void close_sharded_part(const LayerContext& context, const RankParameters& parameters,
                        double element, Passes& passes) {
  const bool gathers_again = context.plan().sharding == Sharding::parameters &&
                             context.plan().reshard_after_forward && context.share.training;
  if (!gathers_again) return;
  copy_gathered(context, parameters, element, passes.backward_input);
  std::vector<Op> gathers;
  gather_parameters(context, parameters, element, "fsdp_all_gather", Overlap::prefetch, gathers);
  for (Op& gather : gathers) {
    gather.backward = true;
    passes.backward_input.push_back(std::move(gather));
  }
  passes.backward_input.push_back(cast_shard(context, parameters, element));
}

std::vector<Op> reduce_each_microbatch(const LayerContext& context,
                                       const RankParameters& of_chunk) {
  std::vector<Op> ops;
  if (!shards_each_microbatch(context)) return ops;
  reduce_to_shards(context, of_chunk, "gradient_reduce_scatter",
                   context.plan().overlap_gradient ? Overlap::gradient : Overlap::none, ops);
  return ops;
}

StepWork build_step_work(const LayerContext& context, const RankParameters& of_stage,
                         bool holds_tied_embedding) {
  StepWork work;
  if (!context.share.training) {
    send_tokens_back(context, work.gradient_norm);
    return work;
  }
  const double updated = updated_parameters(context, of_stage);
  work.gradient_sync = sync_gradients(context, of_stage);
  sync_copies_within_model(context, of_stage, holds_tied_embedding, work.gradient_sync);
  work.gradient_norm = find_gradient_norm(context, updated);
  work.optimizer.push_back(update_parameters(context, of_stage, updated));
  const Sharding sharding = context.plan().sharding;
  if (sharding == Sharding::optimizer || sharding == Sharding::gradients) {
    RankParameters trained;
    // LoRA's frozen base does not change, so only the adapters are gathered after the step.
    trained.dense = of_stage.trained_dense;
    trained.experts = of_stage.trained_experts;
    gather_parameters(context, trained, context.share.element, "parameter_all_gather",
                      context.plan().overlap_parameter ? Overlap::parameter : Overlap::none,
                      work.parameter_sync);
  }
  return work;
}

// What FSDP holds whole while it works, moment by moment: parameters gathered for compute and
// gradients on their way to their shards. Counted in bytes of one rank; the shards themselves are
// states (memory.cpp). What matters is how many layers are whole at once: the one at work, those
// gathered ahead, and, without resharding or in a pipeline, all.

namespace {

double bytes_of(const LayerContext& context, const RankParameters& parameters) {
  return context.share.element * (parameters.dense + parameters.experts);
}

bool makes_gradients(const LayerContext& context) {
  return context.share.training && !context.share.frozen;
}

double reduced_over_computed(const LayerContext& context) {
  return std::max(1.0, context.plan().optimizer.gradient_sync_bytes / context.share.element);
}

/// Pipelines neither gather nor reduce for each microbatch: parameters stay gathered, and gradients
/// are summed whole, in the bytes they are reduced in, until the last one.
/// Source: torchtitan, reshard_after_forward "default", PyTorch's set_requires_gradient_sync.
bool stays_whole(const LayerContext& context) {
  return context.plan().pipeline_parallel_size > 1 && !context.stack().gradients_in_place;
}

double summed_gradients(const LayerContext& context, const GatheredParts& parts) {
  if (!makes_gradients(context)) return 0;
  return reduced_over_computed(context) * (parts.all_layers + parts.embedding + parts.head);
}

}  // namespace

GatheredParts gathered_parts(const LayerContext& context, const std::vector<ChunkLayers>& chunks) {
  GatheredParts parts;
  for (const ChunkLayers& chunk : chunks) {
    parts.layers += chunk.layers();
    for (const LayerKind kind : all_layer_kinds) {
      if (chunk.count[kind] == 0) continue;
      const double one = bytes_of(context, layer_parameters(context.job, context.share, kind));
      parts.layer = std::max(parts.layer, one);
      parts.all_layers += real(chunk.count[kind]) * one;
    }
    if (chunk.has_embedding)
      parts.embedding = bytes_of(context, embedding_parameters(context.job, context.share));
    if (chunk.has_head) parts.head = bytes_of(context, head_parameters(context.job, context.share));
  }
  parts.tied = context.model().tied_embeddings && parts.embedding > 0 && parts.head > 0;
  return parts;
}

double gathered_at_head(const LayerContext& context, const GatheredParts& parts) {
  const double ends = parts.embedding + parts.head;
  const double head = makes_gradients(context) ? parts.head : 0;
  if (stays_whole(context))
    return parts.all_layers + ends + head + summed_gradients(context, parts);
  return (context.plan().reshard_after_forward ? parts.layer : parts.all_layers) + ends + head;
}

double gathered_at_layer(const LayerContext& context, const GatheredParts& parts, int64_t done) {
  const double ends = parts.embedding + parts.head;
  const bool gradients = makes_gradients(context);
  if (stays_whole(context))
    return parts.all_layers + ends + (gradients ? parts.layer : 0) +
           summed_gradients(context, parts);
  const double left = parts.all_layers - real(done) * parts.layer;
  const double ahead = std::min(left, parts.layer * (1 + real(context.plan().prefetch_depth)));
  const double whole = context.plan().reshard_after_forward ? ahead : left;
  if (!gradients) return whole + ends;
  const double travelling = reduced_over_computed(context) * (done > 0 ? parts.layer : parts.head) *
                            (1 + 1 / real(context.share.shard));
  return whole + ends + parts.layer + travelling + (parts.tied ? parts.embedding : 0);
}

double stream_pool_bytes(const LayerContext& context, const GatheredParts& parts) {
  return std::max(0.0, parts.root() + (1 - real(context.plan().prefetch_depth)) * parts.layer);
}

}  // namespace triplepoint::workload
