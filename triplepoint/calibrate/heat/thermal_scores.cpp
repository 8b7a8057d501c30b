// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/heat/thermal_scores.h"

#include <fmt/format.h>

#include "triplepoint/calibrate/gpu_cache.h"
#include "triplepoint/calibrate/heat/thermal_trace.h"
#include "triplepoint/calibrate/tables/cells.h"
#include "triplepoint/thermal/chassis.h"

namespace triplepoint::calibrate {
namespace {

Result<spec::Cluster> node_of(const std::string& name, const spec::Library& library) {
  spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, name));
  if (!cluster.gpu.thermal) return error(fmt::format("{} has no thermal model", cluster.gpu.name));
  return cluster;
}

void score_node(TableScores& scores, const std::vector<ThermalTrace>& traces,
                const spec::Cluster& node) {
  const auto shown = predict_node(traces, *node.gpu.thermal, lonely_slot(node.chassis));
  for (size_t k = 0; k < traces.size(); ++k)
    for (size_t i = 0; i < shown[k].size(); ++i)
      scores.scored.push_back(
          {.row_id = fmt::format("{} {} s", traces[k].name, traces[k].temperature[i].at / unit::s),
           .family = traces[k].name,
           .quantity = "temperature_c",
           .sweep = traces[k].name,
           .measured = traces[k].temperature[i].value,
           .predicted = shown[k][i],
           .notes = {}});
}

/// One device of a snapshot.
struct Reading {
  std::string row_id;
  size_t slot = 0;
  double power = 0, degrees = 0;
};

struct Snapshot {
  std::string name, cluster;
  std::vector<Reading> devices;
};

std::vector<Snapshot> read_snapshots(const CsvTable& table, TableScores& scores) {
  std::vector<Snapshot> snapshots;
  for (size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    if (cells.is_skipped()) {
      scores.skip(cells.id(), cells.text("skip"));
      continue;
    }
    const std::string name = cells.text("snapshot_id");
    if (snapshots.empty() || snapshots.back().name != name)
      snapshots.push_back({.name = name, .cluster = cells.text("cluster"), .devices = {}});
    snapshots.back().devices.push_back({.row_id = cells.id(),
                                        .slot = static_cast<size_t>(cells.count("gpu_index")),
                                        .power = cells.number_or("power_w", 0),
                                        .degrees = cells.number_or("temperature_c", 0)});
  }
  return snapshots;
}

std::vector<double> predict_snapshot(const Snapshot& snapshot, const spec::Cluster& node) {
  const thermal::ChassisModel chassis(node.chassis, *node.gpu.thermal, node.gpu.dies_per_package,
                                      node.chassis.fan_floor);
  const Watts idle = node.gpu.power ? node.gpu.power->idle : Watts();
  std::vector<Watts> power(static_cast<size_t>(chassis.slots()), idle);
  for (const Reading& device : snapshot.devices)
    power[device.slot % power.size()] = device.power * unit::W;
  const auto state = chassis.steady(power, node.chassis.inlet);
  std::vector<double> dies;
  for (const Reading& device : snapshot.devices)
    dies.push_back(chassis.die(state, static_cast<int64_t>(device.slot % power.size())).degrees());
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

/// What the library says of the fact that a key names; nothing where the GPU has no such number.
std::optional<double> library_value(const std::string& key, const spec::Gpu& gpu) {
  const auto degrees = [](const std::optional<Celsius>& t) {
    return t ? std::optional<double>(t->degrees()) : std::nullopt;
  };
  // A package of two dies is two devices of the library.
  if (key == "tdp" && gpu.tdp) return *gpu.tdp / unit::W * gpu.dies_per_package;
  if (key == "max_clock" && gpu.max_clock) return *gpu.max_clock / unit::MHz;
  if (!gpu.governor) return std::nullopt;
  if (key == "governor.shutdown_temperature") return degrees(gpu.governor->shutdown_temperature);
  if (key == "governor.slowdown_temperature") return degrees(gpu.governor->slowdown_temperature);
  if (key == "governor.target_temperature") return degrees(gpu.governor->target_temperature);
  return std::nullopt;
}

Result<void> score_fact(const Cells& cells, GpuCache& gpus, TableScores& scores) {
  if (cells.is_skipped()) return error(cells.text("skip"));
  const Result<spec::Gpu>& gpu = gpus.gpu(cells.text("gpu"));
  if (!gpu) return tl::unexpected(gpu.error());
  const auto measured = cells.number("value"), ours = library_value(cells.text("key"), *gpu);
  if (!measured || !ours) return error("no number of the library answers to it");
  scores.scored.push_back({.row_id = cells.id(),
                           .family = cells.text("family"),
                           .quantity = cells.text("unit") == "C" ? "temperature_c" : "fact",
                           .sweep = {},
                           .measured = *measured,
                           .predicted = *ours,
                           .notes = {}});
  return {};
}

}  // namespace

Result<TableScores> score_thermal_traces(const CsvTable& table, const ScoreContext& context) {
  TableScores scores{.table = "thermal-traces", .rows = static_cast<int64_t>(table.rows())};
  for (const std::vector<ThermalTrace>& traces : read_thermal_nodes(table, scores)) {
    const Result<spec::Cluster> node = node_of(traces.front().cluster, context.library);
    if (node)
      score_node(scores, traces, *node);
    else
      for (const ThermalTrace& trace : traces)
        scores.skip(trace.name, node.error().what);
  }
  return scores;
}

Result<TableScores> score_thermal_snapshots(const CsvTable& table, const ScoreContext& context) {
  TableScores scores{.table = "thermal-snapshots", .rows = static_cast<int64_t>(table.rows())};
  for (const Snapshot& snapshot : read_snapshots(table, scores)) {
    const Result<spec::Cluster> node = node_of(snapshot.cluster, context.library);
    if (node)
      score_snapshot(scores, snapshot, *node);
    else
      scores.skip(snapshot.name, node.error().what);
  }
  return scores;
}

Result<TableScores> score_facts(const CsvTable& table, const ScoreContext& context) {
  TableScores scores{.table = "facts", .rows = static_cast<int64_t>(table.rows())};
  GpuCache gpus(context.library);
  for (size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    const auto done = score_fact(cells, gpus, scores);
    if (!done) scores.skip(cells.id(), done.error().what);
  }
  return scores;
}

}  // namespace triplepoint::calibrate
