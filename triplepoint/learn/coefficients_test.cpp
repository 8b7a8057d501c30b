// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/coefficients.h"

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

namespace triplepoint::learn {
namespace {

spec::Job job_of(const std::string& text) {
  auto job = spec::parse_job(spec::default_library(), text, "test.toml");
  REQUIRE_MESSAGE(job, job.error().what);
  return *std::move(job);
}

spec::Job small_mixture() {
  return job_of(
      "model = \"mixtral-8x7b\"\ncluster = \"hgx-h100\"\nnodes = 4\nstack = \"megatron-core\"\n"
      "[plan]\ntensor_parallel_size = 2\npipeline_parallel_size = 4\nexpert_parallel_size = 4\n"
      "sequence_parallel = true\noverlap_gradient = true\noverlap_parameter = true\n"
      "micro_batch_size = 1\nglobal_batch_size = 32\nprecision = \"fp8\"\n");
}

double log_time(const spec::Job& job) {
  const auto time = log_step_time(job);
  REQUIRE(time);
  return *time;
}

TEST_CASE("each coefficient above zero makes a job longer that has what it names") {
  const spec::Job job = small_mixture();
  const LogFactors slopes = sensitivities(job, log_time(job));
  for (std::size_t k = 0; k < coefficient_count; ++k) {
    CAPTURE(coefficients()[k].name);
    // Behind kernels as long as these, the host's time for a layer is hidden.
    if (coefficients()[k].name == "layer_host")
      CHECK(slopes[k] == 0);
    else
      CHECK(slopes[k] > 0);
  }
}

TEST_CASE("the host's time for layers shows where kernels are short") {
  const spec::Job job = job_of(
      "model = \"gpt3-126m\"\ncluster = \"hgx-h100\"\nstack = \"megatron-core\"\n"
      "[plan]\nmicro_batch_size = 1\nglobal_batch_size = 64\n");
  const LogFactors slopes = sensitivities(job, log_time(job));
  for (std::size_t k = 0; k < coefficient_count; ++k)
    if (coefficients()[k].name == "layer_host") CHECK(slopes[k] > 0.2);
}

TEST_CASE("zero changes no bit of a job") {
  const spec::Job job = small_mixture();
  CHECK(scaled(job, {}) == job);
}

TEST_CASE("a coefficient of what a job has not changes nothing of its time") {
  spec::Job job = small_mixture();
  job.model.moe.reset();
  job.plan.expert_parallel_size = 1;
  job.plan.precision = spec::Precision::bf16;
  job.plan.pipeline_parallel_size = 1;
  job.cluster.num_nodes = 1;
  const LogFactors slopes = sensitivities(job, log_time(job));
  for (std::size_t k = 0; k < coefficient_count; ++k) {
    const std::string_view name = coefficients()[k].name;
    CAPTURE(name);
    const bool has_none = name == "moe" || name == "few_bits" || name == "nic";
    if (has_none) CHECK(slopes[k] == 0);
  }
}

TEST_CASE("a stretched job takes that much longer") {
  const spec::Job job = small_mixture();
  CHECK(log_time(stretched(job, 0.1)) - log_time(job) == doctest::Approx(0.1).epsilon(0.1));
  CHECK(stretched(job, 0) == job);
}

TEST_CASE("a share of a peak ends at the peak") {
  spec::Job job = small_mixture();
  LogFactors faster{};
  faster.fill(-20);
  const spec::Job fast = scaled(job, faster);
  CHECK(fast.cluster.gpu.kernels.hbm_share == 1);
  CHECK(fast.cluster.scale_out.efficiency == 1);
  job.cluster.gpu.kernels.hbm_share = 1.5;
  CHECK(scaled(job, faster).cluster.gpu.kernels.hbm_share == 1.5);
}

}  // namespace
}  // namespace triplepoint::learn
