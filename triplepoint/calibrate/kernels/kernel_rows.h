// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/op.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// How a benchmark ran the kernel: once in a while, or over and over until a power meter saw it.
/// Over and over the board sits at its power limit, so the limit sets the clock.
enum class Repetition { burst, looped };

/// One measured GEMM or attention kernel.
struct KernelRow {
  std::string row_id, family;
  std::string gpu;     // a name of data/gpus
  std::string dtype;   // "bfloat16", "fp8", "fp8_block", "nvfp4": as the tables spell them
  std::string source;  // the library: "torch_flow", "vllm_default"; empty: not stated
  spec::Op op;
  Repetition repetition = Repetition::burst;
  Seconds measured;
  bool best_of_many = false;  // the fastest shape of a sweep: what the library can do at all
  double power_share = 0;     // measured power over the limit; 0: not logged
};

/// Reads a row of kind gemm or attention of a table of kernels (docs/formats.md).
///
///   gemm       flops = 2 m n k batch;   bytes = (operand_bytes (m k + k n) + 2 m n) batch
///   attention  flops = 4 seq^2 head_dim heads batch, half of it where causal; backward 2.5 times:
///              five products for two, of which one is the first again
Result<KernelRow> read_kernel_row(const Cells&);

/// What a published benchmark times besides the kernel, and where its library differs from the one
/// that trains. It says how to compare with its rows and nothing about training.
///
///   t_row = max(host_time, t_kernel + cast),   cast = cast_bytes m k / (hbm rate) + cast_start
///
/// host_time: the host cannot start products faster (a cast of several small kernels before each);
/// cast: the left operand of a quantized product is converted inside of the timed part.
/// A benchmark that no power meter waits for launches a kernel some times only: once the governor
/// has reacted, the rest runs at the clock that the power limit allows.
struct KernelBenchmark {
  std::string gpu, source, dtype;     // empty: any; a source of "*": any that is stated
  std::optional<bool> grouped_heads;  // attention: with fewer key heads than heads, or as many
  double cast_bytes = 0;              // per element of the left operand
  Seconds cast_start, host_time;
  double launches = 30;
  double energy_share = 1;           // of a product's energy in training: its operands toggle less
  std::optional<double> gemm_share;  // of the peak, an infinite tile: this library's own
  std::optional<double> attention_share, attention_half_length, attention_half_head_dim;
  friend bool operator==(const KernelBenchmark&, const KernelBenchmark&) = default;
};
void visit_fields(auto& visit, KernelBenchmark& benchmark) {
  visit("gpu", benchmark.gpu);
  visit("source", benchmark.source);
  visit("dtype", benchmark.dtype);
  visit("grouped_heads", benchmark.grouped_heads);
  visit("cast_bytes", benchmark.cast_bytes);
  visit("cast_start", benchmark.cast_start);
  visit("host_time", benchmark.host_time);
  visit("launches", benchmark.launches);
  visit("energy_share", benchmark.energy_share);
  visit("gemm_share", benchmark.gemm_share);
  visit("attention_share", benchmark.attention_share);
  visit("attention_half_length", benchmark.attention_half_length);
  visit("attention_half_head_dim", benchmark.attention_half_head_dim);
}

/// data/calibrations/benchmarks.toml; none where there is no such file.
Result<std::vector<KernelBenchmark>> load_benchmarks(const spec::Library&);

/// The first that fits the row; one that fits any row where none does.
KernelBenchmark benchmark_of(const KernelRow&, const std::vector<KernelBenchmark>&);

/// The GPU with the benchmark's own shares in place of the training library's.
spec::Gpu with_library_of(spec::Gpu, const KernelBenchmark&);

}  // namespace triplepoint::calibrate
