// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/kernel_benchmark.h"
#include "triplepoint/calibrate/kernel_rows.h"
#include "triplepoint/calibrate/table_scores.h"

namespace triplepoint::calibrate {

/// Share of its maximum clock at which a GPU may run this op over and over under its power limit.
///
///   r = max { f_k / f_max : P(f_k) <= regulation_share limit },   P = gpu_power(op in t(f_k))
///
/// 1 where the GPU has no power model or governor.
double sustained_clock_ratio(const spec::Gpu&, const spec::Op&);

/// What a benchmark of this row would print: the kernel at the clocks it may have, and what the
/// benchmark times together with it. `gpu` is with_library_of the benchmark.
///
///   looped:  t_kernel = t(r),   r the sustained clock
///   burst:   t_kernel = t(1) (1 - s) + t(r) s,   s = max(0, 1 - power_window / (launches t(1)))
Seconds predicted_time(const spec::Gpu&, const KernelRow&, const KernelBenchmark&);

/// Scores a table of GEMMs, of attention kernels, or the products and attention kernels of a table
/// of kernels. Families are the table's own (or "gemm h200 bfloat16"), split by size as
/// "family/large" and "family/small" at 100 us. Quantity: latency_us, or tflops where the table
/// gives a rate alone.
Result<TableScores> score_gemm_table(const CsvTable&, const spec::Library&);
Result<TableScores> score_attention_table(const CsvTable&, const spec::Library&);

/// The same for a table that holds products, attention and collectives.
Result<TableScores> score_kernels_table(const CsvTable&, const spec::Library&);

}  // namespace triplepoint::calibrate
