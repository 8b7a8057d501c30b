// SPDX-License-Identifier: Apache-2.0
// The layout: nodes, sharding, recomputation, overlap, schedule.
#include <vector>

#include "tests/metamorphic/laws.h"

namespace triplepoint::metamorphic {
namespace {

bool trains(const spec::Job& job) {
  return !spec::is_inference(job.task);
}
/// The first replica beside another gets buffers for their reduction.
std::optional<double> replicas_need_no_more(const Outcome& before, const Outcome& after) {
  if (before.job().data_parallel_size() == 1) return std::nullopt;
  return needs_no_more_memory(before, after);
}
std::optional<double> replicas_need_the_same(const Outcome& before, const Outcome& after) {
  if (before.job().data_parallel_size() == 1) return std::nullopt;
  return needs_the_same_memory(before, after);
}
/// Sharded, a rank has less to reduce and to update the more there are. In a mesh, a group that
/// grows reaches more links.
bool equal_boards_and_whole_state(spec::Job& job) {
  if (job.cluster.scale_up.kind == spec::ScaleUpKind::mesh) return false;
  equal_boards_without_faults(job);
  job.plan.sharding = spec::Sharding::none;
  return true;
}
bool weak_scaling(spec::Job& job) {
  job.cluster.num_nodes *= 2;
  job.plan.global_batch_size *= 2;
  return is_legal(job);
}
bool strong_scaling(spec::Job& job) {
  job.cluster.num_nodes *= 2;
  return trains(job) && is_legal(job);
}
bool sharded_as(spec::Job& job, spec::Sharding from, spec::Sharding to) {
  if (!trains(job) || job.plan.sharding != from || job.data_parallel_size() == 1) return false;
  job.plan.sharding = to;
  return is_legal(job);
}
bool optimizer_sharded(spec::Job& job) {
  return sharded_as(job, spec::Sharding::none, spec::Sharding::optimizer);
}
bool gradients_sharded(spec::Job& job) {
  return sharded_as(job, spec::Sharding::optimizer, spec::Sharding::gradients);
}
/// Pipelines gather the parameters of a stage for all of a step.
bool parameters_sharded(spec::Job& job) {
  return job.plan.pipeline_parallel_size == 1 &&
         sharded_as(job, spec::Sharding::gradients, spec::Sharding::parameters);
}
bool parameters_kept(spec::Job& job) {
  if (!trains(job) || job.plan.sharding != spec::Sharding::parameters ||
      !job.plan.reshard_after_forward)
    return false;
  job.plan.reshard_after_forward = false;
  return is_legal(job);
}
bool fully_recomputed(spec::Job& job) {
  if (!trains(job) || job.plan.recompute != spec::Recompute::none) return false;
  job.plan.recompute = spec::Recompute::full;
  return is_legal(job);
}
bool selectively_recomputed(spec::Job& job) {
  if (!trains(job) || job.plan.recompute != spec::Recompute::none) return false;
  job.plan.recompute = spec::Recompute::selective;
  return is_legal(job);
}
bool one_layer_more_recomputed(spec::Job& job) {
  if (!job.plan.recompute_layers) return false;
  *job.plan.recompute_layers += 1;
  return is_legal(job);
}
/// All that hides in a phase shares one stream (docs/models/simulation.md): behind a sharded
/// model's gathers or a context group's ring, userbuffers may end later than in the open.
bool without_overlap(spec::Job& job) {
  spec::Plan& plan = job.plan;
  const bool others_hide =
      plan.sharding == spec::Sharding::parameters || plan.context_parallel_size > 1;
  if (plan.overlap_tensor && others_hide) return false;
  // Zero bubble fills waits with weight gradients as they come: a shorter send may change the order
  // for the worse (Graham 1969, "Bounds on multiprocessing timing anomalies").
  if (plan.schedule == spec::Schedule::zero_bubble) return false;
  if (!plan.overlap_gradient && !plan.overlap_parameter && !plan.overlap_pipeline &&
      !plan.overlap_tensor)
    return false;
  plan.overlap_gradient = plan.overlap_parameter = plan.overlap_pipeline = plan.overlap_tensor =
      false;
  return is_legal(job);
}
/// At a clock that is held: overlap draws more power, for which a power limit takes clock.
bool free_overlap(spec::Job& job) {
  const Hertz held = 0.6 * *job.cluster.gpu.max_clock;
  job.environment.device_clock_limits.assign(as_size(job.world_size()), held);
  job.stack.overlap_compute_loss = 0;
  job.stack.overlap_transfer_stretch = 0;
  job.stack.tensor_overlap_compute_loss = 0;
  return true;
}
bool as_gpipe(spec::Job& job) {
  if (job.plan.schedule != spec::Schedule::one_f_one_b || job.plan.pipeline_parallel_size == 1 ||
      !trains(job))
    return false;
  job.plan.schedule = spec::Schedule::gpipe;
  return is_legal(job);
}
bool as_zero_bubble(spec::Job& job) {
  if (job.plan.schedule != spec::Schedule::one_f_one_b || job.plan.pipeline_parallel_size == 1 ||
      !trains(job))
    return false;
  job.plan.schedule = spec::Schedule::zero_bubble;
  return is_legal(job);
}
bool as_one_chunk(spec::Job& job) {
  if (job.plan.schedule != spec::Schedule::interleaved) return false;
  job.plan.schedule = spec::Schedule::one_f_one_b;
  // Recomputed layers are counted per chunk.
  if (job.plan.recompute_layers) *job.plan.recompute_layers *= job.plan.virtual_pipeline_size;
  job.plan.virtual_pipeline_size = 1;
  return is_legal(job);
}
/// A pass that keeps no activations gains nothing, but gathers sequences.
bool sequences_sharded(spec::Job& job) {
  if (!trains(job) || job.plan.tensor_parallel_size == 1 || job.plan.sequence_parallel)
    return false;
  job.plan.sequence_parallel = true;
  return is_legal(job);
}
bool larger_microbatch(spec::Job& job) {
  job.plan.micro_batch_size *= 2;
  if (!trains(job) || !is_legal(job)) return false;
  // Fewer microbatches than stages are not all in flight; of one, ZeRO-2 holds no whole gradient.
  return job.num_microbatches() >=
         2 * job.plan.pipeline_parallel_size * job.plan.virtual_pipeline_size;
}
bool heavier_first_stage(spec::Job& job) {
  const int64_t stages = job.plan.pipeline_parallel_size, layers = job.model.num_layers / stages;
  if (stages == 1 || job.plan.virtual_pipeline_size > 1 || layers < 4 ||
      job.model.num_layers % stages != 0)
    return false;
  job.plan.layers_per_stage.assign(as_size(stages), layers);
  job.plan.layers_per_stage.front() += 2;
  job.plan.layers_per_stage.back() -= 2;
  return is_legal(job);
}

}  // namespace

const std::vector<Relation>& layout_relations() {
  static const std::vector<Relation> all = {
      {"twice the nodes at twice the batch, boards alike",
       weak_scaling,
       {{"FLOP twice", is_times<model_flops, 2>, &rounding},
        {"memory of replicas not more", replicas_need_no_more}},
       equal_boards_without_faults},
      {"twice the nodes at twice the batch, boards alike, state whole",
       weak_scaling,
       {not_faster,
        {"tokens/s a GPU not more", not_more<tokens_per_second_per_gpu>, &one_clock_step},
        {"memory of replicas the same", replicas_need_the_same}},
       equal_boards_and_whole_state},
      {"twice the nodes at the same batch, boards alike",
       strong_scaling,
       {{"at most twice as fast",
         [](const Outcome& a, const Outcome& b) {
           return not_less<tokens_per_second_per_gpu>(b, a);
         }},
        {"FLOP the same", unchanged<model_flops>}},
       equal_boards_without_faults},
      {"optimizer sharded", optimizer_sharded, {{"memory not more", needs_no_more_memory}}},
      {"gradients sharded too", gradients_sharded, {{"memory not more", needs_no_more_memory}}},
      {"parameters sharded too", parameters_sharded, {{"memory not more", needs_no_more_memory}}},
      {"parameters kept after the forward pass",
       parameters_kept,
       {{"memory not less", needs_no_less_memory}, not_slower}},
      {"everything recomputed",
       fully_recomputed,
       {not_faster,
        {"memory not more", needs_no_more_memory},
        {"model FLOP the same", unchanged<model_flops>},
        {"hardware FLOP not less", not_less<hardware_flops>}}},
      {"attention recomputed",
       selectively_recomputed,
       {not_faster,
        {"memory not more", needs_no_more_memory},
        {"hardware FLOP not less", not_less<hardware_flops>}}},
      {"one layer more recomputed",
       one_layer_more_recomputed,
       {not_faster, {"memory not more", needs_no_more_memory}}},
      {"nothing overlapped",
       without_overlap,
       {{"exposed communication not less", not_less<exposed>}}},
      {"nothing overlapped, overlap without loss",
       without_overlap,
       {{"exposed communication not less", not_less<exposed>}, not_faster},
       free_overlap},
      {"GPipe instead of 1F1B", as_gpipe, {{"memory not less", needs_no_less_memory}}},
      {"zero bubble instead of 1F1B, host aside",
       as_zero_bubble,
       {not_slower, {"bubble and waiting not more", not_more<idle_by_schedule>, &one_clock_step}},
       no_host},
      {"one chunk a stage",
       as_one_chunk,
       {{"bubble not less", not_less<bubble>}, {"memory not more", needs_no_more_memory}}},
      {"sequences sharded over the tensor group",
       sequences_sharded,
       {{"memory not more", needs_no_more_memory}}},
      {"microbatches twice as large",
       larger_microbatch,
       {{"memory not less", needs_no_less_memory}, {"FLOP the same", unchanged<model_flops>}}},
      {"first stage heavier", heavier_first_stage, {{"FLOP the same", unchanged<model_flops>}}}};
  return all;
}

}  // namespace triplepoint::metamorphic
