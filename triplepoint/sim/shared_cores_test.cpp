// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/shared_cores.h"

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/sim/schedule_testing.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::sim {
namespace {

using doctest::Approx;

TestJob pipelines_of(int64_t count, int64_t stages, int64_t microbatches) {
  TestJob job;
  for (int64_t p = 0; p < count; ++p)
    add_pipeline(job,
                 workload::build_schedule(spec::Schedule::one_f_one_b, stages, microbatches, 1), 1,
                 1 * unit::ms, 2 * unit::ms, fixed_send(0.1 * unit::ms));
  job.rules = {.gap = {}, .start = 1 * unit::ms};
  return job;
}

std::vector<std::vector<GroupOnCores>> groups_of(const TestJob& job, int64_t ranks,
                                                 Seconds waiting) {
  std::vector<std::vector<GroupOnCores>> groups;
  for (const auto& pipeline : job.pipelines)
    groups.emplace_back(pipeline.size(),
                        GroupOnCores{ranks, {{waiting, waiting, waiting, waiting}}});
  return groups;
}

Seconds step_of(const TestJob& job, int64_t ranks, Seconds waiting, int64_t cores) {
  Seconds end;
  for (const auto& pipeline : simulate_on_shared_cores(
           job.pipelines, groups_of(job, ranks, waiting), job.wiring(), job.rules, cores))
    end = std::max(end, finish_of(pipeline));
  return end - job.rules.start;
}

}  // namespace

TEST_CASE("with a core for every rank the schedule is the ordinary one") {
  for (const int64_t stages : {1, 2, 4})
    for (const SendMode mode : {SendMode::blocking, SendMode::overlapped}) {
      const TestJob job = pipelines_of(2, stages, 8);
      const auto alone = job.timelines(mode);
      const auto shared = simulate_on_shared_cores(job.pipelines, groups_of(job, 2, {}),
                                                   job.wiring(mode), job.rules, 4 * stages);
      for (size_t p = 0; p < alone.size(); ++p)
        for (size_t s = 0; s < alone[p].size(); ++s) {
          CHECK(shared[p][s].finish / alone[p][s].finish == Approx(1).epsilon(1e-9));
          CHECK(shared[p][s].actions.size() == alone[p][s].actions.size());
        }
    }
}

TEST_CASE("ranks that all compute take their work over the cores, whatever else they are") {
  for (const int64_t replicas : {2, 4})
    for (const int64_t ranks : {1, 4})
      for (const int64_t cores : {1, 2}) {
        const TestJob job = pipelines_of(replicas, 1, 8);  // 8 x 3 ms each
        CHECK(step_of(job, ranks, {}, cores) / (24 * unit::ms) ==
              Approx(static_cast<double>(replicas * ranks) / static_cast<double>(cores)));
      }
}

TEST_CASE("no step is shorter than the work over the cores, nor than the longest chain") {
  for (const int64_t cores : {1, 2, 3, 8}) {
    const TestJob job = pipelines_of(2, 4, 8);
    const Seconds step = step_of(job, 1, {}, cores);
    CHECK(step >= 2 * 4 * 8 * 3 * unit::ms / static_cast<double>(cores) * (1 - 1e-9));
    CHECK(step >= step_of(job, 1, {}, 100) * (1 - 1e-9));
    CHECK(step <= step_of(job, 1, {}, 100) + 2 * 4 * 8 * 3 * unit::ms / static_cast<double>(cores));
  }
}

TEST_CASE("what waits for links takes no core") {
  const TestJob job = pipelines_of(8, 1, 8);
  // All of it is waiting: eight ranks on one core are as fast as one.
  CHECK(step_of(job, 1, 3 * unit::ms, 1) / (24 * unit::ms) == Approx(1));
}

TEST_CASE("a job on fewer cores than ranks takes their whole work over the cores") {
  auto job = spec::parse_job(spec::default_library(), R"(
model = "tiny-llama"
cluster = "laptop"
stack = "triplepoint-train"
[plan]
pipeline_parallel_size = 4
global_batch_size = 16
precision = "fp32"
optimizer = "fp32_adamw"
)",
                             "job.toml");
  REQUIRE_MESSAGE(job, job.error().what);
  const auto step_on = [&](int64_t cores) {
    job->cluster.shared_cores = cores;
    const run::Run run = simulate(*job, {});
    return (run.steps[0].end - run.steps[0].begin) / unit::s;
  };
  // Most of the work is the pipelines', 8 ranks of which some wait for their turn.
  CHECK(step_on(1) > 1.8 * step_on(2));
  CHECK(step_on(2) > 1.4 * step_on(8));
}

}  // namespace triplepoint::sim
