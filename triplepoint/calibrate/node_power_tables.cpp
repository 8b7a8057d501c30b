// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/node_power_tables.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "triplepoint/calibrate/node_power_phases.h"
#include "triplepoint/calibrate/node_power_runs.h"
#include "triplepoint/calibrate/table_cells.h"
#include "triplepoint/calibrate/table_words.h"

namespace triplepoint::calibrate {
namespace {

bool has_columns(const Header& header, std::initializer_list<std::string_view> titles) {
  return std::all_of(titles.begin(), titles.end(), [&](std::string_view title) {
    return std::find(header.begin(), header.end(), title) != header.end();
  });
}

bool is_runs_table(const Header& header) {
  return has_columns(header, {"run_id", "cooling", "benchmark", "n_gpus", "node_mean_w"});
}
bool is_nodes_table(const Header& header) {
  return has_columns(header, {"run_id", "node", "mean_w", "dt_s", "n_samples"});
}
bool is_trace_table(const Header& header) {
  return has_columns(header, {"trace_id", "t_s", "power_w", "n_nodes"});
}

/// What was measured of one run, node or trace.
struct NodeRow {
  std::string row_id, family;
  NodeRun run;
  bool behind_supplies = false;  // measured at the DC side
  double run_s = 0;
  std::optional<double> mean, median, energy_kwh;
  double energy_nodes = 1;  // whose energy that is
};

/// Benchmark, GPU count and cooling as the name of a run or trace tells them: submitters cool
/// alike.
struct NameRule {
  std::string_view word, meaning;
};
constexpr std::array benchmarks = {
    NameRule{"lora", "llama2_70b_lora"}, NameRule{"gpt3", "gpt3"},
    NameRule{"gpt-3", "gpt3"},           NameRule{"bert", "bert"},
    NameRule{"sd2", "stable_diffusion"}, NameRule{"stable", "stable_diffusion"}};
constexpr std::array coolings = {NameRule{"smc", "immersion"}, NameRule{"immersion", "immersion"},
                                 NameRule{"lenovo", "direct water"}, NameRule{"water", "water"},
                                 NameRule{"", "air"}};

template <size_t size>
std::string meaning_of(const std::array<NameRule, size>& rules, std::string_view name) {
  for (const NameRule& rule : rules)
    if (mentions(name, rule.word)) return std::string(rule.meaning);
  return std::string(name);
}

NodeRow runs_row(const Cells& cells) {
  NodeRow row{.row_id = cells.text("run_id"),
              .family = cells.text("family"),
              .run = {.gpu = cells.text("gpu"),
                      .benchmark = meaning_of(benchmarks, cells.text("benchmark")),
                      .cooling = cells.text("cooling"),
                      .nodes = cells.count("n_nodes"),
                      .gpus = cells.count("n_gpus")}};
  row.behind_supplies = mentions(cells.text("measured_at"), "DC side");
  row.run_s = cells.number_or("run_s", 0);
  row.mean = cells.number("node_mean_w");
  row.median = cells.number("node_p50_w");
  row.energy_kwh = cells.number("energy_nodes_kwh");
  row.energy_nodes = static_cast<double>(row.run.nodes);
  row.family = fmt::format("{} {} gpus", row.family, row.run.gpus);
  return row;
}

/// "v4.0/smc-ac-power/64xSMC-H100-SXM-80GB/llama2_70b_lora/result_...": 64 nodes of 8.
NodeRow nodes_row(const Cells& cells) {
  const std::string name = cells.text("run_id");
  const size_t system = std::min(name.find('/', name.find('/') + 1), name.size());
  const int64_t nodes = std::max<int64_t>(1, number_after(name.substr(system), "/").value_or(1));
  NodeRow row{.row_id = name + " " + cells.text("node"),
              .family = {},
              .run = {.gpu = cells.text("gpu"),
                      .benchmark = meaning_of(benchmarks, name),
                      .cooling = meaning_of(coolings, name),
                      .nodes = nodes,
                      .gpus = 8 * nodes}};
  row.behind_supplies = mentions(name, "dc-power");
  row.run_s = cells.number_or("dt_s", 0) * cells.number_or("n_samples", 0);
  row.mean = cells.number("mean_w");
  row.median = cells.number("p50_w");
  row.energy_kwh = cells.number("energy_kwh");
  row.family = fmt::format("nodes {} {} gpus", row.run.benchmark, row.run.gpus);
  return row;
}

/// "llama2-70b-lora-64xH100-smc-ac-sum8": 64 GPUs, and all of 8 nodes added up.
NodeRow trace_row(const std::string& name, double nodes, std::vector<double> within) {
  const int64_t gpus = std::max<int64_t>(
      8, static_cast<int64_t>(
             number_before(name, "xH").value_or(number_before(name, "xB").value_or(8))));
  NodeRow row{.row_id = name,
              .family = "traces",
              .run = {.gpu = name,
                      .benchmark = meaning_of(benchmarks, name),
                      .cooling = meaning_of(coolings, name),
                      .nodes = gpus / 8,
                      .gpus = gpus}};
  row.behind_supplies = mentions(name, "-dc");
  row.run_s = static_cast<double>(within.size());
  double sum = 0;
  for (const double watts : within)
    sum += watts / nodes;
  row.mean = sum / static_cast<double>(within.size());
  std::sort(within.begin(), within.end());
  row.median = within[within.size() / 2] / nodes;
  return row;
}

std::vector<NodeRow> read_traces(const CsvTable& table) {
  struct Trace {
    double nodes = 1, last = 0;
    std::vector<double> within;
  };
  std::vector<std::pair<std::string, Trace>> traces;
  for (size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    const std::string name = cells.text("trace_id");
    if (traces.empty() || traces.back().first != name) traces.push_back({name, {}});
    Trace& trace = traces.back().second;
    trace.nodes = cells.number_or("n_nodes", 1);
    const double t = cells.number_or("t_s", 0);
    if (t < 0) continue;
    trace.last = t;
    trace.within.push_back(cells.number_or("power_w", 0));
  }
  std::vector<NodeRow> rows;
  for (auto& [name, trace] : traces) {
    if (trace.within.empty()) continue;
    rows.push_back(trace_row(name, trace.nodes, std::move(trace.within)));
    rows.back().run_s = trace.last;
  }
  return rows;
}

std::vector<NodeRow> read_rows(const CsvTable& table) {
  if (is_trace_table(table.header())) return read_traces(table);
  std::vector<NodeRow> rows;
  const bool runs = is_runs_table(table.header());
  for (size_t r = 0; r < table.rows(); ++r)
    rows.push_back(runs ? runs_row(Cells(table, r)) : nodes_row(Cells(table, r)));
  return rows;
}

void score_row(TableScores& scores, const RunProtocol& protocol, const NodeRow& row,
               const NodeLevels& levels) {
  const NodeLevels::Side& side = row.behind_supplies ? levels.supplied : levels.wall;
  const NodePhases phases = phases_of(protocol, row.run, levels.pace, side, row.run_s * unit::s);
  const Watts mean = phases.mean_w() * unit::W;
  const auto add = [&](const char* quantity, const std::optional<double>& measured, double ours) {
    if (measured)
      scores.scored.push_back({.row_id = row.row_id,
                               .family = row.family,
                               .quantity = quantity,
                               .sweep = {},
                               .measured = *measured,
                               .predicted = ours,
                               .notes = {}});
  };
  add("node_mean_w", row.mean, mean / unit::W);
  add("node_p50_w", row.median, phases.median_w());
  add("energy_kwh", row.energy_kwh, row.energy_nodes * (mean * (row.run_s * unit::s)) / unit::kWh);
}

}  // namespace

bool is_node_power_table(const Header& header) {
  return is_runs_table(header) || is_nodes_table(header) || is_trace_table(header);
}

Result<TableScores> score_node_power_table(const CsvTable& table, const spec::Library& library) {
  TableScores scores{.table = "node power", .rows = static_cast<int64_t>(table.rows())};
  const RunProtocol protocol = TPT_TRY(load_run_protocol(library));
  NodePredictor predictor(library);
  for (const NodeRow& row : read_rows(table)) {
    const Result<NodeLevels>& levels = predictor.levels(row.run);
    if (levels)
      score_row(scores, protocol, row, *levels);
    else
      scores.skipped.push_back({row.row_id, levels.error().what});
  }
  return scores;
}

}  // namespace triplepoint::calibrate
