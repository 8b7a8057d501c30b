// SPDX-License-Identifier: Apache-2.0
// What faults and operators' limits leave of a cluster at a moment: a pure function of job and
// time. It is piecewise constant; next_change() names where a piece ends, so that a simulation can
// stop exactly there.
//
// Node losses are different: they change nothing that lasts but stop training for a while
// (loss_at), so they appear here as moments only.
#include "triplepoint/sim/conditions.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/clock/governor.h"

namespace triplepoint::sim {
namespace {

using spec::Fault;
using spec::FaultKind;

struct Span {
  size_t first, last;
};

/// Devices a fault touches.
Span devices_of(const spec::Cluster& cluster, const Fault& fault) {
  const auto per_node = as_size(cluster.gpus_per_node);
  if (fault.gpu) return {as_size(*fault.gpu), as_size(*fault.gpu) + 1};
  if (fault.node) return {as_size(*fault.node) * per_node, (as_size(*fault.node) + 1) * per_node};
  return {0, as_size(cluster.num_gpus())};
}

Span nodes_of(const spec::Cluster& cluster, const Fault& fault) {
  const Span devices = devices_of(cluster, fault);
  const auto per_node = as_size(cluster.gpus_per_node);
  return {devices.first / per_node, (devices.last + per_node - 1) / per_node};
}

template <class T, class Change>
void change(std::vector<T>& values, Span span, const Change& with) {
  for (size_t i = span.first; i < span.last; ++i)
    values[i] = with(values[i]);
}

/// The sink's factor that makes the whole path from die to air `share` times as long; what lies
/// before the sink stays, so that a path cannot become shorter than that.
double sink_factor(const spec::Gpu& gpu, double share) {
  constexpr double min_share = 0.05;
  if (!gpu.thermal) return share;
  KelvinsPerWatt whole;
  for (const KelvinsPerWatt part : gpu.thermal->resistances)
    whole += part;
  // The ladder's last resistance is the sink: whole + (factor - 1) sink = share whole.
  return std::max(min_share, 1 + (share - 1) * (whole / gpu.thermal->resistances.back()));
}

void apply(const spec::Cluster& cluster, const Fault& fault, Conditions& now) {
  const Span devices = devices_of(cluster, fault), nodes = nodes_of(cluster, fault);
  const auto times_share = [&](auto value) { return fault.share * value; };
  switch (fault.kind) {
    case FaultKind::power:
      return change(now.power_limit, devices, times_share);
    case FaultKind::fan:
      return change(now.flow_limit, nodes, times_share);
    case FaultKind::inlet:
      return change(now.inlet_rise, nodes, [&](Kelvins rise) { return rise + fault.rise; });
    case FaultKind::heat_path:
      return change(now.sink_factor, devices,
                    [&](double factor) { return factor * sink_factor(cluster.gpu, fault.share); });
    case FaultKind::link:
      if (!fault.node) change(now.scale_up_share, devices, times_share);
      if (!fault.gpu) change(now.scale_out_share, nodes, times_share);
      return;
    case FaultKind::host:
      return change(now.host_factor, nodes, times_share);
    case FaultKind::node_lost:
      return;
  }
}

/// Without any fault.
Conditions limits_of(const spec::Job& job) {
  const auto devices = as_size(job.cluster.num_gpus());
  const auto nodes = as_size(job.cluster.num_nodes);
  Conditions limits{.power_limit = job.environment.device_power_limits,
                    .locked_steps = std::vector<int64_t>(devices, 0),
                    .sink_factor = std::vector<double>(devices, 1.0),
                    .scale_up_share = std::vector<double>(devices, 1.0),
                    .scale_out_share = std::vector<double>(nodes, 1.0),
                    .host_factor = std::vector<double>(nodes, 1.0),
                    .flow_limit = std::vector<double>(nodes, 1.0),
                    .inlet_rise = std::vector<Kelvins>(nodes)};
  if (limits.power_limit.empty()) limits.power_limit.assign(devices, job.power_limit());
  const spec::Gpu& gpu = job.cluster.gpu;
  const std::vector<Hertz>& locks = job.environment.device_clock_limits;
  for (size_t d = 0; d < locks.size(); ++d)
    limits.locked_steps[d] = clock::steps_to_clock(*gpu.governor, *gpu.max_clock, locks[d]);
  return limits;
}

}  // namespace

bool is_lasting(const Fault& fault) {
  return fault.kind != FaultKind::node_lost && fault.begin == Seconds() && !fault.end &&
         !fault.period;
}

Conditions conditions_at(const spec::Job& job, Seconds now) {
  Conditions conditions = limits_of(job);
  for (const Fault& fault : job.environment.faults)
    if (spec::is_on(fault, now)) apply(job.cluster, fault, conditions);
  return conditions;
}

Conditions lasting_conditions(const spec::Job& job) {
  Conditions conditions = limits_of(job);
  for (const Fault& fault : job.environment.faults)
    if (is_lasting(fault)) apply(job.cluster, fault, conditions);
  return conditions;
}

Conditions between(const Conditions& first, const Conditions& second, double share) {
  Conditions mixed = first;
  const auto mix = [&](auto field) {
    for (size_t i = 0; i < (mixed.*field).size(); ++i)
      (mixed.*field)[i] += share * ((second.*field)[i] - (first.*field)[i]);
  };
  mix(&Conditions::power_limit);
  mix(&Conditions::inlet_rise);
  for (auto field :
       {&Conditions::sink_factor, &Conditions::scale_up_share, &Conditions::scale_out_share,
        &Conditions::host_factor, &Conditions::flow_limit})
    mix(field);
  return mixed;
}

std::optional<Seconds> next_change(const spec::Job& job, Seconds now) {
  std::optional<Seconds> first;
  for (const Fault& fault : job.environment.faults) {
    const std::optional<Seconds> edge = spec::next_edge(fault, now);
    if (edge && (!first || *edge < *first)) first = edge;
  }
  return first;
}

std::optional<Loss> loss_at(const spec::Job& job, Seconds now) {
  std::optional<Loss> loss;
  for (const Fault& fault : job.environment.faults) {
    if (fault.kind != FaultKind::node_lost || fault.begin != now) continue;
    if (!loss) loss.emplace();
    loss->restart = std::max(loss->restart, fault.restart);
    if (fault.period)
      loss->uncovered =
          std::max(loss->uncovered, std::fmod(now / unit::s, *fault.period / unit::s) * unit::s);
  }
  return loss;
}

}  // namespace triplepoint::sim
