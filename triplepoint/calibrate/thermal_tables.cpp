// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/thermal_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "triplepoint/spec/machine_names.h"

#include "triplepoint/calibrate/table_cells.h"
#include "triplepoint/calibrate/thermal_pulses.h"
#include "triplepoint/calibrate/thermal_trace.h"
#include "triplepoint/thermal/chassis.h"

namespace triplepoint::calibrate {
namespace {

bool has_columns(const Header& header, std::initializer_list<std::string_view> titles) {
  return std::all_of(titles.begin(), titles.end(), [&](std::string_view title) {
    return std::find(header.begin(), header.end(), title) != header.end();
  });
}

/// The node that a spelled GPU usually sits in, or why there is none.
Result<spec::Cluster> node_of(const std::string& spelled, const spec::Library& library) {
  const auto name = spec::gpu_named(spelled);
  if (!name) return error(fmt::format("no GPU of the library is named in '{}'", spelled));
  const std::string node = usual_node_of(*name);
  if (node.empty()) return error(fmt::format("the library has no node of {}", *name));
  spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, node));
  cluster.gpu = TPT_TRY(spec::load_gpu(library, *name));
  if (!cluster.gpu.thermal) return error(fmt::format("{} has no thermal model", *name));
  return cluster;
}

void score_trace(TableScores& scores, const ThermalTrace& trace, const std::vector<double>& shown,
                 const std::vector<std::string>& notes) {
  for (size_t i = 0; i < shown.size(); ++i)
    scores.scored.push_back(
        {.row_id = fmt::format("{} {} s", trace.name, trace.temperature[i].at / unit::s),
         .family = trace.name,
         .quantity = "temperature_c",
         .sweep = trace.name,
         .measured = trace.temperature[i].value,
         .predicted = shown[i],
         .notes = notes});
}

/// What a load that the meter of power could not follow would explain. It is said and not scored:
/// it was found in the temperatures that are to be predicted.
std::vector<std::string> notes_on_pulses(const ThermalTrace& trace,
                                         const spec::ThermalLadder& ladder,
                                         const spec::Chassis& seat) {
  const ThermalTrace explained = explain_pulses(trace, ladder, seat);
  if (!explained.switches_known) return {};
  const std::vector<double> shown = predict_trace(explained, ladder, seat);
  double squares = 0;
  for (size_t i = 0; i < shown.size(); ++i)
    squares += std::pow(shown[i] - trace.temperature[i].value, 2);
  return {
      fmt::format("its meter of power cannot follow the load: equal pulses found in the "
                  "temperatures would leave {:.2f} K rms",
                  std::sqrt(squares / static_cast<double>(shown.size())))};
}

void score_node(TableScores& scores, const std::vector<ThermalTrace>& traces,
                const spec::Cluster& node) {
  const spec::Chassis seat = lonely_seat(node.chassis);
  const auto shown = predict_node(traces, *node.gpu.thermal, seat);
  for (size_t i = 0; i < traces.size(); ++i)
    score_trace(scores, traces[i], shown[i], notes_on_pulses(traces[i], *node.gpu.thermal, seat));
}

/// One device of a snapshot.
struct Reading {
  std::string row_id;
  size_t seat = 0;
  double power = 0, degrees = 0;
};

struct Snapshot {
  std::string name, gpu;
  std::vector<Reading> devices;
};

std::vector<Snapshot> read_snapshots(const CsvTable& table, TableScores& scores) {
  std::vector<Snapshot> snapshots;
  for (size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    const std::string name = cells.text("snapshot_id");
    const auto power = cells.number("power_w"), degrees = cells.number("temp_c");
    const std::string row_id = fmt::format("{} {}", name, cells.text("gpu_index"));
    if (!power || !degrees) {
      scores.skipped.push_back({row_id, "temperature or power is a range or not stated"});
      continue;
    }
    if (snapshots.empty() || snapshots.back().name != name)
      snapshots.push_back({.name = name, .gpu = cells.text("gpu"), .devices = {}});
    snapshots.back().devices.push_back({.row_id = row_id,
                                        .seat = static_cast<size_t>(cells.count("gpu_index")),
                                        .power = *power,
                                        .degrees = *degrees});
  }
  return snapshots;
}

std::vector<double> predict_snapshot(const Snapshot& snapshot, const spec::Cluster& node) {
  const thermal::ChassisModel chassis(node.chassis, *node.gpu.thermal, node.gpu.dies_per_package,
                                      node.chassis.fan_floor);
  const Watts idle = node.gpu.power ? node.gpu.power->idle : Watts();
  std::vector<Watts> power(static_cast<size_t>(chassis.seats()), idle);
  for (const Reading& device : snapshot.devices)
    power[device.seat % power.size()] = device.power * unit::W;
  const auto state = chassis.steady(power, node.chassis.inlet);
  std::vector<double> dies;
  for (const Reading& device : snapshot.devices)
    dies.push_back(chassis.die(state, static_cast<int64_t>(device.seat % power.size())).degrees());
  return dies;
}

void score_snapshot(TableScores& scores, const Snapshot& snapshot, const spec::Cluster& node) {
  const std::vector<double> dies = predict_snapshot(snapshot, node);
  double offset = 0;
  if (dies.size() > 1)
    for (size_t i = 0; i < dies.size(); ++i)
      offset += (snapshot.devices[i].degrees - dies[i]) / static_cast<double>(dies.size());
  for (size_t i = 0; i < dies.size(); ++i)
    scores.scored.push_back(
        {.row_id = snapshot.devices[i].row_id,
         .family = dies.size() > 1 ? snapshot.name : "single readings",
         .quantity = "temperature_c",
         .sweep = snapshot.name,
         .measured = snapshot.devices[i].degrees,
         .predicted = dies[i] + offset,
         .notes = {dies.size() > 1 ? "inlet not stated: the node's mean difference is taken off"
                                   : "inlet not stated: the library's 25 C"}});
}

/// What the library says where a fact names it; nothing where it does not model the fact.
std::optional<double> library_value(const std::string& quantity, const spec::Gpu& gpu) {
  const auto degrees = [](const std::optional<Celsius>& t) {
    return t ? std::optional<double>(t->degrees()) : std::nullopt;
  };
  if (quantity == "TDP / TBP") return gpu.tdp ? std::optional(*gpu.tdp / unit::W) : std::nullopt;
  if (quantity == "max SM clock" || quantity == "max sustained SM clock")
    return gpu.max_clock ? std::optional(*gpu.max_clock / unit::MHz) : std::nullopt;
  if (!gpu.governor) return std::nullopt;
  if (quantity == "shutdown temperature") return degrees(gpu.governor->shutdown_temperature);
  if (quantity.starts_with("slowdown")) return degrees(gpu.governor->slowdown_temperature);
  if (quantity == "max operating temperature") return degrees(gpu.governor->target_temperature);
  return std::nullopt;
}

void score_fact(TableScores& scores, const Cells& cells, const spec::Library& library) {
  const auto skip = [&](const char* reason) { scores.skipped.push_back({cells.id(), reason}); };
  const auto measured = cells.number("value");
  const auto name = spec::gpu_named(cells.text("gpu_or_system"));
  if (cells.text("trust") == "D") return skip("a mock value (trust D)");
  if (!measured) return skip("prose or a range, no number");
  if (!name) return skip("no GPU of the library is named");
  const auto gpu = spec::load_gpu(library, *name);
  const auto ours = gpu ? library_value(cells.text("quantity"), *gpu) : std::nullopt;
  if (!ours) return skip("no number of the library answers to it");
  // A package of two dies is two devices of the library.
  const bool package = cells.text("quantity") == "TDP / TBP";
  scores.scored.push_back({.row_id = cells.id(),
                           .family = cells.text("category"),
                           .quantity = cells.text("unit") == "C" ? "temperature_c" : "fact",
                           .sweep = {},
                           .measured = *measured,
                           .predicted = *ours * (package ? gpu->dies_per_package : 1),
                           .notes = {}});
}

}  // namespace

bool is_thermal_transient_table(const Header& header) {
  return has_columns(header, {"trace_id", "gpu", "t_s", "power_w", "temp_core_c"});
}

bool is_thermal_snapshot_table(const Header& header) {
  return has_columns(header, {"snapshot_id", "gpu_index", "temp_c", "power_w", "load"});
}

bool is_thermal_fact_table(const Header& header) {
  return has_columns(header, {"gpu_or_system", "category", "quantity", "value", "unit"});
}

std::string usual_node_of(const std::string& gpu) {
  static constexpr std::array<std::array<std::string_view, 2>, 13> nodes{
      {{"a100-40gb", "dgx-a100-40gb"},
       {"a100-80gb", "dgx-a100"},
       {"h100", "hgx-h100"},
       {"h200", "hgx-h200"},
       {"b200", "dgx-b200"},
       {"b300", "dgx-b300"},
       {"gb200", "gb200-nvl72"},
       {"gb300", "gb300-nvl72"},
       {"mi250", "mi250"},
       {"mi250x", "frontier"},
       {"mi300x", "mi300x"},
       {"mi325x", "mi325x"},
       {"mi355x", "mi355x"}}};
  for (const auto& [name, node] : nodes)
    if (name == gpu) return std::string(node);
  return {};
}

Result<TableScores> score_thermal_transient_table(const CsvTable& table,
                                                  const spec::Library& library) {
  TableScores scores{.table = "thermal transients", .rows = static_cast<int64_t>(table.rows())};
  for (const std::vector<ThermalTrace>& traces : nodes_of(read_thermal_traces(table))) {
    const Result<spec::Cluster> node = node_of(traces.front().gpu, library);
    if (node)
      score_node(scores, traces, *node);
    else
      for (const ThermalTrace& trace : traces)
        scores.skipped.push_back({trace.name, node.error().what});
  }
  return scores;
}

Result<TableScores> score_thermal_snapshot_table(const CsvTable& table,
                                                 const spec::Library& library) {
  TableScores scores{.table = "thermal snapshots", .rows = static_cast<int64_t>(table.rows())};
  for (const Snapshot& snapshot : read_snapshots(table, scores)) {
    const Result<spec::Cluster> node = node_of(snapshot.gpu, library);
    if (node)
      score_snapshot(scores, snapshot, *node);
    else
      scores.skipped.push_back({snapshot.name, node.error().what});
  }
  return scores;
}

Result<TableScores> score_thermal_fact_table(const CsvTable& table, const spec::Library& library) {
  TableScores scores{.table = "facts", .rows = static_cast<int64_t>(table.rows())};
  for (size_t r = 0; r < table.rows(); ++r)
    score_fact(scores, Cells(table, r), library);
  return scores;
}

}  // namespace triplepoint::calibrate
