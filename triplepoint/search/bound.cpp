// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/bound.h"

#include <algorithm>
#include <span>

#include "triplepoint/sim/boundaries.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/hardware_variation.h"
#include "triplepoint/sim/step_model.h"
#include "triplepoint/workload/chunk_work.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::search {
namespace {

using spec::Recompute;
using spec::Schedule;
using workload::ActionKind;
using workload::ChunkLayers;
using ChunkLayout = std::vector<std::vector<ChunkLayers>>;

void add_chunk(const spec::Job& job, const ChunkLayers& chunk, StageParts& parts) {
  const workload::LayerCounts again = workload::recomputed_layers(job, chunk);
  for (size_t kind = 0; kind < parts.layers.size(); ++kind) {
    parts.layers[kind] += as_real(chunk.count.of_kind[kind]);
    parts.recomputed[kind] += as_real(again.of_kind[kind]);
  }
  parts.predictions += as_real(chunk.predictions);
  parts.embedding |= chunk.has_embedding;
  parts.head |= chunk.has_head;
}

/// One microbatch through some layers, forward and backward.
struct PassCosts {
  Cost forward, backward;
};

PassCosts cost_of(const LayerCosts& layers, const StageParts& parts, const spec::Plan& plan) {
  PassCosts sum;
  const auto add = [&](double count, const PartCost& part) {
    if (count == 0) return;
    sum.forward += count * part.forward;
    sum.backward += count * part.backward;
  };
  for (size_t kind = 0; kind < parts.layers.size(); ++kind)
    add(parts.layers[kind], layers.layers[kind]);
  add(parts.predictions, layers.prediction);
  add(parts.embedding ? 1 : 0, layers.embedding);
  add(parts.head ? 1 : 0, layers.head);
  if (plan.recompute == Recompute::selective) {
    for (size_t kind = 0; kind < parts.layers.size(); ++kind)
      sum.backward += parts.layers[kind] * layers.layers[kind].selected;
    sum.backward += parts.predictions * layers.prediction.selected;
  }
  if (plan.recompute == Recompute::full) {
    for (size_t kind = 0; kind < parts.layers.size(); ++kind)
      sum.backward += parts.recomputed[kind] * layers.layers[kind].recompute;
  }
  return sum;
}

/// Time that a stage's own stream is taken by sends: all but the last one back, after which it has
/// no more work.
double blocked_by_sends(const spec::Job& job, const SendCosts& sends, size_t stage) {
  const spec::Plan& plan = job.plan;
  if (plan.overlap_pipeline) return 0;
  const double microbatches = as_real(job.num_microbatches());
  const double chunks = as_real(plan.virtual_pipeline_size);
  const bool wraps = plan.virtual_pipeline_size > 1;
  const bool first = stage == 0, last = stage + 1 == sends.next.size();
  // With chunks the last stage sends to the first, but for the last chunk; and the other way round.
  const double forwards = microbatches * (wraps && last ? chunks - 1 : chunks);
  const double backwards = microbatches * (wraps && first ? chunks - 1 : chunks);
  return forwards * sends.next[stage] + std::max(0., backwards - 1) * sends.previous[stage];
}

/// Forwards until the first backward: all a stage holds at once under 1F1B and GPipe, and part of
/// what it holds under the others.
workload::StageProgram warm_up(const spec::Job& job, int64_t stage) {
  const int64_t stages = job.plan.pipeline_parallel_size, chunks = job.plan.virtual_pipeline_size;
  const int64_t microbatches = job.num_microbatches(), total = microbatches * chunks;
  int64_t forwards = std::min(stages - stage, total);
  if (job.plan.schedule == Schedule::gpipe) forwards = total;
  if (chunks > 1) forwards = std::min(2 * (stages - stage - 1) + (chunks - 1) * stages + 1, total);
  workload::StageProgram program(as_size(forwards));
  for (int64_t k = 0; k < forwards; ++k)
    program[as_size(k)].chunk = static_cast<int32_t>(k % (stages * chunks) / stages);
  return program;
}

/// Bytes of one stage of a job.
class StageBytes {
 public:
  StageBytes(const spec::Job& job, const ChunkLayout& layout, MemoryBound bound)
      : job_(job),
        layout_(layout),
        bound_(bound),
        context_{job, workload::largest_share_of_rank(job)} {}

  Bytes at(size_t stage) const {
    const bool warms_up = bound_ == MemoryBound::warm_up;
    const auto program =
        warms_up ? warm_up(job_, static_cast<int64_t>(stage)) : workload::StageProgram();
    return workload::stage_memory(context_, layout_[stage], program).total();
  }

 private:
  const spec::Job& job_;
  const ChunkLayout& layout_;
  MemoryBound bound_;
  workload::LayerContext context_;
};

}  // namespace

PipelineParts count_parts(const spec::Job& job, const ChunkLayout& layout) {
  PipelineParts parts;
  for (const auto& chunks : layout) {
    add_chunk(job, chunks.front(), parts.firsts.emplace_back());
    StageParts& stage = parts.stages.emplace_back();
    for (const ChunkLayers& chunk : chunks)
      add_chunk(job, chunk, stage);
  }
  return parts;
}

SendCosts estimate_sends(const spec::Job& job, const Typical& typical) {
  const auto stages = as_size(job.plan.pipeline_parallel_size);
  SendCosts costs{std::vector<double>(stages), std::vector<double>(stages)};
  if (stages == 1) return costs;
  workload::WorkGraph graph{.grid = workload::RankGrid(job)};
  const workload::RankShare share = workload::share_of_rank(job);
  graph.stages = job.plan.pipeline_parallel_size;
  graph.virtual_stages = job.plan.virtual_pipeline_size;
  graph.boundary_bytes = share.residual * as_real(share.sharded_tokens * share.hidden) * unit::B;
  graph.programs = {{{.kind = ActionKind::backward}}};  // gradients travel, too
  sim::HardwareVariation hardware;
  hardware.host_factor.assign(as_size(job.cluster.num_nodes), typical.host_factor);
  const std::vector<sim::Pipeline> pipelines = {sim::form_pipeline(job, graph, hardware, 0)};
  const sim::BoundaryEstimates estimate = sim::estimate_boundaries(job, graph, pipelines);
  for (size_t s = 0; s < stages; ++s) {
    const sim::StageBoundaries& boundary = estimate.boundaries[0][s];
    costs.next[s] = (boundary.next.latency + boundary.next.transfer) / unit::s;
    costs.previous[s] = (boundary.previous.latency + boundary.previous.transfer) / unit::s;
  }
  return costs;
}

std::vector<EndCost> estimate_epilogues(const spec::Job& job) {
  const workload::WorkGraph graph = workload::build_work_without_programs(job);
  std::vector<EndCost> distinct;
  for (const workload::StepWork& work : graph.step_works) {
    const sim::EpilogueEstimate end = sim::estimate_epilogue(job, graph, work);
    EndCost& cost = distinct.emplace_back();
    for (const sim::OpEstimate& op : end.gradient_sync)
      (op.hidden ? cost.hidden_gradients : cost.gradients) += op.at(1) / unit::s;
    cost.after = (sim::total_time(end.gradient_norm) + sim::total_time(end.optimizer)) / unit::s;
    for (const sim::OpEstimate& op : end.parameter_sync)
      (op.hidden ? cost.hidden_parameters : cost.after) += op.at(1) / unit::s;
  }
  return mapped(graph.step_work, [&](const int64_t work) { return distinct[as_size(work)]; });
}

StepBound bound_step(const spec::Job& job, const BoundInputs& in) {
  const spec::Plan& plan = job.plan;
  const size_t stages = in.parts.stages.size();
  const double gap = job.stack.microbatch_gap / unit::s;
  const double microbatches = as_real(job.num_microbatches());
  const double chunks = as_real(plan.virtual_pipeline_size);
  const bool wraps = plan.virtual_pipeline_size > 1;
  const bool returns = plan.schedule != Schedule::zero_bubble;
  const double gaps = (plan.schedule == Schedule::zero_bubble ? 3 : 2) * gap * chunks;

  double ramp = job.stack.step_overhead / unit::s, drain = 0, energy = 0;
  double finish = 0, alone = 0, after = 0;
  for (size_t s = 0; s < stages; ++s) {
    const PassCosts whole = cost_of(in.layers, in.parts.stages[s], plan);
    const PassCosts first = wraps ? cost_of(in.layers, in.parts.firsts[s], plan) : whole;
    const double work = microbatches * (whole.forward.time + whole.backward.time + gaps) +
                        blocked_by_sends(job, in.sends, s);
    const EndCost& end = in.ends[s];
    const double own = ramp + work;
    // A backward longer than what hides behind it adds at least as much to the stage's own work.
    const double synced =
        own + end.gradients + std::max(0., end.hidden_gradients - whole.backward.time);
    alone = std::max(alone,
                     synced + end.after + std::max(0., end.hidden_parameters - whole.forward.time));
    finish = std::max({finish, synced, returns ? own + drain + in.ends[0].gradients : own});
    after = std::max(after, end.after);
    ramp += first.forward.time + gap + in.sends.next[s];
    drain += first.backward.time + gap;
    if (s + 1 < stages) drain += in.sends.previous[s + 1];
    energy += microbatches * (whole.forward.energy + whole.backward.energy);
  }
  StepBound bound;
  bound.time = std::max(alone, finish + after);
  const double devices = as_real(job.world_size());
  bound.energy =
      devices * (energy / as_real(static_cast<int64_t>(stages)) + in.resting_power * bound.time);
  return bound;
}

bool exceeds_memory(const spec::Job& job, const ChunkLayout& layout, MemoryBound bound,
                    Bytes usable) {
  const StageBytes stage(job, layout, bound);
  return stage.at(0) > usable || (layout.size() > 1 && stage.at(layout.size() - 1) > usable);
}

namespace {

using workload::ChunkWork;

/// Estimates parts one after the other and keeps their loads: what they cost in energy depends on
/// the lowest clock of all of them.
struct PartEstimator {
  const spec::Job& job;
  const Typical& typical;
  const workload::WorkGraph& graph;
  EnergyBound bound;
  std::vector<spec::GpuLoad> loads = {};
  double lowest_clock = 1;  // over the highest: what the power limit leaves the hungriest part

  Cost estimate(const ChunkWork& work, ActionKind kind) {
    std::vector<sim::GroupEstimate> groups = sim::estimate_action(job, graph, work, kind);
    if (bound == EnergyBound::none)
      return {.time = sim::duration_at_full_clock(groups, job.stack, typical.host_factor) / unit::s,
              .energy = 0};
    sim::PhaseTable table = sim::make_phase_table(job, std::move(groups));
    const sim::PhasePoint point = table.at(0, typical.host_factor);
    loads.push_back(point.load);
    if (point.load.duration > Seconds()) {
      const sim::DevicePhase phase = sim::choose_device_phase(
          job, table,
          {.host_factor = typical.host_factor, .die = typical.die, .limit = job.power_limit()});
      lowest_clock = std::min(lowest_clock, table.ratio(phase.clock_index + 1));
    }
    return {.time = point.duration / unit::s, .energy = 0};
  }

  std::span<const ActionKind> backward_kinds() const {
    static constexpr ActionKind split[] = {ActionKind::backward_input, ActionKind::backward_weight};
    static constexpr ActionKind whole[] = {ActionKind::backward};
    if (job.plan.schedule == Schedule::zero_bubble) return split;
    return whole;
  }

  /// What the load costs beyond a device at rest for as long. A phase is a mean over its parts, so
  /// no phase runs at a lower clock than its hungriest part would alone.
  double least_energy(const spec::GpuLoad& load) const {
    if (load.duration <= Seconds()) return 0;
    const Watts power = sim::typical_power(job, load, lowest_clock, typical.die);
    return (power - resting_power()) * load.duration / unit::J;
  }
  Watts resting_power() const {
    spec::GpuLoad rest;
    rest.duration = 1 * unit::s;
    return sim::typical_power(job, rest, lowest_clock, typical.die);
  }
};

/// How a group of a part's ops is called, and what share of a layer's host time it takes.
struct PartName {
  std::string_view name;
  bool is_layer = false;
  double host_share = 1;
};

void append(std::vector<workload::OpGroup>& groups, const PartName& part,
            std::vector<spec::Op> ops) {
  if (ops.empty()) return;
  groups.push_back({part.name, 1, part.is_layer, std::move(ops), part.host_share});
}

Cost estimate_again(PartEstimator& estimator, const PartName& name, std::vector<spec::Op> ops) {
  ChunkWork work;
  append(work.recompute, name, std::move(ops));
  return estimator.estimate(work, ActionKind::backward);
}

Cost estimate_selected(PartEstimator& estimator, const PartName& name, workload::PartWork& part) {
  if (estimator.job.plan.recompute != Recompute::selective) return {};
  return estimate_again(estimator, name, std::move(part.passes.again));
}

/// Its passes but for recompute, taken out of the part.
ChunkWork work_of(const PartName& name, workload::PartWork& part) {
  ChunkWork work;
  append(work.forward, name, std::move(part.passes.forward));
  append(work.backward_input, name, std::move(part.passes.backward_input));
  append(work.backward_weight, name, std::move(part.passes.backward_weight));
  return work;
}

PartCost estimate_part(PartEstimator& estimator, const PartName& name, workload::PartWork& part) {
  PartCost cost;
  const ChunkWork work = work_of(name, part);
  cost.forward = estimator.estimate(work, ActionKind::forward);
  cost.recompute = estimate_again(estimator, name, std::move(part.recomputed));
  cost.selected = estimate_selected(estimator, name, part);
  for (const ActionKind kind : estimator.backward_kinds())
    cost.backward += estimator.estimate(work, kind);
  return cost;
}

/// In the order in which estimate_layers() estimates them.
void price(const PartEstimator& estimator, LayerCosts& costs) {
  size_t next = 0;
  const auto price_part = [&](PartCost& part) {
    part.forward.energy = estimator.least_energy(estimator.loads[next++]);
    part.recompute.energy = estimator.least_energy(estimator.loads[next++]);
    if (estimator.job.plan.recompute == Recompute::selective)
      part.selected.energy = estimator.least_energy(estimator.loads[next++]);
    for (size_t kind = 0; kind < estimator.backward_kinds().size(); ++kind)
      part.backward.energy += estimator.least_energy(estimator.loads[next++]);
  };
  price_part(costs.embedding);
  price_part(costs.head);
  for (PartCost& layer : costs.layers)
    if (layer.forward.time > 0) price_part(layer);
  if (next < estimator.loads.size()) price_part(costs.prediction);
  TPT_EXPECT(next == estimator.loads.size());
  costs.resting_power = estimator.resting_power() / unit::W;
}

PartName part_name(spec::LayerKind kind) {
  return {workload::name_of_layer(kind), true, workload::transformer_share(kind)};
}
constexpr PartName name_of_prediction{"prediction", true};

/// visit(name, part, place): place(LayerCosts&) is where the costs of the part belong.
void for_each_part(workload::ModelParts& parts, const auto& visit) {
  const auto visit_part = [&](const PartName& name, workload::PartWork& part, const auto& place) {
    if (!part.passes.forward.empty()) visit(name, part, place);
  };
  visit_part({"embedding"}, parts.embedding,
             [](LayerCosts& costs) -> PartCost& { return costs.embedding; });
  visit_part({"head"}, parts.head, [](LayerCosts& costs) -> PartCost& { return costs.head; });
  for (const spec::LayerKind kind : workload::all_layer_kinds)
    visit_part(part_name(kind), parts.layers[as_size(kind)],
               [kind](LayerCosts& costs) -> PartCost& { return costs.layers[as_size(kind)]; });
  visit_part(name_of_prediction, parts.prediction,
             [](LayerCosts& costs) -> PartCost& { return costs.prediction; });
}

/// A kind with few layers changes a bound by little, and costs as much to estimate as any other.
workload::ModelParts make_many_layers(const workload::LayerContext& context) {
  constexpr int64_t few = 8;  // a share of 1 / few
  const workload::LayerCounts count = workload::whole_model(context.job).count;
  workload::ModelParts parts;
  for (const spec::LayerKind kind : workload::all_layer_kinds)
    if (few * count[kind] >= count.total())
      parts.layers[as_size(kind)].passes = workload::make_passes(context, kind);
  return parts;
}

}  // namespace

Typical typical_of(const spec::Job& job) {
  const sim::HardwareVariation hardware = sim::draw_hardware_variation(job);
  return {sim::typical_die(job, 0.8), *std::ranges::max_element(hardware.host_factor)};
}

LayerCosts estimate_layers(const spec::Job& job, const Typical& typical, EnergyBound bound) {
  const workload::LayerContext context{job, workload::share_of_rank(job)};
  const workload::WorkGraph graph{.grid = workload::RankGrid(job)};
  workload::ModelParts parts = workload::make_parts(context);
  PartEstimator estimator{job, typical, graph, bound};
  LayerCosts costs;
  for_each_part(parts, [&](const PartName& name, workload::PartWork& part, const auto& place) {
    place(costs) = estimate_part(estimator, name, part);
  });
  if (bound != EnergyBound::none) price(estimator, costs);
  return costs;
}

std::vector<LayerCosts> estimate_many_layers(const spec::Job& job, const Typical& typical,
                                             const std::vector<spec::Plan>& overlaps) {
  const workload::LayerContext context{job, workload::share_of_rank(job)};
  const workload::WorkGraph graph{.grid = workload::RankGrid(job)};
  workload::ModelParts parts = make_many_layers(context);
  const PartEstimator estimator{job, typical, graph, EnergyBound::none};
  std::vector<LayerCosts> costs(overlaps.size());
  for_each_part(parts, [&](const PartName& name, workload::PartWork& part, const auto& place) {
    const ChunkWork work = work_of(name, part);
    const auto add = [&](ActionKind kind, Cost PartCost::*pass) {
      const std::vector<Seconds> times =
          sim::durations_at_full_clock({job, graph, work, kind}, typical.host_factor, overlaps);
      for (size_t i = 0; i < overlaps.size(); ++i)
        (place(costs[i]).*pass).time += times[i] / unit::s;
    };
    add(ActionKind::forward, &PartCost::forward);
    for (const ActionKind kind : estimator.backward_kinds())
      add(kind, &PartCost::backward);
  });
  return costs;
}

void estimate_selected(const spec::Job& job, const Typical& typical, LayerCosts& costs) {
  const workload::LayerContext context{job, workload::share_of_rank(job)};
  workload::ModelParts parts = workload::make_parts(context);
  const workload::WorkGraph graph{.grid = workload::RankGrid(job)};
  PartEstimator estimator{job, typical, graph, EnergyBound::none};
  for (const spec::LayerKind kind : workload::all_layer_kinds)
    costs.layers[as_size(kind)].selected =
        estimate_selected(estimator, part_name(kind), parts.layers[as_size(kind)]);
  costs.prediction.selected = estimate_selected(estimator, name_of_prediction, parts.prediction);
}

}  // namespace triplepoint::search
