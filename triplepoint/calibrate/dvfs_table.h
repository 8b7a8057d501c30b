// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/kernel_rows.h"
#include "triplepoint/calibrate/power_loads.h"
#include "triplepoint/calibrate/table_scores.h"

namespace triplepoint::calibrate {

/// row_id, lock_sm_mhz, power_cap_w, power_avg_w, perf: power_dvfs_calibration.csv and its like.
bool is_dvfs_table(const Header&);

/// Scores steady points of locked clocks, power caps and duty cycles.
///
/// A table does not say what its kernels do, so a kernel is learned from one point and predicted at
/// the others (all that have the same family, board, workload and precision):
///  - rates stated (mem_gbps and fp32_gflops, or a bandwidth as `perf`): no point is needed;
///  - else the point with the highest clock and cap says what the kernel draws, all of it taken as
///    arithmetic whose pace follows the clock; where clocks were locked, the lowest locked clock at
///    the same cap says how much of it does not follow the clock. These points are not scored.
///  - a duty cycle is the steady kernel whose rate while on is the row's, and idle at full clock.
/// Quantities: power_w; rate (as the table's `perf`); sm_clock_mhz where a cap is lowered. Rows
/// that state a peak and no mean are scored by their peak.
Result<TableScores> score_dvfs_table(const CsvTable&, const spec::Library&);

/// The same with GPUs of one's own choice.
TableScores score_dvfs_points(const CsvTable&, GpuShelf&);

}  // namespace triplepoint::calibrate
