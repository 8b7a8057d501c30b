// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/table_kind.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "triplepoint/calibrate/collective_tables.h"
#include "triplepoint/calibrate/dvfs_table.h"
#include "triplepoint/calibrate/inference_tables.h"
#include "triplepoint/calibrate/job_tables.h"
#include "triplepoint/calibrate/kernel_tables.h"
#include "triplepoint/calibrate/node_power_tables.h"
#include "triplepoint/calibrate/power_tables.h"
#include "triplepoint/calibrate/table_cells.h"
#include "triplepoint/calibrate/thermal_tables.h"

namespace triplepoint::calibrate {
namespace {

/// A scorer that needs the library alone.
template <Result<TableScores> (*score)(const CsvTable&, const spec::Library&)>
Result<TableScores> with_library(const CsvTable& table, const ScoreContext& context) {
  return score(table, context.library);
}

TableScores all_skipped(const CsvTable& table, std::string_view reason) {
  TableScores scores;
  scores.rows = static_cast<int64_t>(table.rows());
  for (std::size_t r = 0; r < table.rows(); ++r)
    scores.skipped.push_back({Cells(table, r).id(), std::string(reason)});
  return scores;
}

Result<TableScores> skip_specifications(const CsvTable& table, const ScoreContext&) {
  return all_skipped(table, "a data sheet is an input of the models, not something they predict");
}

Result<TableScores> skip_paper(const CsvTable& table, const ScoreContext&) {
  return all_skipped(table,
                     "the paper's figures are scored by `triplepoint characterize paper/all` "
                     "(validation/micro25)");
}

const std::vector<TableKind> all_kinds = {
    {"jobs",
     "one training job: the keys of a job file, and what was measured of it",
     {"row_id", "family", "cluster", "plan.global_batch_size"},
     {score_job_table}},
    {"kernels",
     "one matrix product, attention kernel or collective",
     {"row_id", "kind", "gpu", "m", "n", "k", "heads", "msg_bytes", "latency_us"},
     {with_library<score_kernels_table>, with_library<score_kernel_power_table>}},
    {"gemm",
     "one matrix product: latency, and power where it was logged",
     {"system", "dtype", "m", "n", "k", "latency_ms"},
     {with_library<score_gemm_table>, with_library<score_kernel_power_table>}},
    {"attention",
     "one fused attention kernel: latency, and power where it was logged",
     {"system", "batch", "seq", "heads", "head_dim", "latency_ms"},
     {with_library<score_attention_table>, with_library<score_kernel_power_table>}},
    {"collectives",
     "one collective: latency",
     {"system", "op", "num_gpus", "message_size_elements", "latency_ms"},
     {with_library<score_collective_table>}},
    {"dvfs",
     "one steady point: locked clock or power cap, and power, clock, speed",
     {"lock_sm_mhz", "power_cap_w", "power_avg_w", "perf"},
     {with_library<score_dvfs_table>}},
    {"node-power-runs",
     "one run: power of its nodes",
     {"run_id", "cooling", "benchmark", "n_gpus", "node_mean_w"},
     {with_library<score_node_power_table>}},
    {"node-power-nodes",
     "one node of a run: its power",
     {"run_id", "node", "mean_w", "dt_s", "n_samples"},
     {with_library<score_node_power_table>}},
    {"node-power-traces",
     "one sample of a node's power",
     {"trace_id", "t_s", "power_w", "n_nodes"},
     {with_library<score_node_power_table>}},
    {"thermal-transients",
     "one sample of a GPU's temperature and power",
     {"trace_id", "gpu", "t_s", "power_w", "temp_core_c"},
     {with_library<score_thermal_transient_table>}},
    {"thermal-snapshots",
     "one GPU at one instant: temperature, power, clock",
     {"snapshot_id", "gpu_index", "temp_c", "power_w", "load"},
     {with_library<score_thermal_snapshot_table>}},
    {"facts",
     "one fact: a limit, an idle power, a spread",
     {"gpu_or_system", "category", "quantity", "value", "unit"},
     {with_library<score_thermal_fact_table>}},
    {"inference-power",
     "one inference configuration: power of its GPUs",
     {"gpu", "task", "throughput", "power_mean_per_gpu_w"},
     {score_inference_table}},
    {"hardware", "one accelerator's data sheet", {"gpu", "form", "tdp_w"}, {skip_specifications}},
    {"paper-figure",
     "one bar of the paper's figures",
     {"config_label", "variant", "total_s"},
     {skip_paper}},
    {"paper-figure",
     "one rank of the paper's figures",
     {"config", "drawn_position", "total_s"},
     {skip_paper}},
    {"paper-figure",
     "one point of the paper's figures",
     {"config_label", "mbs", "norm_efficiency"},
     {skip_paper}},
    {"paper-figure", "one heat map of the paper", {"panel", "config", "gpu0"}, {skip_paper}},
    {"paper-experiments",
     "one experiment file of the paper",
     {"path", "sweep", "figure_label"},
     {skip_paper}},
};

const std::vector<TableKind>& kinds() {
  return all_kinds;
}

std::vector<std::string_view> missing_columns(const CsvTable& table, const TableKind& kind) {
  std::vector<std::string_view> missing;
  for (const std::string_view column : kind.columns)
    if (!table.column(column)) missing.push_back(column);
  return missing;
}

/// The kind of whose columns the largest share is there.
const TableKind& nearest_kind(const CsvTable& table) {
  const auto missing_share = [&](const TableKind& kind) {
    return static_cast<double>(missing_columns(table, kind).size()) /
           static_cast<double>(kind.columns.size());
  };
  return *std::min_element(
      kinds().begin(), kinds().end(),
      [&](const TableKind& a, const TableKind& b) { return missing_share(a) < missing_share(b); });
}

/// Adds what another scorer says of the same rows.
void join(TableScores& all, TableScores more) {
  for (ScoredRow& row : more.scored)
    all.scored.push_back(std::move(row));
  for (SkippedRow& row : more.skipped)
    all.skipped.push_back(std::move(row));
}

/// Leaves out of the skipped rows those that another scorer scored, and says each row once.
void drop_scored(TableScores& scores) {
  std::set<std::string> scored;
  for (const ScoredRow& row : scores.scored)
    scored.insert(row.row_id);
  std::vector<SkippedRow> skipped;
  std::map<std::string, std::size_t> places;
  for (SkippedRow& row : scores.skipped) {
    if (scored.count(row.row_id) > 0) continue;
    const auto [place, is_new] = places.emplace(row.row_id, skipped.size());
    if (is_new) {
      skipped.push_back(std::move(row));
    } else if (skipped[place->second].reason != row.reason) {
      skipped[place->second].reason += "; " + row.reason;
    }
  }
  scores.skipped = std::move(skipped);
}

}  // namespace

std::span<const TableKind> table_kinds() {
  return kinds();
}

Result<const TableKind*> recognize_table(const CsvTable& table) {
  for (const TableKind& kind : kinds()) {
    if (missing_columns(table, kind).empty()) return &kind;
  }
  const TableKind& nearest = nearest_kind(table);
  return error(
      fmt::format("{}: no table of measurements that we know (the nearest is \"{}\", {}; "
                  "it lacks the columns {}); add them, see docs/formats.md for the columns of "
                  "every table, or turn a table of trainings into jobs with "
                  "validation/normalise.py",
                  table.name(), nearest.name, nearest.one_row,
                  fmt::join(missing_columns(table, nearest), ", ")));
}

Result<TableScores> score_table(const CsvTable& table, const ScoreContext& context) {
  const TableKind* kind = TPT_TRY(recognize_table(table));
  TableScores all = TPT_TRY(kind->scorers.front()(table, context));
  for (std::size_t i = 1; i < kind->scorers.size(); ++i)
    join(all, TPT_TRY(kind->scorers[i](table, context)));
  if (kind->scorers.size() > 1) drop_scored(all);
  all.table = kind->name;
  all.rows = static_cast<int64_t>(table.rows());
  return all;
}

Result<CsvTable> rows_of_family(const CsvTable& table, std::string_view family) {
  const std::optional<std::size_t> column = table.column("family");
  if (!column) return table;
  CsvWriter writer(table.header());
  for (std::size_t r = 0; r < table.rows(); ++r) {
    if (table.at(r, *column) != family) continue;
    for (std::size_t c = 0; c < table.header().size(); ++c)
      writer.cell(table.at(r, c));
    writer.end_row();
  }
  return CsvTable::parse(writer.text(), table.name());
}

}  // namespace triplepoint::calibrate
