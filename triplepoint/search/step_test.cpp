// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/step.h"

#include <numeric>

#include "triplepoint/search/testing.h"
#include "triplepoint/sim/step_schedule.h"

namespace triplepoint::search {
namespace {

/// The machine of which every device and node is like the mean.
spec::Job without_spread(spec::Job job) {
  job.cluster.gpu.variability = {};
  job.cluster.host.speed_spread = 0;
  job.cluster.chassis.inlet_spread = {};
  return job;
}

Seconds simulated_step(const spec::Job& job, Celsius die) {
  const workload::WorkGraph graph = workload::build_work_graph(job);
  sim::StepModel model(job, graph);
  const std::vector<Celsius> dies(static_cast<size_t>(job.world_size()), die);
  return simulate_step(model, choose_clocks(model, dies)).step_time;
}

TEST_CASE("a plan's step is that of the simulator on a machine without spread") {
  for (const spec::Job& spread : test::few_jobs()) {
    spec::Job job = without_spread(spread);
    const Space space(job, Reach::everything, {});
    const Typical typical = typical_of(job);
    CHECK(typical.host_factor == 1);
    StepEvaluator evaluator(job, typical);
    for (int64_t i = 11; i < space.size(); i += space.size() / 25) {
      job.plan = space.plan(i);
      CAPTURE(i);
      CHECK(evaluator.evaluate(job.plan).time ==
            doctest::Approx(simulated_step(job, typical.die) / unit::s).epsilon(1e-12));
    }
  }
}

TEST_CASE("the terms of a step add up to it, and none but rounding is below zero") {
  for (const spec::Job& job : test::few_jobs()) {
    const Space space(job, Reach::everything, {});
    StepEvaluator evaluator(job, typical_of(job));
    for (int64_t i = 5; i < space.size(); i += space.size() / 25) {
      const StepEstimate step = evaluator.evaluate(space.plan(i));
      const double sum = std::accumulate(step.terms.begin(), step.terms.end(), 0.0);
      CHECK(sum == doctest::Approx(step.time));
      for (size_t t = 0; t < term_count; ++t) {
        CAPTURE(name_of(static_cast<Term>(t)));
        CHECK(step.terms[t] > -1e-3 * step.time);
      }
    }
  }
}

}  // namespace
}  // namespace triplepoint::search
