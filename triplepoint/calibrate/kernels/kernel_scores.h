// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/op.h"

#include "triplepoint/calibrate/kernels/kernel_rows.h"
#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// Share of its maximum clock at which a GPU may run this op over and over under its power limit.
///
///   r = max { f_k / f_max : P(f_k) <= power_cap(limit) },   P = gpu_power(op in t(f_k))
///
/// 1 where the GPU has no power model or governor.
double sustained_clock_ratio(const spec::Gpu&, const spec::Op&);

/// What a benchmark of this row would print: the kernel at the clocks it may have, and what the
/// benchmark times together with it. `gpu` is with_library_of the benchmark.
///
///   looped:  t_kernel = t(r),   r the sustained clock
///   burst:   t_kernel = t(1) (1 - s) + t(r) s,   s = 1 - t_cap / (launches t(1))
///
/// t_cap: clock::time_to_cap from the power at rest, at most launches t(1).
Seconds predicted_time(const spec::Gpu&, const KernelRow&, const KernelBenchmark&);

/// The row's family, split by size at 100 us: "family/large" and "family/small".
std::string family_by_size(const KernelRow&);

/// Scores a table of kernels: products and attention kernels, then collectives
/// (score_collective_rows), then the power of kernels that were looped.
/// Quantity: latency_us, or tflops of the best shape of a sweep.
Result<TableScores> score_kernel_table(const CsvTable&, const ScoreContext&);

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

/// One measured collective.
struct CollectiveRow {
  std::string row_id, family;
  std::string cluster;        // of the library
  std::string nic_bandwidth;  // of this machine's NICs: "400 Gb/s"; empty: as in the library
  std::string nvls;           // whether switches reduced: "true", "false"; empty: as in the library
  spec::Collective collective = spec::Collective::all_reduce;
  int64_t ranks = 0, nodes = 1;
  Bytes payload;
  Seconds latency;            // zero: not stated
  double busbw_gb_per_s = 0;  // zero: not stated
};

/// Reads a row of kind collective of a table of kernels (docs/formats.md).
Result<CollectiveRow> read_collective_row(const Cells&);

/// Time of the row's collective on that machine, all ranks there, one group alone on its nodes.
Seconds predicted_time(const spec::Cluster& cluster, const CollectiveRow&);

/// Scores the collectives of a table of kernels. Families are split by payload as "family/large"
/// above 16 MB, "family/small" below 1 MB, "family/between". Quantity: latency_us, or
/// busbw_gb_per_s where the table gives that alone.
void score_collective_rows(const CsvTable&, const spec::Library&, TableScores&);

}  // namespace triplepoint::calibrate
