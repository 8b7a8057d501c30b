// SPDX-License-Identifier: Apache-2.0
// Ops of the MLP and of experts (formulas and sources: feed_forward.h).
//
// All ranks are given the rows of the busiest one. Real routing differs between ranks and steps,
// but the combine waits for the last rank, so the busiest sets the time of all; energy of the
// others is a little too high.
#include "triplepoint/workload/feed_forward.h"

#include <algorithm>
#include <cmath>

namespace triplepoint::workload {

void add_mlp_core(const LayerContext& context, int64_t ffn, Passes& passes) {
  const RankShare& share = context.share;
  add_linear(context,
             {.name = "mlp_up",
              .input_gradient = "mlp_up_dgrad",
              .weight_gradient = "mlp_up_wgrad",
              .tokens = share.tokens,
              .in = share.hidden,
              .out = share.gates * ffn,
              .cast_fused = context.stack().fused_norms,
              .bias_rows = share.tokens,
              .lora_target = "mlp_fc1"},
             passes);
  gather_for_weight_gradient(context, passes);
  add_activation(context, real(share.tokens * ffn), passes);
  add_linear(context,
             {.name = "mlp_down",
              .input_gradient = "mlp_down_dgrad",
              .weight_gradient = "mlp_down_wgrad",
              .tokens = share.tokens,
              .in = ffn,
              .out = share.hidden,
              .cast_fused = context.stack().fused_activations,
              .row_parallel = true,
              .bias_rows = share.sharded_tokens,
              .lora_target = "mlp_fc2"},
             passes);
}

void add_dense_mlp(const LayerContext& context, Passes& passes) {
  add_residual_norm(context, "mlp_norm", passes);
  add_module(context, spec::RecomputeModule::mlp, passes, [&] {
    enter_tensor_region(context, passes);
    add_mlp_core(context, context.share.ffn, passes);
    leave_tensor_region(context, passes);
  });
  add_residual(context, "mlp_residual", passes);
}

namespace {

using spec::Collective;
using spec::GroupKind;
using spec::OpClass;

/// Rows of the busiest rank over tokens x top-k.
double busiest_share(const spec::MixtureOfExperts& moe) {
  if (!moe.capacity_factor) return moe.load_imbalance;
  if (moe.pad_to_capacity) return *moe.capacity_factor;
  return std::min(moe.load_imbalance, *moe.capacity_factor);
}

double row_bytes(const LayerContext& context) {
  return context.share.element * real(expert_width(context));
}

int64_t busy_experts(const LayerContext& context, const ExpertRows& rows) {
  const spec::MixtureOfExperts& moe = *context.model().moe;
  const bool all = context.share.training || (moe.capacity_factor && moe.pad_to_capacity);
  if (all) return rows.local_experts;
  const double chosen = real(moe.router_topk) / real(moe.num_experts);
  // The tokens of all ranks that share the experts: each sends its rows to some of them.
  const double tokens =
      real(rows.computed * context.share.expert) / real(std::max<int64_t>(1, moe.router_topk));
  // Expected number of experts that at least one token chooses. Rounded up: a weight is read whole.
  const double busy = real(rows.local_experts) * (1 - std::pow(1 - chosen, tokens));
  return std::clamp<int64_t>(std::llround(std::ceil(busy)), 1, rows.local_experts);
}

/// Gate product, top-k, counts, auxiliary loss: small kernels, few bytes.
void add_router(const LayerContext& context, const ExpertRows& rows, Passes& passes) {
  const int64_t experts = context.model().moe->num_experts;
  add_linear(context,
             {.name = "router",
              .input_gradient = "router_dgrad",
              .weight_gradient = "router_wgrad",
              .tokens = rows.routed_tokens,
              .in = context.share.hidden,
              .out = experts,
              .quantized = false},
             passes);
  const double scores = 4 * real(rows.routed_tokens * experts);
  const int kernels = context.stack().fused_activations ? 6 : 14;
  // The number of kernels matters more than the bytes: a router is bound by launches.
  passes.forward.push_back(streaming(context, "top_k", OpClass::router, 4 * scores, kernels));
  if (context.share.training)
    passes.backward_input.push_back(
        streaming(context, "top_k_backward", OpClass::router, 3 * scores, kernels / 2));
}

/// Moves rows in memory: bytes read and written, both ways.
void add_row_copy(const LayerContext& context, std::string_view name, double rows, Passes& passes) {
  const auto copy = streaming(context, name, OpClass::router, rows * row_bytes(context));
  passes.forward.push_back(copy);
  if (context.share.training) passes.backward_input.push_back(copy);
}

/// Rows are sorted on the way, by the kernel that sends them.
bool dispatches_once(const LayerContext& context) {
  const spec::Stack& stack = context.stack();
  return stack.fused_moe_dispatch && !stack.moe_sends_every_copy && context.share.expert > 1;
}

/// Of the copies of a row, one to each of its experts: those that travel. With places chosen
/// evenly, k experts lie on G (1 - (1 - 1/G)^k) of G nodes, or of G ranks inside one domain.
double travelling_share(const LayerContext& context) {
  if (!dispatches_once(context)) return 1;
  const int64_t domain = std::max<int64_t>(1, context.job.cluster.scale_up.domain_size);
  const int64_t domains = divide_up(context.share.expert * context.share.expert_tensor, domain);
  // Across domains a row travels once to each domain that has one of its experts, within one domain
  // once to each rank.
  const double places = real(domains > 1 ? domains : context.share.expert);
  const double chosen = real(context.model().moe->router_topk);
  return places * (1 - std::pow(1 - 1 / places, chosen)) / chosen;
}

/// Before dropless rows are sent, every rank learns how many come from whom for which expert; the
/// ranks that share an expert learn it of each other before they gather rows. Four bytes a count.
void label_counts(const LayerContext& context, Passes& passes) {
  const spec::MixtureOfExperts& moe = *context.model().moe;
  if (moe.pad_to_capacity && moe.capacity_factor) return;  // all alike
  const RankShare& share = context.share;
  const auto tell = [&](GroupKind group, int64_t ranks) {
    passes.forward.push_back(collective("expert_counts", Collective::all_gather, group,
                                        4 * real(ranks * moe.num_experts)));
  };
  if (share.expert > 1) tell(GroupKind::expert, share.expert);
  if (share.expert_tensor > 1 && share.sequence_parallel)
    tell(GroupKind::expert_tensor, share.expert_tensor);
}

void add_all_to_all(const LayerContext& context, std::string_view name, const ExpertRows& rows,
                    Passes& passes) {
  if (context.share.expert == 1) return;
  const auto op = collective(name, Collective::all_to_all, GroupKind::expert,
                             travelling_share(context) * real(rows.sent) * row_bytes(context));
  passes.forward.push_back(op);
  if (context.share.training) passes.backward_input.push_back(op);
}

void enter_expert_region(const LayerContext& context, const ExpertRows& rows, Passes& passes) {
  if (context.share.expert_tensor == 1) return;
  const double payload = real(rows.computed) * row_bytes(context);
  const bool sharded = context.share.sequence_parallel;
  if (sharded)
    passes.forward.push_back(
        collective("etp_all_gather", Collective::all_gather, GroupKind::expert_tensor, payload));
  if (context.share.training)
    passes.backward_input.push_back(sharded ? collective("etp_reduce_scatter",
                                                         Collective::reduce_scatter,
                                                         GroupKind::expert_tensor, payload)
                                            : collective("etp_all_reduce", Collective::all_reduce,
                                                         GroupKind::expert_tensor, payload));
}

void leave_expert_region(const LayerContext& context, const ExpertRows& rows, Passes& passes) {
  if (context.share.expert_tensor == 1) return;
  const double payload = real(rows.computed) * row_bytes(context);
  const bool sharded = context.share.sequence_parallel;
  passes.forward.push_back(sharded ? collective("etp_reduce_scatter", Collective::reduce_scatter,
                                                GroupKind::expert_tensor, payload)
                                   : collective("etp_all_reduce", Collective::all_reduce,
                                                GroupKind::expert_tensor, payload));
  if (sharded && context.share.training)
    passes.backward_input.push_back(
        collective("etp_all_gather", Collective::all_gather, GroupKind::expert_tensor, payload));
}

/// Biases of expert_down, each times its row's probability (fp32), added expert by expert; then all
/// rows are joined and rounded. Bytes of an element of e bytes, reads and writes:
///   forward     product 4, sum e + 8, joined 8, rounded 4 + e
///   backward    to fp32 e + 4, to e per expert 4 + e, joined 2 e; gradients of bias and
///   probability:
///               a product (8 and 8, the incoming gradient among them) and its sum (4 and 4)
/// Source: Megatron-LM, megatron/core/transformer/moe/experts.py (TEGroupedMLP, _apply_bias).
void add_expert_biases(const LayerContext& context, double elements, int experts, Passes& passes) {
  if (!context.model().biases) return;
  const double e = context.share.element;
  passes.forward.push_back(streaming(context, "expert_bias", spec::OpClass::elementwise,
                                     (24 + 2 * e) * elements, 2 * experts + 2));
  if (!context.share.training) return;
  passes.backward_input.push_back(streaming(context, "expert_bias", spec::OpClass::elementwise,
                                            (32 + 4 * e) * elements, 6 * experts + 2));
  passes.backward_input.back().backward = true;
}

void add_experts(const LayerContext& context, const ExpertRows& rows, Passes& passes) {
  const spec::MixtureOfExperts& moe = *context.model().moe;
  const int64_t ffn = divide_up(moe.ffn_hidden_size, context.share.expert_tensor);
  const int64_t busy = rows.busy_experts, each = divide_up(rows.computed, busy);
  add_linear(context,
             {.name = "expert_up",
              .input_gradient = "expert_up_dgrad",
              .weight_gradient = "expert_up_wgrad",
              .tokens = each,
              .in = expert_width(context),
              .out = context.share.gates * ffn,
              .count = busy,
              .one_kernel_each = !moe.grouped_gemm,
              .bias_rows = each * busy},
             passes);
  add_module(context, spec::RecomputeModule::moe_act, passes,
             [&] { add_activation(context, real(each * busy * ffn), passes); });
  add_linear(context,
             {.name = "expert_down",
              .input_gradient = "expert_down_dgrad",
              .weight_gradient = "expert_down_wgrad",
              .tokens = each,
              .in = ffn,
              .out = expert_width(context),
              .count = busy,
              .one_kernel_each = !moe.grouped_gemm,
              .cast_fused = context.stack().fused_activations},
             passes);
  add_expert_biases(context, real(each * busy) * real(expert_width(context)),
                    static_cast<int>(busy), passes);
}

/// Rows made narrower before they are sent, by every rank with the whole matrix.
void enter_latent(const LayerContext& context, const ExpertRows& rows, Passes& passes) {
  if (!context.model().moe->latent_size) return;
  add_linear(context,
             {.name = "latent_down",
              .input_gradient = "latent_down_dgrad",
              .weight_gradient = "latent_down_wgrad",
              .tokens = rows.routed_tokens,
              .in = context.share.hidden,
              .out = expert_width(context)},
             passes);
}

void leave_latent(const LayerContext& context, const ExpertRows& rows, Passes& passes) {
  if (!context.model().moe->latent_size) return;
  add_linear(context,
             {.name = "latent_up",
              .input_gradient = "latent_up_dgrad",
              .weight_gradient = "latent_up_wgrad",
              .tokens = rows.routed_tokens,
              .in = expert_width(context),
              .out = context.share.hidden},
             passes);
}

void add_shared_expert(const LayerContext& context, Passes& passes) {
  const int64_t ffn = context.model().moe->shared_expert_ffn_hidden_size;
  if (ffn == 0) return;
  add_module(context, spec::RecomputeModule::shared_experts, passes, [&] {
    enter_tensor_region(context, passes);
    add_mlp_core(context, divide_up(ffn, context.share.tensor), passes);
    leave_tensor_region(context, passes);
  });
}

/// From the router to the sum of what the experts said.
void add_routed(const LayerContext& context, Passes& passes) {
  const ExpertRows rows = count_expert_rows(context);
  const double moved = 2 * real(rows.sent);
  add_router(context, rows, passes);
  enter_latent(context, rows, passes);
  label_counts(context, passes);
  const bool once = dispatches_once(context);
  if (!once) add_row_copy(context, "permute", moved, passes);
  add_all_to_all(context, "ep_dispatch", rows, passes);
  enter_expert_region(context, rows, passes);
  // Rows arrive ordered by sender; a rank with several experts has to order them by expert.
  const bool sorts = rows.local_experts > 1 && context.share.expert > 1 && !once;
  if (sorts) add_row_copy(context, "sort_rows", 2 * real(rows.computed), passes);
  add_experts(context, rows, passes);
  if (sorts) add_row_copy(context, "sort_rows", 2 * real(rows.computed), passes);
  leave_expert_region(context, rows, passes);
  add_all_to_all(context, "ep_combine", rows, passes);
  if (!once) add_row_copy(context, "unpermute", moved + real(rows.routed_tokens), passes);
  leave_latent(context, rows, passes);
}

}  // namespace

int64_t expert_width(const LayerContext& context) {
  return context.model().moe->latent_size.value_or(context.share.hidden);
}

ExpertRows count_expert_rows(const LayerContext& context) {
  const RankShare& share = context.share;
  const spec::MixtureOfExperts& moe = *context.model().moe;
  ExpertRows rows;
  // Every TP rank routes its own slice, or all tokens where the slices are not there (no sequence
  // parallelism and experts split over the same ranks).
  rows.routed_tokens = share.sequence_parallel
                           ? share.sharded_tokens
                           : divide_up(share.tokens * share.expert_tensor, share.tensor);
  rows.sent =
      std::llround(std::ceil(real(rows.routed_tokens * moe.router_topk) * busiest_share(moe)));
  rows.computed = share.sequence_parallel ? rows.sent * share.expert_tensor : rows.sent;
  rows.local_experts = divide_up(moe.num_experts, share.expert);
  rows.busy_experts = busy_experts(context, rows);
  return rows;
}

void add_moe_mlp(const LayerContext& context, Passes& passes) {
  add_residual_norm(context, "mlp_norm", passes);
  add_module(context, spec::RecomputeModule::moe, passes, [&] {
    add_routed(context, passes);
    add_shared_expert(context, passes);
  });
  add_residual(context, "mlp_residual", passes);
}

}  // namespace triplepoint::workload
