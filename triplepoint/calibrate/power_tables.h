// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/kernel_rows.h"
#include "triplepoint/calibrate/power_loads.h"
#include "triplepoint/calibrate/table_scores.h"

namespace triplepoint::calibrate {

/// A table of kernels (kernel_rows.h) that also says what the board drew: power_w.
bool is_kernel_power_table(const Header&);

/// Power of a board that runs one kernel over and over, from the kernel's shape alone.
///
///   P = gpu_power(work of the kernel and its cast in predicted_time),   r = sustained_clock_ratio
///
/// The measured latency does not enter. Families: "power " and the table's own (or "gemm h200
/// bfloat16"), split by size at 100 us as latencies are. Quantity: power_w.
Result<TableScores> score_kernel_power_table(const CsvTable&, const spec::Library&);

/// The same with GPUs of one's own choice.
Result<TableScores> score_kernel_power_rows(const CsvTable&, const spec::Library&, GpuShelf&);

}  // namespace triplepoint::calibrate
