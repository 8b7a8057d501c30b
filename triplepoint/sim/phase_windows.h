// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/power/power.h"
#include "triplepoint/sim/hardware_variation.h"
#include "triplepoint/sim/phase_table.h"

namespace triplepoint::sim {

/// The dynamic factors that boards have at all.
struct BoardRange {
  double least = 1, most = 1;
};
BoardRange range_of(const HardwareVariation&);

/// Loads one after the other; the duration of each is its length.
using Row = std::vector<spec::GpuLoad>;

Seconds length_of(const Row&);
/// The load of the part [from, from + length) of a row.
spec::GpuLoad part_of(const Row&, Seconds from, Seconds length);

/// A phase as a row of kernels and collectives, with runs of equal layers no longer than windows of
/// this length can tell. Layers are recomputed and differentiated in turn: groups of one name
/// repeat side by side.
Row row_of(PhaseTable&, int64_t clock_index, double host_factor, Seconds window);

/// The rows of a phase's groups of ops, each once, and how often it repeats.
struct RepeatedRow {
  Row row;
  double repeat = 1;
};
std::vector<RepeatedRow> repeated_rows(PhaseTable&, int64_t clock_index, double host_factor);

/// The windows of a row that hold the most energy on the boards with the least and the most dynamic
/// energy. P = x + d y + leakage on a board of factor d, so one of them is nearly the highest on
/// every board.
std::vector<spec::GpuLoad> hungriest_windows(const spec::PowerCoefficients&, const Row&,
                                             const BoardRange&, double clock_ratio, Seconds window);

/// Kernels and layers of a phase of which one may have the highest power on some board: a load
/// below another on the boards with the least and the most d is below it on every board.
std::vector<spec::GpuLoad> hungriest_kernels(const spec::PowerCoefficients&, PhaseTable&,
                                             const BoardRange&, int64_t clock_index);

}  // namespace triplepoint::sim
