// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/step.h"

#include <algorithm>
#include <utility>

#include "triplepoint/sim/boundaries.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/machine.h"
#include "triplepoint/sim/step_end.h"
#include "triplepoint/workload/work_without_programs.h"

namespace triplepoint::search {

using sim::SendMode;
using workload::ActionKind;

namespace {

double real(int64_t count) {
  return static_cast<double>(count);
}

/// Programs of more actions than this are not kept.
constexpr size_t most_kept_programs = 64;

/// What a phase consists of at full clock.
struct PhaseParts {
  double compute = 0, recompute = 0, exposed = 0, launch = 0;
  double length() const { return compute + recompute + exposed + launch; }
};

PhaseParts parts_of(sim::PhaseTable& table, size_t replayed_groups, double host_factor) {
  PhaseParts parts;
  const auto& points = table.groups_at(0);
  for (size_t g = 0; g < points.size(); ++g) {
    const sim::PricedGroup& group = table.groups()[g];
    const double repeat = real(group.repeat);
    const double length = repeat * (group.length(points[g], host_factor) / unit::s);
    const double compute = repeat * (points[g].compute / unit::s);
    const double busy = repeat * (points[g].busy / unit::s);
    if (g < replayed_groups) {
      parts.recompute += length;
      continue;
    }
    parts.compute += compute;
    parts.exposed += busy - compute;
    parts.launch += length - busy;
  }
  return parts;
}

/// Whether replicas can meet on a NIC or an uplink.
bool shares_links(const spec::Cluster& cluster) {
  return cluster.scale_out.nics_per_node < cluster.gpus_per_node ||
         cluster.scale_out.oversubscription > 1;
}

}  // namespace

std::string_view name_of(Term term) {
  static constexpr std::array<std::string_view, term_count> names = {
      "compute", "recompute", "exposed communication", "launch",    "throttling",
      "sends",   "bubble",    "data-parallel sync",    "optimizer", "overhead"};
  return names[static_cast<size_t>(term)];
}

/// One kind of phase on one stage.
struct PricedPhase {
  int64_t work = 0;
  ActionKind kind = ActionKind::forward;
  spec::GpuLoad exchange;
  sim::DevicePhase device;
  PhaseParts parts;
};

struct StepEvaluator::Phases {
  std::vector<sim::Pipeline> pipelines;
  sim::PricedBoundaries boundaries;
  SendMode mode = SendMode::blocking;
  std::vector<PricedPhase> distinct;
  std::vector<std::vector<std::array<size_t, sim::action_kind_count>>> of;  // [stage][chunk][kind]
};

StepEvaluator::StepEvaluator(const spec::Job& base, Typical typical)
    : job_(base), typical_(typical) {
  machine_.host_factor.assign(static_cast<size_t>(job_.cluster.num_nodes), typical.host_factor);
}

const std::vector<workload::StageProgram>& StepEvaluator::programs_of(const spec::Plan& plan) {
  const std::array<int64_t, 4> key = {static_cast<int64_t>(plan.schedule),
                                      plan.pipeline_parallel_size, plan.virtual_pipeline_size,
                                      job_.num_microbatches()};
  const auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  if (programs_.size() >= most_kept_programs) programs_.clear();
  return programs_[key] = workload::build_programs(job_);
}

workload::MemoryVerdict StepEvaluator::memory(const spec::Plan& plan) {
  job_.plan = plan;
  return workload::estimate_memory(job_, programs_of(plan));
}

StepEstimate StepEvaluator::evaluate(const spec::Plan& plan) {
  job_.plan = plan;
  workload::WorkGraph graph = workload::build_work_without_programs(job_);
  graph.programs = programs_of(plan);
  const Phases phases = price(graph);
  return finish(phases, graph, finishes(phases, graph));
}

StepEvaluator::Phases StepEvaluator::price(const workload::WorkGraph& graph) {
  Phases phases;
  phases.mode = job_.plan.overlap_pipeline ? SendMode::overlapped : SendMode::blocking;
  if (shares_links(job_.cluster) && graph.stages > 1)
    phases.pipelines = sim::form_pipelines(job_, graph, machine_);
  else
    phases.pipelines = {sim::form_pipeline(job_, graph, machine_, 0)};
  phases.boundaries = sim::price_boundaries(job_, graph, phases.pipelines);
  phases.of.resize(static_cast<size_t>(graph.stages));
  for (size_t stage = 0; stage < phases.of.size(); ++stage) {
    phases.of[stage].resize(static_cast<size_t>(graph.virtual_stages));
    // Every chunk is played once for the first round of microbatches, whatever the schedule.
    for (size_t chunk = 0; chunk < phases.of[stage].size(); ++chunk) {
      add_phase(phases, graph, stage, chunk, ActionKind::forward);
      if (job_.plan.schedule != spec::Schedule::zero_bubble) {
        add_phase(phases, graph, stage, chunk, ActionKind::backward);
        continue;
      }
      add_phase(phases, graph, stage, chunk, ActionKind::backward_input);
      add_phase(phases, graph, stage, chunk, ActionKind::backward_weight);
    }
  }
  return phases;
}

void StepEvaluator::add_phase(Phases& phases, const workload::WorkGraph& graph, size_t stage,
                              size_t chunk, ActionKind kind) {
  const int64_t work = graph.chunk_work[stage][chunk];
  const sim::Direction way =
      kind == ActionKind::forward ? sim::Direction::next : sim::Direction::previous;
  const auto& send = phases.boundaries.prices[0][stage][static_cast<size_t>(way)];
  const spec::GpuLoad exchange = sim::exchange_load(job_.stack, send, phases.mode, kind);
  size_t& index = phases.of[stage][chunk][static_cast<size_t>(kind)];
  for (index = 0; index < phases.distinct.size(); ++index) {
    const PricedPhase& known = phases.distinct[index];
    if (known.work == work && known.kind == kind && known.exchange.duration == exchange.duration &&
        known.exchange.communicating == exchange.communicating &&
        known.exchange.scale_out_bytes == exchange.scale_out_bytes)
      return;
  }
  const workload::ChunkWork& chunk_work = graph.works[static_cast<size_t>(work)];
  sim::PhaseTable table =
      sim::make_phase_table(job_, sim::price_action(job_, graph, chunk_work, kind));
  const bool replays = kind == ActionKind::backward || kind == ActionKind::backward_input;
  PricedPhase phase{.work = work, .kind = kind, .exchange = exchange, .device = {}, .parts = {}};
  phase.device = sim::choose_device_phase(job_, table,
                                          {.exchange = exchange,
                                           .host_factor = typical_.host_factor,
                                           .die = typical_.die,
                                           .limit = job_.power_limit()});
  phase.parts = parts_of(table, replays ? chunk_work.recompute.size() : 0, typical_.host_factor);
  phases.distinct.push_back(phase);
}

std::vector<Seconds> StepEvaluator::finishes(const Phases& phases,
                                             const workload::WorkGraph& graph) {
  std::vector<sim::StageTimes> times(phases.of.size());
  for (size_t s = 0; s < times.size(); ++s) {
    times[s].program = &graph.programs[s];
    for (const auto& chunk : phases.of[s]) {
      auto& durations = times[s].durations.emplace_back();
      for (const workload::Action& action :
           {workload::Action{ActionKind::forward}, workload::Action{ActionKind::backward},
            workload::Action{ActionKind::backward_input},
            workload::Action{ActionKind::backward_weight}}) {
        const auto kind = static_cast<size_t>(action.kind);
        const PricedPhase& phase = phases.distinct[chunk[kind]];
        if (phase.kind == action.kind) durations[kind] = phase.device.duration;
      }
    }
  }
  const sim::PlayRules rules{.gap = job_.stack.microbatch_gap, .start = job_.stack.step_overhead};
  const sim::Wiring wiring(phases.boundaries.boundaries, phases.boundaries.capacities, phases.mode);
  const bool flows =
      std::any_of(wiring.clusters().begin(), wiring.clusters().end(),
                  [](const sim::Wiring::Cluster& cluster) { return cluster.has_flows; });
  if (!flows) {
    const auto found = player_.play(times, wiring.wires(0), phases.mode, rules);
    return {found.begin(), found.end()};
  }
  ++linked_;
  const std::vector<std::vector<sim::StageTimes>> all(phases.pipelines.size(), times);
  std::vector<Seconds> latest(times.size());
  for (const auto& pipeline : sim::play(all, wiring, rules))
    for (size_t s = 0; s < latest.size(); ++s)
      latest[s] = std::max(latest[s], pipeline[s].finish);
  return latest;
}

StepEstimate StepEvaluator::finish(const Phases& phases, const workload::WorkGraph& graph,
                                   const std::vector<Seconds>& finishes) {
  std::vector<sim::PricedEnd> ends;
  for (const workload::StepWork& work : graph.step_works)
    ends.push_back(sim::price_end(job_, graph, work));
  const auto end_of = [&](size_t stage) -> const sim::PricedEnd& {
    return ends[static_cast<size_t>(graph.step_work[stage])];
  };
  const auto phase_of = [&](size_t stage, const workload::Action& action) -> const PricedPhase& {
    return phases.distinct[phases.of[stage][static_cast<size_t>(action.chunk)]
                                    [static_cast<size_t>(action.kind)]];
  };
  const auto sync_of = [&](size_t stage) {
    const workload::Action& last = graph.programs[stage].back();
    return sim::exposed_time(end_of(stage).gradient_sync, phase_of(stage, last).device.duration);
  };
  const auto gather_of = [&](size_t stage) {
    const workload::Action& first = graph.programs[stage].front();
    return sim::exposed_time(end_of(stage).parameter_sync, phase_of(stage, first).device.duration);
  };
  const auto update_of = [&](size_t stage) {
    return sim::total_time(end_of(stage).gradient_norm) + sim::total_time(end_of(stage).optimizer);
  };
  Seconds norm_ready, step;
  for (size_t s = 0; s < finishes.size(); ++s)
    norm_ready = std::max(norm_ready, finishes[s] + sync_of(s));
  for (size_t s = 0; s < finishes.size(); ++s) {
    const Seconds normed = norm_ready + sim::total_time(end_of(s).gradient_norm);
    step = std::max(step, normed + sim::total_time(end_of(s).optimizer) + gather_of(s));
  }

  StepEstimate estimate;
  estimate.time = step / unit::s;
  spec::GpuLoad waiting;
  waiting.duration = waiting.waiting = 1 * unit::s;
  const double waiting_power = sim::typical_power(job_, waiting, 1, typical_.die) / unit::W;
  const double devices_per_stage = real(job_.world_size() / graph.stages);
  const double gap = job_.stack.microbatch_gap / unit::s;
  double longest = -1;
  for (size_t s = 0; s < finishes.size(); ++s) {
    std::array<double, term_count> terms{};
    const auto term = [&](Term which) -> double& { return terms[static_cast<size_t>(which)]; };
    double busy = 0, joules = 0;
    const double times = real(graph.microbatches);
    for (const auto& chunk : phases.of[s])
      for (size_t kind = 0; kind < chunk.size(); ++kind) {
        const PricedPhase& phase = phases.distinct[chunk[kind]];
        if (static_cast<size_t>(phase.kind) != kind) continue;
        const double duration = phase.device.duration / unit::s;
        const double with_exchange = duration + phase.exchange.duration / unit::s;
        term(Term::compute) += times * phase.parts.compute;
        term(Term::recompute) += times * phase.parts.recompute;
        term(Term::exposed) += times * phase.parts.exposed;
        term(Term::launch) += times * (phase.parts.launch + gap);
        term(Term::throttling) += times * (duration - phase.parts.length());
        term(Term::sends) += times * (with_exchange - duration - gap);
        busy += times * with_exchange;
        joules += times * with_exchange * (phase.device.power / unit::W);
        estimate.peak_power = std::max(estimate.peak_power, phase.device.power / unit::W);
      }
    estimate.energy +=
        devices_per_stage * (joules + std::max(0., estimate.time - busy) * waiting_power);
    if (busy <= longest) continue;
    longest = busy;
    term(Term::overhead) = job_.stack.step_overhead / unit::s;
    term(Term::data_sync) = (sync_of(s) + gather_of(s)) / unit::s;
    term(Term::optimizer) = update_of(s) / unit::s;
    double rest = estimate.time;
    for (const double each : terms)
      rest -= each;
    term(Term::bubble) = rest;
    estimate.terms = terms;
  }
  return estimate;
}

}  // namespace triplepoint::search
