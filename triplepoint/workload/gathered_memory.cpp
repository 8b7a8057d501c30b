// SPDX-License-Identifier: Apache-2.0
// What FSDP holds whole while it works, moment by moment: parameters gathered for compute and
// gradients on their way to their shards. Counted in bytes of one rank; the shards themselves are
// states (memory.cpp). What matters is how many layers are whole at once: the one at work, those
// gathered ahead, and, without resharding or in a pipeline, all.
#include "triplepoint/workload/gathered_memory.h"

#include <algorithm>

namespace triplepoint::workload {
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
