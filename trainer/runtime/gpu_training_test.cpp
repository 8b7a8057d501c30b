// SPDX-License-Identifier: Apache-2.0
// Whole trainings on GPUs that are not there: the plug-in, its kernels and its collectives, with
// doubles of the vendor's libraries below them (tests/doubles/cuda). Ranks are threads.
#include <cmath>
#include <cstdlib>
#include <map>

#include <dlfcn.h>
#include <doctest/doctest.h>

#include "tests/doubles/cuda/settings.h"
#include "trainer/cuda/device.h"
#include "trainer/runtime/jobs_testing.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

TrainSettings settings_of(bool gpu, int64_t steps) {
  TrainSettings settings;
  settings.steps = steps;
  settings.rate.peak = 2e-3;
  settings.peak_flops = 1e9;  // not measured
  if (gpu) settings.gpu = GpuChoice{TPT_CUDA_PLUGIN, TPT_FAKE_CUDA, false, 0.5};
  return settings;
}

TrainOutcome trained(const spec::Job& job, bool gpu, int64_t steps) {
  const Result<TrainOutcome> outcome = train_with_threads(
      job, settings_of(gpu, steps), {endpoint_settings(job, 60), Carrier::automatic, {}});
  if (!outcome) FAIL(outcome.error().what);
  return *outcome;
}

double difference(const TrainOutcome& a, const TrainOutcome& b) {
  double largest = 0;
  for (size_t i = 0; i < a.own.steps.size(); ++i)
    largest = std::max(largest, std::abs(a.own.steps[i].loss / b.own.steps[i].loss - 1));
  return largest;
}

spec::Job in_bf16(spec::Job job) {
  job.plan.precision = spec::Precision::bf16;
  job.plan.optimizer = {.name = "rounded_adamw",
                        .weight_bytes = 4,
                        .gradient_bytes = 4,
                        .moment_bytes = 8,
                        .master_bytes = 4,
                        .gradient_sync_bytes = 2};
  return job;
}

}  // namespace

TEST_CASE("the plug-in holds compiled kernels where nvcc was found") {
  void* library = dlopen(TPT_CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto entry = reinterpret_cast<DevicePluginEntry>(dlsym(library, device_plugin_symbol));
  const bool there = entry != nullptr;
  REQUIRE(there);
  if (TPT_NVCC_WORKS == 0) {
    MESSAGE("skipped: no working nvcc was found, so the plug-in has no kernels");
    CHECK(entry()->kernel_bytes == 0);
    return;
  }
  CHECK(entry()->kernel_bytes > 100000);
}

namespace {

cuda_double::Settings& double_settings() {
  void* library = dlopen(TPT_FAKE_CUDA "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  return *reinterpret_cast<cuda_double::SettingsEntry>(
      dlsym(library, cuda_double::settings_symbol))();
}

std::string refusal(const spec::Job& job) {
  const Result<TrainOutcome> outcome = train_with_threads(
      job, settings_of(true, 1), {endpoint_settings(job, 60), Carrier::automatic, {}});
  REQUIRE_FALSE(outcome);
  return outcome.error().what;
}

void contains(const std::string& said, const char* part) {
  CAPTURE(said);
  CHECK(said.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("more ranks than GPUs, an old driver and foreign kernels are told before the training") {
  cuda_double::Settings& gpus = double_settings();
  gpus.gpus = 2;
  contains(refusal(test::tiny_job(test::tiny_gpt(), 4)), "ranks 0 and 2 would share one GPU");
  contains(refusal(test::tiny_job(test::tiny_gpt(), 4)), "sees 2 GPUs");
  gpus.gpus = 8;
  gpus.driver_version = 11080;
  contains(refusal(test::tiny_job(test::tiny_gpt(), 2)), "the driver knows CUDA 11.8");
  gpus.driver_version = 12020;
  gpus.refuses_kernels = true;
  contains(refusal(test::tiny_job(test::tiny_gpt(), 1)),
           TPT_NVCC_WORKS != 0 ? "the driver knows CUDA 12.2" : "built without nvcc");
  gpus.refuses_kernels = false;
  gpus.driver_version = 13000;
  CHECK(std::string(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")) == "32");
}

TEST_CASE("GPUs refuse sequences that are cut over ranks") {
  spec::Job job = test::tiny_job(test::tiny_gpt(), 2);
  job.plan.context_parallel_size = 2;
  contains(refusal(job), "context_parallel_size is above 1 with --device cuda");
}

TEST_CASE("one GPU trains as one processor does, every model") {
  for (const spec::Model& model : {test::tiny_gpt(), test::tiny_llama(), test::tiny_mixtral()}) {
    const spec::Job job = test::tiny_job(model, 1);
    CAPTURE(model.name);
    const TrainOutcome gpu = trained(job, true, 4), processor = trained(job, false, 4);
    CHECK(gpu.own.steps.back().loss < gpu.own.steps.front().loss);
    CHECK(difference(gpu, processor) < 1e-5);
  }
}

TEST_CASE("in bf16 a GPU trains like the processor, whose numbers are rounded as often") {
  for (const spec::Model& model : {test::tiny_gpt(), test::tiny_llama()}) {
    const spec::Job job = in_bf16(test::tiny_job(model, 1));
    CAPTURE(model.name);
    CHECK(difference(trained(job, true, 6), trained(job, false, 6)) < 2e-3);
  }
}

TEST_CASE("neighbours that wait for their sends while the host reads what the router chose go on") {
  spec::Job job = test::tiny_job(test::tiny_mixtral(), 2);
  job.plan.pipeline_parallel_size = job.plan.virtual_pipeline_size = 2;
  job.plan.schedule = spec::Schedule::interleaved;
  const TrainOutcome gpu = trained(job, true, 2), processor = trained(job, false, 2);
  CHECK(difference(gpu, processor) < 1e-5);
}

TEST_CASE("GPUs in any layout train like one processor and move the bytes that processors move") {
  const std::vector<test::Choice> layouts = test::pairwise_layouts(8);
  REQUIRE(layouts.size() > 30);
  for (const test::Choice& layout : layouts) {
    const spec::Job job = test::job_of(layout);
    const std::string text = test::describe(layout);
    CAPTURE(text);
    const TrainOutcome gpu = trained(job, true, 2), processor = trained(job, false, 2);
    CHECK(difference(gpu, processor) < 1e-5);
    for (size_t rank = 0; rank < gpu.all.size(); ++rank)
      CHECK(gpu.all[rank].traffic == processor.all[rank].traffic);
  }
}

}  // namespace triplepoint::trainer
