// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/load.h"

#include "trainer/machine/machine.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

/// One rank, four microbatches: no communication at all.
Result<spec::Job> job_of(const std::string& model, int64_t micro_batch_size) {
  spec::Job job = TPT_TRY(spec::parse_job(spec::default_library(),
                                          fmt::format(R"(
model = "{}"
cluster = "laptop"
stack = "triplepoint-train"
[plan]
micro_batch_size = {}
global_batch_size = 8
precision = "fp32"
optimizer = "fp32_adamw"
)",
                                                      model, micro_batch_size),
                                          "triplepoint-machine"));
  job.cluster.num_nodes = job.cluster.gpus_per_node = 1;
  return job;
}

}  // namespace

Result<std::vector<TrainingRow>> measure_trainings(const MachineEffort& effort) {
  std::vector<TrainingRow> rows;
  for (const char* model : {"tiny-llama", "tiny-gpt", "tiny-mixtral"})
    for (const int64_t micro_batch_size : {1, 2, 4}) {
      const spec::Job job = TPT_TRY(job_of(model, micro_batch_size));
      TrainSettings settings;
      settings.steps = effort.steps;
      settings.peak_flops = 1;  // not asked for
      TrainingRow row{model, micro_batch_size, job.plan.global_batch_size, 1e9, 1e9};
      double before = 0;
      const OnStep on_step = [&](const StepResult& step, const TrainReport&) {
        const double now = process_core_seconds();
        if (before > 0) row.core_seconds = std::min(row.core_seconds, now - before);
        if (before > 0) row.wall_seconds = std::min(row.wall_seconds, step.seconds);
        before = now;
      };
      TPT_TRY(train_with_threads(job, settings, {endpoint_settings(job, 60), {}, {}}, on_step));
      rows.push_back(row);
    }
  return rows;
}

}  // namespace triplepoint::trainer

namespace {

using namespace triplepoint;

int fail(const Error& error) {
  fmt::print(stderr, "triplepoint-machine: {}\n", error.what);
  return 1;
}

int measure(const trainer::MachineEffort& effort, const std::string& output) {
  const Result<trainer::MachineRows> rows = trainer::measure_machine(effort);
  if (!rows) return fail(rows.error());
  const std::string text = json_text(trainer::json_of(*rows)) + "\n";
  if (output.empty()) {
    fmt::print("{}", text);
    return 0;
  }
  const auto written = write_file_atomically(output, text);
  return written ? 0 : fail(written.error());
}

int run(int argc, char** argv) {
  CLI::App app{
      "Measures what one core of this machine does for a training: matrix products, attention, "
      "collectives between ranks in memory, steps of tiny models. Writes JSON; "
      "`triplepoint calibrate --this-machine` makes a machine description of it."};
  trainer::MachineEffort effort;
  std::string output;
  app.add_option("-o,--output", output, "a file instead of standard output");
  app.add_option("--seconds", effort.seconds, "how long each row is repeated")
      ->capture_default_str()
      ->check(CLI::Range(0.0001, 10.0));
  app.add_option("--steps", effort.steps, "of each tiny training")
      ->capture_default_str()
      ->check(CLI::Range(2, 1000));
  CLI11_PARSE(app, argc, argv);
  return measure(effort, output);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "triplepoint-machine: %s\n", failure.what());
    return 1;
  }
}
