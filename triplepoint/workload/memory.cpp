// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/memory.h"

#include <algorithm>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/eager_step.h"
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

/// What one microbatch holds in a chunk: between its passes, and more of it while its weight
/// gradients are put off.
struct ChunkBytes {
  double kept = 0, put_off = 0;
};

/// Largest sum of activations over a stage's program; and how many microbatches the last chunk, and
/// all chunks on the average, hold at once.
struct InFlight {
  double bytes = 0, put_off = 0;  // when a forward pass, and when an input half ends
  double microbatches = 0;
  int64_t last_chunk = 0;
  bool splits = false;
};

InFlight play_memory(const StageProgram& program, const std::vector<ChunkBytes>& chunks) {
  InFlight peak;
  peak.splits = std::any_of(program.begin(), program.end(), [](const Action& action) {
    return action.kind == ActionKind::backward_weight;
  });
  const ActionKind release = peak.splits ? ActionKind::backward_weight : ActionKind::backward;
  double now = 0;
  int64_t last_now = 0, passes_now = 0, most_passes = 0;
  for (const Action& action : program) {
    const ChunkBytes& bytes = chunks[static_cast<size_t>(action.chunk)];
    const int64_t of_last = action.chunk + 1 == static_cast<int64_t>(chunks.size()) ? 1 : 0;
    if (action.kind == ActionKind::forward) {
      now += bytes.kept;
      last_now += of_last;
      most_passes = std::max(most_passes, ++passes_now);
      peak.bytes = std::max(peak.bytes, now);
      peak.last_chunk = std::max(peak.last_chunk, last_now);
    }
    if (action.kind == ActionKind::backward_input) {
      now += bytes.put_off;
      peak.put_off = std::max(peak.put_off, now);
    }
    if (action.kind == release) {
      now -= bytes.kept + (peak.splits ? bytes.put_off : 0);
      last_now -= of_last;
      --passes_now;
    }
  }
  peak.microbatches = real(most_passes) / real(static_cast<int64_t>(chunks.size()));
  return peak;
}

/// Microbatches whose gathered inputs are still there at the peak: those that wait in a pipeline,
/// but for a few; without stages the one before. What a GEMM has just read is its own.
double held_microbatches(const LayerContext& context, const InFlight& peak) {
  if (context.job.num_microbatches() == 1) return 0;
  if (context.plan().pipeline_parallel_size == 1) return 1;
  return std::max(0.0, peak.microbatches - real(context.stack().released_in_flight));
}

/// Bytes per logit of the last stage: fp32 softmax of every microbatch in flight; logits and their
/// gradient of the one at work; and the logits of those before, where the stack lets nothing go.
double logit_bytes(const LayerContext& context, const InFlight& peak) {
  const double element = context.share.element;
  const bool keeps = context.stack().kept_gathered_inputs > 0;
  const double before = keeps ? element * held_microbatches(context, peak) : 0;
  return 4 * real(peak.last_chunk) + 2 * element + context.stack().loss_temporary_bytes + before;
}

void add_training_activations(const LayerContext& context, const Chunks& chunks,
                              const StageProgram& program, StageMemory& memory) {
  std::vector<ChunkBytes> bytes;
  double replayed = 0, gathered = 0;
  for (const ChunkLayers& chunk : chunks) {
    gathered += gathered_inputs_bytes(context, chunk);
    bytes.push_back({chunk_activation_bytes(context, chunk), put_off_bytes(context, chunk)});
    replayed = std::max(replayed, replayed_layer_bytes(context, chunk));
  }
  const InFlight peak = play_memory(program, bytes);
  const double held = gathered * held_microbatches(context, peak);
  const double kept = peak.splits ? std::max(peak.bytes, peak.put_off) : peak.bytes + replayed;
  memory.activations = (kept + held) * unit::B;
  if (!is_last(chunks.back())) return;
  const double logits = real(context.share.tokens * context.share.vocabulary);
  // Of further tokens only the softmax stays; the logits are those of one head at a time.
  const double further = 4 * real(chunks.back().predictions * peak.last_chunk);
  memory.logits = logits * (logit_bytes(context, peak) + further) * unit::B;
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

/// Whole parameters of one part of the model, as they are gathered for compute.
double gathered_bytes(const LayerContext& context, const RankParameters& parameters) {
  return context.share.element * (parameters.dense + parameters.experts);
}

/// Whole parameters of a stage's parts under FSDP.
struct GatheredParts {
  double layer = 0, all_layers = 0, embedding = 0, head = 0;  // layer: the largest
  int64_t layers = 0;
};

GatheredParts gathered_parts(const LayerContext& context, const Chunks& chunks) {
  GatheredParts parts;
  for (const ChunkLayers& chunk : chunks) {
    parts.layers += chunk.layers();
    for (const LayerKind kind : all_layer_kinds) {
      const int64_t count = chunk.count[kind];
      if (count == 0) continue;
      const double one =
          gathered_bytes(context, layer_parameters(context.job, context.share, kind));
      parts.layer = std::max(parts.layer, one);
      parts.all_layers += real(count) * one;
    }
    if (chunk.has_embedding)
      parts.embedding = gathered_bytes(context, embedding_parameters(context.job, context.share));
    if (chunk.has_head)
      parts.head = gathered_bytes(context, head_parameters(context.job, context.share));
  }
  return parts;
}

/// FSDP while `done` of the stage's layers have had their backward pass: the layer at work and
/// those gathered ahead, the gradients that are made and on their way out, and the root unit
/// (embedding, head), which stays. Without resharding every layer that is not done stays.
double gather_buffers(const LayerContext& context, const GatheredParts& parts, int64_t done) {
  const double left = parts.all_layers - real(done) * parts.layer;
  const double ahead = std::min(left, parts.layer * (1 + real(context.plan().prefetch_depth)));
  const double whole = context.plan().reshard_after_forward ? ahead : left;
  const double root = parts.embedding + parts.head;
  if (context.share.frozen || !context.share.training) return whole + root;
  // One gradient travels while the next one is made, the head's before the last layer's, in the
  // bytes it is reduced in, if those are more; where it arrives is this rank's shard of it.
  const double wider =
      std::max(1.0, context.plan().optimizer.gradient_sync_bytes / context.share.element);
  const double travelling =
      wider * (done > 0 ? parts.layer : parts.head) * (1 + 1 / real(context.share.shard));
  const bool tied = context.model().tied_embeddings && parts.embedding > 0 && parts.head > 0;
  return whole + root + parts.layer + travelling + (tied ? parts.embedding : 0);
}

LayerKind last_kind(const ChunkLayers& chunk) {
  LayerKind last = LayerKind::dense;
  for (const LayerKind kind : all_layer_kinds)
    if (chunk.count[kind] > 0) last = kind;
  return last;
}

/// What is let go when the last layer's backward pass is over.
double last_layer_bytes(const LayerContext& context, const ChunkLayers& chunk) {
  if (recomputed_layers(context.job, chunk).total() == chunk.layers())
    return checkpoint_bytes(context);
  return layer_activation_bytes(context, last_kind(chunk));
}

/// FSDP's peak is in the backward pass of the last layer, or of the one before it, when the
/// gradients of two layers are there and the activations of one are not.
void add_gathered(const LayerContext& context, const Chunks& chunks, StageMemory& memory) {
  if (context.plan().sharding != Sharding::parameters) return;
  const GatheredParts parts = gathered_parts(context, chunks);
  const double first = gather_buffers(context, parts, 0);
  memory.buffers += first * unit::B;
  if (!context.share.training || context.share.frozen || parts.layers < 2) return;
  const Bytes grown = (gather_buffers(context, parts, 1) - first) * unit::B;
  const Bytes gone = last_layer_bytes(context, chunks.back()) * unit::B;
  if (grown <= gone) return;
  memory.buffers += grown;
  memory.activations -= gone;
}

/// What the allocator keeps beyond the peak because each stream has a pool of its own: FSDP2
/// gathers the root unit (embedding, head) and then the first layer in a stream that needs no more
/// than the layers gathered ahead at the peak. It goes back to the driver where memory ends.
/// Source: PyTorch, torch/distributed/fsdp/_fully_shard: all_gather_copy_in_stream.
double stream_pool_bytes(const LayerContext& context, const Chunks& chunks) {
  const bool fsdp = context.plan().sharding == Sharding::parameters;
  if (!fsdp || !context.share.training) return 0;
  const GatheredParts parts = gathered_parts(context, chunks);
  const bool tied = context.model().tied_embeddings && parts.embedding > 0;
  const double root = parts.embedding + (tied ? 0 : parts.head);
  return std::max(0.0, root + (1 - real(context.plan().prefetch_depth)) * parts.layer);
}

void add_buffers(const LayerContext& context, const Chunks& chunks, StageMemory& memory) {
  const RankShare& share = context.share;
  double bytes = 0;
  if (context.model().moe && share.expert > 1)
    bytes += 2 * share.element * real(count_expert_rows(context).sent * expert_width(context));
  if (context.plan().pipeline_parallel_size > 1)
    bytes += 2 * share.residual * real(share.sharded_tokens * share.hidden);
  // Under sequence parallelism the gathered input of one linear layer.
  if (share.sequence_parallel) bytes += activation_payload(context);
  memory.buffers = bytes * unit::B;
  if (context.plan().gradient_bucket && share.data > 1 && share.training)
    memory.buffers += 2 * *context.plan().gradient_bucket;
  add_gathered(context, chunks, memory);
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

/// What was played; the logits (floats and softmax) are named apart where they fit the peak.
StageMemory played_memory(const LayerContext& context, const Chunks& chunks,
                          const StageProgram& program) {
  const EagerPeaks peaks = play_eager_step(context, chunks, program);
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
  if (plays_eagerly(computed)) return played_memory(computed, chunks, program);
  const LayerContext context = as_held(computed);
  StageMemory memory;
  add_states(context, chunks, memory);
  if (context.share.training)
    add_training_activations(context, chunks, program, memory);
  else
    add_inference_activations(context, chunks, memory);
  add_buffers(context, chunks, memory);
  memory.step = memory.weights + memory.gradients + memory.optimizer;
  memory.reserve = (context.stack().memory_fragmentation - 1) * memory.total() +
                   context.stack().framework_reserve;
  memory.reserved = memory.total() - context.stack().framework_reserve +
                    stream_pool_bytes(context, chunks) * unit::B;
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
