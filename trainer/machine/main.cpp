// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "trainer/machine/machine.h"

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
