// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/scratch_folder.h"

namespace triplepoint::study::testing {

// A result tree as the paper's artifact writes it, small and the same every time: two GPUs, one
// step of a second.

inline constexpr int64_t epoch_s = 1'700'000'000;

inline void write(const Path& file, const std::string& text) {
  REQUIRE(make_folder(file.parent_path()));
  REQUIRE(write_file_atomically(file, text));
}

inline void write_samples(const Path& folder) {
  for (int rank = 0; rank < 2; ++rank) {
    std::string power, heat, nvlink, pcie;
    for (int i = 0; i <= 20; ++i) {
      const double time = static_cast<double>(epoch_s) + 0.05 * i;
      // A reading that failed is a -1.
      power += fmt::format("{:.3f},{}\n", time, i == 7 ? -1 : 400 + 100 * rank);
      heat += fmt::format("{:.3f},{}\n", time, 50 + rank);
      // Both counters wrap: only their low 32 bits are written.
      nvlink += fmt::format("{:.3f},{}\n", time, (4'294'967'000ULL + 1000 * i) % 4'294'967'296ULL);
      pcie += fmt::format("{:.3f},{}\n", time, (4'294'900'000ULL + 100'000 * i) % 4'294'967'296ULL);
    }
    write(folder / fmt::format("gpu_power_{}.csv", rank), power);
    write(folder / fmt::format("gpu_thermal_{}.csv", rank), heat);
    write(folder / fmt::format("nvlink_rx_throughput_{}.csv", rank), nvlink);
    write(folder / fmt::format("pcie_rx_bytes_{}.csv", rank), pcie);
  }
}

/// A GEMM of 300 ms, an all-reduce of 200 ms and a kernel of 100 ms, all of them `factor` longer.
inline std::string kineto(int rank, double factor) {
  std::string events;
  double at = 1e6 * static_cast<double>(epoch_s) + 1e5;
  int correlation = 1;
  for (const auto& [name, ms] :
       {std::pair("ampere_gemm_f16", 300.0), std::pair("ncclDevKernel_AllReduce_Sum_bf16", 200.0),
        std::pair("vectorized_elementwise_kernel", 100.0)}) {
    events += fmt::format(
        R"({{"ph":"X","cat":"kernel","name":"{}","pid":0,"tid":7,"ts":{:.3f},"dur":{:.3f},)"
        R"("args":{{"device":0,"stream":7,"correlation":{}}}}},)",
        name, at, 1000 * ms * factor, correlation++);
    at += 1000 * ms * factor;
  }
  events.pop_back();
  return fmt::format(
      R"({{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{},"world_size":2}},)"
      R"("traceEvents":[{}]}})",
      rank, events);
}

inline void write_traces(const Path& folder, const char* job, double factor = 1) {
  for (int rank = 0; rank < 2; ++rank)
    write(folder / (std::string(job) + "_kineto") / fmt::format("rank-{}.json", rank),
          kineto(rank, factor));
}

inline const char* const stats =
    "trace_file,kernel_name,count,total_duration_us,mean_duration_us\n"
    "rank-0.json,ampere_gemm_f16,1,300000,300000\n"
    "rank-0.json,ncclDevKernel_AllReduce_Sum_bf16,2,200000,100000\n"
    "rank-8.json,ampere_gemm_f16,1,500000,500000\n";

/// Samples and traces of two jobs; samples alone; traces alone; kernel sums alone; nothing.
struct Tree {
  ScratchFolder scratch;
  Path root = scratch.folder() / "results";
  Path sweep = root / "optimization-sweep-h200" / "gpt3-175b";
  Path whole = sweep / "gpt3-175b_1_01000", samples = sweep / "gpt3-175b_2_01000",
       traces = sweep / "gpt3-175b_3_01000", sums = sweep / "gpt3-175b_1_00000",
       nothing = sweep / "gpt3-175b_4_00000";
  Tree() {
    write_samples(whole);
    write_traces(whole, "41", 0.5);
    write_traces(whole, "123");
    write_samples(samples);
    write_traces(traces, "7");
    write(sums / "gpt3-175b_1_00000_kernel_stats.csv", stats);
    REQUIRE(make_folder(nothing));
  }
};

}  // namespace triplepoint::study::testing
