// SPDX-License-Identifier: Apache-2.0
// The machine: links, memory, chips, boards, hosts; and the software's own costs.
#include <vector>

#include "tests/metamorphic/laws.h"

namespace triplepoint::metamorphic {
namespace {

bool faster_nics(spec::Job& job) {
  job.cluster.scale_out.nic_bandwidth *= 2;
  return job.cluster.num_nodes > 1;
}
bool more_nics(spec::Job& job) {
  job.cluster.scale_out.nics_per_node *= 2;
  return job.cluster.num_nodes > 1;
}
bool slower_network_start(spec::Job& job) {
  job.cluster.scale_out.latency *= 5;
  job.cluster.scale_out.launch *= 5;
  return job.cluster.num_nodes > 1;
}
bool oversubscribed(spec::Job& job) {
  job.cluster.scale_out.oversubscription *= 4;
  return job.cluster.num_nodes > 1;
}
bool faster_scale_up(spec::Job& job) {
  job.cluster.scale_up.bandwidth *= 2;
  return true;
}
bool slower_scale_up_start(spec::Job& job) {
  job.cluster.scale_up.latency *= 5;
  job.cluster.scale_up.launch *= 5;
  return true;
}
bool faster_memory(spec::Job& job) {
  *job.cluster.gpu.hbm_bandwidth *= 1.5;
  return true;
}
bool more_memory(spec::Job& job) {
  *job.cluster.gpu.memory *= 2;
  return true;
}
bool unlimited(spec::Job& job) {
  job.environment.faults.clear();
  job.environment.power_limit.reset();
  *job.cluster.gpu.tdp *= 10;
  job.environment.ambient = Celsius(10);
  return true;
}
bool faster_chip(spec::Job& job) {
  for (auto* peak :
       {&job.cluster.gpu.peak_bf16, &job.cluster.gpu.peak_fp16, &job.cluster.gpu.peak_fp8,
        &job.cluster.gpu.peak_fp4, &job.cluster.gpu.peak_fp32})
    if (*peak) **peak *= 1.3;
  return true;
}
bool larger_design_power(spec::Job& job) {
  if (job.environment.power_limit) *job.environment.power_limit *= 1.2;
  *job.cluster.gpu.tdp *= 1.2;
  return true;
}
std::optional<double> power_not_less(const Outcome& before, const Outcome& after) {
  if (!both_trained(before, after) || is_throttled(before) || is_throttled(after))
    return std::nullopt;
  return not_less<power>(before, after);
}
/// Idle readings hold the leakage of a typical die.
bool leakier(spec::Job& job) {
  spec::PowerCoefficients& power = *job.cluster.gpu.power;
  const Watts more = 0.5 * power.leakage;
  for (Watts* watts : {&power.leakage, &power.idle, &power.active_idle, &power.waiting})
    *watts += more;
  return true;
}
bool hungrier(spec::Job& job) {
  for (double& joules : job.cluster.gpu.power->joules_per_tflop)
    joules *= 1.2;
  return true;
}
bool warmer_package(spec::Job& job) {
  for (KelvinsPerWatt& resistance : job.cluster.gpu.thermal->resistances)
    resistance *= 1.2;
  return true;
}
bool heavier_sink(spec::Job& job) {
  for (JoulesPerKelvin& capacity : job.cluster.gpu.thermal->capacities)
    capacity *= 3;
  return true;
}
bool lossy_supply(spec::Job& job) {
  job.cluster.host.conversion_efficiency *= 0.9;
  return true;
}
bool hungrier_host(spec::Job& job) {
  job.cluster.host.cpu_idle += 100 * unit::W;
  job.cluster.host.cpu_busy += 100 * unit::W;
  return true;
}
bool dearer_launches(spec::Job& job) {
  job.stack.kernel_launch *= 2;
  job.stack.layer_forward_host *= 2;
  job.stack.layer_backward_host *= 2;
  return true;
}
bool longer_overhead(spec::Job& job) {
  job.stack.step_overhead += 0.2 * unit::s;
  return true;
}
bool graphs(spec::Job& job) {
  if (job.stack.cuda_graphs) return false;
  job.stack.cuda_graphs = true;
  return true;
}
bool cheaper_overlap(spec::Job& job) {
  job.stack.overlap_compute_loss = 0;
  job.stack.overlap_transfer_stretch = 0;
  job.stack.tensor_overlap_compute_loss = 0;
  return true;
}
bool other_seed(spec::Job& job) {
  job.environment.seed += 1000;
  return true;
}

}  // namespace

const std::vector<Relation>& machine_relations() {
  static const std::vector<Relation> all = {
      {"NICs twice as fast",
       faster_nics,
       {not_slower, {"exposed communication not more", not_more<exposed>}}},
      {"twice the NICs", more_nics, {not_slower}},
      {"network starts 5 times slower", slower_network_start, {not_faster}},
      {"fabric oversubscribed 4 times", oversubscribed, {not_faster}},
      {"scale-up links twice as fast", faster_scale_up, {not_slower}},
      {"scale-up starts 5 times slower", slower_scale_up_start, {not_faster}},
      {"HBM half faster", faster_memory, {not_slower}},
      {"HBM half faster, power and heat aside", faster_memory, {not_slower}, unlimited},
      {"HBM twice as large", more_memory, {all_the_same}},
      {"chip 30 % faster", faster_chip, {not_slower}},
      {"chip 30 % faster, power and heat aside", faster_chip, {not_slower}, unlimited},
      {"design power 20 % higher, own air",
       larger_design_power,
       {not_slower, {"power not less", not_less<power>, &power_of_one_clock_step}},
       own_air},
      {"leakage half more",
       leakier,
       {not_faster, {"power not less where no clock falls", power_not_less}}},
      {"products need 20 % more energy",
       hungrier,
       {not_faster,
        {"joules a token not less", not_less<joules_per_token>, &power_of_one_clock_step}}},
      {"package resistance 20 % more", warmer_package, {not_faster, dies_not_cooler}},
      {"heat capacities tripled",
       heavier_sink,
       {{"step the same", unchanged<step>}, {"dies the same", unchanged<mean_die>}}},
      {"supply 10 % lossier",
       lossy_supply,
       {{"node energy not less", not_less<node_energy>},
        {"step the same", unchanged<step>},
        {"energy the same", unchanged<energy>}}},
      {"host draws 100 W more",
       hungrier_host,
       {{"node energy not less", not_less<node_energy>}, {"step the same", unchanged<step>}}},
      {"host twice as slow to launch", dearer_launches, {not_faster}},
      {"0.2 s more a step", longer_overhead, {not_faster, power_not_more}},
      {"graphs captured", graphs, {not_slower}},
      {"overlap without loss", cheaper_overlap, {not_slower}},
      {"boards alike: another seed", other_seed, {all_the_same}, equal_boards}};
  return all;
}

}  // namespace triplepoint::metamorphic
