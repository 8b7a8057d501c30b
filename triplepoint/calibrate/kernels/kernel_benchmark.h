// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/kernels/kernel_rows.h"

namespace triplepoint::calibrate {

/// What a published benchmark times besides the kernel, and where its library differs from the one
/// that trains. It says how to compare with its rows and nothing about training.
///
///   t_row = max(host_pace, t_kernel + cast),   cast = cast_bytes m k / (hbm rate) + cast_start
///
/// host_pace: the host cannot start products faster (a cast of several small kernels before each);
/// cast: the left operand of a quantized product is converted inside of the timed part.
/// A benchmark that no power meter waits for launches a kernel some times only: once
/// launches t_kernel is over power_window, the rest runs at the clock that the power limit allows.
struct KernelBenchmark {
  std::string gpu, source, dtype;     // empty: any; a source of "*": any that is stated
  std::optional<bool> grouped_heads;  // attention: with fewer key heads than heads, or as many
  double cast_bytes = 0;              // per element of the left operand
  Seconds cast_start, host_pace;
  double launches = 30;
  double energy_share = 1;           // of a product's energy in training: its operands toggle less
  std::optional<double> gemm_share;  // of the peak, an infinite tile: this library's own
  std::optional<double> attention_share, attention_half_length, attention_half_head_dim;
  friend bool operator==(const KernelBenchmark&, const KernelBenchmark&) = default;
};

/// data/calibrations/benchmarks.toml; none where there is no such file.
Result<std::vector<KernelBenchmark>> load_benchmarks(const spec::Library&);

/// The first that fits the row; one that fits any row where none does.
KernelBenchmark benchmark_of(const KernelRow&, const std::vector<KernelBenchmark>&);

/// The GPU with the benchmark's own shares in place of the training library's.
spec::Gpu with_library_of(spec::Gpu, const KernelBenchmark&);

}  // namespace triplepoint::calibrate
