// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/step.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "triplepoint/sim/boundaries.h"
#include "triplepoint/sim/device_phase.h"
#include "triplepoint/sim/simulate_schedule.h"
#include "triplepoint/sim/step_model.h"

namespace triplepoint::search {

using sim::SendMode;
using workload::ActionKind;

namespace {

/// Programs of more actions than this are not kept.
constexpr size_t most_stored_programs = 64;

/// What a phase consists of at full clock.
struct PhaseParts {
  double compute = 0, recompute = 0, exposed = 0, launch = 0;
  double length() const { return compute + recompute + exposed + launch; }
};

PhaseParts parts_of(sim::PhaseTable& table, size_t recomputed_groups, double host_factor) {
  PhaseParts parts;
  const auto& points = table.groups_at(0);
  for (size_t g = 0; g < points.size(); ++g) {
    const sim::GroupEstimate& group = table.groups()[g];
    const double repeat = as_real(group.repeat);
    const double length = repeat * (group.length(points[g], host_factor) / unit::s);
    const double compute = repeat * (points[g].compute / unit::s);
    const double busy = repeat * (points[g].busy / unit::s);
    if (g < recomputed_groups) {
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
         cluster.scale_out.oversubscription > 1 ||
         cluster.scale_out.kind == spec::FabricKind::dragonfly;
}

}  // namespace

std::string_view name_of(Term term) {
  static constexpr std::array<std::string_view, term_count> names = {
      "compute", "recompute",          "communication in layers", "launch",    "throttling",
      "sends",   "waiting for stages", "data-parallel sync",      "optimizer", "overhead"};
  return names[as_size(term)];
}

/// One kind of phase on one stage.
struct PhaseEstimate {
  int64_t work = 0;
  ActionKind kind = ActionKind::forward;
  spec::GpuLoad exchange;
  sim::DevicePhase device;
  PhaseParts parts;
};

/// Phases of one chunk of one stage: index of the phase by ActionKind, absent where it is not
/// simulated.
using ChunkPhases = std::array<std::optional<size_t>, sim::action_kind_count>;

struct PhaseEstimates {
  std::vector<sim::Pipeline> pipelines;
  sim::BoundaryEstimates boundaries;
  SendMode mode = SendMode::blocking;
  std::vector<PhaseEstimate> distinct;
  std::vector<std::vector<ChunkPhases>> of;  // [stage][chunk]

  const PhaseEstimate& at(size_t stage, const workload::Action& action) const {
    const ChunkPhases& chunk = of[stage][as_size(action.chunk)];
    return distinct[*chunk[as_size(action.kind)]];
  }
};

namespace {

bool same_exchange(const spec::GpuLoad& a, const spec::GpuLoad& b) {
  return a.duration == b.duration && a.communicating == b.communicating &&
         a.scale_out_bytes == b.scale_out_bytes;
}

/// Estimates phases, equal ones once.
class PhaseEstimator {
 public:
  PhaseEstimator(const spec::Job& job, const Typical& typical, const workload::WorkGraph& graph,
                 PhaseEstimates& phases)
      : job_(job), typical_(typical), graph_(graph), phases_(phases) {}

  size_t index_of(size_t stage, size_t chunk, ActionKind kind) {
    const int64_t work = graph_.chunk_work[stage][chunk];
    const auto way =
        as_size(kind == ActionKind::forward ? sim::Direction::next : sim::Direction::previous);
    const spec::GpuLoad exchange = sim::exchange_load(
        job_.stack, phases_.boundaries.estimates[0][stage][way], phases_.mode, kind);
    for (size_t i = 0; i < phases_.distinct.size(); ++i) {
      const PhaseEstimate& known = phases_.distinct[i];
      if (known.work == work && known.kind == kind && same_exchange(known.exchange, exchange))
        return i;
    }
    phases_.distinct.push_back(estimate(work, kind, exchange));
    return phases_.distinct.size() - 1;
  }

 private:
  PhaseEstimate estimate(int64_t work, ActionKind kind, const spec::GpuLoad& exchange) const {
    const workload::ChunkWork& chunk = graph_.works[as_size(work)];
    sim::PhaseTable table =
        sim::make_phase_table(job_, sim::estimate_action(job_, graph_, chunk, kind));
    const bool recomputes = kind == ActionKind::backward || kind == ActionKind::backward_input;
    PhaseEstimate phase{.work = work, .kind = kind, .exchange = exchange};
    phase.device = sim::choose_device_phase(job_, table,
                                            {.exchange = exchange,
                                             .host_factor = typical_.host_factor,
                                             .die = typical_.die,
                                             .limit = job_.power_limit()});
    phase.parts = parts_of(table, recomputes ? chunk.recompute.size() : 0, typical_.host_factor);
    return phase;
  }

  const spec::Job& job_;
  const Typical& typical_;
  const workload::WorkGraph& graph_;
  PhaseEstimates& phases_;
};

/// What stages do in a step, from when their schedules end: the step's time, energy and terms.
class Account {
 public:
  Account(const spec::Job& job, const workload::WorkGraph& graph, const PhaseEstimates& phases)
      : job_(job), graph_(graph), phases_(phases) {
    for (const workload::StepWork& work : graph.step_works)
      epilogues_.push_back(sim::estimate_epilogue(job, graph, work));
  }

  StepEstimate estimate(std::vector<Seconds> finishes, Celsius die) {
    finishes_ = std::move(finishes);
    StepEstimate estimate;
    estimate.time = step_time() / unit::s;
    spec::GpuLoad waiting;
    waiting.duration = waiting.waiting = 1 * unit::s;
    const double waiting_power = sim::typical_power(job_, waiting, 1, die) / unit::W;
    const double devices = as_real(job_.world_size() / graph_.stages);
    double longest = -1;
    for (size_t stage = 0; stage < finishes_.size(); ++stage) {
      const StageSum sum = sum_of(stage);
      const double rest = std::max(0., estimate.time - sum.busy);
      estimate.energy += devices * (sum.energy + rest * waiting_power);
      estimate.peak_power = std::max(estimate.peak_power, sum.peak_power);
      if (sum.busy <= longest) continue;
      longest = sum.busy;
      estimate.terms = with_end(sum.terms, stage, estimate.time);
    }
    return estimate;
  }

 private:
  using Terms = std::array<double, term_count>;
  struct StageSum {
    Terms terms{};
    double busy = 0, energy = 0, peak_power = 0;
  };

  const sim::EpilogueEstimate& epilogue_of(size_t stage) const {
    return epilogues_[as_size(graph_.step_work[stage])];
  }
  Seconds sync_of(size_t stage) const {
    const PhaseEstimate& last = phases_.at(stage, graph_.programs[stage].back());
    return sim::exposed_time(epilogue_of(stage).gradient_sync, last.device.duration);
  }
  Seconds gather_of(size_t stage) const {
    const PhaseEstimate& first = phases_.at(stage, graph_.programs[stage].front());
    return sim::exposed_time(epilogue_of(stage).parameter_sync, first.device.duration);
  }

  Seconds step_time() const {
    Seconds norm_ready, step;
    for (size_t s = 0; s < finishes_.size(); ++s)
      norm_ready = std::max(norm_ready, finishes_[s] + sync_of(s));
    for (size_t s = 0; s < finishes_.size(); ++s) {
      const Seconds normed = norm_ready + sim::total_time(epilogue_of(s).gradient_norm);
      step = std::max(step, normed + sim::total_time(epilogue_of(s).optimizer) + gather_of(s));
    }
    return step;
  }

  StageSum sum_of(size_t stage) const {
    StageSum sum;
    for (const ChunkPhases& chunk : phases_.of[stage])
      for (const std::optional<size_t>& index : chunk)
        if (index) add(phases_.distinct[*index], sum);
    return sum;
  }

  void add(const PhaseEstimate& phase, StageSum& sum) const {
    const auto term = [&](Term which) -> double& { return sum.terms[as_size(which)]; };
    const double times = as_real(graph_.microbatches), gap = job_.stack.microbatch_gap / unit::s;
    const double duration = phase.device.duration / unit::s;
    const double with_exchange = duration + phase.exchange.duration / unit::s;
    const double power = phase.device.power / unit::W;
    term(Term::compute) += times * phase.parts.compute;
    term(Term::recompute) += times * phase.parts.recompute;
    term(Term::exposed) += times * phase.parts.exposed;
    term(Term::launch) += times * (phase.parts.launch + gap);
    term(Term::throttling) += times * (duration - phase.parts.length());
    term(Term::sends) += times * (with_exchange - duration - gap);
    sum.busy += times * with_exchange;
    sum.energy += times * with_exchange * power;
    sum.peak_power = std::max(sum.peak_power, power);
  }

  Terms with_end(Terms terms, size_t stage, double time) const {
    const auto term = [&](Term which) -> double& { return terms[as_size(which)]; };
    term(Term::overhead) = job_.stack.step_overhead / unit::s;
    term(Term::data_sync) = (sync_of(stage) + gather_of(stage)) / unit::s;
    term(Term::optimizer) = (sim::total_time(epilogue_of(stage).gradient_norm) +
                             sim::total_time(epilogue_of(stage).optimizer)) /
                            unit::s;
    double rest = time;
    for (const double each : terms)
      rest -= each;
    term(Term::bubble) = rest;
    return terms;
  }

  const spec::Job& job_;
  const workload::WorkGraph& graph_;
  const PhaseEstimates& phases_;
  std::vector<Seconds> finishes_;
  std::vector<sim::EpilogueEstimate> epilogues_;
};

std::vector<sim::StageTimes> stage_times(const PhaseEstimates& phases,
                                         const workload::WorkGraph& graph) {
  std::vector<sim::StageTimes> times(phases.of.size());
  for (size_t s = 0; s < times.size(); ++s) {
    times[s].program = &graph.programs[s];
    for (const ChunkPhases& chunk : phases.of[s]) {
      auto& durations = times[s].durations.emplace_back();
      for (size_t kind = 0; kind < chunk.size(); ++kind)
        if (chunk[kind]) durations[kind] = phases.distinct[*chunk[kind]].device.duration;
    }
  }
  return times;
}

std::vector<ActionKind> kinds_of(spec::Schedule schedule) {
  if (schedule == spec::Schedule::zero_bubble)
    return {ActionKind::forward, ActionKind::backward_input, ActionKind::backward_weight};
  return {ActionKind::forward, ActionKind::backward};
}

sim::ScheduleRules rules_of(const spec::Job& job) {
  return {.gap = job.stack.microbatch_gap, .start = job.stack.step_overhead};
}

void raise(std::vector<Seconds>& latest, size_t stage, Seconds finish) {
  latest[stage] = std::max(latest[stage], finish);
}

constexpr double not_yet = std::numeric_limits<double>::infinity();

/// A wire on a link: when its data flow, one send at a time, and what they take of the link.
struct LinkUser {
  const std::vector<double>* begins = nullptr;
  double latency = 0, alone = 0, rate = 0;
  double busy_until = 0;
  size_t next = 0;
  double next_begin() const { return next < begins->size() ? (*begins)[next] + latency : not_yet; }
};

/// Goes through the sends in the order of their begin.
bool suffices(std::vector<LinkUser>& users, double capacity) {
  while (true) {
    auto first = users.begin();
    for (auto user = users.begin(); user != users.end(); ++user)
      if (user->next_begin() < first->next_begin()) first = user;
    const double now = first->next_begin();
    if (now == not_yet) return true;
    first->busy_until = (*first->begins)[first->next++] + first->alone;
    double carried = 0;
    for (const LinkUser& user : users)
      if (user.busy_until > now) carried += user.rate;
    if (carried > capacity) return false;
  }
}

}  // namespace

StepEvaluator::StepEvaluator(const spec::Job& base, Typical typical)
    : job_(base), typical_(typical) {
  hardware_.host_factor.assign(as_size(job_.cluster.num_nodes), typical.host_factor);
}

std::vector<workload::StageProgram>& StepEvaluator::programs_of(const spec::Plan& plan) {
  const std::array<int64_t, 4> key = {static_cast<int64_t>(plan.schedule),
                                      plan.pipeline_parallel_size, plan.virtual_pipeline_size,
                                      job_.num_microbatches()};
  const auto found = programs_.find(key);
  if (found != programs_.end()) return found->second;
  if (programs_.size() >= most_stored_programs) programs_.clear();
  return programs_[key] = workload::build_programs(job_);
}

workload::MemoryVerdict StepEvaluator::memory(const spec::Plan& plan) {
  job_.plan = plan;
  return workload::estimate_memory(job_, programs_of(plan));
}

StepEstimate StepEvaluator::evaluate(const spec::Plan& plan) {
  return *evaluate(plan, [](const StepBound&) { return true; });
}

std::optional<StepEstimate> StepEvaluator::evaluate(const spec::Plan& plan, const MayWin& may_win) {
  job_.plan = plan;
  workload::WorkGraph graph = workload::build_work_without_programs(job_);
  // Lent for as long as the plan is simulated: programs of many microbatches are long.
  std::vector<workload::StageProgram>& programs = programs_of(plan);
  std::swap(graph.programs, programs);
  const std::optional<StepEstimate> step = schedule(estimate(graph), graph, may_win);
  std::swap(graph.programs, programs);
  return step;
}

PhaseEstimates StepEvaluator::estimate(const workload::WorkGraph& graph) const {
  PhaseEstimates phases;
  phases.mode = job_.plan.overlap_pipeline ? SendMode::overlapped : SendMode::blocking;
  if (shares_links(job_.cluster) && graph.stages > 1)
    phases.pipelines = sim::form_pipelines(job_, graph, hardware_);
  else
    phases.pipelines = {sim::form_pipeline(job_, graph, hardware_, 0)};
  phases.boundaries = sim::estimate_boundaries(job_, graph, phases.pipelines);
  phases.of.resize(as_size(graph.stages));
  PhaseEstimator estimator(job_, typical_, graph, phases);
  for (size_t stage = 0; stage < phases.of.size(); ++stage) {
    phases.of[stage].resize(as_size(graph.virtual_stages));
    for (size_t chunk = 0; chunk < phases.of[stage].size(); ++chunk)
      for (const ActionKind kind : kinds_of(job_.plan.schedule))
        phases.of[stage][chunk][as_size(kind)] = estimator.index_of(stage, chunk, kind);
  }
  return phases;
}

std::optional<StepEstimate> StepEvaluator::schedule(const PhaseEstimates& phases,
                                                    const workload::WorkGraph& graph,
                                                    const MayWin& may_win) {
  const std::vector<sim::StageTimes> times = stage_times(phases, graph);
  const sim::Wiring wiring(phases.boundaries.boundaries, phases.boundaries.capacities, phases.mode);
  Account account(job_, graph, phases);
  const StepEstimate alone = account.estimate(finishes_alone(times, wiring, phases), typical_.die);
  const bool flows = std::ranges::any_of(wiring.clusters(), &sim::Wiring::Cluster::has_flows);
  if (!flows || (wiring.num_pipelines() == 1 && scheduler_.links_suffice(wiring, 0))) return alone;
  if (!may_win({.time = alone.time, .energy = alone.energy})) return std::nullopt;
  ++linked_;
  std::vector<Seconds> latest(times.size());
  const std::vector<std::vector<sim::StageTimes>> all(phases.pipelines.size(), times);
  for (const auto& pipeline : sim::simulate_schedule(all, wiring, rules_of(job_)))
    for (size_t s = 0; s < latest.size(); ++s)
      raise(latest, s, pipeline[s].finish);
  return account.estimate(std::move(latest), typical_.die);
}

/// Where every send has its links to itself.
std::vector<Seconds> StepEvaluator::finishes_alone(const std::vector<sim::StageTimes>& times,
                                                   const sim::Wiring& wiring,
                                                   const PhaseEstimates& phases) {
  std::vector<Seconds> latest(times.size());
  for (size_t p = 0; p < wiring.num_pipelines(); ++p) {
    if (p > 0 && std::ranges::equal(wiring.wires(p), wiring.wires(p - 1))) continue;
    const auto found = scheduler_.finish_times(times, wiring.wires(p), phases.mode, rules_of(job_));
    for (size_t s = 0; s < latest.size(); ++s)
      raise(latest, s, found[s]);
  }
  return latest;
}

std::span<const Seconds> FinishTimeScheduler::finish_times(std::span<const sim::StageTimes> stages,
                                                           std::span<const sim::Wire> wires,
                                                           sim::SendMode mode,
                                                           const sim::ScheduleRules& rules) {
  engine_.start(stages, wires, mode, rules);
  engine_.run();
  finish_.clear();
  for (size_t s = 0; s < stages.size(); ++s)
    finish_.push_back(engine_.finish(s));
  return finish_;
}

bool FinishTimeScheduler::links_suffice(const sim::Wiring& wiring, size_t pipeline) const {
  std::vector<std::vector<LinkUser>> users(wiring.capacities().size());
  const auto wires = wiring.wires(pipeline);
  for (size_t w = 0; w < wires.size(); ++w) {
    if (wires[w].flow_class == sim::Wire::no_flow) continue;
    const sim::FlowClass& flow = wiring.classes()[as_size(wires[w].flow_class)];
    for (const sim::LinkUse& use : flow.links)
      users[as_size(use.link)].push_back({.begins = &engine_.record().begins[w],
                                          .latency = wires[w].latency / unit::s,
                                          .alone = wires[w].alone / unit::s,
                                          .rate = use.ranks * flow.limit});
  }
  for (size_t link = 0; link < users.size(); ++link)
    if (!suffices(users[link], wiring.capacities()[link].in_base_units())) return false;
  return true;
}

}  // namespace triplepoint::search
