// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/node_power_scores.h"

#include <array>
#include <map>

#include "triplepoint/calibrate/jobs/job_rows.h"
#include "triplepoint/calibrate/jobs/run_phases.h"
#include "triplepoint/calibrate/tables/cells.h"

namespace triplepoint::calibrate {
namespace {

constexpr std::array<std::string_view, 7> own_columns = {
    "benchmark", "measured_at", "run_s", "node_mean_w", "node_p50_w", "energy_kwh", "energy_nodes"};

/// Levels of jobs that several rows have in common.
class Predictor {
 public:
  Predictor(const CsvTable& table, const spec::Library& library)
      : table_(table), library_(library) {}
  const Result<NodeLevels>& levels(const JobRow& row) {
    auto found = known_.find(row.text);
    if (found == known_.end()) found = known_.emplace(row.text, predict(row)).first;
    return found->second;
  }

 private:
  Result<NodeLevels> predict(const JobRow& row) const {
    std::vector<std::string> notes;
    return node_levels(TPT_TRY(job_of(row, table_.name(), library_, notes)));
  }

  const CsvTable& table_;
  const spec::Library& library_;
  std::map<std::string, Result<NodeLevels>> known_;
};

void score_row(TableScores& scores, const RunProtocol& protocol, const JobRow& row,
               const Cells& cells, const NodeLevels& levels) {
  const bool supplied = cells.text("measured_at") == "supplied";
  const Seconds length = cells.number_or("run_s", 0) * unit::s;
  const NodePhases phases = phases_of(protocol, cells.text("benchmark"), levels.pace,
                                      supplied ? levels.supplied : levels.wall, length);
  const Watts mean = phases.mean_w() * unit::W;
  const auto add = [&](const char* quantity, double ours) {
    if (const auto measured = cells.number(quantity))
      scores.scored.push_back({.row_id = row.row_id,
                               .family = row.family,
                               .quantity = quantity,
                               .sweep = {},
                               .measured = *measured,
                               .predicted = ours,
                               .notes = row.assumptions});
  };
  add("node_mean_w", mean / unit::W);
  add("node_p50_w", phases.median_w());
  add("energy_kwh", cells.number_or("energy_nodes", 1) * (mean * length) / unit::kWh);
}

}  // namespace

Result<TableScores> score_node_power(const CsvTable& table, const ScoreContext& context) {
  TableScores scores{.table = "node-power", .rows = static_cast<int64_t>(table.rows())};
  const RunProtocol protocol = TPT_TRY(load_run_protocol(context.library));
  const std::vector<JobRow> rows = TPT_TRY(read_job_rows(table, own_columns));
  Predictor predictor(table, context.library);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].fault.empty()) {
      scores.skip(rows[r].row_id, rows[r].fault);
      continue;
    }
    const Result<NodeLevels>& levels = predictor.levels(rows[r]);
    if (levels)
      score_row(scores, protocol, rows[r], Cells(table, r), *levels);
    else
      scores.skip(rows[r].row_id, levels.error().what);
  }
  return scores;
}

}  // namespace triplepoint::calibrate
