// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/chunk_work.h"

#include <algorithm>

#include "triplepoint/workload/attention.h"
#include "triplepoint/workload/data_parallel.h"
#include "triplepoint/workload/embedding.h"
#include "triplepoint/workload/feed_forward.h"

namespace triplepoint::workload {
namespace {

using spec::Op;

/// Full recompute runs the forward pass again. FSDP gathers anew for it where the checkpoint wraps
/// the sharded layer; where it lies inside, the gather of the backward pass serves both.
std::vector<Op> ops_to_replay(const LayerContext& context, const std::vector<Op>& forward) {
  const bool gathers =
      context.stack().fsdp_regathers_on_recompute && context.plan().reshard_after_forward;
  std::vector<Op> ops;
  std::copy_if(forward.begin(), forward.end(), std::back_inserter(ops),
               [&](const Op& op) { return gathers || !gathers_parameters(op); });
  return ops;
}

PartWork make_layer(const LayerContext& context, bool moe) {
  const RankParameters parameters = layer_parameters(context.job, context.share, moe);
  PartWork part;
  open_sharded_part(context, parameters, part.passes);
  add_attention(context, part.passes);
  if (moe)
    add_moe_mlp(context, part.passes);
  else
    add_dense_mlp(context, part.passes);
  close_sharded_part(context, parameters, part.passes);
  part.passes.turn_backward();

  Passes core;
  add_attention_core(context, core);
  part.core_only = std::move(core.forward);
  part.replayed = ops_to_replay(context, part.passes.forward);
  return part;
}

/// Embedding and head stay gathered between their passes (the root unit of FSDP).
PartWork make_end(const LayerContext& context, const RankParameters& parameters,
                  void (*add)(const LayerContext&, Passes&)) {
  PartWork part;
  open_sharded_part(context, parameters, part.passes);
  add(context, part.passes);
  part.passes.turn_backward();
  return part;
}

void append(std::vector<OpGroup>& groups, std::string_view name, int64_t repeat, bool is_layer,
            const std::vector<Op>& ops) {
  if (repeat > 0 && !ops.empty()) groups.push_back({name, repeat, is_layer, ops});
}

struct ChunkParts {
  const ModelParts& parts;
  const ChunkLayers& layers;
};

void add_forward(const ChunkParts& chunk, ChunkWork& work) {
  const auto& [parts, layers] = chunk;
  append(work.forward, "embedding", layers.has_embedding, false, parts.embedding.passes.forward);
  append(work.forward, "layer", layers.dense, true, parts.dense_layer.passes.forward);
  append(work.forward, moe_layer_name, layers.moe, true, parts.moe_layer.passes.forward);
  append(work.forward, "head", layers.has_head, false, parts.head.passes.forward);
}

void add_backward(const ChunkParts& chunk, std::vector<Op> Passes::*pass,
                  std::vector<OpGroup>& groups) {
  const auto& [parts, layers] = chunk;
  append(groups, "head", layers.has_head, false, parts.head.passes.*pass);
  append(groups, moe_layer_name, layers.moe, true, parts.moe_layer.passes.*pass);
  append(groups, "layer", layers.dense, true, parts.dense_layer.passes.*pass);
  append(groups, "embedding", layers.has_embedding, false, parts.embedding.passes.*pass);
}

void add_recompute(const LayerContext& context, const ChunkParts& chunk, ChunkWork& work) {
  const auto& [parts, layers] = chunk;
  if (context.plan().recompute == spec::Recompute::selective) {
    append(work.recompute, moe_layer_name, layers.moe, true, parts.moe_layer.core_only);
    append(work.recompute, "layer", layers.dense, true, parts.dense_layer.core_only);
    return;
  }
  const RecomputedLayers again = recomputed_layers(context.plan(), layers);
  append(work.recompute, moe_layer_name, again.moe, true, parts.moe_layer.replayed);
  append(work.recompute, "layer", again.dense, true, parts.dense_layer.replayed);
}

}  // namespace

ModelParts make_parts(const LayerContext& context) {
  ModelParts parts;
  const auto& moe = context.model().moe;
  if (!moe || moe->num_dense_layers > 0) parts.dense_layer = make_layer(context, false);
  if (moe) parts.moe_layer = make_layer(context, true);
  parts.embedding =
      make_end(context, embedding_parameters(context.job, context.share), add_embedding);
  parts.head = make_end(context, head_parameters(context.job, context.share), add_head);
  return parts;
}

ChunkWork make_chunk(const LayerContext& context, const ModelParts& parts,
                     const ChunkLayers& layers) {
  ChunkWork work;
  work.first_layer = layers.first_layer;
  work.num_layers = layers.layers();
  work.has_embedding = layers.has_embedding;
  work.has_head = layers.has_head;
  const ChunkParts chunk{parts, layers};
  add_forward(chunk, work);
  if (!context.share.training) return work;
  add_recompute(context, chunk, work);
  add_backward(chunk, &Passes::backward_input, work.backward_input);
  add_backward(chunk, &Passes::backward_weight, work.backward_weight);
  append(work.backward_weight, "gradient_sync", 1, false,
         reduce_each_microbatch(context, chunk_parameters(context.job, context.share, layers)));
  return work;
}

}  // namespace triplepoint::workload
