// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// Scores a table of steady power (docs/formats.md): locked clocks, power caps and duty cycles.
///
/// A table does not describe its kernels, so a kernel is fitted from one point and predicted at
/// the others of the same column `kernel`:
///  - rates stated (mem_gb_per_s and fp32_gflops, or a bandwidth as `rate`): no point is needed;
///  - else the point with the highest clock and cap says what the kernel draws, all of it taken as
///    arithmetic whose pace follows the clock; where clocks were locked, the lowest locked clock at
///    the same cap says how much of it does not follow the clock. These points are not scored.
///  - a duty cycle is the steady kernel whose rate while on is the row's, and idle at full clock.
/// Quantities: power_w; rate; sm_clock_mhz where a cap is lowered.
Result<TableScores> score_steady_power(const CsvTable&, const ScoreContext&);

}  // namespace triplepoint::calibrate
