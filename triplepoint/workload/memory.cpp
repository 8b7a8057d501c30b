// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/memory.h"

#include <algorithm>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/feed_forward.h"
#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/stage_memory.h"
#include "triplepoint/workload/tensor_parallel.h"

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
    const ChunkLayers inner{chunk.first_layer, chunk.dense, chunk.moe, false, false};
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
  memory.optimizer = (state.moment_bytes + state.master_bytes) *
                     sharded(share, p.trained_dense, p.trained_experts,
                             context.plan().sharding != Sharding::none) *
                     unit::B;
}

/// Largest sum of activations over a stage's program, each chunk with its own size; and how many
/// microbatches the last chunk holds at once.
struct InFlight {
  double bytes = 0;
  int64_t last_chunk = 0;
};

InFlight play_memory(const StageProgram& program, const std::vector<double>& chunk_bytes) {
  const bool split = std::any_of(program.begin(), program.end(), [](const Action& action) {
    return action.kind == ActionKind::backward_weight;
  });
  const ActionKind release = split ? ActionKind::backward_weight : ActionKind::backward;
  double now = 0;
  int64_t last_now = 0;
  InFlight peak;
  for (const Action& action : program) {
    const double bytes = chunk_bytes[static_cast<size_t>(action.chunk)];
    const int64_t of_last = action.chunk + 1 == static_cast<int64_t>(chunk_bytes.size()) ? 1 : 0;
    if (action.kind == ActionKind::forward) {
      now += bytes;
      last_now += of_last;
      peak.bytes = std::max(peak.bytes, now);
      peak.last_chunk = std::max(peak.last_chunk, last_now);
    }
    if (action.kind == release) {
      now -= bytes;
      last_now -= of_last;
    }
  }
  return peak;
}

void add_training_activations(const LayerContext& context, const Chunks& chunks,
                              const StageProgram& program, StageMemory& memory) {
  std::vector<double> bytes;
  double replayed = 0;
  for (const ChunkLayers& chunk : chunks) {
    bytes.push_back(chunk_activation_bytes(context, chunk));
    replayed = std::max(replayed, replayed_layer_bytes(context, chunk));
  }
  const InFlight peak = play_memory(program, bytes);
  memory.activations = (peak.bytes + replayed) * unit::B;
  if (!is_last(chunks.back())) return;
  // fp32 softmax of every microbatch in flight; logits and their gradient of the one at work.
  const double logits = real(context.share.tokens * context.share.vocabulary);
  const double at_work = 2 * context.share.element + context.stack().loss_temporary_bytes;
  memory.logits = logits * (4 * real(peak.last_chunk) + at_work) * unit::B;
}

/// The cache of every sequence of the batch, and one layer at work.
void add_inference_activations(const LayerContext& context, const Chunks& chunks,
                               StageMemory& memory) {
  const int64_t sequences = context.share.sequences * context.job.num_microbatches();
  double cache = 0, at_work = 0;
  for (const ChunkLayers& chunk : chunks) {
    cache += real(chunk.layers()) * layer_cache_bytes(context, sequences);
    if (chunk.dense > 0) at_work = std::max(at_work, served_layer_bytes(context, false));
    if (chunk.moe > 0) at_work = std::max(at_work, served_layer_bytes(context, true));
  }
  memory.activations = (cache + at_work) * unit::B;
  if (is_last(chunks.back()))
    memory.logits = 4 * real(context.share.sequences * context.share.vocabulary) * unit::B;
}

/// Whole parameters of one part of the model, as they are gathered for compute.
double gathered_bytes(const LayerContext& context, const RankParameters& parameters) {
  return context.share.element * (parameters.dense + parameters.experts);
}

/// FSDP: the layer at work and those gathered ahead, the gradient on its way out, and the root unit
/// (embedding, head), which stays. Without resharding every layer of the stage stays.
double gather_buffers(const LayerContext& context, const Chunks& chunks) {
  if (context.plan().sharding != Sharding::parameters) return 0;
  double layer = 0, all = 0, ends = 0;
  for (const ChunkLayers& chunk : chunks) {
    for (const bool moe : {false, true}) {
      const int64_t count = moe ? chunk.moe : chunk.dense;
      if (count == 0) continue;
      const double one = gathered_bytes(context, layer_parameters(context.job, context.share, moe));
      layer = std::max(layer, one);
      all += real(count) * one;
    }
    if (chunk.has_embedding)
      ends += gathered_bytes(context, embedding_parameters(context.job, context.share));
    if (chunk.has_head)
      ends += gathered_bytes(context, head_parameters(context.job, context.share));
  }
  const double ahead = std::min(all, layer * (1 + real(context.plan().prefetch_depth)));
  const double gradient = context.share.frozen || !context.share.training ? 0 : layer;
  return (context.plan().reshard_after_forward ? ahead : all) + gradient + ends;
}

void add_buffers(const LayerContext& context, const Chunks& chunks, StageMemory& memory) {
  const RankShare& share = context.share;
  double bytes = gather_buffers(context, chunks);
  if (context.model().moe && share.expert > 1)
    bytes += 2 * share.element * real(count_expert_rows(context).sent * share.hidden);
  if (context.plan().pipeline_parallel_size > 1)
    bytes += 2 * share.residual * real(share.sharded_tokens * share.hidden);
  // Under sequence parallelism the gathered input of one linear layer.
  if (share.sequence_parallel) bytes += activation_payload(context);
  memory.buffers = bytes * unit::B;
  if (context.plan().gradient_bucket && share.data > 1 && share.training)
    memory.buffers += 2 * *context.plan().gradient_bucket;
}

}  // namespace

StageMemory stage_memory(const LayerContext& context, const Chunks& chunks,
                         const StageProgram& program) {
  StageMemory memory;
  add_states(context, chunks, memory);
  if (context.share.training)
    add_training_activations(context, chunks, program, memory);
  else
    add_inference_activations(context, chunks, memory);
  add_buffers(context, chunks, memory);
  memory.reserve = (context.stack().memory_fragmentation - 1) * memory.total() +
                   context.stack().framework_reserve;
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
