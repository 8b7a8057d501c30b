// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <thread>

#include <doctest/doctest.h>

#include "trainer/comm/transport.h"
#include "trainer/runtime/check_job.h"
#include "trainer/runtime/jobs_testing.h"
#include "trainer/runtime/train.h"

namespace triplepoint::trainer {
namespace {

/// Not a handled exception: a killed rank sends no message.
struct RankKilled {};

/// What each of the ranks that take part says when rank `lost` leaves after that many steps (0: it
/// never comes) without a word.
std::vector<std::string> fail_without(int lost, int64_t steps_of_lost, const spec::Job& job) {
  std::vector<std::string> said(as_size(job.world_size()));
  std::vector<std::thread> threads;
  std::mutex others;  // the lost rank's end stays as long as others wait for it
  others.lock();
  for (auto& transport : thread_transports(static_cast<int>(job.world_size())))
    threads.emplace_back([&, transport = std::move(transport)]() mutable {
      const int rank = transport->rank();
      EndpointSettings ends = endpoint_settings(job, 2);
      Endpoint endpoint(std::move(transport), ends);
      TrainSettings settings;
      settings.steps = 1000000;
      settings.peak_flops = 1e9;
      int64_t trained = 0;
      const OnStep count = [&](const StepResult&, const TrainReport&) {
        if (rank == lost && ++trained >= steps_of_lost) throw RankKilled();
      };
      try {
        if (rank != lost || steps_of_lost > 0) (void)train(job, settings, endpoint, count);
      } catch (const std::exception& thrown) {
        said[as_size(rank)] = thrown.what();
      } catch (const RankKilled&) {
        said[as_size(rank)] = "gone";
      }
      if (rank == lost) const std::lock_guard wait(others);
    });
  for (size_t i = 0; i < threads.size(); ++i)
    if (static_cast<int>(i) != lost) threads[i].join();
  others.unlock();
  threads[as_size(lost)].join();
  return said;
}

spec::Job four_ranks() {
  spec::Job job = test::tiny_job(test::tiny_llama(), 4);
  job.plan.tensor_parallel_size = 2;
  job.plan.pipeline_parallel_size = 2;
  return job;
}

}  // namespace

TEST_CASE("when a rank never comes all others end and name it") {
  for (const int lost : {1, 3}) {
    const auto said = fail_without(lost, 0, four_ranks());
    for (size_t rank = 0; rank < said.size(); ++rank)
      if (static_cast<int>(rank) != lost) {
        CAPTURE(said[rank]);
        CHECK(said[rank].find("rank") != std::string::npos);
        CHECK(said[rank].find(std::to_string(lost)) != std::string::npos);
      }
  }
}

TEST_CASE(
    "when a rank falls silent during the training all others end and say what they waited for") {
  spec::Job job = four_ranks();
  job.plan.overlap_pipeline = true;
  const auto said = fail_without(0, 3, job);
  CHECK(said[0] == "gone");
  for (size_t rank = 1; rank < said.size(); ++rank) {
    CAPTURE(said[rank]);
    CHECK(said[rank].find("rank") != std::string::npos);
  }
}

TEST_CASE("jobs that the trainer cannot run are refused with a way out") {
  const spec::Job job = test::tiny_job(test::tiny_llama(), 4);
  const auto refusal = [&](const auto& change) {
    spec::Job changed = job;
    change(changed);
    const Result<void> checked = check_job(changed);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().what.find("; ") != std::string::npos);
    return checked.error().what;
  };
  CHECK(check_job(job));
  CHECK(refusal([](spec::Job& j) {
          j.plan.context_parallel_size = 2;
        }).find("context_parallel_size is above 1") == 0);
  CHECK(refusal([](spec::Job& j) {
          j.plan.precision = spec::Precision::bf16;
        }).find("the precision") == 0);
  CHECK(refusal([](spec::Job& j) { j.plan.packed_length = 4; }).find("packed_length") == 0);
  CHECK(refusal([](spec::Job& j) { j.model.latent_attention.emplace(); }).find("latent") !=
        std::string::npos);
  CHECK(refusal([](spec::Job& j) {
          j.plan.optimizer.gradient_sync_bytes = 2;
        }).find("gradient_sync_bytes") != std::string::npos);
  CHECK(refusal([](spec::Job& j) { j.task = spec::Task::decode; }).find("inference") !=
        std::string::npos);
  CHECK(refusal([](spec::Job& j) {
          j.stack.attention_kernels = spec::AttentionKernels::unfused;
        }).find("attention is not fused") != std::string::npos);
  CHECK(refusal([](spec::Job& j) {
          j.task = spec::Task::lora;
          j.plan.lora.emplace();
        }).find("adapters") != std::string::npos);
}

TEST_CASE("a job that needs more memory than the machine has is refused with both numbers") {
  const spec::Job job = test::tiny_job(test::tiny_llama(), 4);
  const double needed = predicted_bytes(job);
  CHECK(needed > 0);
  CHECK(check_memory(job, 4, needed * 1.01));
  CHECK(check_memory(job, 2, needed * 0.51));
  const Result<void> refused = check_memory(job, 4, needed * 0.99);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("4 ranks") != std::string::npos);
}

}  // namespace triplepoint::trainer
