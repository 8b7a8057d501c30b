// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/feed_forward.h"
#include "triplepoint/workload/tensor_parallel.h"
#include "triplepoint/workload/vector_ops.h"

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

}  // namespace triplepoint::workload
