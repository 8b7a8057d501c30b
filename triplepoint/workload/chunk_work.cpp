// SPDX-License-Identifier: Apache-2.0
// From parts of the model to the ops of a chunk.
//
// Each kind of layer is made once (make_parts) and repeated by count: a chunk is a list of groups,
// and a phase costs as many estimates as there are distinct kinds. Layers of one kind stand
// together even where a model mixes them, because order within a chunk does not enter its time.
//
// Passes are written front to back and turned round once (Passes::turn_backward), so that an op and
// its mirror image stand beside each other here.
#include "triplepoint/workload/chunk_work.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/attention.h"
#include "triplepoint/workload/data_parallel.h"
#include "triplepoint/workload/feed_forward.h"
#include "triplepoint/workload/state_space.h"

namespace triplepoint::workload {
namespace {

using spec::Collective;
using spec::GroupKind;
using spec::OpClass;

/// Tokens whose logits are wanted.
int64_t head_tokens(const LayerContext& context) {
  return context.share.training ? context.share.tokens : context.share.sequences;
}

/// Bytes per logit and kernels of both passes; sums over tensor ranks.
struct LossCost {
  double forward, backward;
  int forward_kernels, backward_kernels, reductions;
};

/// A cast reads what the head wrote and writes floats; the gradient's, the other way round.
/// * Fused: statistics and loss read each logit, the gradient is written behind a third read
///   (apex, FlashAttention, inductor).
/// * Megatron's jit: cast with maximum, exponential, quotient; scaled gradient. Composed: maximum,
///   difference and sum are passes, too (megatron/core/fusions/fused_cross_entropy.py and
///   tensor_parallel/cross_entropy.py; nanotron and PyTorch's loss_parallel do likewise).
/// * Floats (XLA, assumed): a cast, two reads; a read, a write, a cast.
/// * Op by op: log_softmax reads three times (rows at work, 264 of an H100, outgrow its L2) and
///   writes; nll_loss_backward writes, log_softmax_backward reads three floats and writes one.
/// * None: as fused; composed, a cast, temperature, maximum, difference, exponential, its sum, the
///   sum of its products with the logit; a cast, temperature, difference, exponential, two factors,
///   two casts back (prime-rl, trainer/models/layers/lm_head.py; 2048 words a chunk outgrow an L2).
LossCost loss_cost(const LayerContext& context) {
  constexpr double single = 4;
  const double element = context.share.element;
  const double cast = element < single ? element + single : 0;
  const LossCost fused{2 * element, 2 * element, 2, 1, 2};
  const LossCost composed{cast + 8 * single, cast + 2 * single, 10, 4, 3};
  switch (context.stack().loss_kernels) {
    case spec::LossKernels::fused:
      return fused;
    case spec::LossKernels::megatron_fused:
      return {cast + 4 * single, cast + 2 * single, 4, 2, 2};
    case spec::LossKernels::megatron:
      return composed;
    case spec::LossKernels::floats:
      return {cast + 2 * single, cast + 2 * single, 4, 2, 2};
    case spec::LossKernels::op_by_op:
      if (context.share.tensor > 1) return composed;
      return {cast + 4 * single, cast + 5 * single, 4, 4, 3};
    case spec::LossKernels::none:
      break;
  }
  const LossCost chunks{cast + 12 * single, 3 * cast + 10 * single, 8, 8, 3};
  return context.stack().fused_activations ? fused : chunks;
}

void add_loss(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  const LossCost cost = loss_cost(context);
  const double logits = real(share.tokens) * real(share.vocabulary);
  const double per_token = 4 * real(share.tokens);
  if (share.tensor > 1) {
    const auto reduce = [&](std::string_view name, double payload) {
      return collective(name, Collective::all_reduce, GroupKind::tensor, payload);
    };
    // Small messages of four bytes a token, but each waits for the slowest rank and costs its
    // latency.
    passes.forward.push_back(reduce("loss_maximum", per_token));
    if (cost.reductions == 2) {
      passes.forward.push_back(reduce("loss_sums", 2 * per_token));
    } else {
      passes.forward.push_back(reduce("loss_target", per_token));
      passes.forward.push_back(reduce("loss_sum", per_token));
    }
  }
  passes.forward.push_back(
      streaming(context, "loss", OpClass::loss, cost.forward * logits, cost.forward_kernels));
  passes.backward_input.push_back(streaming(context, "loss_backward", OpClass::loss,
                                            cost.backward * logits, cost.backward_kernels));
}

/// The next token of each sequence: every rank gathers the logits, casts them and takes the
/// largest. Sources: Megatron-LM, megatron/inference/text_generation (greedy).
void add_sampling(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  const double logits = real(share.sequences * share.vocabulary * share.tensor);
  if (share.tensor > 1)
    passes.forward.push_back(collective("logits_all_gather", Collective::all_gather,
                                        GroupKind::tensor, share.element * logits));
  passes.forward.push_back(
      streaming(context, "sampling", OpClass::loss, (share.element + 2 * 4) * logits, 2));
}

/// Vocabulary-parallel lookup: each TP rank finds its part of the words, the sum is reduced (or
/// reduced and scattered). Its gradient is a weight gradient only.
void add_embedding(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  const double whole = real(share.tokens * share.hidden);
  passes.forward.push_back(
      streaming(context, "embedding", OpClass::embedding, 2 * share.element * whole, 2));
  if (share.training && !share.frozen) {
    // Rows are added into the gradient buffer: read, add, write.
    const double bytes = share.element + 2 * context.plan().optimizer.gradient_bytes;
    passes.backward_weight.push_back(
        streaming(context, "embedding_wgrad", OpClass::embedding, bytes * whole, 3));
  }
  leave_tensor_region(context, passes);
  const bool positions = context.model().position_embedding == spec::PositionEmbedding::learned;
  const bool dropout = share.training && context.model().dropout > 0;
  if (!positions && !dropout) return;
  const double trunk = share.element * real(share.sharded_tokens * share.hidden);
  passes.forward.push_back(streaming(context, "position_embedding", OpClass::embedding,
                                     (2 + (dropout ? 2 : 0)) * trunk, dropout ? 2 : 1));
  if (share.training && dropout)
    passes.backward_input.push_back(
        streaming(context, "dropout_backward", OpClass::elementwise, 2.5 * trunk));
}

/// Last norm, LM head, vocabulary-parallel cross-entropy. Inference computes logits of the last
/// token only, and no loss.
///
/// Ranks that share the vocabulary exchange per token the maximum, the target's logit and the sum:
/// all-reduces of 4 bytes a token. Chunks of logits that are not kept are made again before their
/// gradient: the head's product, once more (also of Liger's loss, which takes gradients forward).
void add_head(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  add_norm(context, "final_norm", real(share.sharded_tokens * share.hidden), passes);
  enter_tensor_region(context, passes);
  add_linear(context,
             {.name = "lm_head",
              .input_gradient = "lm_head_dgrad",
              .weight_gradient = "lm_head_wgrad",
              .tokens = head_tokens(context),
              .in = share.hidden,
              .out = share.vocabulary,
              .quantized = false},
             passes);
  gather_for_weight_gradient(context, passes);
  if (!share.training) return add_sampling(context, passes);
  add_loss(context, passes);
  if (context.stack().loss_kernels == spec::LossKernels::none)
    passes.backward_input.push_back(*std::ranges::find(passes.forward, "lm_head", &spec::Op::name));
}

using spec::Op;

/// Full recompute runs the forward pass again. FSDP gathers anew for it, as the checkpoint wraps
/// the sharded layer, unless the layer has stayed whole.
std::vector<Op> ops_to_recompute(const LayerContext& context, const std::vector<Op>& forward) {
  const bool gathers = context.plan().reshard_after_forward;
  std::vector<Op> ops;
  std::copy_if(forward.begin(), forward.end(), std::back_inserter(ops),
               [&](const Op& op) { return gathers || !gathers_parameters(op); });
  return ops;
}

/// What a dense layer runs last: its second product, the reduction behind it, the residual. Their
/// results are inputs of the next layer; no backward pass of this one reads them.
void drop_what_nobody_reads(std::vector<Op>& ops) {
  const auto last =
      std::find_if(ops.rbegin(), ops.rend(), [](const Op& op) { return op.name == "mlp_down"; });
  if (last != ops.rend()) ops.erase(std::prev(last.base()), ops.end());
}

void shrink(Op& op, double share) {
  op.flops *= share;
  op.hbm_bytes *= share;
  op.gemm.n = std::max<int64_t>(1, std::llround(share * real(op.gemm.n)));
}

/// Of a layer that is recomputed, what checkpointing by operator leaves: it keeps attention and
/// every other product, counted as torchtitan writes them (query, value; gate, down), so that key,
/// projection and up are made again, and all that is not a product.
std::vector<Op> ops_between_kept(const LayerContext& context, std::vector<Op> ops) {
  const RankShare& share = context.share;
  drop_what_nobody_reads(ops);
  std::erase_if(ops, [](const Op& op) { return op.op_class == spec::OpClass::attention; });
  const double key = real(share.query_groups) / real(share.heads + 2 * share.query_groups);
  for (Op& op : ops) {
    if (op.name == "qkv") shrink(op, key);
    if (op.name == "mlp_up" && share.gates == 2) shrink(op, 0.5);
  }
  return ops;
}

void add_layer(const LayerContext& context, LayerKind kind, Passes& passes) {
  if (kind == LayerKind::state_space) return add_state_space(context, passes);
  if (spec::has_attention(kind)) add_attention(context, passes);
  if (spec::has_experts(kind)) add_moe_mlp(context, passes);
  if (spec::has_dense_mlp(kind)) add_dense_mlp(context, passes);
}

/// What waits in the host's memory leaves behind the forward pass and comes back behind the
/// backward pass; of a layer that is recomputed, its input.
void add_offload(const LayerContext& context, LayerKind kind, Passes& passes) {
  if (context.plan().activation_offload <= 0 || !context.share.training) return;
  Op copy = collective("activations_to_host", Collective::send_recv, GroupKind::tensor,
                       offloaded_layer_bytes(context, kind), spec::Overlap::copy);
  copy.hbm_bytes = copy.payload;
  passes.forward.push_back(copy);
  copy.name = "activations_from_host";
  copy.backward = true;
  passes.backward_input.push_back(copy);
}

PartWork make_layer(const LayerContext& model, LayerKind kind) {
  const LayerContext context = model.of_kind(kind);
  PartWork part;
  part.passes = make_passes(model, kind);
  // Three forms of repeating: the whole forward pass (full), marked modules (Passes::again, filled
  // while the ops were made), and what operator checkpointing leaves.
  part.recomputed = ops_to_recompute(context, part.passes.forward);
  if (context.plan().selects(spec::RecomputeModule::alternate_gemms))
    part.passes.again = ops_between_kept(context, part.recomputed);
  if (context.stack().recompute_stops_early && !spec::has_experts(kind))
    drop_what_nobody_reads(part.recomputed);
  add_offload(context, kind, part.passes);
  return part;
}

/// The trunk and the next token's embedding, normed, side by side, back to the trunk's width; a
/// layer; the model's head once more. DeepSeek-V3 (arXiv 2412.19437), section 2.2; Megatron-LM,
/// megatron/core/transformer/multi_token_prediction.py.
void add_prediction(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  const double trunk = real(share.sharded_tokens * share.hidden);
  add_embedding(context, passes);
  add_norm(context, "prediction_norm", 2 * trunk, passes);
  const Op join =
      streaming(context, "prediction_join", spec::OpClass::elementwise, 4 * share.element * trunk);
  passes.forward.push_back(join);
  passes.backward_input.push_back(join);
  for (int half = 0; half < 2; ++half)
    enter_tensor_region(context, passes);
  add_linear(context,
             {.name = "prediction_projection",
              .input_gradient = "prediction_projection_dgrad",
              .weight_gradient = "prediction_projection_wgrad",
              .tokens = share.tokens,
              .in = 2 * share.hidden,
              .out = divide_up(share.hidden, share.tensor)},
             passes);
  for (int half = 0; half < 2; ++half)
    gather_for_weight_gradient(context, passes);
  leave_tensor_region(context, passes);
  for (const LayerKind kind : spec::kinds_of_prediction(context.model()))
    add_layer(context.of_kind(kind), kind, passes);
  add_head(context, passes);
}

PartWork make_prediction(const LayerContext& context) {
  const RankParameters parameters = prediction_parameters(context.job, context.share);
  PartWork part;
  open_sharded_part(context, parameters, context.share.element, part.passes);
  add_prediction(context, part.passes);
  close_sharded_part(context, parameters, context.share.element, part.passes);
  part.passes.turn_backward();
  return part;
}

/// Embedding and head stay gathered between their passes (the root unit of FSDP).
PartWork make_end(const LayerContext& context, const RankParameters& parameters,
                  void (*add)(const LayerContext&, Passes&)) {
  PartWork part;
  open_sharded_part(context, parameters, context.share.element, part.passes);
  add(context, part.passes);
  part.passes.turn_backward();
  return part;
}

void append(std::vector<OpGroup>& groups, std::string_view name, int64_t repeat, bool is_layer,
            const std::vector<Op>& ops) {
  if (repeat > 0 && !ops.empty()) groups.push_back({name, repeat, is_layer, ops});
}

void append_layers(std::vector<OpGroup>& groups, LayerKind kind, int64_t repeat,
                   const std::vector<Op>& ops) {
  if (repeat > 0 && !ops.empty())
    groups.push_back({name_of_layer(kind), repeat, true, ops, transformer_share(kind)});
}

struct ChunkParts {
  const ModelParts& parts;
  const ChunkLayers& layers;
};

void add_forward(const ChunkParts& chunk, ChunkWork& work) {
  const auto& [parts, layers] = chunk;
  append(work.forward, "embedding", layers.has_embedding, false, parts.embedding.passes.forward);
  for (const LayerKind kind : all_layer_kinds)
    append_layers(work.forward, kind, layers.count[kind], parts.layer(kind).passes.forward);
  append(work.forward, "prediction", layers.predictions, true, parts.prediction.passes.forward);
  append(work.forward, "head", layers.has_head, false, parts.head.passes.forward);
}

void add_backward(const ChunkParts& chunk, std::vector<Op> Passes::*pass,
                  std::vector<OpGroup>& groups) {
  const auto& [parts, layers] = chunk;
  append(groups, "head", layers.has_head, false, parts.head.passes.*pass);
  append(groups, "prediction", layers.predictions, true, parts.prediction.passes.*pass);
  for (auto kind = all_layer_kinds.rbegin(); kind != all_layer_kinds.rend(); ++kind)
    append_layers(groups, *kind, layers.count[*kind], parts.layer(*kind).passes.*pass);
  append(groups, "embedding", layers.has_embedding, false, parts.embedding.passes.*pass);
}

void add_recompute(const LayerContext& context, const ChunkParts& chunk, ChunkWork& work) {
  const auto& [parts, layers] = chunk;
  // Selected modules of every layer, back to front like the backward pass that they precede.
  if (context.plan().recompute == spec::Recompute::selective)
    return add_backward(chunk, &Passes::again, work.recompute);
  const LayerCounts again = recomputed_layers(context.job, layers);
  for (auto kind = all_layer_kinds.rbegin(); kind != all_layer_kinds.rend(); ++kind)
    append_layers(work.recompute, *kind, again[*kind], parts.layer(*kind).recomputed);
}

}  // namespace

Passes make_passes(const LayerContext& model, LayerKind kind) {
  const LayerContext context = model.of_kind(kind);
  const RankParameters parameters = layer_parameters(context.job, context.share, kind);
  Passes passes;
  const double element = gathered_element(context);
  open_sharded_part(context, parameters, element, passes);
  add_layer(context, kind, passes);
  close_sharded_part(context, parameters, element, passes);
  passes.turn_backward();
  return passes;
}

ModelParts make_parts(const LayerContext& context) {
  ModelParts parts;
  const ChunkLayers all = whole_model(context.job);
  for (const LayerKind kind : all_layer_kinds)
    if (all.count[kind] > 0) parts.layers[static_cast<size_t>(kind)] = make_layer(context, kind);
  parts.embedding =
      make_end(context, embedding_parameters(context.job, context.share), add_embedding);
  parts.head = make_end(context, head_parameters(context.job, context.share), add_head);
  if (all.predictions > 0) parts.prediction = make_prediction(context);
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
  // ZeRO-2 into shards reduces behind each microbatch, so it is part of the chunk's weight
  // gradients and not of the end of the step.
  append(work.backward_weight, "gradient_sync", 1, false,
         reduce_each_microbatch(context, chunk_parameters(context.job, context.share, layers)));
  return work;
}

}  // namespace triplepoint::workload
