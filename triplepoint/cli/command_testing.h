// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/cli/command_line.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli::testing {

/// What a command printed, and its exit code.
struct Outcome {
  int code = 0;
  std::string out, err;
};

/// The program, in this process.
inline Outcome call(const std::vector<std::string>& words, tui::Console::Abilities abilities = {}) {
  std::ostringstream out, err;
  tui::Console console(out, err, abilities);
  const int code = run_command_line(words, console);
  return {code, out.str(), err.str()};
}

using Words = std::vector<std::string>;

inline Words plus(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// What a command printed with --format json.
inline Json json_of(const Outcome& outcome) {
  REQUIRE_MESSAGE(outcome.code == exit_ok, outcome.err);
  return parse_json(outcome.out, "output").value();
}

// A small training as the PyTorch profiler writes it, for the tests of `triplepoint trace`.

/// Kineto JSON of one of two ranks: two steps of two matrix products, a norm, a copy and an
/// all-reduce of 4 MiB. Rank 1 loads data for 3 ms longer in the second step. Whole microseconds,
/// Unix time 1,700,000,000 s plus `begin_us`.
class KinetoFixture {
 public:
  explicit KinetoFixture(int rank, double gemm_us = 400) : rank_(rank), gemm_us_(gemm_us) {
    step("ProfilerStep#1", 1000, 200, 2140);
    step("ProfilerStep#2", 6000, rank == 0 ? 200 : 3200, 10140);
  }

  std::string text() const {
    return json_text(
        {{"schemaVersion", 1},
         {"deviceProperties", Json::array({{{"id", 0}, {"name", "Test GPU"}, {"warpSize", 32}}})},
         {"distributedInfo", {{"backend", "nccl"}, {"rank", rank_}, {"world_size", 2}}},
         {"baseTimeNanoseconds", int64_t{1'700'000'000'000'000'000}},
         {"traceEvents", events_},
         {"traceName", fmt::format("rank{}.json", rank_)}});
  }

 private:
  void step(const char* name, double begin, double loading, double meeting) {
    host("user_annotation", name, begin, 4900, {});
    host("cpu_op", "DataLoader.__next__", begin + 10, loading, {});
    double now = begin + 20 + loading;
    const double start = now + 10;
    now = launched("Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", 7, now, start, 30, {});
    const Json grid = {
        {"grid", {128, 1, 1}}, {"block", {256, 1, 1}}, {"est. achieved occupancy %", 50}};
    now = launched("ampere_bf16_gemm", "kernel", 7, now, start + 40, gemm_us_, grid);
    now = launched("layer_norm_kernel", "kernel", 7, now, start + 45 + gemm_us_, 50, grid);
    now = launched("ampere_bf16_gemm", "kernel", 7, now, start + 100 + gemm_us_, gemm_us_, grid);
    const double all_reduce = start + 110 + 2 * gemm_us_;
    const double last = meeting < all_reduce ? all_reduce : meeting;
    launched("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)", "kernel", 20, now,
             all_reduce, last + 120 - all_reduce,
             {{"Collective name", "allreduce"},
              {"In msg nelems", 2097152},
              {"Out msg nelems", 2097152},
              {"Group size", 2},
              {"dtype", "BFloat16"},
              {"Process Group Name", "0"},
              {"Process Group Ranks", "[0, 1]"},
              {"Seq", ++sequence_}});
  }

  double launched(const char* name, const char* category, int stream, double call, double begin,
                  double duration, Json arguments) {
    ++correlation_;
    host("cuda_runtime",
         std::string_view(category) == "kernel" ? "cudaLaunchKernel" : "cudaMemcpyAsync", call, 5,
         {{"correlation", correlation_}});
    arguments.update({{"device", rank_}, {"stream", stream}, {"correlation", correlation_}});
    add(category, name, begin, duration, rank_, stream, std::move(arguments));
    return call + 8;
  }
  void host(const char* category, const char* name, double begin, double duration, Json arguments) {
    add(category, name, begin, duration, 100 + rank_, 100 + rank_, std::move(arguments));
  }
  void add(const char* category, const char* name, double begin, double duration, int pid, int tid,
           Json arguments) {
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"pid", pid},
                       {"tid", tid},
                       {"ts", begin},
                       {"dur", duration},
                       {"args", std::move(arguments)}});
  }

  int rank_;
  double gemm_us_;
  int64_t correlation_ = 0, sequence_ = 0;
  Json events_ = Json::array();
};

}  // namespace triplepoint::cli::testing
