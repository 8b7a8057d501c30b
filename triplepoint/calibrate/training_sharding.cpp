// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_sharding.h"

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/rank_share.h"

namespace triplepoint::calibrate {
namespace {

using spec::Plan;
using spec::Sharding;

/// Sharding as words say it.
void take_said_sharding(spec::Job& job, const TrainingRow& row) {
  Plan& plan = job.plan;
  const std::string& said = row.sharding;
  const auto zero = zero_of(said);
  if (zero) plan.sharding = static_cast<Sharding>(zero->stage);
  if (zero && zero->ranks > 1 && job.data_parallel_size() % zero->ranks == 0)
    plan.sharding_group_size = zero->ranks;
  if (said == "none" || said == "DDP" || said == "DP") plan.sharding = Sharding::none;
  const bool gathers_once = mentions(said, "SHARD_GRAD_OP");
  const bool whole = gathers_once || mentions(said, "FULL_SHARD") || says(row, " ISP");
  const bool counted = mentions(said, "FSDP=") || mentions(said, "no FSDP");
  if (whole || (mentions(said, "FSDP") && !counted) || mentions(said, "HSDP"))
    plan.sharding = Sharding::parameters;
  if (gathers_once) plan.reshard_after_forward = false;
  if (mentions(said, "HSDP")) plan.sharding_group_size = job.cluster.gpus_per_node;
}

/// One rank to a shard is no sharding, to those who count ranks; to Megatron FSDP=1 is a switch.
void take_counted_sharding(spec::Job& job, const FrameworkRule& rule, int64_t ranks) {
  const bool counts = rule.sharding == Sharding::parameters;
  if (ranks > 1 || (ranks == 1 && !counts)) job.plan.sharding = Sharding::parameters;
  if (ranks <= 1 && counts) job.plan.sharding = Sharding::none;
  if (ranks > 1 && ranks < job.data_parallel_size()) job.plan.sharding_group_size = ranks;
}

/// Some optimizers keep other buffers where their states are sharded.
Result<void> take_sharded_optimizer(Plan& plan, const FrameworkRule& rule,
                                    const spec::Library& library) {
  // Megatron told to use PyTorch's FSDP keeps what that keeps.
  const bool torch_shards =
      plan.sharding == Sharding::parameters && rule.optimizer == "megatron_distributed_optim";
  if (torch_shards) plan.optimizer = TPT_TRY(spec::load_optimizer(library, "fsdp_fused_adam"));
  if (rule.sharded_optimizer.empty() || plan.sharding == Sharding::none) return {};
  plan.optimizer = TPT_TRY(spec::load_optimizer(library, rule.sharded_optimizer));
  return {};
}

/// Does what norms and dropout work on stay split? Megatron-LM got it together with selective
/// recompute; nanotron calls it by what its row-parallel layers end with.
bool splits_sequences(const TrainingRow& row, const FrameworkRule& rule) {
  if (says(row, "no sequence paral") || says(row, "without sequence paral")) return false;
  const bool with_selective =
      mentions(row.framework, "Megatron-LM") && mentions(row.recompute, "selective");
  return rule.sequence_parallel || with_selective || says(row, "sequence parallel") ||
         says(row, "sequence-parallel") || says(row, "sequence_parallel") ||
         mentions(row.extra, "tp_mode=REDUCE_SCATTER");
}

void cut_gradients(spec::Job& job) {
  // PyTorch's default (DistributedDataParallel, bucket_cap_mb), of gradients as they are written.
  constexpr double ddp_bucket_bytes = 25 * 1024 * 1024;
  constexpr double written_bytes = 2;
  constexpr double matrices_of_a_layer = 4;  // QKV, projection, gate and up, down
  const bool replicas = job.plan.sharding == Sharding::none;
  job.plan.overlap_gradient = replicas;
  const workload::RankParameters layer =
      workload::layer_parameters(job, workload::share_of_rank(job), 0);
  const double matrix = layer.dense / matrices_of_a_layer;
  const double parameters = replicas ? ddp_bucket_bytes / written_bytes : matrix;
  job.plan.gradient_bucket = parameters * job.plan.optimizer.gradient_sync_bytes * unit::B;
}

}  // namespace

Result<void> take_sharding(spec::Job& job, const TrainingRow& row, const FrameworkRule& rule,
                           const spec::Library& library) {
  Plan& plan = job.plan;
  plan.sharding = rule.sharding;
  take_said_sharding(job, row);
  if (const auto ranks = number_after(row.sharding, "FSDP="))
    take_counted_sharding(job, rule, *ranks);
  const bool alone = job.data_parallel_size() * plan.context_parallel_size == 1;
  if (alone && plan.sharding != Sharding::parameters) plan.sharding = Sharding::none;
  if (mentions(row.extra, "OverlappedDistributedOptimizer"))
    plan.overlap_gradient = plan.overlap_parameter = true;
  return take_sharded_optimizer(plan, rule, library);
}

void take_overlap(spec::Job& job, const TrainingRow& row, const FrameworkRule& rule) {
  Plan& plan = job.plan;
  plan.sequence_parallel = splits_sequences(row, rule) && plan.tensor_parallel_size > 1;
  const bool asynchronous = says(row, "async TP") || says(row, "AsyncTP") || says(row, "async-TP");
  plan.overlap_tensor = (rule.overlaps_tensor || asynchronous) && plan.sequence_parallel;
  const bool replicated = job.data_parallel_size() > 1;
  if (rule.overlaps_data && replicated && plan.sharding != Sharding::none)
    plan.overlap_gradient = plan.overlap_parameter = true;
  if (rule.reduces_like_ddp && replicated) cut_gradients(job);
  plan.overlap_pipeline = rule.overlaps_pipeline && plan.virtual_pipeline_size > 1;
  plan.overlap_expert = plan.overlap_pipeline && job.model.moe && job.stack.fused_moe_dispatch;
}

}  // namespace triplepoint::calibrate
