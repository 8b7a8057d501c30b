// SPDX-License-Identifier: Apache-2.0
// What prefill and decode may and may not do, whatever the parameters are.
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/spec/job_testing.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/perf/kernel_time.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/rank_grid.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint {
namespace {

using doctest::Approx;

struct InferenceJob {
  const char* task = "decode";
  const char* model = "llama3-8b";
  const char* cluster = "hgx-h100";
  int64_t tensor = 1, pipeline = 1, expert = 1;
  int64_t sequences = 1;  // per replica, in one microbatch
  int64_t length = 2048;
};

spec::Job job_of(const InferenceJob& asked) {
  const int64_t replicas = 8 / (asked.tensor * asked.pipeline);
  return spec::job_of_text(
      fmt::format("task = \"{}\"\nmodel = \"{}\"\nsequence_length = {}\ncluster = \"{}\"\n"
                  "nodes = 1\n[plan]\ntensor_parallel_size = {}\npipeline_parallel_size = {}\n"
                  "expert_parallel_size = {}\nmicro_batch_size = {}\nglobal_batch_size = {}\n",
                  asked.task, asked.model, asked.length, asked.cluster, asked.tensor,
                  asked.pipeline, asked.expert, asked.sequences, asked.sequences * replicas));
}

run::Run simulate_job(const InferenceJob& asked) {
  run::Run run = sim::simulate(job_of(asked), {.timeline = false});
  REQUIRE(run.manifest.fits_memory);
  return run;
}

double seconds(const InferenceJob& asked) {
  return metrics::measure(simulate_job(asked)).step_time.value() / unit::s;
}

TEST_CASE("a token takes longer in proportion to the cache it reads") {
  std::vector<double> times;
  for (const int64_t length : {8192, 16384, 24576, 32768})
    times.push_back(seconds({.sequences = 8, .length = length}));
  for (size_t i = 2; i < times.size(); ++i)
    CHECK(times[i] - times[i - 1] == Approx(times[1] - times[0]).epsilon(0.05));
  // Eight sequences, 8192 keys and values of 8 groups of 128 in 32 layers, at no more than the
  // memory's bandwidth.
  const double bytes = 8 * 8192.0 * 2 * 8 * 128 * 2 * 32;
  CHECK(times[1] - times[0] > bytes / 3.35e12);
  CHECK(times[1] - times[0] < 1.5 * bytes / 3.35e12);
}

TEST_CASE("few sequences more cost hardly anything, many cost in proportion to their products") {
  const auto at = [](int64_t sequences) { return seconds({.sequences = sequences, .length = 16}); };
  CHECK(at(32) < 1.15 * at(1));
  // Beyond some hundreds the matrices are multiplied at full rate.
  CHECK(at(4096) > 1.7 * at(2048));
  double before = 0;
  for (const int64_t sequences : {1, 4, 16, 64, 256, 1024}) {
    const double now = seconds({.sequences = sequences, .length = 16});
    CHECK(now >= 0.98 * before);  // kernels of larger tiles may be a little quicker
    before = now;
  }
}

TEST_CASE("no token comes faster than its weights and cache are read") {
  const InferenceJob cases[] = {
      {},
      {.sequences = 64, .length = 4096},
      {.model = "llama3-70b", .tensor = 8, .sequences = 16},
      {.model = "llama3-70b", .cluster = "hgx-h200", .tensor = 4, .pipeline = 2},
      {.model = "gpt3-30b", .cluster = "hgx-h200", .tensor = 2, .sequences = 4},
      {.cluster = "dgx-b200", .sequences = 32}};
  for (const InferenceJob& asked : cases) {
    const spec::Job job = job_of(asked);
    const workload::RankShare share = workload::share_of_rank(job);
    const double model =
        spec::count_parameters(job.model).total() - spec::count_parameters(job.model).embedding;
    const double weights = 2 * model / as_real(asked.tensor);
    const double cache = 2.0 * 2 * as_real(asked.sequences * asked.length) *
                         as_real(share.query_groups * share.head_dim) *
                         as_real(job.model.num_layers);
    const double bound = (weights + cache) / (*job.cluster.gpu.hbm_bandwidth / (unit::B / unit::s));
    CAPTURE(asked.model);
    CHECK(seconds(asked) > bound);
    CHECK(seconds(asked) < 4 * bound + 0.004);
  }
}

TEST_CASE("energy a token falls with the sequences that share the weights") {
  double before = 1e9;
  for (const int64_t sequences : {1, 4, 16, 64, 128}) {
    const metrics::Metrics m =
        metrics::measure(simulate_job({.sequences = sequences, .length = 1024}));
    CHECK(m.joules_per_token.value() < before);
    before = *m.joules_per_token;
  }
}

TEST_CASE("rows that a tile lacks cost half of what they would, gradients none of it") {
  const spec::Gpu gpu = *spec::load_gpu(spec::default_library(), "h100");
  const auto counted = [&](int64_t rows, bool backward) {
    spec::Op op;
    op.op_class = spec::OpClass::gemm;
    op.gemm = {rows, 4096, 4096};
    op.flops = 2.0 * as_real(rows) * 4096 * 4096 * unit::FLOP;
    op.backward = backward;
    return perf::energy_flops(gpu, op) / op.flops;
  };
  for (const int64_t rows : {1, 8, 64, 96})
    CHECK(as_real(rows) * counted(rows, false) == Approx(0.5 * (128.0 + rows)));
  CHECK(counted(8, true) == 1.0);
  CHECK(counted(128, false) == 1.0);
  CHECK(counted(4096, false) == 1.0);
}

TEST_CASE("tensor parallelism shortens a token, a pipeline does not") {
  const InferenceJob one{.model = "llama3-8b", .tensor = 1};
  const InferenceJob wide{.model = "llama3-8b", .tensor = 4};
  const InferenceJob deep{.model = "llama3-8b", .pipeline = 4};
  CHECK(seconds(wide) < 0.7 * seconds(one));
  CHECK(seconds(deep) >= 0.99 * seconds(one));
}

TEST_CASE("few tokens leave experts unread, so that a mixture decodes faster than its size") {
  const auto bytes = [](int64_t sequences) {
    const workload::WorkGraph graph = workload::build_work_graph(
        job_of({.model = "mixtral-8x7b-dropless", .tensor = 8, .sequences = sequences}));
    double sum = 0;
    for (const workload::OpGroup& group : graph.works.front().forward)
      for (const spec::Op& op : group.ops)
        if (op.name == "expert_up" || op.name == "expert_down") sum += op.hbm_bytes / unit::B;
    return sum;
  };
  CHECK(bytes(1) == Approx(bytes(64) * 2 / 8).epsilon(0.05));
}

TEST_CASE("a job that generates for a while gives each sequence a token a step and warms up") {
  const spec::Job job = job_of({.sequences = 32});
  const run::Run run = sim::simulate(job, {.duration = 20 * unit::s, .timeline = false});
  REQUIRE(run.steps.size() > 100);
  for (const run::StepRecord& step : run.steps)
    CHECK(step.tokens == job.plan.global_batch_size);
  const run::Series* die = run::find_series(run, "die_c", 0);
  REQUIRE(die != nullptr);
  CHECK(die->values.back() > die->values.front() + 5);
}

TEST_CASE("what does not fit says so: one GPU holds no 70B model, and no endless cache") {
  const auto fits = [](const InferenceJob& asked) {
    return workload::estimate_memory(job_of(asked)).fits();
  };
  CHECK_FALSE(fits({.model = "llama3-70b"}));
  CHECK(fits({.model = "llama3-70b", .tensor = 4}));
  CHECK_FALSE(fits({.model = "llama3-70b", .tensor = 4, .sequences = 512, .length = 8192}));
}

}  // namespace
}  // namespace triplepoint
