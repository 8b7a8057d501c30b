// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/check_shapes.h"

#include <string_view>

#include <fmt/format.h>

namespace triplepoint::trainer {
namespace {

Result<void> divides(const char* size_name, int64_t size, const char* what, int64_t count) {
  if (count % size == 0) return {};
  return error(
      fmt::format("{} {} is not divisible by {} {} (each rank trains an equal part of "
                  "it); change one of them",
                  what, count, size_name, size));
}

Result<void> check_experts(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  const spec::MixtureOfExperts& moe = *job.model.moe;
  const int64_t cut = plan.expert_tensor_size(), tensor = plan.tensor_parallel_size;
  TPT_TRY(
      divides("expert_parallel_size", plan.expert_parallel_size, "num_experts", moe.num_experts));
  TPT_TRY(divides("expert_tensor_parallel_size", cut, "the experts' ffn_hidden_size",
                  moe.ffn_hidden_size));
  TPT_TRY(divides("tensor_parallel_size", tensor, "shared_expert_ffn_hidden_size",
                  moe.shared_expert_ffn_hidden_size));
  if (moe.router_topk > moe.num_experts)
    return error(
        fmt::format("router_topk {} is above num_experts {} (a token goes to different "
                    "experts); lower it",
                    moe.router_topk, moe.num_experts));
  if (cut != tensor && !(plan.sequence_parallel && tensor > 1))
    return error(
        fmt::format("expert_tensor_parallel_size {} is not tensor_parallel_size {} (ranks "
                    "that hold the same tokens must cut the experts alike); set "
                    "sequence_parallel = true, or both sizes alike",
                    cut, tensor));
  return {};
}

/// Parts that the formulas of this trainer do not have.
Result<void> check_architecture(const spec::Model& model) {
  std::string_view part;
  if (model.layer_pattern) part = "a layer_pattern";
  if (model.sliding_window) part = "a sliding window";
  if (model.prediction_depths() > 0) part = "multi-token prediction";
  if (model.moe && model.moe->latent_size) part = "experts of a latent width";
  if (part.empty()) return {};
  return error(
      fmt::format("{} has {} (its training is predicted, but not programmed); train a "
                  "model of plain attention and MLP or expert layers",
                  model.name, part));
}

}  // namespace

Result<void> check_shapes(const spec::Job& job) {
  const spec::Model& model = job.model;
  const int64_t tensor = job.plan.tensor_parallel_size;
  const char* size = "tensor_parallel_size";
  TPT_TRY(check_architecture(model));
  TPT_TRY(divides(size, tensor, "num_attention_heads", model.num_attention_heads));
  TPT_TRY(divides(size, tensor, "num_query_groups", model.num_query_groups));
  TPT_TRY(divides("num_query_groups", model.num_query_groups, "num_attention_heads",
                  model.num_attention_heads));
  TPT_TRY(divides(size, tensor, "hidden_size", model.hidden_size));
  if (!model.moe || model.moe->num_dense_layers > 0 || model.moe->layer_period)
    TPT_TRY(divides(size, tensor, "ffn_hidden_size", model.ffn_hidden_size));
  return model.moe ? check_experts(job) : Result<void>();
}

}  // namespace triplepoint::trainer
