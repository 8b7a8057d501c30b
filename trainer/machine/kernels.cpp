// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <ctime>
#include <functional>

#include "trainer/machine/machine.h"

namespace triplepoint::trainer {
namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Of one call: the best of some batches, so that an interruption spoils one of them only.
double time_of(double seconds, const std::function<void()>& work) {
  work();
  const double begin = thread_core_seconds();
  int64_t calls = 0;
  while (thread_core_seconds() - begin < seconds / 5)
    work(), ++calls;
  double best = (thread_core_seconds() - begin) / static_cast<double>(calls);
  for (int batch = 0; batch < 4; ++batch) {
    const double from = thread_core_seconds();
    for (int64_t i = 0; i < calls; ++i)
      work();
    best = std::min(best, (thread_core_seconds() - from) / static_cast<double>(calls));
  }
  return best;
}

struct Operands {
  std::vector<float> a, b, c;
};

/// Forward: C[m, n] = A[m, k] B[n, k]'; input gradient: A[m, k] B[k, n]; weight gradient:
/// A[k, m]' B[k, n].
double gemm_seconds(Math& math, const GemmRow& row, Operands& operands, double seconds) {
  double sum = 0;
  for (int way = 0; way < 3; ++way) {
    Gemm gemm;
    gemm.m = row.m, gemm.n = row.n, gemm.k = row.k;
    gemm.a = operands.a.data(), gemm.b = operands.b.data(), gemm.c = operands.c.data();
    gemm.a_transposed = way == 2, gemm.b_transposed = way == 0;
    gemm.a_stride = way == 2 ? row.m : row.k;
    gemm.b_stride = way == 0 ? row.k : row.n;
    gemm.c_stride = row.n;
    gemm.beta = way == 2 ? 1 : 0;
    sum += time_of(seconds / 3, [&] { math.gemm(gemm); });
  }
  return sum / 3;
}

}  // namespace

double thread_core_seconds() {
  return seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

double process_core_seconds() {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID);
}

std::vector<GemmRow> measure_gemms(Math& math, const MachineEffort& effort) {
  std::vector<GemmRow> rows;
  for (const int64_t m : {64, 128, 256, 512})
    for (const int64_t n : {128, 256, 512, 1024})
      for (const int64_t k : {64, 128, 256, 1024})
        rows.push_back({m, n, k, 0});
  Operands operands;
  for (std::vector<float>* each : {&operands.a, &operands.b, &operands.c})
    each->assign(size_t{1024} * 1024, 0.001F);
  for (GemmRow& row : rows)
    row.seconds = gemm_seconds(math, row, operands, effort.seconds);
  return rows;
}

std::vector<AttentionRow> measure_attention(Math& math, const MachineEffort& effort) {
  std::vector<AttentionRow> rows;
  for (const int64_t length : {64, 128, 256})
    for (const int64_t head_dim : {32, 64})
      for (const bool backward : {false, true}) {
        AttentionRow row;
        row.shape.sequences = 2, row.shape.length = length;
        row.shape.heads = row.shape.groups = row.shape.all_heads = 4;
        row.shape.head_dim = head_dim;
        row.backward = backward;
        const double products = backward ? 10 : 4;  // flops per pair and number of a head, halved
        row.flops = products * 0.5 * static_cast<double>(int64_t{8} * length * length * head_dim);
        const auto tokens = static_cast<size_t>(2 * length);
        const std::vector<float> start(tokens * static_cast<size_t>(row.shape.width()), 0.01F);
        std::vector<float> qkv = start, out(tokens * static_cast<size_t>(4 * head_dim), 0.01F);
        const std::vector<float> out_gradient(out.size(), 0.01F);
        std::vector<float> sums(tokens * 4);
        math.attention(row.shape, qkv.data(), out.data(), sums.data());
        row.seconds = time_of(effort.seconds, [&] {
          if (!backward) return math.attention(row.shape, qkv.data(), out.data(), sums.data());
          std::memcpy(qkv.data(), start.data(), start.size() * sizeof(float));
          math.attention_backward(row.shape, qkv.data(), out.data(), out_gradient.data(),
                                  sums.data());
        });
        rows.push_back(row);
      }
  return rows;
}

double measure_call(Math& math) {
  std::vector<float> x(16, 1), y(16, 1);
  return time_of(0.01, [&] { math.add(16, x.data(), y.data()); });
}

double measure_copy(const MachineEffort& effort) {
  std::vector<float> from(size_t{1} << 24, 1), to(size_t{1} << 24);
  const auto bytes = static_cast<double>(from.size() * sizeof(float));
  return 2 * bytes /
         time_of(effort.seconds, [&] { std::memcpy(to.data(), from.data(), from.size() * 4); });
}

}  // namespace triplepoint::trainer
