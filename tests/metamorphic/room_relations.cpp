// SPDX-License-Identifier: Apache-2.0
// The room, its limits and what goes wrong in it.
#include <vector>

#include "tests/metamorphic/laws.h"

namespace triplepoint::metamorphic {
namespace {

using spec::FaultKind;

bool inlet_by(spec::Job& job, double kelvins) {
  job.environment.ambient = job.chassis().inlet + kelvins * unit::K;
  return true;
}

/// Of the whole cluster where neither a GPU nor a node is named.
struct Where {
  std::optional<int64_t> gpu = {}, node = {};
};
bool add_fault(spec::Job& job, spec::FaultKind kind, double share, Where where = {}) {
  spec::Fault& fault = job.environment.faults.emplace_back();
  fault.kind = kind;
  fault.share = share;
  fault.gpu = where.gpu;
  fault.node = where.node;
  return is_legal(job);
}

/// A lower clock comes with a lower voltage, and that with less leakage.
std::optional<double> leakage_not_less(const Outcome& before, const Outcome& after) {
  if (!both_trained(before, after) || is_throttled(before) || is_throttled(after))
    return std::nullopt;
  return not_less<leakage_power>(before, after);
}

bool warmer(spec::Job& job) {
  return inlet_by(job, 8);
}
bool cooler(spec::Job& job) {
  return inlet_by(job, -8);
}
bool slightly_warmer(spec::Job& job) {
  return inlet_by(job, 1);
}

bool lower_limit(spec::Job& job) {
  job.environment.power_limit = 0.8 * job.power_limit();
  return is_legal(job);
}

/// No heat, no fan and no neighbour in the way of a limit.
bool cool_room(spec::Job& job) {
  job.environment.faults.clear();
  job.environment.ambient = Celsius(10);
  return true;
}

bool more_flow(spec::Job& job) {
  job.cluster.chassis.volume_flow_m3_s *= 1.5;
  job.cluster.chassis.coolant_heat_capacity_w_per_k *= 1.5;
  return true;
}

bool liquid(spec::Job& job) {
  if (!job.cluster.liquid_chassis || job.chassis().cooling == spec::Cooling::liquid) return false;
  job.environment.cooling = spec::Cooling::liquid;
  return true;
}

bool clocks_locked(spec::Job& job) {
  const Hertz locked = 0.8 * *job.cluster.gpu.max_clock;
  job.environment.device_clock_limits.assign(as_size(job.world_size()), locked);
  return is_legal(job);
}

bool weak_fans(spec::Job& job) {
  return add_fault(job, FaultKind::fan, 0.6);
}
bool worse_heat_path(spec::Job& job) {
  return add_fault(job, FaultKind::heat_path, 2, {.gpu = 1});
}
bool slower_host(spec::Job& job) {
  return add_fault(job, FaultKind::host, 2, {.node = 0});
}
bool all_hosts_slower(spec::Job& job) {
  return add_fault(job, FaultKind::host, 2);
}
bool slow_scale_up(spec::Job& job) {
  return add_fault(job, FaultKind::link, 0.5, {.gpu = 1});
}
bool slow_network(spec::Job& job) {
  return job.cluster.num_nodes > 1 && add_fault(job, FaultKind::link, 0.5, {.node = 0});
}
bool power_brake(spec::Job& job) {
  return add_fault(job, FaultKind::power, 0.6, {.gpu = 1});
}
bool heat_wave(spec::Job& job) {
  spec::Fault& fault = job.environment.faults.emplace_back();
  fault.kind = FaultKind::inlet;
  fault.rise = 5 * unit::K;
  return true;
}

}  // namespace

const std::vector<Relation>& room_relations() {
  static const std::vector<Relation> all = {
      {"inlet 8 K warmer",
       warmer,
       {not_faster,
        dies_not_cooler,
        {"hottest not cooler", not_cooler<hottest>, &heat_of_one_clock_step},
        {"leakage not less where no clock falls", leakage_not_less},
        clocks_not_higher,
        {"memory the same", needs_the_same_memory}}},
      {"inlet 8 K cooler", cooler, {runs_still, not_slower, dies_not_hotter}},
      {"inlet 1 K warmer", slightly_warmer, {not_faster, dies_not_cooler}},
      {"power limit 20 % lower, cool room",
       lower_limit,
       {not_faster, power_not_more, clocks_not_higher},
       cool_room},
      {"power limit 20 % lower, own air",
       lower_limit,
       {not_faster,
        power_not_more,
        dies_not_hotter,
        {"hottest not hotter", not_hotter<hottest>, &heat_of_one_clock_step}},
       own_air},
      {"clocks locked at 80 %",
       clocks_locked,
       {not_faster, power_not_more, clocks_not_higher, dies_not_hotter},
       own_air},
      {"half more flow, full fans",
       more_flow,
       {runs_still, not_slower, dies_not_hotter},
       full_fans},
      {"cold plates", liquid, {runs_still, not_slower, dies_not_hotter}},
      {"fans at 60 %", weak_fans, {not_faster, dies_not_cooler}},
      {"heat path of GPU 1 doubled, own air",
       worse_heat_path,
       {not_faster, {"hottest not cooler", not_cooler<hottest>, &heat_of_one_clock_step}},
       own_air},
      {"host of node 0 half as fast", slower_host, {not_faster}},
      {"all hosts half as fast", all_hosts_slower, {not_faster}},
      {"links of GPU 1 halved", slow_scale_up, {not_faster}},
      {"network of node 0 halved", slow_network, {not_faster}},
      {"power brake on GPU 1, own air", power_brake, {not_faster}, own_air},
      {"heat wave of 5 K", heat_wave, {not_faster, dies_not_cooler}}};
  return all;
}

}  // namespace triplepoint::metamorphic
