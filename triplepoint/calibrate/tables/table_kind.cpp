// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/tables/table_kind.h"

#include <algorithm>

#include "triplepoint/calibrate/heat/thermal_scores.h"
#include "triplepoint/calibrate/jobs/inference_scores.h"
#include "triplepoint/calibrate/jobs/job_scores.h"
#include "triplepoint/calibrate/jobs/node_power_scores.h"
#include "triplepoint/calibrate/kernels/kernel_scores.h"
#include "triplepoint/calibrate/power/steady_scores.h"

namespace triplepoint::calibrate {
namespace {

const std::vector<TableKind> all_kinds = {
    {"node-power",
     "one node or run of a published benchmark: a job, and power of its nodes",
     {"row_id", "family", "cluster", "benchmark", "node_mean_w"},
     score_node_power},
    {"inference",
     "one configuration of an engine that serves: a job, and power of its GPUs",
     {"row_id", "family", "cluster", "answer_tokens", "power_w"},
     score_inference},
    {"jobs",
     "one training job: the keys of a job file, and what was measured of it",
     {"row_id", "family", "cluster", "plan.global_batch_size"},
     score_job_table},
    {"kernels",
     "one matrix product, attention kernel or collective: latency, and power where it was logged",
     {"row_id", "family", "kind", "gpu", "precision", "latency_us"},
     score_kernel_table},
    {"steady-power",
     "one steady point: locked clock or power cap, and power, clock, speed",
     {"row_id", "family", "gpu", "kernel", "lock_mhz", "cap_w", "power_w"},
     score_steady_power},
    {"thermal-traces",
     "one sample of a GPU's temperature and power",
     {"trace_id", "node", "cluster", "t_s", "power_w", "temperature_c"},
     score_thermal_traces},
    {"thermal-snapshots",
     "one GPU at one instant: temperature and power",
     {"snapshot_id", "gpu_index", "cluster", "power_w", "temperature_c"},
     score_thermal_snapshots},
    {"facts",
     "one fact of a data sheet",
     {"row_id", "family", "gpu", "key", "value", "unit"},
     score_facts},
};

/// Rows without a name are called by their line, without a family by the table's name.
std::vector<std::string_view> missing_columns(const CsvTable& table, const TableKind& kind) {
  return filtered(kind.columns, [&](const std::string_view column) {
    return !table.column(column) && column != "family" && column != "row_id";
  });
}

/// The kind of whose columns the largest share is there.
const TableKind& nearest_kind(const CsvTable& table) {
  const auto missing_share = [&](const TableKind& kind) {
    return as_real(missing_columns(table, kind).size()) / as_real(kind.columns.size());
  };
  return *std::ranges::min_element(all_kinds, [&](const TableKind& a, const TableKind& b) {
    return missing_share(a) < missing_share(b);
  });
}

}  // namespace

Result<const TableKind*> recognize_table(const CsvTable& table) {
  for (const TableKind& kind : all_kinds) {
    if (missing_columns(table, kind).empty()) return &kind;
  }
  const TableKind& nearest = nearest_kind(table);
  return error(
      "{}: not a table of canonical rows (the nearest kind is \"{}\", {}; it lacks the columns "
      "{}); add them, or turn a published table into one with `python3 validation/normalise.py "
      "TABLE.csv -o rows.csv`, or see docs/formats.md for the columns",
      table.name(), nearest.name, nearest.one_row,
      fmt::join(missing_columns(table, nearest), ", "));
}

Result<TableScores> score_table(const CsvTable& table, const ScoreContext& context) {
  return TPT_TRY(recognize_table(table))->score(table, context);
}

}  // namespace triplepoint::calibrate
