// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate.h"

#include <utility>

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/passage.h"
#include "triplepoint/sim/record.h"
#include "triplepoint/sim/settle.h"
#include "triplepoint/sim/step_model.h"
#include "triplepoint/sim/without_power.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {
namespace {

CoupledStep steady_step(StepModel& model, ClusterHeat& heat) {
  heat.set_conditions(model.conditions());
  return settle(model, heat);
}

void simulate_steady(run::Run& run, StepModel& model, ClusterHeat heat, const Horizon& horizon) {
  const CoupledStep step = steady_step(model, heat);
  run.manifest.facts["limit_cycle"] = step.limit_cycle ? "yes" : "no";
  record_step(run, model, step, std::move(heat), Instant(), horizon);
}

}  // namespace

run::Run simulate(const spec::Job& job, const Horizon& horizon) {
  if (lacks_power(job))
    return play_without_power(
        job, [&](const spec::Job& complete) { return simulate(complete, horizon); });
  const workload::WorkGraph graph = workload::build_work_graph(job);
  run::Run run = start_run(job, graph);
  if (!graph.memory.fits()) return run;
  if (horizon.duration || horizon.steps) {
    Passage passage(job);
    run = passage.play(horizon);
    passage.record_detail(run, horizon);
    return run;
  }
  StepModel model(job, graph);
  simulate_steady(run, model, ClusterHeat(job, model.machine), horizon);
  return run;
}

Seconds steady_step_time(const spec::Job& job) {
  if (lacks_power(job)) {
    const run::Run run = simulate(job, {.duration = {}, .steps = {}, .timeline = false});
    return run.steps.back().end - run.steps.back().begin;
  }
  const workload::WorkGraph graph = workload::build_work_graph(job);
  StepModel model(job, graph);
  ClusterHeat heat(job, model.machine);
  return steady_step(model, heat).played.step_time;
}

}  // namespace triplepoint::sim
