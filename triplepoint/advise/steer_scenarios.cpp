// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_scenarios.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

namespace triplepoint::advise {
namespace {

using spec::Fault;
using spec::FaultKind;

constexpr std::array<const char*, 7> names = {"heat-wave",        "dead-fan",  "power-cap",
                                              "degraded-cooling", "slow-node", "flapping-link",
                                              "noisy-host"};

Fault fault_of(FaultKind kind, double share, Seconds begin) {
  Fault fault;
  fault.kind = kind;
  fault.share = share;
  fault.begin = begin;
  return fault;
}

}  // namespace

std::vector<std::string> scenario_names() {
  return {names.begin(), names.end()};
}

// How strong: a summer afternoon without chillers, most of the fans, a rack's breaker limit, paste
// that has pumped out, a power brake, one of several bad optics, a neighbour on the same host.
std::vector<Scenario> scenarios_for(const spec::Job& job, Seconds duration) {
  const Seconds begin = duration / 6, end = 4 * duration / 6;
  const int64_t node = job.cluster.num_nodes > 1 ? 1 : 0;
  const int64_t gpu = node * job.cluster.gpus_per_node + job.cluster.gpus_per_node / 2;
  Fault heat = fault_of(FaultKind::inlet, 1, begin);
  heat.rise = 12 * unit::K;
  heat.end = end;
  Fault fan = fault_of(FaultKind::fan, 0.2, begin);
  fan.node = node;
  Fault cap = fault_of(FaultKind::power, 0.7, begin);
  cap.end = end;
  Fault board = fault_of(FaultKind::heat_path, 2, begin);
  board.gpu = gpu;
  Fault brake = fault_of(FaultKind::power, 0.6, begin);
  brake.node = node;
  Fault link = fault_of(FaultKind::link, 0.2, begin);
  link.node = node;
  link.period = 60 * unit::s;
  Fault host = fault_of(FaultKind::host, 6, begin);
  host.node = node;
  return {{names[0], "air comes in 12 K warmer everywhere, and cools down again", {heat}},
          {names[1], fmt::format("node {} is left with a fifth of its air", node), {fan}},
          {names[2], "the room's supply leaves 70 % of every GPU's power for a while", {cap}},
          {names[3], fmt::format("GPU {} gets rid of its heat half as well", gpu), {board}},
          {names[4], fmt::format("node {} is held at 60 % of its power", node), {brake}},
          {names[5],
           fmt::format("links of node {} fall to a fifth for half of every minute", node),
           {link}},
          {names[6],
           fmt::format("kernels of node {} wait six times as long for their host", node),
           {host}}};
}

Result<Scenario> scenario_named(const spec::Job& job, Seconds duration, std::string_view name) {
  for (Scenario& scenario : scenarios_for(job, duration))
    if (scenario.name == name) return scenario;
  return error(
      fmt::format("there is no scenario \"{}\" (scenarios are predefined disturbances); {}", name,
                  did_you_mean(name, scenario_names())));
}

spec::Job known_at(const spec::Job& job, Seconds now) {
  spec::Job known = job;
  auto& faults = known.environment.faults;
  std::erase_if(faults, [&](const Fault& fault) {
    return fault.begin > now || (fault.end && *fault.end <= now) ||
           fault.kind == FaultKind::node_lost;
  });
  for (Fault& fault : faults)
    fault.end.reset();
  return known;
}

}  // namespace triplepoint::advise
