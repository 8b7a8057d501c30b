// SPDX-License-Identifier: Apache-2.0
// The table of contents of the simulator: work graph, step model, then either the steady state or a
// transient; the run is written by record.cpp.
//
// A steady state is the default because most questions are about it and because it costs a few
// schedules instead of minutes of simulated time. A job that does not fit into memory ends after
// the work graph: its step has no meaning, and its memory breakdown is the answer. A device that
// passes its shutdown temperature has no steady step either: the run then holds the verdict instead
// of a step.
#include "triplepoint/sim/simulate.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/record.h"
#include "triplepoint/sim/steady_state.h"

namespace triplepoint::sim {
namespace {

CoupledStep steady_step(StepModel& model, std::optional<ClusterHeat>& heat) {
  if (!heat) return step_at(model, {});
  // Faults that last act on inlets, fans and sinks too; the model has only applied them to links,
  // hosts and limits.
  heat->set_conditions(model.conditions());
  return solve_steady_state(model, *heat);
}

run::Run simulate_steady(StepModel& model, const Horizon& horizon) {
  run::Run run = start_run(model.job, model.graph);
  std::optional<ClusterHeat> heat = make_heat(model.job, model.hardware);
  if (!heat) run.manifest.fidelity = run::Fidelity::step;
  const CoupledStep step = steady_step(model, heat);
  if (const auto shutdown = find_shutdown(model.job.cluster.gpu, step.dies))
    run::record_shutdown(run, *shutdown, *model.job.cluster.gpu.governor->shutdown_temperature);
  else
    record_step(run, model, step, std::move(heat), Instant(),
                {.timeline = horizon.timeline,
                 .causes = horizon.causes,
                 .series = horizon.timeline ? StepSeries::all : StepSeries::none});
  return run;
}

run::Run simulate_transient(std::unique_ptr<StepModel> model, const Horizon& horizon) {
  TransientSimulation simulation(std::move(model));
  run::Run run = simulation.advance(horizon);
  simulation.record_detail(run, horizon);
  return run;
}

run::Run simulate_graph(const spec::Job& job, workload::WorkGraph graph, const Horizon& horizon) {
  if (!graph.memory.fits()) return start_run(job, graph);
  auto model = std::make_unique<StepModel>(job, std::move(graph));
  if (horizon.duration || horizon.steps) return simulate_transient(std::move(model), horizon);
  return simulate_steady(*model, horizon);
}

}  // namespace

run::Run simulate(const spec::Job& job, const Horizon& horizon) {
  run::Run run = simulate_graph(job, workload::build_work_graph(job), horizon);
  if (horizon.duration || horizon.steps) run.manifest.fidelity = run::Fidelity::transient;
  if (horizon.duration) run.numbers.duration_s = *horizon.duration / unit::s;
  if (horizon.steps && !horizon.duration) run.numbers.num_steps = *horizon.steps;
  return run;
}

namespace {

CoupledStep steady_step_of(StepModel& model) {
  std::optional<ClusterHeat> heat = make_heat(model.job, model.hardware);
  return steady_step(model, heat);
}

}  // namespace

Seconds steady_step_time(const spec::Job& job) {
  StepModel model(job);
  return steady_step_of(model).timeline.step_time;
}

std::optional<Seconds> find_steady_step_time(const spec::Job& job) {
  workload::WorkGraph graph = workload::build_work_graph(job);
  if (!graph.memory.fits()) return std::nullopt;
  StepModel model(job, std::move(graph));
  const CoupledStep step = steady_step_of(model);
  if (find_shutdown(job.cluster.gpu, step.dies)) return std::nullopt;
  return step.timeline.step_time;
}

}  // namespace triplepoint::sim
