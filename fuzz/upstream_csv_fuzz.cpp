// SPDX-License-Identifier: Apache-2.0
// CSV files of the paper's artifact and of Zeus: read or refused; what is read can be written.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <unistd.h>

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint {
namespace {

const Path& folder() {
  static const Path path = [] {
    Path made = std::filesystem::temp_directory_path() /
                ("triplepoint_upstream_fuzz_" + std::to_string(::getpid()));
    std::filesystem::create_directories(made);
    return made;
  }();
  return path;
}

void check(const run::Run& run) {
  for (const run::Series& series : run.series) {
    TPT_EXPECT(series.times.size() == series.values.size());
    for (size_t i = 1; i < series.times.size(); ++i)
      TPT_EXPECT(series.times[i - 1] < series.times[i]);
  }
  for (const run::StepRecord& step : run.steps)
    TPT_EXPECT(step.begin < step.end);
  telemetry::artifact_files(run);
  telemetry::zeus_files(run);
}

}  // namespace
}  // namespace triplepoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace triplepoint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const char* name : {"gpu_power_0.csv", "system_ib_tx_bytes_rank_0_id_a.csv",
                           "nvlink_tx_throughput_1.csv", "zeus.csv"}) {
    const Path file = folder() / name;
    std::ofstream(file, std::ios::binary) << text;
    if (name == std::string_view("zeus.csv")) {
      if (const auto run = telemetry::read_upstream(file)) check(*run);
    }
  }
  if (const auto run = telemetry::read_upstream(folder())) check(*run);
  return 0;
}
