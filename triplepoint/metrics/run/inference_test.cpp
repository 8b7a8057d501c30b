// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/inference.h"

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

#include "triplepoint/metrics/run/results_json.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

/// One GPU that spends two seconds on a batch of eight sequences.
run::Run one_pass(spec::Task task) {
  run::Run run;
  spec::Job job;
  job.task = task;
  job.model.sequence_length = 100;
  job.plan.global_batch_size = 8;
  job.cluster.num_nodes = job.cluster.gpus_per_node = 1;
  run.manifest.job = job;
  run.memory = {{.weights = 10 * unit::GiB, .activations = 5 * unit::GiB}};
  run.devices.push_back({.index = 0, .slot = 0, .rank = 0});
  run.summaries.push_back({.power_mean_w = 500.0, .energy_j = 1000.0});
  const int64_t tokens = task == spec::Task::decode ? 8 : 800;
  run.steps = {{.begin = Instant(0), .end = Instant(2000000000), .samples = 8, .tokens = tokens}};
  run.model_flops = run.hardware_flops = 1 * unit::PFLOP;
  run.peak_flops = 1 * unit::PFLOP / unit::s;
  return run;
}

TEST_CASE("a pass of prefill is the wait for the first token, one of decode that for the next") {
  const Json prompt =
      results_json(one_pass(spec::Task::prefill), measure(one_pass(spec::Task::prefill)));
  CHECK(prompt["prompt_tokens_per_s"] == 400.0);
  CHECK(prompt["time_to_first_token_s"] == 2.0);
  CHECK_FALSE(prompt.contains("generated_tokens_per_s"));
  CHECK_FALSE(prompt.contains("time_per_output_token_s"));
  const Json token =
      results_json(one_pass(spec::Task::decode), measure(one_pass(spec::Task::decode)));
  CHECK(token["generated_tokens_per_s"] == 4.0);
  CHECK(token["time_per_output_token_s"] == 2.0);
  CHECK(token["joules_per_token"] == 125.0);
  CHECK_FALSE(token.contains("time_to_first_token_s"));
}

TEST_CASE("what only training has is absent of inference, not zero") {
  for (const spec::Task task : {spec::Task::prefill, spec::Task::decode}) {
    const run::Run run = one_pass(task);
    const Metrics metrics = measure(run);
    CHECK(metrics.mfu.value() == Approx(0.5));
    CHECK_FALSE(metrics.hfu);
    CHECK_FALSE(metrics.samples_per_s_mj);
    const Json json = results_json(run, metrics);
    CHECK(json["memory_gib"]["gradients"].is_null());
    CHECK(json["memory_gib"]["optimizer"].is_null());
    CHECK(json["configuration"]["recompute"].is_null());
    const std::vector<std::string> columns = results_columns(), cells = results_row(run, metrics);
    for (std::size_t i = 0; i < columns.size(); ++i)
      for (const char* training : {"memory_gradients_gib", "memory_optimizer_gib", "recompute",
                                   "schedule", "hfu", "samples_per_s_mj"})
        if (columns[i] == training) CHECK_MESSAGE(cells[i].empty(), columns[i]);
  }
}

TEST_CASE("training knows no times of tokens") {
  const run::Run run = one_pass(spec::Task::pretrain);
  const Metrics metrics = measure(run);
  const Json json = results_json(run, metrics);
  for (const char* key : {"prompt_tokens_per_s", "time_to_first_token_s", "generated_tokens_per_s",
                          "time_per_output_token_s"})
    CHECK_FALSE(json.contains(key));
  CHECK(metrics.samples_per_s_mj);
  CHECK(json["memory_gib"]["gradients"] == 0.0);
  CHECK_FALSE(is_inference(run::Run{}));
}

}  // namespace
}  // namespace triplepoint::metrics
