// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate.h"

#include <memory>
#include <optional>
#include <utility>

#include "triplepoint/run/shutdown.h"

#include "triplepoint/sim/heat.h"
#include "triplepoint/sim/prepared_job.h"
#include "triplepoint/sim/record.h"
#include "triplepoint/sim/steady_state.h"
#include "triplepoint/sim/transient.h"

namespace triplepoint::sim {
namespace {

CoupledStep steady_step(PreparedJob& job, std::optional<ClusterHeat>& heat) {
  if (!heat) return step_at(job.model, {});
  heat->set_conditions(job.model.conditions());
  return solve_steady_state(job.model, *heat);
}

run::Run simulate_steady(PreparedJob& job, const Horizon& horizon) {
  run::Run run = start_run(job.job, job.graph);
  std::optional<ClusterHeat> heat = make_heat(job.job, job.model.hardware);
  const CoupledStep step = steady_step(job, heat);
  if (const auto shutdown = find_shutdown(job.job.cluster.gpu, step.dies))
    run::record_shutdown(run, *shutdown, *job.job.cluster.gpu.governor->shutdown_temperature);
  else
    record_step(run, job.model, step, std::move(heat), Instant(), horizon);
  return run;
}

run::Run simulate_transient(std::unique_ptr<PreparedJob> job, const Horizon& horizon) {
  TransientSimulation simulation(std::move(job));
  run::Run run = simulation.advance(horizon);
  simulation.record_detail(run, horizon);
  return run;
}

}  // namespace

run::Run simulate(const spec::Job& job, const Horizon& horizon) {
  workload::WorkGraph graph = workload::build_work_graph(job);
  if (!graph.memory.fits()) return start_run(job, graph);
  auto prepared = std::make_unique<PreparedJob>(job, std::move(graph));
  if (horizon.duration || horizon.steps) return simulate_transient(std::move(prepared), horizon);
  return simulate_steady(*prepared, horizon);
}

Seconds steady_step_time(const spec::Job& job) {
  PreparedJob prepared(job);
  std::optional<ClusterHeat> heat = make_heat(job, prepared.model.hardware);
  return steady_step(prepared, heat).timeline.step_time;
}

}  // namespace triplepoint::sim
