// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/layer_costs.h"

#include <algorithm>

#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/hardware_variation.h"
#include "triplepoint/workload/chunk_work.h"

namespace triplepoint::search {
namespace {

using workload::ActionKind;
using workload::ChunkWork;

struct PartEstimator {
  const spec::Job& job;
  const Typical& typical;
  const workload::WorkGraph& graph;

  Cost estimate(const ChunkWork& work, ActionKind kind) const {
    sim::PhaseTable table =
        sim::make_phase_table(job, sim::estimate_action(job, graph, work, kind));
    const sim::PhasePoint point = table.at(0, typical.host_factor);
    return {point.duration / unit::s, least_energy(point.load)};
  }

  /// What the load costs beyond a device that only holds its clock down for as long.
  double least_energy(const spec::GpuLoad& load) const {
    spec::GpuLoad rest;
    rest.duration = load.duration;
    if (load.duration <= Seconds()) return 0;
    const Watts power = sim::typical_power(job, load, 0, typical.die);
    const Watts resting = sim::typical_power(job, rest, 0, typical.die);
    return (power - resting) * load.duration / unit::J;
  }
};

/// How a group of a part's ops is called, and what share of a layer's host time it takes.
struct PartName {
  std::string_view name;
  bool is_layer = false;
  double host_share = 1;
};

void append(std::vector<workload::OpGroup>& groups, const PartName& part,
            const std::vector<spec::Op>& ops) {
  if (!ops.empty()) groups.push_back({part.name, 1, part.is_layer, ops, part.host_share});
}

PartCost estimate_part(const PartEstimator& estimator, const PartName& name,
                       const workload::PartWork& part) {
  ChunkWork work, recomputed, selected;
  append(work.forward, name, part.passes.forward);
  append(work.backward_input, name, part.passes.backward_input);
  append(work.backward_weight, name, part.passes.backward_weight);
  append(recomputed.recompute, name, part.recomputed);
  append(selected.recompute, name, part.passes.again);
  return {.forward = estimator.estimate(work, ActionKind::forward),
          .backward = estimator.estimate(work, ActionKind::backward),
          .backward_input = estimator.estimate(work, ActionKind::backward_input),
          .backward_weight = estimator.estimate(work, ActionKind::backward_weight),
          .recompute = estimator.estimate(recomputed, ActionKind::backward),
          .selected = estimator.estimate(selected, ActionKind::backward)};
}

}  // namespace

Typical typical_of(const spec::Job& job) {
  const sim::HardwareVariation hardware = sim::draw_hardware_variation(job);
  return {sim::typical_die(job, 0.8),
          *std::max_element(hardware.host_factor.begin(), hardware.host_factor.end())};
}

LayerCosts estimate_layers(const spec::Job& job, const Typical& typical) {
  const workload::LayerContext context{job, workload::share_of_rank(job)};
  const workload::ModelParts parts = workload::make_parts(context);
  const workload::WorkGraph graph{.grid = workload::RankGrid(job)};
  const PartEstimator estimator{job, typical, graph};
  LayerCosts costs{.layers = {},
                   .embedding = estimate_part(estimator, {"embedding"}, parts.embedding),
                   .prediction = {},
                   .head = estimate_part(estimator, {"head"}, parts.head)};
  for (const spec::LayerKind kind : workload::all_layer_kinds) {
    const workload::PartWork& layer = parts.layer(kind);
    if (layer.passes.forward.empty()) continue;
    const PartName name{workload::name_of_layer(kind), true, workload::transformer_share(kind)};
    costs.layers[static_cast<size_t>(kind)] = estimate_part(estimator, name, layer);
  }
  if (!parts.prediction.passes.forward.empty())
    costs.prediction = estimate_part(estimator, {"prediction", true}, parts.prediction);
  return costs;
}

}  // namespace triplepoint::search
