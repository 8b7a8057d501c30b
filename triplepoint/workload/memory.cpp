// SPDX-License-Identifier: Apache-2.0
// What the fullest rank of each stage holds.
//
// Weights, gradients and optimizer states are counted per parameter and divided by the ranks that
// share them. Activations are not a formula: the stage's program is walked in order, each forward
// adds its chunk's bytes and each backward lets them go, which gives the microbatches in flight of
// every schedule without a case for each (training_peak.cpp). The peak is the highest of the
// moments that can hold it: the last layer's backward, the loss, the optimizer step. Under a stack
// with an eager allocator a step is simulated tensor by tensor instead (eager_step.cpp).
#include "triplepoint/workload/memory.h"

#include <algorithm>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/eager_step.h"
#include "triplepoint/workload/feed_forward.h"
#include "triplepoint/workload/gathered_memory.h"
#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/stage_memory.h"
#include "triplepoint/workload/tensor_parallel.h"
#include "triplepoint/workload/training_peak.h"

namespace triplepoint::workload {
namespace {

using spec::Sharding;
using Chunks = std::vector<ChunkLayers>;

bool is_last(const ChunkLayers& chunk) {
  return chunk.has_head;
}

/// Bytes of every parameter divided by the ranks that share one copy of that state.
double sharded(const RankShare& share, double dense, double experts, bool is_sharded) {
  if (!is_sharded) return dense + experts;
  return dense / real(share.shard) + experts / real(share.expert_data);
}

bool shards_gradients(const LayerContext& context) {
  const Sharding sharding = context.plan().sharding;
  if (sharding == Sharding::parameters) return true;
  return sharding == Sharding::gradients &&
         (context.stack().gradient_sync_accumulates || context.job.num_microbatches() == 1);
}

/// Bytes per weight of a matrix that is served: scales of 4-bit blocks included.
double matrix_bytes(const LayerContext& context) {
  const spec::Precision precision = context.plan().precision;
  if (!spec::is_quantized(precision)) return context.share.element;
  return precision == spec::Precision::nvfp4 ? 0.5 + 1.0 / 16 : 1;
}

/// Inference keeps the copy it computes with: layers' matrices in the precision of the products,
/// embedding, head and norms in 16 bits.
double served_weight_bytes(const LayerContext& context, const Chunks& chunks) {
  const RankShare& share = context.share;
  RankParameters all, layers;
  for (const ChunkLayers& chunk : chunks) {
    all += chunk_parameters(context.job, share, chunk);
    const ChunkLayers inner{.first_layer = chunk.first_layer, .count = chunk.count};
    layers += chunk_parameters(context.job, share, inner);
  }
  const bool fsdp = context.plan().sharding == Sharding::parameters;
  const double saved = share.element - matrix_bytes(context);
  return share.element * sharded(share, all.dense, all.experts, fsdp) -
         saved * sharded(share, layers.dense - layers.unsplit, layers.experts, fsdp);
}

void add_states(const LayerContext& context, const Chunks& chunks, StageMemory& memory) {
  const RankShare& share = context.share;
  const spec::OptimizerState& state = context.plan().optimizer;
  RankParameters p;
  for (const ChunkLayers& chunk : chunks)
    p += chunk_parameters(context.job, share, chunk);
  const bool fsdp = context.plan().sharding == Sharding::parameters;
  if (!share.training) {
    memory.weights = served_weight_bytes(context, chunks) * unit::B;
    return;
  }
  // What stays in memory between gathers is the stored weight.
  const double weight = state.weight_bytes;
  memory.weights = weight * sharded(share, p.dense, p.experts, fsdp) * unit::B;
  if (share.frozen && context.stack().fp8_frozen_weights &&
      spec::is_quantized(context.plan().precision)) {
    const double frozen = sharded(share, p.dense - p.trained_dense, p.experts, fsdp);
    memory.weights -= (weight - 1) * frozen * unit::B;
  }
  memory.gradients = state.gradient_bytes *
                     sharded(share, p.trained_dense, p.trained_experts, shards_gradients(context)) *
                     unit::B;
  // A shard in fp32 is its own master.
  const double master = fsdp && state.weight_bytes >= 4 ? 0 : state.master_bytes;
  memory.optimizer = (state.moment_bytes + master) *
                     sharded(share, p.trained_dense, p.trained_experts,
                             context.plan().sharding != Sharding::none) *
                     unit::B;
}

/// The cache of every sequence of the batch, and one layer at work.
void add_inference_activations(const LayerContext& context, const Chunks& chunks,
                               StageMemory& memory) {
  const int64_t sequences = context.share.sequences * context.job.num_microbatches();
  double cache = 0, at_work = 0;
  for (const ChunkLayers& chunk : chunks) {
    for (const LayerKind kind : all_layer_kinds) {
      if (chunk.count[kind] == 0) continue;
      cache += real(chunk.count[kind]) * layer_cache_bytes(context, kind, sequences);
      at_work = std::max(at_work, served_layer_bytes(context, kind));
    }
  }
  memory.activations = (cache + at_work) * unit::B;
  if (is_last(chunks.back()))
    memory.logits = 4 * real(context.share.sequences * context.share.vocabulary) * unit::B;
}

/// Buffers of the layer at work: rows on their way to experts, a boundary of the pipeline on either
/// side, one gathered input; under FSDP the layers that are gathered.
void add_inference_buffers(const LayerContext& context, const Chunks& chunks, StageMemory& memory) {
  const RankShare& share = context.share;
  double bytes = 0;
  if (context.model().moe && share.expert > 1)
    bytes += 2 * share.element * real(count_expert_rows(context).sent * expert_width(context));
  if (context.plan().pipeline_parallel_size > 1) bytes += 2 * checkpoint_bytes(context);
  if (share.sequence_parallel) bytes += activation_payload(context);
  if (context.plan().sharding == Sharding::parameters)
    bytes += gathered_at_layer(context, gathered_parts(context, chunks), 0);
  memory.buffers = bytes * unit::B;
}

void add_training_peak(const LayerContext& context, const Chunks& chunks,
                       const StageProgram& program, StageMemory& memory) {
  const Moment peak = find_training_peak(context, chunks, program);
  memory.activations = peak.activations * unit::B;
  memory.logits = peak.logits * unit::B;
  memory.buffers = peak.buffers * unit::B;
}

/// Weights of four bytes with a master copy beside them are rounded numbers in floats: so is all
/// that is computed with them.
LayerContext as_held(LayerContext context) {
  const spec::OptimizerState& state = context.plan().optimizer;
  if (state.weight_bytes < 4 || state.master_bytes == 0) return context;
  context.share.element = std::max(context.share.element, state.weight_bytes);
  context.share.residual = std::max(context.share.residual, state.weight_bytes);
  return context;
}

/// Of the simulated step; the logits (floats and softmax) are named apart where they fit the peak.
StageMemory eager_memory(const LayerContext& context, const Chunks& chunks,
                         const StageProgram& program) {
  const EagerPeaks peaks = simulate_eager_step(context, chunks, program);
  StageMemory memory;
  memory.weights = peaks.weights;
  memory.gradients = peaks.gradients;
  memory.optimizer = peaks.optimizer;
  memory.buffers = peaks.buffers;
  const Bytes passes = std::max(Bytes(), peaks.allocated - memory.total());
  if (is_last(chunks.back())) {
    const double logits = real(context.share.tokens * context.share.vocabulary);
    memory.logits = std::min(passes, 8 * logits * unit::B);
  }
  memory.activations = passes - memory.logits;
  const spec::Stack& stack = context.stack();
  const Bytes needed = stack.memory_fragmentation * peaks.reserved + stack.framework_reserve;
  memory.reserve = needed - memory.total();
  memory.step = peaks.step;
  memory.reserved = peaks.reserved;
  return memory;
}

}  // namespace

StageMemory stage_memory(const LayerContext& computed, const Chunks& chunks,
                         const StageProgram& program) {
  if (has_eager_step(computed)) return eager_memory(computed, chunks, program);
  const LayerContext context = as_held(computed);
  StageMemory memory;
  add_states(context, chunks, memory);
  memory.step = memory.weights + memory.gradients + memory.optimizer;
  double beside = 0;  // of the peak, in the allocator
  if (context.share.training) {
    add_training_peak(context, chunks, program, memory);
    if (memory.logits > Bytes()) beside = reserved_beside_loss(context, chunks);
    if (context.plan().sharding == Sharding::parameters)
      beside += stream_pool_bytes(context, gathered_parts(context, chunks));
  } else {
    add_inference_activations(context, chunks, memory);
    add_inference_buffers(context, chunks, memory);
  }
  const spec::Stack& stack = context.stack();
  memory.reserve = (stack.memory_fragmentation - 1) * memory.total() + stack.framework_reserve;
  memory.reserved = memory.total() - stack.framework_reserve + beside * unit::B;
  return memory;
}

Bytes StageMemory::total() const {
  return weights + gradients + optimizer + activations + logits + buffers + reserve;
}

MemoryVerdict estimate_memory(const spec::Job& job, const std::vector<StageProgram>& programs) {
  const LayerContext context{job, share_of_rank(job)};
  const auto layout = lay_out_layers(job);
  MemoryVerdict verdict;
  verdict.limit = job.cluster.gpu.memory.value_or(Bytes());
  for (size_t stage = 0; stage < layout.size(); ++stage) {
    verdict.stages.push_back(stage_memory(context, layout[stage], programs[stage]));
    const auto worst = static_cast<size_t>(verdict.worst_stage);
    if (verdict.stages.back().total() > verdict.stages[worst].total())
      verdict.worst_stage = static_cast<int64_t>(stage);
  }
  return verdict;
}

MemoryVerdict estimate_memory(const spec::Job& job) {
  return estimate_memory(job, build_programs(job));
}

}  // namespace triplepoint::workload
