// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/optimizers.h"

#include <string>

namespace triplepoint::formats {
namespace {

using spec::OptimizerState;
using spec::Precision;

bool is_plain_adam(std::string_view name) {
  return name == "fused_adam" || name == "adam" || name == "adamw" || name == "megatron_fused_adam";
}

/// The library's name; "" for one that is not known.
std::string library_name(std::string_view name, const OptimizerContext& context) {
  if (is_plain_adam(name) && context.sharded_parameters) return "fsdp_fused_adam";
  if (is_plain_adam(name) || name == "sgd") return "fused_adam";
  if (name == "distributed_fused_adam") return "distributed_fused_adam";
  if (name != "mcore_distributed_optim") return {};
  const bool half = context.gradient_sync_bytes.value_or(4) < 4;
  return half ? "mcore_distributed_optim" : "megatron_distributed_optim";
}

OptimizerState adapted(OptimizerState state, std::string_view name,
                       const OptimizerContext& context) {
  const bool sharded_states = name == "distributed_fused_adam" || name == "mcore_distributed_optim";
  if (context.gradient_sync_bytes) {
    state.gradient_sync_bytes = *context.gradient_sync_bytes;
    if (sharded_states) state.gradient_bytes = *context.gradient_sync_bytes;
  }
  if (name == "sgd") {
    state.name = "sgd";
    state.moment_bytes = 4;
  }
  if (name == "distributed_fused_adam" && context.precision == Precision::fp16)
    state.master_bytes = 4;
  const bool fp32_weights = context.precision == Precision::fp32 || !context.half_precision_weights;
  if (fp32_weights && !context.sharded_parameters) {
    state.weight_bytes = 4;
    state.master_bytes = 0;
  }
  return state;
}

}  // namespace

std::optional<Result<OptimizerState>> find_optimizer(LibraryCache& cache, std::string_view name,
                                                     const OptimizerContext& context) {
  const std::string known = library_name(name, context);
  if (known.empty()) return std::nullopt;
  Result<OptimizerState> state = cache.optimizer(known);
  if (state) *state = adapted(*state, name, context);
  return state;
}

}  // namespace triplepoint::formats
