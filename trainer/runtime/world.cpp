// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/world.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "trainer/comm/mpi_session.h"
#include "trainer/comm/transport.h"
#include "trainer/spans.h"

namespace triplepoint::trainer {
namespace {

int64_t number_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
}

/// Says what has happened here, leaves the others time to say theirs, and ends them all.
[[noreturn]] void give_up(MpiSession& session, const std::string& what) {
  fmt::print(stderr, "triplepoint-train: rank {}: {}\n", session.rank(), what);
  std::fflush(stderr);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  session.end_all(1);
  std::abort();
}

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

void train_rank(const spec::Job& job, const TrainSettings& settings, Endpoint& endpoint,
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

int64_t launched_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const int64_t rank = number_of(name); rank > 0) return rank;
  return 0;
}

int64_t launched_ranks_here(int64_t all) {
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"})
    if (const int64_t here = number_of(name); here > 0) return std::min(here, all);
  return all;
}

Result<TrainOutcome> train_with_mpi(const spec::Job& job, const TrainSettings& settings,
                                    const EndpointSettings& ends, const OnStep& on_step) {
  const std::unique_ptr<MpiSession> session = TPT_TRY(MpiSession::open());
  if (session->size() != job.world_size())
    return error(
        "{} ranks were started and the job has {} (num_nodes x "
        "gpus_per_node of its cluster); start as many as it has",
        session->size(), job.world_size());
  try {
    Endpoint endpoint(session->transport(), ends);
    try {
      return train(job, settings, endpoint, on_step);
    } catch (const std::exception& thrown) {
      endpoint.abort(thrown.what());
      give_up(*session, thrown.what());
    }
  } catch (const std::exception& thrown) {
    give_up(*session, thrown.what());
  }
}

Result<TrainOutcome> train_with_threads(const spec::Job& job, const TrainSettings& settings,
                                        const EndpointSettings& ends, const OnStep& on_step) {
  Gathered gathered;
  std::vector<std::thread> threads;
  for (auto& transport : thread_transports(static_cast<int>(job.world_size())))
    threads.emplace_back([&, transport = std::move(transport)]() mutable {
      Endpoint endpoint(std::move(transport), ends);
      train_rank(job, settings, endpoint, on_step, gathered);
    });
  for (std::thread& thread : threads)
    thread.join();
  if (gathered.failure) return tl::unexpected(*gathered.failure);
  return *std::move(gathered.outcome);
}

}  // namespace triplepoint::trainer
