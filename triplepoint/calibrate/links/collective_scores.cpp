// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/links/collective_scores.h"

#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/perf/collective_time.h"

namespace triplepoint::calibrate {
namespace {

Result<spec::Cluster> machine_of(const CollectiveRow& row, const spec::Library& library) {
  spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, row.cluster));
  if (!row.nic_bandwidth.empty())
    cluster.scale_out.nic_bandwidth = TPT_TRY(parse_quantity<BytesPerSecond>(row.nic_bandwidth));
  if (!row.nvls.empty()) cluster.scale_up.nvls = row.nvls == "true";
  return cluster;
}

/// Machines by what makes them differ; a table names few of them many times.
class Machines {
 public:
  explicit Machines(const spec::Library& library) : library_(library) {}
  const Result<spec::Cluster>& of(const CollectiveRow& row) {
    const Key key{row.cluster, row.nic_bandwidth, row.nvls};
    auto found = machines_.find(key);
    if (found == machines_.end()) found = machines_.emplace(key, machine_of(row, library_)).first;
    return found->second;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  const spec::Library& library_;
  std::map<Key, Result<spec::Cluster>> machines_;
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
                  .notes = {}};
  if (row.latency > Seconds()) return score;
  score.quantity = "busbw_gb_per_s";
  score.measured = row.busbw_gb_per_s;
  score.predicted = row.payload / predicted / (unit::GB / unit::s) *
                    perf::bus_bandwidth_factor(row.collective, row.ranks);
  return score;
}

std::string note_on_fabric(const CollectiveRow& row, const spec::Cluster& cluster) {
  return fmt::format("{} nodes as in {}, {} NICs of {:.0f} Gb/s", row.nodes, row.cluster,
                     cluster.scale_out.nics_per_node,
                     cluster.scale_out.nic_bandwidth / (unit::Gb / unit::s));
}

Result<void> score_row(const Cells& cells, Machines& machines, TableScores& scores) {
  if (cells.is_skipped()) return error(cells.text("skip"));
  const CollectiveRow row = TPT_TRY(read_collective_row(cells));
  const Result<spec::Cluster>& machine = machines.of(row);
  if (!machine) return tl::unexpected(machine.error());
  scores.scored.push_back(scored(row, predicted_time(*machine, row)));
  std::vector<std::string>& notes = scores.scored.back().notes;
  if (cells.has("assumptions")) notes.push_back(cells.text("assumptions"));
  if (row.nodes > 1) notes.push_back(note_on_fabric(row, *machine));
  return {};
}

}  // namespace

Result<CollectiveRow> read_collective_row(const Cells& cells) {
  const auto collective = spec::enum_from_name<spec::Collective>(cells.text("op"));
  if (!collective) return error(fmt::format("no collective is called '{}'", cells.text("op")));
  CollectiveRow row{.row_id = cells.id(),
                    .family = cells.family(),
                    .cluster = cells.text("cluster"),
                    .nic_bandwidth = cells.text("nic_bandwidth"),
                    .nvls = cells.text("nvls"),
                    .collective = *collective,
                    .ranks = cells.count("n_gpus"),
                    .nodes = std::max<int64_t>(1, cells.count("n_nodes")),
                    .payload = cells.number_or("msg_bytes", 0) * unit::B,
                    .latency = cells.number_or("latency_us", 0) * unit::us,
                    .busbw_gb_per_s = cells.number_or("busbw_gb_per_s", 0)};
  if (row.ranks < 2) return error("fewer than two GPUs are stated");
  if (row.latency <= Seconds() && row.busbw_gb_per_s <= 0)
    return error("no latency or rate is stated");
  return row;
}

Seconds predicted_time(const spec::Cluster& cluster, const CollectiveRow& row) {
  const perf::GroupPlacement group{
      .ranks = row.ranks, .nodes = row.nodes, .ranks_per_node = row.ranks / row.nodes};
  return perf::collective_time(cluster, row.collective, row.payload, group).total();
}

void score_collective_rows(const CsvTable& table, const spec::Library& library,
                           TableScores& scores) {
  Machines machines(library);
  for (std::size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    if (cells.text("kind") != "collective") continue;
    const auto done = score_row(cells, machines, scores);
    if (!done) scores.skip(cells.id(), done.error().what);
  }
}

}  // namespace triplepoint::calibrate
