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

void simulate_steady(run::Run& run, StepModel& model, ClusterHeat heat, const Horizon& horizon) {
  heat.set_conditions(model.conditions());
  const CoupledStep step = settle(model, heat);
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

}  // namespace triplepoint::sim
