// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/kernel_rows.h"
#include "triplepoint/calibrate/table_scores.h"

namespace triplepoint::calibrate {

/// trace_id, gpu, t_s, power_w, temp_core_c: thermal_transients_calibration.csv and its like.
bool is_thermal_transient_table(const Header&);
/// snapshot_id, gpu_index, temp_c, power_w, load: thermal_snapshots_calibration.csv and its like.
bool is_thermal_snapshot_table(const Header&);
/// gpu_or_system, category, quantity, value, unit: power_thermal_facts_calibration.csv.
bool is_thermal_fact_table(const Header&);

/// Every temperature reading of every trace, given the power that was read (thermal_trace.h).
/// Family: the trace. Quantity: temperature_c; sweep: the trace.
Result<TableScores> score_thermal_transient_table(const CsvTable&, const spec::Library&);

/// Temperatures of the devices of one node at one instant, given their power: the chassis of the
/// GPU's usual node, at rest. No inlet is ever stated, so the node's mean difference is taken off
/// where several devices were read: what is scored is how they differ. Single readings are scored
/// at the library's inlet, and say so.
Result<TableScores> score_thermal_snapshot_table(const CsvTable&, const spec::Library&);

/// Limits, clocks and design powers of single GPUs against the library's.
Result<TableScores> score_thermal_fact_table(const CsvTable&, const spec::Library&);

/// The library's usual node of a GPU type ("h100": dgx-h100); empty where it has none.
std::string usual_node_of(const std::string& gpu);

}  // namespace triplepoint::calibrate
