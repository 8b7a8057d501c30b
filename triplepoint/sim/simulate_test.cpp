// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/simulate.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/spec/job_testing.h"

#include "triplepoint/sim/jobs_testing.h"

namespace triplepoint::sim {
namespace {

spec::Job laptop_job() {
  return spec::job_of_text(R"(
model = "tiny-llama"
cluster = "laptop"
stack = "triplepoint-train"
[plan]
tensor_parallel_size = 2
pipeline_parallel_size = 2
global_batch_size = 16
precision = "fp32"
optimizer = "fp32_adamw"
)");
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
      CHECK(device.scale_up_bytes.value_or(0) > 0);
      CHECK(device.scale_out_bytes.value_or(0) == 0);  // nothing leaves the machine
    }
  }
}

TEST_CASE("a run without causes, on one thread, is the run with them but for the causes") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const spec::Job job = random_training_job(seed);
    const run::Run whole = simulate(job, {.timeline = false});
    const ThreadLimit one(1);
    const run::Run bare = simulate(job, {.timeline = false, .causes = false});
    CHECK(bare.summaries == whole.summaries);
    CHECK(bare.steps == whole.steps);
    CHECK(bare.bottlenecks.empty());
    CHECK(whole.numbers.step_without_heat_s.has_value());
    CHECK_FALSE(bare.numbers.step_without_heat_s.has_value());
  }
}

TEST_CASE("a power limit where no power is known is refused") {
  spec::Job job = laptop_job();
  job.environment.power_limit = 10 * unit::W;
  CHECK(spec::has_errors(spec::diagnose(job)));
}

TEST_CASE("a device's energy over the step is its mean power times the step's length") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const run::Run run = simulate(random_training_job(seed), {});
    REQUIRE(run.steps.size() == 1);
    const Seconds step = run.steps[0].end - run.steps[0].begin;
    for (const run::DeviceSummary& device : run.summaries) {
      CHECK(*device.energy_j == doctest::Approx(*device.power_mean_w * (step / unit::s)));
      double parts = 0;
      for (const auto& [name, joules] : device.energy_ledger_j)
        parts += joules;
      CHECK(parts == doctest::Approx(*device.energy_j));
      CHECK(*device.power_kernel_peak_w >= *device.power_mean_w);
      CHECK(*device.die_peak_c >= *device.die_mean_c);
    }
  }
}

TEST_CASE("peak temperatures follow the course of a step on any number of devices") {
  const auto hottest_rise = [](int nodes) {
    const spec::Job job = spec::job_of_text(fmt::format(R"(
model = "llama3-70b"
cluster = "dgx-h100"
nodes = {}
[plan]
tensor_parallel_size = 8
pipeline_parallel_size = 4
global_batch_size = {}
)",
                                                        nodes, 16 * nodes));
    return most_of(simulate(job, {}).summaries, [&](const run::DeviceSummary& device) {
      return *device.die_peak_c - *device.die_mean_c;
    });
  };
  const double of_few = hottest_rise(252), of_many = hottest_rise(260);  // 2,016 and 2,080 GPUs
  CHECK(of_few > 0.5);
  CHECK(of_many == doctest::Approx(of_few).epsilon(0.3));
}

TEST_CASE("a step trains the batch's tokens, and its length is what steady_step_time() gives") {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const spec::Job job = random_training_job(seed);
    const run::Run run = simulate(job, {});
    CHECK(run.steps[0].samples == job.plan.global_batch_size);
    CHECK(run.steps[0].tokens == job.plan.global_batch_size * job.model.sequence_length);
    const double step = (run.steps[0].end - run.steps[0].begin) / unit::s;
    CHECK(step == doctest::Approx(steady_step_time(job) / unit::s).epsilon(1e-8));  // whole ns
  }
}

TEST_CASE("equal input gives equal bits, and the timeline is only a record") {
  const spec::Job job = random_training_job(5);
  const run::Run one = simulate(job, {}), two = simulate(job, {});
  CHECK(one.series == two.series);
  CHECK(one.steps == two.steps);
  CHECK(simulate(job, {.timeline = false}).steps == one.steps);
}

TEST_CASE("replicas that wait for a slow one hide their gradients behind its last pass") {
  spec::Job job = spec::job_of_text(R"(
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 4
[plan]
tensor_parallel_size = 2
global_batch_size = 16
sharding = "optimizer"
overlap_gradient = true
)");
  spec::Fault& slow_host = job.environment.faults.emplace_back();
  slow_host.kind = spec::FaultKind::host;
  slow_host.node = 1;
  slow_host.share = 20;
  const Seconds step = steady_step_time(job);
  // The others become slower, though not as slow: the step must not become shorter.
  job.environment.device_clock_limits.assign(32, 1500 * unit::MHz);
  CHECK(steady_step_time(job) >= step);
}

TEST_CASE("a job that does not fit has a memory breakdown and no step") {
  spec::Job job = random_training_job(1);
  job.cluster.gpu.memory = 4 * unit::GiB;
  const run::Run run = simulate(job, {});
  CHECK_FALSE(run.manifest.fits_memory);
  CHECK_FALSE(run.memory.empty());
  CHECK(run.steps.empty());
  CHECK(run.summaries.empty());
}

}  // namespace
}  // namespace triplepoint::sim
