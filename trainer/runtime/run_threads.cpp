// SPDX-License-Identifier: Apache-2.0
#include <mutex>
#include <thread>

#include "trainer/comm/thread_transport.h"
#include "trainer/runtime/world.h"
#include "trainer/spans.h"

namespace triplepoint::trainer {
namespace {

/// What the ranks leave behind.
struct Gathered {
  std::mutex mutex;
  std::optional<TrainOutcome> outcome;
  std::optional<Error> failure;

  void fail(Error error) {
    const std::lock_guard lock(mutex);
    if (!failure || failure->what.empty()) failure = std::move(error);
  }
};

void play_rank(const spec::Job& job, const TrainSettings& settings, Endpoint& endpoint,
               const OnStep& on_step, Gathered& gathered) {
  introduce_rank(endpoint.rank());
  try {
    Result<TrainOutcome> outcome = train(job, settings, endpoint, on_step);
    if (!outcome) return gathered.fail(outcome.error());
    if (endpoint.rank() > 0) return;
    const std::lock_guard lock(gathered.mutex);
    gathered.outcome = *std::move(outcome);
  } catch (const std::exception& thrown) {
    endpoint.abort(thrown.what());
    gathered.fail({thrown.what()});
  }
}

}  // namespace

Result<TrainOutcome> train_with_threads(const spec::Job& job, const TrainSettings& settings,
                                        const WorldSettings& world, const OnStep& on_step) {
  Gathered gathered;
  std::vector<std::thread> threads;
  for (auto& transport : thread_transports(static_cast<int>(job.world_size())))
    threads.emplace_back([&, transport = std::move(transport)]() mutable {
      if (world.shapes) transport = shaped_transport(std::move(transport), *world.shapes);
      Endpoint endpoint(std::move(transport), world.ends);
      play_rank(job, settings, endpoint, on_step, gathered);
    });
  for (std::thread& thread : threads)
    thread.join();
  if (gathered.failure) return tl::unexpected(*gathered.failure);
  return *std::move(gathered.outcome);
}

}  // namespace triplepoint::trainer
