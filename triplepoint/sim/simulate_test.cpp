// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate.h"

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"


namespace triplepoint::sim {
namespace {

spec::Job laptop_job() {
  const auto job = spec::parse_job(spec::default_library(), R"(
model = "tiny-llama"
cluster = "laptop"
stack = "triplepoint-train"
[plan]
tensor_parallel_size = 2
pipeline_parallel_size = 2
global_batch_size = 16
precision = "fp32"
optimizer = "fp32_adamw"
)",
                                   "job.toml");
  REQUIRE_MESSAGE(job, job.error().what);
  return *job;
}

TEST_CASE("ranks on the cores of one machine have a step time, and no power rather than none") {
  const spec::Job job = laptop_job();
  CHECK_FALSE(spec::has_errors(spec::diagnose(job)));
  for (const Horizon& horizon : {Horizon{}, Horizon{.steps = 3}}) {
    const run::Run run = simulate(job, horizon);
    REQUIRE_FALSE(run.steps.empty());
    CHECK(run.steps[0].end > run.steps[0].begin);
    CHECK(run.manifest.job == job);
    CHECK(run.series.empty());
    REQUIRE(run.summaries.size() == 8);
    for (const run::DeviceSummary& device : run.summaries) {
      CHECK_FALSE(device.power_mean_w);
      CHECK_FALSE(device.energy_j);
      CHECK_FALSE(device.die_mean_c);
      CHECK_FALSE(device.sm_clock_mean_mhz);
      CHECK(device.scale_out_bytes.value_or(0) > 0);  // data parallelism crosses the two nodes
    }
  }
}

TEST_CASE("a power limit where no power is known is refused") {
  spec::Job job = laptop_job();
  job.environment.power_limit = 10 * unit::W;
  CHECK(spec::has_errors(spec::diagnose(job)));
}

}  // namespace
}  // namespace triplepoint::sim
