// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/collective_tables.h"

#include <map>
#include <tuple>

#include <fmt/format.h>

#include "triplepoint/perf/collective_time.h"

namespace triplepoint::calibrate {
namespace {

/// Machines by what makes them differ; a table names few of them many times.
class Machines {
 public:
  explicit Machines(const spec::Library& library) : library_(library) {}
  struct Machine {
    Result<spec::Cluster> cluster = error("not loaded");
    std::vector<std::string> notes;
  };
  const Machine& of(const CollectiveRow& row) {
    const Key key{row.gpu, row.interconnect, row.nodes, row.reduction};
    auto found = machines_.find(key);
    if (found == machines_.end()) {
      Machine machine;
      machine.cluster = machine_of(row, library_, machine.notes);
      found = machines_.emplace(key, std::move(machine)).first;
    }
    return found->second;
  }

 private:
  using Key = std::tuple<std::string, std::string, int64_t, SwitchReduction>;
  const spec::Library& library_;
  std::map<Key, Machine> machines_;
};

const char* size_class(Bytes payload) {
  if (payload >= 16 * unit::MB) return "large";
  return payload < 1 * unit::MB ? "small" : "between";
}

ScoredRow scored(const CollectiveRow& row, Seconds predicted) {
  ScoredRow score{.row_id = row.row_id,
                  .family = fmt::format("{}/{}", row.family, size_class(row.payload)),
                  .quantity = "latency_us",
                  .sweep = row.family,
                  .measured = row.latency / unit::us,
                  .predicted = predicted / unit::us,
                  .notes = row.notes};
  if (row.latency > Seconds()) return score;
  score.quantity = "busbw_gb_per_s";
  score.measured = row.busbw_gb_per_s;
  score.predicted = row.payload / predicted / (unit::GB / unit::s) *
                    perf::bus_bandwidth_factor(row.collective, row.ranks);
  return score;
}

}  // namespace

Seconds predicted_time(const spec::Cluster& cluster, const CollectiveRow& row) {
  const perf::GroupPlacement group{
      .ranks = row.ranks, .nodes = row.nodes, .ranks_per_node = row.ranks / row.nodes};
  return perf::collective_time(cluster, row.collective, row.payload, group).total();
}

Result<TableScores> score_collective_table(const CsvTable& table, const spec::Library& library) {
  const CollectiveRows rows = TPT_TRY(read_collective_rows(table));
  Machines machines(library);
  TableScores scores;
  scores.table = "collectives";
  scores.rows = static_cast<int64_t>(table.rows());
  scores.skipped = rows.skipped;
  for (const CollectiveRow& row : rows.rows) {
    const auto& machine = machines.of(row);
    if (!machine.cluster) {
      scores.skipped.push_back({row.row_id, machine.cluster.error().what});
      continue;
    }
    scores.scored.push_back(scored(row, predicted_time(*machine.cluster, row)));
    auto& notes = scores.scored.back().notes;
    notes.insert(notes.end(), machine.notes.begin(), machine.notes.end());
  }
  return scores;
}

}  // namespace triplepoint::calibrate
