// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/op.h"

#include "triplepoint/calibrate/table_scores.h"

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
  std::vector<std::string> notes;
};

struct KernelRows {
  std::vector<KernelRow> rows;
  std::vector<SkippedRow> skipped;
};

using Header = std::vector<std::string>;

/// system, dtype, m, n, k, latency_ms: gemm_power.csv and its like.
bool is_gemm_table(const Header&);
/// system, batch, seq, heads, head_dim, latency_ms: attention_power.csv and its like.
bool is_attention_table(const Header&);
/// row_id, kind, gpu, m, n, k, heads, msg_bytes, latency_us: kernels of all kinds.
bool is_kernels_table(const Header&);

/// The rows of one of these three tables that are products or attention kernels. Collectives of a
/// table of kernels belong to collective_rows.h and are left out without a word.
Result<KernelRows> read_kernel_rows(const CsvTable&);

}  // namespace triplepoint::calibrate
