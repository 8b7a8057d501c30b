// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/layer_costs.h"

#include <algorithm>

#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/machine.h"
#include "triplepoint/workload/chunk_work.h"

namespace triplepoint::search {
namespace {

using workload::ActionKind;
using workload::ChunkWork;

struct Pricer {
  const spec::Job& job;
  const Typical& typical;
  const workload::WorkGraph& graph;

  Cost price(const ChunkWork& work, ActionKind kind) const {
    sim::PhaseTable table = sim::make_phase_table(job, sim::price_action(job, graph, work, kind));
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

PartCost price_part(const Pricer& pricer, const PartName& name, const workload::PartWork& part) {
  ChunkWork work, replayed, selected;
  append(work.forward, name, part.passes.forward);
  append(work.backward_input, name, part.passes.backward_input);
  append(work.backward_weight, name, part.passes.backward_weight);
  append(replayed.recompute, name, part.replayed);
  append(selected.recompute, name, part.passes.again);
  return {.forward = pricer.price(work, ActionKind::forward),
          .backward = pricer.price(work, ActionKind::backward),
          .backward_input = pricer.price(work, ActionKind::backward_input),
          .backward_weight = pricer.price(work, ActionKind::backward_weight),
          .replay = pricer.price(replayed, ActionKind::backward),
          .selected = pricer.price(selected, ActionKind::backward)};
}

}  // namespace

Typical typical_of(const spec::Job& job) {
  const sim::Machine machine = sim::draw_machine(job);
  return {sim::typical_die(job, 0.8),
          *std::max_element(machine.host_factor.begin(), machine.host_factor.end())};
}

LayerCosts price_layers(const spec::Job& job, const Typical& typical) {
  const workload::LayerContext context{job, workload::share_of_rank(job)};
  const workload::ModelParts parts = workload::make_parts(context);
  const workload::WorkGraph graph{.grid = workload::RankGrid(job)};
  const Pricer pricer{job, typical, graph};
  LayerCosts costs{.layers = {},
                   .embedding = price_part(pricer, {"embedding"}, parts.embedding),
                   .prediction = {},
                   .head = price_part(pricer, {"head"}, parts.head)};
  for (const spec::LayerKind kind : workload::all_layer_kinds) {
    const workload::PartWork& layer = parts.layer(kind);
    if (layer.passes.forward.empty()) continue;
    const PartName name{workload::name_of_layer(kind), true, workload::transformer_share(kind)};
    costs.layers[static_cast<size_t>(kind)] = price_part(pricer, name, layer);
  }
  if (!parts.prediction.passes.forward.empty())
    costs.prediction = price_part(pricer, {"prediction", true}, parts.prediction);
  return costs;
}

}  // namespace triplepoint::search
