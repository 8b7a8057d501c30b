// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <new>
#include <sstream>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/number_text.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/workload/model_flops.h"

#include "trainer/comm/mpi_session.h"
#include "trainer/runtime/check_job.h"
#include "trainer/runtime/train.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

constexpr std::array<const char*, memory_term_count> term_names = {
    "weights", "gradients", "optimizer", "activations", "logits", "buffers"};

struct Speed {
  double tokens_per_second = 0, utilization = 0;
};

Speed speed_of(const spec::Job& job, double seconds, double all_peak_flops) {
  const double flops = workload::count_step_flops(job).model / unit::FLOP;
  return {as_real(workload::tokens_per_step(job)) / seconds, flops / seconds / all_peak_flops};
}

/// Of the steps but the first, which warms everything up.
double median_seconds(const std::vector<StepResult>& steps) {
  std::vector<double> seconds;
  for (size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i)
    seconds.push_back(steps[i].seconds);
  return seconds.empty() ? 0 : upper_median(std::move(seconds));
}

/// Bytes of all ranks, measured and by workload, of one class of one group.
struct TrafficRow {
  spec::GroupKind group;
  spec::Collective collective;
  double measured = 0, expected = 0;
};

std::vector<TrafficRow> traffic_rows(const TrainOutcome& outcome) {
  const auto steps = as_real(outcome.own.steps.size());
  std::vector<TrafficRow> rows;
  for (size_t group = 0; group < spec::group_kind_count; ++group)
    for (size_t kind = 0; kind < spec::collective_count; ++kind) {
      TrafficRow row{static_cast<spec::GroupKind>(group), static_cast<spec::Collective>(kind)};
      for (const TrainReport& rank : outcome.all) {
        row.measured += rank.traffic[group][kind];
        row.expected += rank.expected[group][kind] * steps;
      }
      if (row.measured > 0 || row.expected > 0) rows.push_back(row);
    }
  return rows;
}

/// The rank of each stage that holds most.
std::vector<const TrainReport*> fullest_ranks(const TrainOutcome& outcome) {
  const auto total = [](const TrainReport& rank) { return sum_of(rank.memory); };
  std::vector<const TrainReport*> fullest;
  for (const TrainReport& rank : outcome.all) {
    if (rank.stage >= fullest.size()) fullest.resize(rank.stage + 1);
    const TrainReport*& held = fullest[rank.stage];
    if (held == nullptr || total(rank) > total(*held)) held = &rank;
  }
  return fullest;
}

Json steps_json(const spec::Job& job, const TrainOutcome& outcome) {
  Json steps = Json::array();
  for (const StepResult& step : outcome.own.steps) {
    const Speed speed = speed_of(job, step.seconds, outcome.own.all_peak_flops);
    steps.push_back({{"step", step.step},
                     {"loss", step.loss},
                     {"gradient_norm", step.gradient_norm},
                     {"learning_rate", step.rate},
                     {"seconds", step.seconds},
                     {"tokens_per_second", speed.tokens_per_second},
                     {"mfu", speed.utilization}});
  }
  return steps;
}

Json traffic_json(const TrainOutcome& outcome) {
  Json rows = Json::array();
  for (const TrafficRow& row : traffic_rows(outcome))
    rows.push_back({{"group", spec::name_of(row.group)},
                    {"collective", spec::name_of(row.collective)},
                    {"bytes", row.measured},
                    {"workload_bytes", row.expected}});
  return rows;
}

Json memory_json(const TrainOutcome& outcome) {
  Json stages = Json::array();
  for (const TrainReport* rank : fullest_ranks(outcome)) {
    Json terms;
    for (size_t term = 0; term < memory_term_count; ++term)
      terms[term_names[term]] = {{"bytes", rank->memory[term]},
                                 {"model_bytes", rank->expected_memory[term]}};
    stages.push_back({{"stage", rank->stage}, {"rank", rank->rank}, {"terms", terms}});
  }
  return stages;
}

/// "step 12/100  loss 6.1815  84.2 ms  12160 tokens/s  MFU 31.2 %", for a person who waits.
std::string step_line(const spec::Job& job, const TrainSettings& settings, const StepResult& step,
                      const TrainReport& report) {
  const Speed speed = speed_of(job, step.seconds, report.all_peak_flops);
  return fmt::format(
      "step {:>{}}/{}  loss {:.5f}  norm {:.3g}  {:.1f} ms  {:.0f} tokens/s  MFU {:.1f} %",
      step.step + 1, std::to_string(settings.steps).size(), settings.steps, step.loss,
      step.gradient_norm, step.seconds * 1e3, speed.tokens_per_second, speed.utilization * 100);
}

/// Medians, and traffic and memory beside what workload says of them.
std::string summary_text(const spec::Job& job, const TrainOutcome& outcome) {
  const double seconds = median_seconds(outcome.own.steps);
  if (seconds == 0) return "nothing was left to train\n";
  const Speed speed = speed_of(job, seconds, outcome.own.all_peak_flops);
  std::string text = fmt::format(
      "\nmedian step {:.1f} ms, {:.0f} tokens/s, MFU {:.1f} % of {:.1f} GFLOP/s ({} ranks)\n",
      seconds * 1e3, speed.tokens_per_second, speed.utilization * 100,
      outcome.own.all_peak_flops * 1e-9, outcome.all.size());
  const auto rows = traffic_rows(outcome);
  if (!rows.empty())
    text += fmt::format("\n{:<14} {:<15} {:>14} {:>14}\n", "group", "collective", "MB moved",
                        "MB by workload");
  for (const TrafficRow& row : rows)
    text += fmt::format("{:<14} {:<15} {:>14.3f} {:>14.3f}{}\n", spec::name_of(row.group),
                        spec::name_of(row.collective), row.measured * 1e-6, row.expected * 1e-6,
                        row.measured == row.expected ? "" : "  differs");
  text +=
      fmt::format("\n{:<6} {:<12} {:>14} {:>14}\n", "stage", "memory", "MB at peak", "MB by model");
  for (const TrainReport* rank : fullest_ranks(outcome))
    for (size_t term = 0; term < memory_term_count; ++term)
      if (rank->memory[term] > 0 || rank->expected_memory[term] > 0)
        text += fmt::format("{:<6} {:<12} {:>14.3f} {:>14.3f}\n", rank->stage, term_names[term],
                            rank->memory[term] * 1e-6, rank->expected_memory[term] * 1e-6);
  return text;
}

/// The same and every step, as one JSON object.
std::string summary_json(const spec::Job& job, const TrainOutcome& outcome) {
  const double seconds = median_seconds(outcome.own.steps);
  Json json = {{"job", job.name},
               {"ranks", outcome.all.size()},
               {"steps", steps_json(job, outcome)},
               {"peak_flops", outcome.own.all_peak_flops},
               {"traffic", traffic_json(outcome)},
               {"memory", memory_json(outcome)},
               {"stopped", outcome.own.stopped}};
  if (seconds > 0) {
    const Speed speed = speed_of(job, seconds, outcome.own.all_peak_flops);
    json["median"] = {{"seconds", seconds},
                      {"tokens_per_second", speed.tokens_per_second},
                      {"mfu", speed.utilization}};
  }
  return json_text(json);
}

enum class TransportKind { automatic, mpi, threads };

/// The command line of triplepoint-train.
struct Options {
  std::string job;
  TrainSettings train;
  TransportKind transport = TransportKind::automatic;
  int64_t ranks = 0;  // threads; 0: as many as the job has
  double timeout_seconds = 60;
  std::string memory_limit;  // "" what is free, "0" none, or a size
  bool json = false;
};

/// What main does with a command line: go on, or end with this code (help has been printed).
struct Parsed {
  Options options;
  int exit_code = -1;  // -1: go on
  std::string text;    // to print before ending
};

constexpr const char* about =
    "Trains a transformer with real parallelism on the processors of this machine (or of several), "
    "laid out as the job says.\n\n"
    "  triplepoint-train job.toml --transport threads          ranks are threads\n"
    "  mpirun -n 8 triplepoint-train job.toml --steps 20       ranks are processes\n"
    "  triplepoint-train job.toml --data book.txt --steps 200\n\n"
    "`triplepoint train` starts it with the settings that work.";

const std::map<std::string, TransportKind> transports = {{"auto", TransportKind::automatic},
                                                         {"mpi", TransportKind::mpi},
                                                         {"threads", TransportKind::threads}};

const CLI::Validator positive(
    [](const std::string& text) {
      double value = 0;
      return CLI::detail::lexical_cast(text, value) && std::isfinite(value) && value > 0
                 ? ""
                 : text + " is no finite number above 0";
    },
    "");

/// CLI11 lets -1 and numbers that no integer holds become others.
template <class Integer>
CLI::Validator whole_number() {
  return {[](const std::string& text) {
            const auto value = number_of_text<Integer>(text);
            return value && *value >= 0 ? ""
                                        : fmt::format("{} is no whole number from 0 to {}", text,
                                                      std::numeric_limits<Integer>::max());
          },
          ""};
}

void add_training(CLI::App& app, TrainSettings& train) {
  app.add_option("--steps", train.steps, "Optimizer steps, in all")->check(whole_number<int64_t>());
  app.add_option("--seed", train.seed, "Of weights and data")->check(whole_number<uint64_t>());
  app.add_option("--data", train.data, "synthetic, or a file whose bytes are the tokens");
  app.add_option("--lr", train.rate.peak, "Learning rate at its highest");
  app.add_option("--warmup", train.rate.warmup_steps, "Steps of linear warm-up")
      ->check(whole_number<int64_t>());
  app.add_option("--weight-decay", train.weight_decay);
  app.add_option("--clip", train.clip, "Largest norm of a step's gradient; 0: any");
}

void add_machine(CLI::App& app, Options& options, double& peak_gflops) {
  app.add_option("--transport", options.transport,
                 "auto, mpi (processes) or threads; auto: mpi under mpirun or srun")
      ->transform(CLI::CheckedTransformer(transports, CLI::ignore_case));
  app.add_option("--ranks", options.ranks, "Threads to start (default: one per device of the job)")
      ->check(whole_number<int64_t>())
      ->check(positive);
  app.add_option("--timeout", options.timeout_seconds, "Seconds that a silent rank is waited for")
      ->check(positive);
  app.add_option("--memory-limit", options.memory_limit,
                 "Memory of this machine, as 8GB; 0: not checked (default: free memory)");
  app.add_option("--peak", peak_gflops, "GFLOP/s of one rank, for MFU (default: measured)")
      ->check(positive);
  app.add_option_function<std::string>(
         "--format", [&](const std::string& text) { options.json = text == "json"; },
         "table or json: one object at the end")
      ->check(CLI::IsMember({"table", "json"}));
}

Parsed parse_options(int argc, const char* const* argv) {
  Parsed parsed;
  double peak_gflops = 0;
  CLI::App app(about, "triplepoint-train");
  app.option_defaults()->always_capture_default();
  app.add_option("JOB", parsed.options.job, "job.toml, as simulate takes it")->required();
  add_training(app, parsed.options.train);
  add_machine(app, parsed.options, peak_gflops);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& failed) {
    std::ostringstream out;
    const int code = app.exit(failed, out, out);
    parsed.exit_code = code == 0 ? 0 : 2;
    parsed.text = out.str();
  }
  parsed.options.train.peak_flops = peak_gflops * 1e9;
  return parsed;
}

// A signal handler reaches nothing else.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<bool> stop_asked{false};
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> stop_signal{0};  // the first one

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int64_t> stop_second{0};  // when it came, on the monotonic clock

/// The first Ctrl-C ends the training after the step at work, a second one at
/// once. What comes within about a second is the same request: sent to a whole process group, and
/// passed on by the program that started us (Slurm's scancel, kill -- -GROUP).
void stop_after_step(int signal) {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  int none = 0;
  if (stop_signal.compare_exchange_strong(none, signal)) {
    stop_second = now.tv_sec;
    stop_asked = true;
  } else if (signal != SIGUSR1 && now.tv_sec - stop_second > 1) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

void listen_for_stops() {
  for (const int signal : {SIGINT, SIGTERM})
    std::signal(signal, stop_after_step);
  std::signal(SIGUSR1, stop_after_step);  // what launchers pass on without ending the job
  if (std::signal(SIGHUP, stop_after_step) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);  // nohup
}

/// As shells have it, 128 + signal. A launcher's SIGUSR1, or another rank's signal, is a Ctrl-C.
int stopped_code() {
  const int signal = stop_signal;
  return 128 + (signal == 0 || signal == SIGUSR1 ? SIGINT : signal);
}

std::string stopped_text(const TrainSettings& settings, const TrainOutcome& outcome) {
  const char* name = stop_signal == SIGINT    ? "SIGINT"
                     : stop_signal == SIGTERM ? "SIGTERM"
                     : stop_signal == SIGHUP  ? "SIGHUP"
                                              : "a signal";
  const int64_t steps = outcome.own.steps.empty() ? 0 : outcome.own.steps.back().step + 1;
  return fmt::format("stopped by {} after step {} of {}", name, steps, settings.steps);
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
        "--ranks {} and the job has {} (num_nodes x gpus_per_node of its "
        "cluster); start as many as it has, or change the cluster",
        options.ranks, job.world_size());
  const int64_t here =
      wants_mpi(options) ? launched_ranks_here(job.world_size()) : job.world_size();
  const double limit = TPT_TRY(memory_limit(options));
  TPT_TRY(check_memory(job, here, limit));
  return job;
}

Result<TrainOutcome> run(const spec::Job& job, const Options& options) {
  const EndpointSettings ends = endpoint_settings(job, options.timeout_seconds);
  const OnStep say = [&](const StepResult& step, const TrainReport& report) {
    if (options.json) return;
    fmt::print("{}\n", step_line(job, options.train, step, report));
    std::fflush(stdout);
  };
  return wants_mpi(options) ? train_with_mpi(job, options.train, ends, say)
                            : train_with_threads(job, options.train, ends, say);
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

int run_training(Options options) {
  listen_for_stops();
  options.train.stop = &stop_asked;
  if (const Result<void> checked = check_settings(options.train); !checked)
    return fail(checked.error(), true);
  const Result<spec::Job> job = load(options);
  if (!job) return fail(job.error(), true);
  const Result<TrainOutcome> outcome = run(*job, options);
  if (!outcome) return fail(outcome.error(), false);
  if (outcome->own.rank == 0) {
    fmt::print("{}\n", options.json ? summary_json(*job, *outcome) : summary_text(*job, *outcome));
    keep_report(*job, *outcome);
  }
  // Launchers end the whole job when one rank ends badly: of ranks that stopped only the first
  // does, once it has spoken.
  if (!outcome->own.stopped || outcome->own.rank != 0) return 0;
  fmt::print(stderr, "triplepoint-train: {}\n", stopped_text(options.train, *outcome));
  return stopped_code();
}

}  // namespace

}  // namespace triplepoint::trainer
int main(int argc, char** argv) try {
  triplepoint::trainer::Parsed parsed = triplepoint::trainer::parse_options(argc, argv);
  if (parsed.exit_code < 0) return triplepoint::trainer::run_training(std::move(parsed.options));
  fmt::print(parsed.exit_code == 0 ? stdout : stderr, "{}", parsed.text);
  return parsed.exit_code;
} catch (const std::bad_alloc&) {
  std::fputs("triplepoint-train: out of memory; use a smaller model or micro_batch_size\n", stderr);
  return 1;
} catch (const std::exception& thrown) {
  std::fprintf(stderr, "triplepoint-train: %s\n", thrown.what());
  return 1;
}
