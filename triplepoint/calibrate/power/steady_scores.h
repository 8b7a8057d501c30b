// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/op.h"

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

/// A kernel that runs without a pause, as far as clocks and caps go.
///
///   rate(r) = 1 / (c/r + 1 - c),   r: clock over maximum clock, c: clocked share
///
/// products, vector, traffic: at full clock; all scale with the rate.
struct SteadyKernel {
  FlopsPerSecond products, vector;
  BytesPerSecond traffic;
  double clocked_share = 1;

  double rate(double clock_ratio) const {
    return 1 / (clocked_share / clock_ratio + 1 - clocked_share);
  }
  /// One second of it.
  spec::GpuLoad load(double clock_ratio) const;
};

/// What a board was told, and how warm it was.
struct BoardSetting {
  Hertz highest_clock;
  Watts cap;
  Celsius die;
};

struct SteadyPoint {
  Watts power;
  double clock_ratio = 1;  // over the GPU's maximum clock
};

/// Power and clock that a kernel settles at under a clock lock and a power cap.
SteadyPoint settle(const spec::Gpu&, const SteadyKernel&, const BoardSetting&);

/// A kernel that works and rests in turn.
struct DutyCycle {
  Seconds on, off;
  double share() const { return on / (on + off); }
};
struct DutyPoint {
  Watts power;      // mean over a period
  double rate = 1;  // over the kernel's without a pause at full clock
};

/// Power and rate of a duty cycle under a cap.
///
///   level = filtered_power(cap, rest, off);   free of the cap for time_to_cap(level, free), then
///   at the clock that the cap leaves
///
/// free: its power without the cap; rest: between the works, in which clocks climb back.
DutyPoint settle_duty(const spec::Gpu&, const SteadyKernel&, const BoardSetting&, const DutyCycle&);

/// The kernel of this clocked share that draws `power` at a clock ratio: arithmetic takes what
/// standing power leaves.
SteadyKernel kernel_that_draws(const spec::Gpu&, Watts power, double clock_ratio, Celsius die,
                               double clocked_share);

/// The kernel that draws two powers at two clocks: what does not fall with the clock as arithmetic
/// would is memory traffic.
SteadyKernel kernel_through(const spec::Gpu&, SteadyPoint fast, SteadyPoint slow, Celsius die,
                            double clocked_share);

/// The share c for which rate(slow)/rate(fast) is as measured, within 0 and 1.
double clocked_share_of(double rate_ratio, double clock_ratio);

}  // namespace triplepoint::calibrate
