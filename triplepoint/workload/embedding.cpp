// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/embedding.h"

#include "triplepoint/workload/tensor_parallel.h"
#include "triplepoint/workload/vector_ops.h"

namespace triplepoint::workload {
namespace {

using spec::Collective;
using spec::GroupKind;
using spec::OpClass;

/// Tokens whose logits are wanted.
int64_t head_tokens(const LayerContext& context) {
  return context.share.training ? context.share.tokens : context.share.sequences;
}

void add_loss(const LayerContext& context, Passes& passes) {
  const RankShare& share = context.share;
  const bool fused = context.stack().fused_activations;
  const double logits = real(share.tokens) * real(share.vocabulary);
  const double per_token = 4 * real(share.tokens);
  if (share.tensor > 1) {
    const auto reduce = [&](std::string_view name, double payload) {
      return collective(name, Collective::all_reduce, GroupKind::tensor, payload);
    };
    passes.forward.push_back(reduce("loss_maximum", per_token));
    if (fused) {
      passes.forward.push_back(reduce("loss_sums", 2 * per_token));
    } else {
      passes.forward.push_back(reduce("loss_target", per_token));
      passes.forward.push_back(reduce("loss_sum", per_token));
    }
  }
  passes.forward.push_back(
      streaming(context, "loss", OpClass::loss, (fused ? 22 : 34) * logits, fused ? 4 : 10));
  passes.backward_input.push_back(streaming(context, "loss_backward", OpClass::loss,
                                            (fused ? 14 : 22) * logits, fused ? 2 : 4));
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

}  // namespace

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
  if (share.training)
    add_loss(context, passes);
  else
    add_sampling(context, passes);
}

}  // namespace triplepoint::workload
