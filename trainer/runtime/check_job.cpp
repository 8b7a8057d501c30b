// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/check_job.h"

#include <limits>
#include <string_view>

#include "triplepoint/base/files.h"

#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::trainer {
namespace {

Result<void> divides(const char* size_name, int64_t size, const char* what, int64_t count) {
  if (count % size == 0) return {};
  return error(
      "{} {} is not divisible by {} {} (each rank trains an equal part of it); change one of them",
      what, count, size_name, size);
}

/// Parts that the formulas of this trainer do not have.
Result<void> check_architecture(const spec::Model& model) {
  std::string_view part;
  if (model.layer_pattern) part = "a layer_pattern";
  if (model.sliding_window) part = "a sliding window";
  if (model.prediction_depths() > 0) part = "multi-token prediction";
  if (model.moe) part = "experts";
  if (part.empty()) return {};
  return error(
      "{} has {} (its training is predicted, but not programmed); train a "
      "model of plain attention and MLP layers",
      model.name, part);
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
  return divides(size, tensor, "ffn_hidden_size", model.ffn_hidden_size);
}

namespace {

/// A condition under which the trainer cannot go on, and its sentence.
struct Refusal {
  bool refused;
  const char* what;
};

Result<void> first_of(std::initializer_list<Refusal> refusals) {
  for (const Refusal& refusal : refusals)
    if (refusal.refused) return error(refusal.what);
  return {};
}

Result<void> check_model(const spec::Job& job) {
  const spec::Model& model = job.model;
  return first_of({
      {spec::is_inference(job.task),
       "the task is inference (the trainer trains); set task to pretrain, or simulate it"},
      {job.task == spec::Task::lora || job.plan.lora,
       "the job trains adapters (the trainer trains whole models); set task to pretrain and remove "
       "[plan.lora], or simulate it"},
      {model.latent_attention.has_value(),
       "the model has latent attention (the trainer supports multi-head and grouped-query "
       "attention); use another model, or simulate it"},
      {model.dropout > 0,
       "the model's dropout is above 0 (the trainer drops nothing); set it to 0, or simulate it"},
      {!job.stack.has_flash_attention(),
       "the stack's attention is not fused (the trainer never holds all scores); take another "
       "stack, or simulate it"},
      {model.kv_channels % 2 != 0 && model.position_embedding == spec::PositionEmbedding::rope,
       "kv_channels is odd (rotary embedding turns pairs of channels); make it even"},
  });
}

Result<void> check_plan(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  return first_of({
      {plan.context_parallel_size > 1,
       "context_parallel_size is above 1 (the trainer's ranks hold whole sequences); set it to 1, "
       "or simulate it"},
      {plan.packed_length.has_value(),
       "packed_length is set (the trainer's attention sees whole sequences); remove it, or "
       "simulate it"},
      {plan.precision != spec::Precision::fp32,
       "the precision is not fp32 (processors without tensor cores gain nothing by another); set "
       "plan.precision to fp32, or simulate it"},
      {plan.virtual_pipeline_size > 1 && plan.pipeline_parallel_size == 1,
       "virtual_pipeline_size is above 1 without a pipeline (chunks of one stage would be "
       "neighbours); set it to 1"},
      {plan.optimizer.gradient_sync_bytes != 4,
       "optimizer.gradient_sync_bytes is not 4 (gradients travel as floats); change it, or take "
       "the optimizer fp32_adamw"},
      {plan.sharding_group_size == 1 && plan.sharding != spec::Sharding::none &&
           job.data_parallel_size() > 1,
       "sharding_group_size is 1 (nothing would be sharded); set sharding to none, or a larger "
       "group"},
      {plan.overlap_tensor,
       "overlap_tensor is set (the trainer's products wait for their rows); set it to false, or "
       "simulate it"},
  });
}

/// Where workload rounds a share up to the busiest rank's, a real rank has no such share.
Result<void> check_shares(const spec::Job& job) {
  const int64_t tp = job.plan.tensor_parallel_size;
  const int64_t tokens = workload::share_of_rank(job).tokens;
  if (job.plan.sequence_parallel && tokens % tp != 0)
    return error(
        "{} tokens of a rank's microbatch are not divisible by tensor_parallel_size "
        "{} (sequence_parallel cuts them evenly); change one of them",
        tokens, tp);
  return {};
}

}  // namespace

Result<void> check_job(const spec::Job& job) {
  // `unsupported` is what a simulation lacks: numbers of the hardware, models of tasks.
  for (const spec::Diagnosis& diagnosis : spec::diagnose(job))
    if (diagnosis.severity == spec::Diagnosis::Severity::error &&
        diagnosis.code != spec::DiagnosisCode::unsupported)
      return error(diagnosis.what);
  TPT_TRY(check_model(job));
  TPT_TRY(check_plan(job));
  TPT_TRY(check_shapes(job));
  return check_shares(job);
}

double predicted_bytes(const spec::Job& job) {
  const workload::MemoryVerdict verdict = workload::estimate_memory(job);
  const double bytes = sum_of(
      verdict.stages, [](const workload::StageMemory& stage) { return stage.total() / unit::B; });
  const int64_t ranks_per_stage = job.world_size() / job.plan.pipeline_parallel_size;
  return bytes * as_real(ranks_per_stage);
}

Result<void> check_memory(const spec::Job& job, int64_t ranks_here, double available) {
  const double share = as_real(ranks_here) / as_real(job.world_size());
  const double needed = predicted_bytes(job) * share;
  if (needed <= available) return {};
  return error(
      "out of memory: {} ranks on this machine need {:.3g} GB and {:.3g} GB are free (weights, "
      "gradients, optimizer states, activations and buffers by the memory model); use a smaller "
      "model or micro_batch_size, shard more, recompute, or --memory-limit 0 to try it anyway",
      ranks_here, needed / 1e9, available / 1e9);
}

double available_memory() {
  const Result<std::string> text = read_file("/proc/meminfo");
  const size_t at = text ? text->find("MemAvailable:") : std::string::npos;
  if (at == std::string::npos) return std::numeric_limits<double>::infinity();
  return std::strtod(text->c_str() + at + sizeof "MemAvailable:", nullptr) * 1024;
}

}  // namespace triplepoint::trainer
