// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// Scores what whole nodes drew while they ran a published benchmark: rows of jobs (job_rows.h)
/// with benchmark, measured_at (wall or supplied), run_s, node_mean_w, node_p50_w, energy_kwh and
/// energy_nodes.
///
/// Powers are node_power of the simulated job's devices, and of devices that wait at full clock;
/// the benchmark's protocol says how long each lasts (run_phases.h). Rows of one job are one
/// prediction. Quantities: node_mean_w, node_p50_w, energy_kwh.
Result<TableScores> score_node_power(const CsvTable&, const ScoreContext&);

}  // namespace triplepoint::calibrate
