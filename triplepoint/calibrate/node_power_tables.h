// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/kernel_rows.h"
#include "triplepoint/calibrate/table_scores.h"

namespace triplepoint::calibrate {

/// A table of MLPerf power runs, of their nodes, or of their traces: power_mlperf_runs_*,
/// power_mlperf_nodes_*, power_node_traces_*.
bool is_node_power_table(const Header&);

/// Scores what whole nodes drew while they trained.
///
/// Powers are node_power of the simulated job's devices, and of devices that wait at full clock;
/// the benchmark's protocol says how long each lasts (node_power_phases.h). Layout and batch are
/// those of the benchmark's published configurations; cooling, side of the power supply (AC or DC)
/// and the length of the run are the row's. Runs of one benchmark on one machine are one
/// prediction. Quantities: node_mean_w, node_p50_w, energy_kwh; traces: node_mean_w and node_p50_w
/// of the seconds within the run.
Result<TableScores> score_node_power_table(const CsvTable&, const spec::Library&);

}  // namespace triplepoint::calibrate
