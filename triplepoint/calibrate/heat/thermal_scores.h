// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// Every temperature reading of every trace, given the power that was read (thermal_trace.h).
/// Family: the trace. Quantity: temperature_c; sweep: the trace.
Result<TableScores> score_thermal_traces(const CsvTable&, const ScoreContext&);

/// Temperatures of the devices of one node at one instant, given their power: the node's chassis at
/// rest. No inlet is ever stated, so the node's mean difference is taken off where several devices
/// were read: what is scored is how they differ. Single readings are scored at the library's inlet,
/// and say so.
Result<TableScores> score_thermal_snapshots(const CsvTable&, const ScoreContext&);

/// Limits, clocks and design powers of single GPUs against the library's.
Result<TableScores> score_facts(const CsvTable&, const ScoreContext&);

}  // namespace triplepoint::calibrate
