// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/op.h"

#include "triplepoint/calibrate/tables/cells.h"

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

}  // namespace triplepoint::calibrate
