// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/load.h"

#include "trainer/runtime/check_job.h"
#include "trainer/runtime/options.h"
#include "trainer/runtime/train_output.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

constexpr int interrupted_code = 130;

// A signal handler reaches nothing else.
std::atomic<bool> stop_asked{false};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

/// The first Ctrl-C ends the training after the step at work (and its checkpoint), the second one
/// at once.
void stop_after_step(int signal) {
  stop_asked = true;
  if (signal != SIGUSR1) std::signal(signal, SIG_DFL);
}

bool wants_mpi(const Options& options) {
  return options.transport == TransportKind::mpi ||
         (options.transport == TransportKind::automatic && MpiSession::launched());
}

Result<double> memory_limit(const Options& options) {
  if (options.memory_limit.empty()) return available_memory();
  if (options.memory_limit == "0") return std::numeric_limits<double>::infinity();
  return TPT_TRY(parse_quantity<Bytes>(options.memory_limit)) / unit::B;
}

Result<spec::Job> load(const Options& options) {
  spec::Job job = TPT_TRY(spec::load_job(spec::default_library(), options.job));
  TPT_TRY(check_job(job));
  if (options.ranks > 0 && options.ranks != job.world_size())
    return error(
        fmt::format("--ranks {} and the job has {} (num_nodes x gpus_per_node of its "
                    "cluster); start as many as it has, or change the cluster",
                    options.ranks, job.world_size()));
  if (options.train.gpu) return job;  // its memory is the GPU's, which says itself when it is full
  const int64_t here =
      wants_mpi(options) ? launched_ranks_here(job.world_size()) : job.world_size();
  const double limit = TPT_TRY(memory_limit(options));
  TPT_TRY(check_memory(job, here, limit));
  return job;
}

Result<TrainOutcome> run(const spec::Job& job, const Options& options) {
  WorldSettings world{endpoint_settings(job, options.timeout_seconds), options.carrier, {}};
  world.ends.algorithms.fill(options.collectives);
  if (options.shaping.value_or(job.cluster.shared_cores > 0))
    world.shapes = link_shapes(job.cluster, world.ends.nodes);
  const OnStep say = [&](const StepResult& step, const TrainReport& report) {
    if (options.json) return;
    fmt::print("{}\n", step_line(job, options.train, step, report));
    std::fflush(stdout);
  };
  return wants_mpi(options) ? train_with_mpi(job, options.train, world, say)
                            : train_with_threads(job, options.train, world, say);
}

/// Errors that all ranks see alike are said once, by the first. Launchers end the whole job when
/// one rank ends badly, so the others leave it the time to speak.
int fail(const Error& error, bool everywhere) {
  if (everywhere && launched_rank() > 0) {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return 1;
  }
  if (error.what.empty()) return 1;
  fmt::print(stderr, "triplepoint-train: {}\n", error.what);
  return 1;
}

/// `triplepoint train` names a file in which it wants the numbers of the summary.
void keep_report(const spec::Job& job, const TrainOutcome& outcome) {
  const char* file = std::getenv("TRIPLEPOINT_TRAIN_REPORT");
  if (file == nullptr || *file == 0) return;
  if (const auto kept = write_file_atomically(file, summary_json(job, outcome)); !kept)
    fmt::print(stderr, "triplepoint-train: {}\n", kept.error().what);
}

int play(Options options) {
  std::signal(SIGINT, stop_after_step);
  std::signal(SIGTERM, stop_after_step);
  std::signal(SIGUSR1, stop_after_step);  // what launchers pass on without ending the job
  options.train.stop = &stop_asked;
  const Result<spec::Job> job = load(options);
  if (!job) return fail(job.error(), true);
  const Result<TrainOutcome> outcome = run(*job, options);
  if (!outcome) return fail(outcome.error(), false);
  if (outcome->own.rank == 0) {
    fmt::print("{}\n", options.json ? summary_json(*job, *outcome) : summary_text(*job, *outcome));
    keep_report(*job, *outcome);
  }
  return outcome->own.stopped ? interrupted_code : 0;
}

}  // namespace
}  // namespace triplepoint::trainer

int main(int argc, char** argv) {
  triplepoint::trainer::Parsed parsed = triplepoint::trainer::parse_options(argc, argv);
  if (parsed.exit_code < 0) return triplepoint::trainer::play(std::move(parsed.options));
  fmt::print(parsed.exit_code == 0 ? stdout : stderr, "{}", parsed.text);
  return parsed.exit_code;
}
