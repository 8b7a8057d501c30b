// SPDX-License-Identifier: Apache-2.0
// The same job said in other words: equal bits.
#include <numeric>
#include <vector>

#include "triplepoint/spec/load.h"

#include "tests/metamorphic/laws.h"

namespace triplepoint::metamorphic {
namespace {

using spec::FaultKind;

bool nothing(spec::Job& /*job*/) {
  return true;
}
spec::Fault fault_of(FaultKind kind, double share, Kelvins rise = {}) {
  spec::Fault fault;
  fault.kind = kind;
  fault.share = share;
  fault.rise = rise;
  return fault;
}
bool renamed(spec::Job& job) {
  job.name = job.origin = job.model.name = job.cluster.name = job.cluster.title = "x";
  job.cluster.gpu.title = "y";
  return true;
}
bool written_and_read(spec::Job& job) {
  job = spec::parse_job(spec::default_library(), spec::write_job(job), "job.toml").value();
  return true;
}
bool written_short_and_read(spec::Job& job) {
  const spec::Library library = spec::default_library();
  job = spec::parse_job(library, spec::write_job(job, library), "job.toml").value();
  return true;
}
bool limit_named(spec::Job& job) {
  if (job.environment.power_limit) return false;
  job.environment.power_limit = *job.cluster.gpu.tdp;
  return true;
}
bool limit_of_each(spec::Job& job) {
  job.environment.device_power_limits.assign(as_size(job.world_size()), job.power_limit());
  return is_legal(job);
}
bool inlet_named(spec::Job& job) {
  job.environment.ambient = job.chassis().inlet;
  return true;
}
bool layers_counted(spec::Job& job) {
  const int64_t parts = job.plan.pipeline_parallel_size * job.plan.virtual_pipeline_size;
  if (job.model.num_layers % parts != 0 || !job.plan.layers_per_stage.empty()) return false;
  job.plan.layers_per_stage.assign(as_size(parts), job.model.num_layers / parts);
  return is_legal(job);
}
bool expert_tensor_named(spec::Job& job) {
  if (job.plan.expert_tensor_parallel_size || !job.model.moe) return false;
  job.plan.expert_tensor_parallel_size = job.plan.tensor_parallel_size;
  return is_legal(job);
}
bool order_named(spec::Job& job) {
  if (!job.plan.device_order.empty()) return false;
  job.plan.device_order.resize(as_size(job.cluster.gpus_per_node));
  std::iota(job.plan.device_order.begin(), job.plan.device_order.end(), int64_t{0});
  return is_legal(job);
}
bool nodes_named(spec::Job& job) {
  job.plan.node_order.resize(as_size(job.cluster.num_nodes));
  std::iota(job.plan.node_order.begin(), job.plan.node_order.end(), int64_t{0});
  return is_legal(job);
}
bool attention_named(spec::Job& job) {
  if (job.plan.recompute != spec::Recompute::selective) return false;
  job.plan.recompute_modules = {spec::RecomputeModule::core_attn};
  return is_legal(job);
}
bool group_named(spec::Job& job) {
  if (job.plan.sharding != spec::Sharding::parameters) return false;
  job.plan.sharding_group_size = job.data_parallel_size() * job.plan.context_parallel_size;
  return is_legal(job);
}
bool all_layers_recomputed(spec::Job& job) {
  if (job.plan.recompute != spec::Recompute::full || job.plan.recompute_layers) return false;
  const int64_t parts = job.plan.pipeline_parallel_size * job.plan.virtual_pipeline_size;
  job.plan.recompute_layers = (job.model.num_layers + parts - 1) / parts;
  return is_legal(job);
}
bool harmless_fault(spec::Job& job) {
  for (const FaultKind kind :
       {FaultKind::power, FaultKind::fan, FaultKind::heat_path, FaultKind::host, FaultKind::link})
    job.environment.faults.push_back(fault_of(kind, 1));
  return is_legal(job);
}
bool nodes_reversed(spec::Job& job) {
  if (job.cluster.num_nodes == 1) return false;
  nodes_named(job);
  std::ranges::reverse(job.plan.node_order);
  return is_legal(job);
}
bool equal_slots(spec::Job& job) {
  equal_boards_without_faults(job);
  for (spec::Chassis* chassis :
       {&job.cluster.chassis, job.cluster.liquid_chassis ? &*job.cluster.liquid_chassis : nullptr})
    if (chassis)
      for (spec::Slot& slot : chassis->slots)
        slot = {};
  return true;
}
bool devices_reversed(spec::Job& job) {
  if (!job.plan.device_order.empty()) return false;
  order_named(job);
  std::ranges::reverse(job.plan.device_order);
  return is_legal(job);
}
/// The same room, once by its inlet and once by a heat wave.
bool room_5_k_cooler(spec::Job& job) {
  job.environment.ambient = job.chassis().inlet;
  return true;
}
bool heat_wave_instead(spec::Job& job) {
  job.environment.ambient = job.chassis().inlet - 5 * unit::K;
  job.environment.faults.push_back(fault_of(FaultKind::inlet, 1, 5 * unit::K));
  return is_legal(job);
}
bool brake_instead(spec::Job& job) {
  job.environment.power_limit = job.power_limit() / 0.8;
  job.environment.faults.push_back(fault_of(FaultKind::power, 0.8));
  return is_legal(job);
}
bool fault_of_each(spec::Job& job) {
  job.environment.faults.clear();
  for (int64_t gpu = 0; gpu < job.world_size(); ++gpu) {
    job.environment.faults.push_back(fault_of(FaultKind::power, 0.8));
    job.environment.faults.back().gpu = gpu;
  }
  return is_legal(job);
}
bool braked(spec::Job& job) {
  job.environment.faults = {fault_of(FaultKind::power, 0.8)};
  return is_legal(job);
}

}  // namespace

const std::vector<Relation>& spelling_relations() {
  static const std::vector<Relation> all = {
      {"the same job again", nothing, {all_the_same}},
      {"other names", renamed, {all_the_same}},
      {"written and read", written_and_read, {all_the_same}},
      {"written by names and read", written_short_and_read, {all_the_same}},
      {"limit named", limit_named, {all_the_same}},
      {"limit of each GPU named", limit_of_each, {all_the_same}},
      {"inlet named", inlet_named, {all_the_same}},
      {"layers of each stage named", layers_counted, {all_the_same}},
      {"experts' TP named", expert_tensor_named, {all_the_same}},
      {"order of devices named", order_named, {all_the_same}},
      {"order of nodes named", nodes_named, {all_the_same}},
      {"core attention named", attention_named, {all_the_same}},
      {"sharding group named", group_named, {all_the_same}},
      {"all layers recomputed by count", all_layers_recomputed, {all_the_same}},
      {"faults without effect", harmless_fault, {all_the_same}},
      {"boards alike: nodes in reverse",
       nodes_reversed,
       {{"same numbers", same_numbers, &rounding}},
       equal_boards_without_faults},
      {"boards and slots alike: devices in reverse",
       devices_reversed,
       {{"same numbers", same_numbers, &rounding}},
       equal_slots},
      {"5 K of the inlet as a heat wave",
       heat_wave_instead,
       {{"same numbers", same_numbers, &rounding}},
       room_5_k_cooler},
      {"limit as a power brake",
       brake_instead,
       {{"step the same", unchanged<step>, &one_clock_step},
        {"power the same", unchanged<power>, &power_of_one_clock_step},
        {"dies the same", not_hotter<mean_die>, &heat_of_one_clock_step}}},
      {"power brake on each GPU", fault_of_each, {all_the_same}, braked}};
  return all;
}

}  // namespace triplepoint::metamorphic
