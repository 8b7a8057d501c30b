// SPDX-License-Identifier: Apache-2.0
// What the fullest rank of each stage holds.
//
// Weights, gradients and optimizer states are counted per parameter and divided by the ranks that
// share them. Activations are not a formula: the stage's program is walked in order, each forward
// adds its chunk's bytes and each backward lets them go, which gives the microbatches in flight of
// every schedule without a case for each (find_training_peak). The peak is the highest of the
// moments that can hold it: the last layer's backward, the loss, the optimizer step.
//
// Bytes are counted per rank as plain doubles and get their unit where they enter StageMemory.
// Cost: a walk over the stage's program and a handful of sums per layer kind, because a search asks
// for many stages.
//
// Approximations: tensors have no addresses, so fragmentation is one factor of the stack
// (memory_fragmentation); of the optimizer step only gathered copies are modelled; no workspaces.
#include "triplepoint/workload/memory.h"

#include <algorithm>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/data_parallel.h"
#include "triplepoint/workload/feed_forward.h"

namespace triplepoint::workload {
namespace {

/// Bytes beyond states (weights, gradients, optimizer) at one moment of a training step.
struct PeakCandidate {
  double activations = 0, logits = 0, buffers = 0;
  double total() const { return activations + logits + buffers; }
};

using spec::Sharding;
using Chunks = std::vector<ChunkLayers>;

/// What one microbatch holds in a chunk: between its passes, and more of it while its weight
/// gradients are put off.
struct ChunkBytes {
  double kept = 0, deferred = 0;
};

/// What a stage holds for its backward passes when the first of them begins.
struct InFlight {
  double bytes = 0;           // of all microbatches in flight
  double deferred = 0;        // the most when an input half ends, where weight gradients wait
  int64_t in_last_chunk = 0;  // microbatches
  bool splits = false;
};

InFlight count_in_flight(const StageProgram& program, const std::vector<ChunkBytes>& chunks) {
  InFlight peak;
  peak.splits = std::any_of(program.begin(), program.end(), [](const Action& action) {
    return action.kind == ActionKind::backward_weight;
  });
  // Weight gradients read a layer's inputs, so a split backward lets go of them only in its second
  // half.
  const ActionKind release = peak.splits ? ActionKind::backward_weight : ActionKind::backward;
  double now = 0;
  int64_t last_now = 0;
  for (const Action& action : program) {
    const ChunkBytes& bytes = chunks[static_cast<size_t>(action.chunk)];
    const int64_t of_last = action.chunk + 1 == static_cast<int64_t>(chunks.size()) ? 1 : 0;
    if (action.kind == ActionKind::forward) {
      now += bytes.kept;
      last_now += of_last;
      peak.bytes = std::max(peak.bytes, now);
      peak.in_last_chunk = std::max(peak.in_last_chunk, last_now);
    }
    if (action.kind == ActionKind::backward_input) {
      now += bytes.deferred;
      peak.deferred = std::max(peak.deferred, now);
    }
    if (action.kind == release) {
      now -= bytes.kept + (peak.splits ? bytes.deferred : 0);
      last_now -= of_last;
    }
  }
  return peak;
}

LayerKind last_kind(const ChunkLayers& chunk) {
  LayerKind last = LayerKind::dense;
  for (const LayerKind kind : all_layer_kinds)
    if (chunk.count[kind] > 0) last = kind;
  return last;
}

/// What is let go when the last layer's backward pass is over.
double last_layer_bytes(const LayerContext& context, const ChunkLayers& chunk) {
  const double offloaded = offloaded_layer_bytes(context, last_kind(chunk));
  // With full recompute the chunk kept only the layer's input; the layer itself was a temporary.
  if (recomputed_layers(context.job, chunk).total() == chunk.layers())
    return checkpoint_bytes(context) - offloaded;
  return layer_activation_bytes(context, last_kind(chunk)) - offloaded;
}

/// Bytes per logit of the microbatch whose loss is at work.
double loss_bytes(const LayerContext& context) {
  constexpr double half = 2, single = 4;
  switch (context.stack().loss_kernels) {
    case spec::LossKernels::fused:
    case spec::LossKernels::megatron_fused:  // logits and their gradient, or the softmax in floats
      return half + half;
    case spec::LossKernels::megatron:
      // The softmax in floats, which becomes the gradient, and its 16-bit copy. Source:
      // Megatron-LM, megatron/core/tensor_parallel/cross_entropy.py.
      return single + half;
    case spec::LossKernels::floats:
      return single + single;
    case spec::LossKernels::op_by_op:
      // Log-softmax, the gradient that the loss hands back and that of the logits; where ranks
      // share the vocabulary, logits less their maximum, too. Source: PyTorch,
      // torch.nn.functional.cross_entropy and torch/distributed/tensor/parallel/loss.py.
      return (context.share.tensor > 1 ? 4 : 3) * single;
    case spec::LossKernels::none:
      return 0;
  }
  return 0;
}

/// Of every further microbatch, and of every further token that is predicted, the softmax stays.
double logit_bytes(const LayerContext& context, const ChunkLayers& head, int64_t in_flight) {
  constexpr double softmax = 4;
  // One microbatch is in its loss, the others wait for their backward pass with the softmax.
  const double at_work = loss_bytes(context), waiting = std::min(softmax, at_work);
  const double further = real(std::max<int64_t>(0, in_flight - 1) +
                              head.predictions * std::max<int64_t>(1, in_flight));
  return real(context.share.tokens * context.share.vocabulary) * (at_work + waiting * further);
}

/// Does autograd carry each weight's gradient in a tensor of 16 bits, although it is added to a
/// buffer of floats or of the optimizer? Under FSDP that tensor is the gradient.
bool carries_gradients(const LayerContext& context) {
  return !context.stack().gradients_in_place && !context.share.frozen &&
         context.plan().sharding != Sharding::parameters &&
         context.plan().optimizer.weight_bytes < 4;
}

/// Gradients that stand for those which a fused kernel has added to their buffer: one for each
/// shape of matrix, kept from the first step on; one expert's matrices serve all experts.
/// Source: Transformer Engine, pytorch/module/base.py, get_dummy_wgrad.
double stand_in_gradients(const LayerContext& context, const Chunks& chunks) {
  if (!carries_gradients(context)) return 0;
  double whole_layer = 0, parts = 0;  // parts: where attention and MLP are their own layers
  for (const LayerKind kind : all_layer_kinds) {
    const bool there = std::any_of(chunks.begin(), chunks.end(),
                                   [&](const ChunkLayers& chunk) { return chunk.count[kind] > 0; });
    if (!there) continue;
    const RankParameters layer = layer_parameters(context.job, context.share, kind);
    const double experts =
        layer.experts > 0 ? layer.experts / real(count_expert_rows(context).local_experts) : 0;
    // Where attention and MLP are layers by themselves, their shapes differ and all of them stay;
    // whole layers of two kinds share most shapes, so the largest kind stands for all.
    if (transformer_share(kind) < 1)
      parts += layer.dense + experts;
    else
      whole_layer = std::max(whole_layer, layer.dense + experts);
  }
  return context.share.element * (whole_layer + parts);
}

/// The head's or the embedding's gradient as autograd carries it.
double carried_gradient(const LayerContext& context, const RankParameters& parameters) {
  return carries_gradients(context) ? context.share.element * parameters.dense : 0;
}

/// What is on its way to or from the host: one layer while the next one is at work.
double copied_layers(const LayerContext& context, const Chunks& chunks) {
  double most = 0;
  for (const ChunkLayers& chunk : chunks)
    for (const LayerKind kind : all_layer_kinds)
      if (chunk.count[kind] > 0) most = std::max(most, offloaded_layer_bytes(context, kind));
  return 2 * most;
}

/// What lies there from step to step: two boundaries of a pipeline; the buffer that sequence
/// parallelism gathers a linear layer's input into; buckets of gradients.
double standing_buffers(const LayerContext& context, const Chunks& chunks) {
  const RankShare& share = context.share;
  double bytes = stand_in_gradients(context, chunks);
  // One boundary that arrives and one that leaves.
  if (context.plan().pipeline_parallel_size > 1) bytes += 2 * checkpoint_bytes(context);
  if (share.sequence_parallel) bytes += activation_payload(context);
  if (context.plan().gradient_bucket && share.data > 1)
    // One bucket is reduced while the next one fills.
    bytes += 2 * *context.plan().gradient_bucket / unit::B;
  return bytes + copied_layers(context, chunks);
}

double exchanged_rows(const LayerContext& context) {
  const RankShare& share = context.share;
  if (!context.model().moe || share.expert == 1) return 0;
  return 2 * share.element * real(count_expert_rows(context).sent * expert_width(context));
}

/// The most that a layer's backward pass holds beside what its forward pass kept.
double most_working_bytes(const LayerContext& context, const Chunks& chunks) {
  double most = exchanged_rows(context);
  // Such a stack writes a gradient over the activation that it belongs to: nothing is added.
  if (context.stack().gradients_in_place) return most;
  for (const ChunkLayers& chunk : chunks)
    for (const LayerKind kind : all_layer_kinds)
      if (chunk.count[kind] > 0) most = std::max(most, backward_working_bytes(context, kind));
  return most;
}

double most_recomputed_bytes(const LayerContext& context, const Chunks& chunks) {
  return most_of(chunks,
                 [&](const ChunkLayers& chunk) { return recomputed_layer_bytes(context, chunk); });
}

/// Everything that the moments of one stage share.
class StagePeak {
 public:
  StagePeak(const LayerContext& context, const Chunks& chunks, const StageProgram& program);
  PeakCandidate fullest() const;

 private:
  PeakCandidate at_head() const;
  PeakCandidate at_layer(int64_t done) const;
  PeakCandidate at_embedding() const;

  const LayerContext& context_;
  const Chunks& chunks_;
  std::vector<ChunkBytes> bytes_;
  InFlight in_flight_;
  bool gathers_ = false;
  GatheredParts parts_;
  double standing_ = 0;
};

StagePeak::StagePeak(const LayerContext& context, const Chunks& chunks, const StageProgram& program)
    : context_(context),
      chunks_(chunks),
      gathers_(context.plan().sharding == Sharding::parameters),
      standing_(standing_buffers(context, chunks)) {
  for (const ChunkLayers& chunk : chunks)
    bytes_.push_back(
        {chunk_activation_bytes(context, chunk) - chunk_offloaded_bytes(context, chunk),
         deferred_bytes(context, chunk)});
  in_flight_ = count_in_flight(program, bytes_);
  if (gathers_) parts_ = gathered_parts(context, chunks);
}

PeakCandidate StagePeak::at_head() const {
  PeakCandidate moment{.activations = in_flight_.bytes, .buffers = standing_};
  moment.logits = logit_bytes(context_, chunks_.back(), in_flight_.in_last_chunk);
  moment.buffers += gathers_
                        ? gathered_at_head(context_, parts_)
                        : carried_gradient(context_, head_parameters(context_.job, context_.share));
  return moment;
}

PeakCandidate StagePeak::at_layer(int64_t done) const {
  PeakCandidate moment{.activations = in_flight_.bytes, .buffers = standing_};
  // A zero-bubble schedule holds recomputed layers until their weight gradients (deferred_bytes),
  // so they are in the walk over the program already and not added again.
  if (in_flight_.splits)
    moment.activations = std::max(in_flight_.bytes, in_flight_.deferred);
  else
    moment.activations += most_recomputed_bytes(context_, chunks_);
  // FSDP's second moment: the last layer's gradient travels while the one before makes its own.
  if (done > 0) moment.activations -= last_layer_bytes(context_, chunks_.back());
  moment.buffers += most_working_bytes(context_, chunks_);
  if (gathers_) moment.buffers += gathered_at_layer(context_, parts_, done);
  return moment;
}

PeakCandidate StagePeak::at_embedding() const {
  PeakCandidate moment{.activations = in_flight_.bytes, .buffers = standing_};
  // Its own backward pass has let go of the chunk before the embedding's gradient is made.
  moment.activations -= std::min(in_flight_.bytes, bytes_.front().kept);
  moment.buffers += carried_gradient(context_, embedding_parameters(context_.job, context_.share));
  return moment;
}

PeakCandidate StagePeak::fullest() const {
  const auto fuller = [](const PeakCandidate& a, const PeakCandidate& b) {
    return a.total() < b.total();
  };
  // Every stage has this moment; the others occur only where the stage has the part they belong to.
  PeakCandidate fullest = at_layer(0);
  if (gathers_ && !context_.share.frozen && parts_.layers > 1)
    fullest = std::max(fullest, at_layer(1), fuller);
  if (chunks_.back().has_head) fullest = std::max(fullest, at_head(), fuller);
  if (chunks_.front().has_embedding && !gathers_ && !in_flight_.splits)
    fullest = std::max(fullest, at_embedding(), fuller);
  return fullest;
}

/// The fullest moment of a stage's step. All microbatches in flight are there and the first
/// backward pass begins; what comes one after the other is not added up:
///
///   loss and head    logits (loss_bytes() each), the head's gradient
///   last layer       the layer that recompute repeats, gradients of what its widest product
///                    made; under FSDP its parameters, whole, and its gradient
///   the layer before FSDP: two layers' gradients, and the last layer's activations are gone
///   embedding        the first chunk's activations are gone, its gradient comes (no FSDP)
///
/// With zero-bubble schedules layers that were recomputed stay until their weight gradients.
PeakCandidate find_training_peak(const LayerContext& context, const Chunks& chunks,
                                 const StageProgram& program) {
  return StagePeak(context, chunks, program).fullest();
}

/// What PyTorch's allocator reserves beyond a peak at the loss, since free blocks serve none of the
/// loss's tensors: those of a layer's forward pass, and, where it is written op by op, the 16-bit
/// logits, whose block is too small for floats.
double reserved_beside_loss(const LayerContext& context, const Chunks& chunks) {
  const double logits = real(context.share.tokens * context.share.vocabulary);
  double layer = 0;
  for (const ChunkLayers& chunk : chunks)
    for (const LayerKind kind : all_layer_kinds)
      if (chunk.count[kind] > 0) layer = std::max(layer, served_layer_bytes(context, kind));
  const bool op_by_op = context.stack().loss_kernels == spec::LossKernels::op_by_op;
  return layer + (op_by_op ? context.share.element * logits : 0);
}

/// Bytes of every parameter divided by the ranks that share one copy of that state.
double sharded(const RankShare& share, double dense, double experts, bool is_sharded) {
  if (!is_sharded) return dense + experts;
  // Copies of dense and of expert parameters lie on different groups of ranks.
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
  if (chunks.back().has_head)
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
  const PeakCandidate peak = find_training_peak(context, chunks, program);
  memory.activations = peak.activations * unit::B;
  memory.logits = peak.logits * unit::B;
  memory.buffers = peak.buffers * unit::B;
}

/// While an optimizer steps that gathers parameters from a 16-bit copy of its part (master_bytes
/// above 4): the parts of all ranks, and the whole that they are gathered into.
/// Source: huggingface/nanotron, optim/zero.py.
Bytes gathered_copies(const spec::Plan& plan, const StageMemory& memory) {
  const bool copies = plan.sharding == Sharding::optimizer && plan.optimizer.master_bytes > 4;
  return copies ? 2 * memory.weights : Bytes();
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

}  // namespace

StageMemory stage_memory(const LayerContext& computed, const Chunks& chunks,
                         const StageProgram& program) {
  const LayerContext context = as_held(computed);
  StageMemory memory;
  add_states(context, chunks, memory);
  const Bytes copies = gathered_copies(context.plan(), memory);
  memory.step = memory.weights + memory.gradients + memory.optimizer + copies;
  double beside = 0;  // of the peak, in the allocator
  if (context.share.training) {
    add_training_peak(context, chunks, program, memory);
    if (copies > memory.activations + memory.logits + memory.buffers)
      memory.activations = memory.logits = Bytes(), memory.buffers = copies;
    if (memory.logits > Bytes()) beside = reserved_beside_loss(context, chunks);
    if (context.plan().sharding == Sharding::parameters)
      // Reserved but not used: the allocator gives it back where memory ends, so no verdict counts
      // it.
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
  const LayerContext context{job, largest_share_of_rank(job)};
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
