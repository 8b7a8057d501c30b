// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/gpu.h"

#include "triplepoint/calibrate/kernels/kernel_benchmark.h"
#include "triplepoint/calibrate/kernels/kernel_rows.h"
#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// Benchmarks of kernels run in cool rooms; the temperature of the die is not published.
inline constexpr Celsius benchmark_die{60};

/// One kernel that takes `duration` and is followed by the next without a pause.
spec::GpuLoad looped_load(const spec::Gpu&, const spec::Op&, Seconds duration);

/// Power of a board that runs one kernel over and over, from the kernel's shape alone.
///
///   P = gpu_power(work of the kernel and its cast in predicted_time),   r = sustained_clock_ratio
///
/// The measured latency does not enter. Family: "power " and the row's, split by size at 100 us as
/// latencies are. Quantity: power_w. A row that cannot be predicted is an error. The GPU is the
/// library's, without the shares of the benchmark's own library.
Result<ScoredRow> score_kernel_power(const spec::Gpu&, const KernelRow&, const KernelBenchmark&);

}  // namespace triplepoint::calibrate
