// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate.h"

#include <memory>
#include <utility>

#include "triplepoint/run/shutdown.h"

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/prepared_job.h"
#include "triplepoint/sim/record.h"
#include "triplepoint/sim/steady_state.h"
#include "triplepoint/sim/transient.h"
#include "triplepoint/sim/without_power.h"

namespace triplepoint::sim {
namespace {

CoupledStep steady_step(PreparedJob& job, ClusterHeat& heat) {
  heat.set_conditions(job.model.conditions());
  return solve_steady_state(job.model, heat);
}

void simulate_steady(run::Run& run, PreparedJob& job, const Horizon& horizon) {
  ClusterHeat heat(job.job, job.model.hardware);
  const CoupledStep step = steady_step(job, heat);
  if (const auto device = device_shut_down(job.job.cluster.gpu, step.dies)) {
    run::record_shutdown(run,
                         {.device = static_cast<int32_t>(*device),
                          .die_c = step.dies[*device].degrees(),
                          .time = {}},
                         *job.job.cluster.gpu.governor->shutdown_temperature);
    return;
  }
  record_step(run, job.model, step, std::move(heat), Instant(), horizon);
}

}  // namespace

run::Run simulate(const spec::Job& job, const Horizon& horizon) {
  if (lacks_power(job))
    return simulate_without_power(
        job, [&](const spec::Job& complete) { return simulate(complete, horizon); });
  workload::WorkGraph graph = workload::build_work_graph(job);
  run::Run run = start_run(job, graph);
  if (!graph.memory.fits()) return run;
  auto prepared = std::make_unique<PreparedJob>(job, std::move(graph));
  if (!horizon.duration && !horizon.steps) {
    simulate_steady(run, *prepared, horizon);
    return run;
  }
  TransientSimulation simulation(std::move(prepared));
  run = simulation.advance(horizon);
  simulation.record_detail(run, horizon);
  return run;
}

Seconds steady_step_time(const spec::Job& job) {
  if (lacks_power(job)) {
    const run::Run run = simulate(job, {.duration = {}, .steps = {}, .timeline = false});
    return run.steps.back().end - run.steps.back().begin;
  }
  PreparedJob prepared(job);
  ClusterHeat heat(prepared.job, prepared.model.hardware);
  return steady_step(prepared, heat).timeline.step_time;
}

}  // namespace triplepoint::sim
