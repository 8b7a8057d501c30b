// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/heat/thermal_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "triplepoint/base/statistics.h"

#include "triplepoint/thermal/chassis.h"

namespace triplepoint::calibrate {
namespace {

Result<spec::Cluster> node_of(const std::string& name, const spec::Library& library) {
  spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, name));
  if (!cluster.gpu.thermal) return error("{} has no thermal model", cluster.gpu.name);
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
           .predicted = shown[k][i]});
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
      snapshots.push_back({.name = name, .cluster = cells.text("cluster")});
    snapshots.back().devices.push_back({.row_id = cells.id(),
                                        .slot = as_size(cells.count("gpu_index")),
                                        .power = cells.number_or("power_w", 0),
                                        .degrees = cells.number_or("temperature_c", 0)});
  }
  return snapshots;
}

std::vector<double> predict_snapshot(const Snapshot& snapshot, const spec::Cluster& node) {
  const thermal::ChassisModel chassis(node.chassis, *node.gpu.thermal, node.gpu.dies_per_package,
                                      node.chassis.fan_floor);
  const Watts idle = node.gpu.power ? node.gpu.power->idle : Watts();
  std::vector<Watts> power(as_size(chassis.slots()), idle);
  for (const Reading& device : snapshot.devices)
    power[device.slot % power.size()] = device.power * unit::W;
  const auto state = chassis.steady(power, node.chassis.inlet);
  return mapped(snapshot.devices, [&](const Reading& device) {
    return chassis.die(state, static_cast<int64_t>(device.slot % power.size())).degrees();
  });
}

void score_snapshot(TableScores& scores, const Snapshot& snapshot, const spec::Cluster& node) {
  const std::vector<double> dies = predict_snapshot(snapshot, node);
  double offset = 0;
  if (dies.size() > 1)
    for (size_t i = 0; i < dies.size(); ++i)
      offset += (snapshot.devices[i].degrees - dies[i]) / as_real(dies.size());
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
                           .family = cells.family(),
                           .quantity = cells.text("unit") == "C" ? "temperature_c" : "fact",
                           .measured = *measured,
                           .predicted = *ours});
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

namespace {

using thermal::ChassisModel;
using Sample = ThermalTrace::Sample;

constexpr double min_power_step_w = 25;
constexpr int moments = 20;  // places in a gap that are tried

/// A slot whose network follows the fans.
class Slot {
 public:
  Slot(const spec::ThermalLadder& ladder, const spec::Chassis& chassis)
      : ladder_(ladder), chassis_(chassis), flow_(chassis.fan_floor), model_(network()) {
    state_ = model_.uniform(chassis.inlet);
  }
  void settle(double watts) {
    const Watts power = watts * unit::W;
    state_ = model_.steady({&power, 1}, chassis_.inlet);
  }
  double die() const { return model_.die(state_, 0).degrees(); }
  void advance(double watts, double seconds) {
    if (seconds <= 0) return;
    const Watts power = watts * unit::W;
    model_.advance(state_, {&power, 1}, chassis_.inlet, model_.prepare(seconds * unit::s));
  }
  const ChassisModel::State& state() const { return state_; }
  void restore(const ChassisModel::State& state) { state_ = state; }
  void follow_fans(double seconds) {
    set_flow(thermal::next_flow_share(chassis_, flow_, model_.die(state_, 0), seconds * unit::s));
  }
  double flow() const { return flow_; }
  void set_flow(double flow) {
    flow_ = flow;
    if (std::abs(flow_ - network_flow_) < 0.005) return;  // rebuilt for what can be seen only
    model_ = network();
  }

 private:
  ChassisModel network() {
    network_flow_ = flow_;
    return {chassis_, ladder_, 1, flow_};
  }

  const spec::ThermalLadder& ladder_;
  const spec::Chassis& chassis_;
  double flow_, network_flow_ = 0;
  ChassisModel model_;
  ChassisModel::State state_;
};

/// The time between two readings of power, and the temperatures read in it.
struct Gap {
  Sample from, to;
  std::vector<Sample> readings;
};

/// Advances over a gap whose power changes after `share` of it; the temperatures at its readings.
std::vector<double> advance(Slot& slot, const Gap& gap, double share) {
  const double change = share * ((gap.to.at - gap.from.at) / unit::s);
  double now = 0;
  const auto advance_to = [&](double t) {
    if (now < change) slot.advance(gap.from.value, std::min(t, change) - now);
    if (t > change) slot.advance(gap.to.value, t - std::max(now, change));
    now = t;
  };
  std::vector<double> shown;
  for (const Sample& reading : gap.readings) {
    advance_to((reading.at - gap.from.at) / unit::s);
    shown.push_back(slot.die());
  }
  advance_to((gap.to.at - gap.from.at) / unit::s);
  return shown;
}

double misfit(const std::vector<double>& shown, const Gap& gap) {
  double sum = 0;
  for (size_t i = 0; i < shown.size(); ++i) {
    const double error = shown[i] - gap.readings[i].value;
    sum += error * error;
  }
  return sum;
}

double best_moment(Slot& slot, const Gap& gap) {
  if (gap.readings.empty() || std::abs(gap.to.value - gap.from.value) < min_power_step_w) return 0;
  const ChassisModel::State before = slot.state();
  double best = 0, least = INFINITY;
  for (int i = 0; i <= moments; ++i) {
    const double share = as_real(i) / moments;
    const double cost = misfit(advance(slot, gap, share), gap);
    slot.restore(before);
    if (cost < least) {
      least = cost;
      best = share;
    }
  }
  return best;
}

std::vector<Gap> gaps_of(const ThermalTrace& trace) {
  std::vector<Gap> gaps;
  size_t next = 0;
  for (size_t i = 0; i + 1 < trace.power.size(); ++i) {
    Gap gap{trace.power[i], trace.power[i + 1], {}};
    for (; next < trace.temperature.size() && trace.temperature[next].at <= gap.to.at; ++next)
      gap.readings.push_back(trace.temperature[next]);  // earlier ones too: at rest until then
    gaps.push_back(std::move(gap));
  }
  return gaps;
}

/// Flow shares, each from its moment on.
using Flows = std::vector<Sample>;

double flow_at(const Flows& flows, Seconds at) {
  const auto after = std::upper_bound(flows.begin(), flows.end(), at,
                                      [](Seconds t, const Sample& flow) { return t < flow.at; });
  return after == flows.begin() ? flows.front().value : (after - 1)->value;
}

struct Response {
  std::vector<double> shown;
  Flows flows;
};

/// given: what the fans do; null where this device leads them.
Response respond(const ThermalTrace& trace, const spec::ThermalLadder& ladder,
                 const spec::Chassis& chassis, const Flows* given) {
  Slot slot(ladder, chassis);
  Response response;
  if (trace.power.empty()) return response;
  slot.settle(trace.power.front().value);
  response.flows.push_back({trace.power.front().at, slot.flow()});
  for (const Gap& gap : gaps_of(trace)) {
    if (given) slot.set_flow(flow_at(*given, gap.from.at));
    const std::vector<double> part = advance(slot, gap, best_moment(slot, gap));
    response.shown.insert(response.shown.end(), part.begin(), part.end());
    if (!given) slot.follow_fans((gap.to.at - gap.from.at) / unit::s);
    response.flows.push_back({gap.to.at, slot.flow()});
  }
  return response;
}

/// A driver that is asked more often than it measures repeats itself.
bool is_update(const ThermalTrace& trace, Seconds at, double power) {
  constexpr Seconds slowest_update = 0.5 * unit::s;
  if (trace.power.empty()) return true;
  return trace.power.back().value != power || at - trace.power.back().at > slowest_update;
}

double median_difference(const ThermalTrace& trace, const std::vector<double>& shown) {
  std::vector<double> differences =
      numbered(shown.size(), [&](size_t i) { return trace.temperature[i].value - shown[i]; });
  return differences.empty() ? 0 : upper_median(std::move(differences));
}

/// Twice: fans follow the real temperature, so the coolant's has to be known before they are.
Response predict(const ThermalTrace& trace, const spec::ThermalLadder& ladder,
                 const spec::Chassis& chassis, const Flows* given) {
  spec::Chassis room = chassis;
  Response response;
  for (int pass = 0; pass < 2; ++pass) {
    response = respond(trace, ladder, room, given);
    room.inlet = room.inlet + median_difference(trace, response.shown) * unit::K;
  }
  const double left = median_difference(trace, response.shown);
  for (double& degrees : response.shown)
    degrees += left;
  return response;
}

double hottest_of(const ThermalTrace& trace) {
  double hottest = -std::numeric_limits<double>::infinity();
  for (const Sample& reading : trace.temperature)
    hottest = std::max(hottest, reading.value);
  return hottest;
}

/// The trace of the row's reading, in the node that the row names.
ThermalTrace& trace_of(std::vector<std::vector<ThermalTrace>>& nodes, const Cells& cells) {
  const std::string name = cells.text("trace_id"), node = cells.text("node");
  for (std::vector<ThermalTrace>& traces : nodes) {
    if (traces.front().node != node) continue;
    const auto found = std::ranges::find(traces, name, &ThermalTrace::name);
    if (found != traces.end()) return *found;
    return traces.emplace_back(
        ThermalTrace{.name = name, .node = node, .cluster = cells.text("cluster")});
  }
  return nodes
      .emplace_back(1, ThermalTrace{.name = name, .node = node, .cluster = cells.text("cluster")})
      .front();
}

void add_reading(ThermalTrace& trace, const Cells& cells) {
  trace.last = cells.number_or("t_s", 0) * unit::s;
  const auto power = cells.number("power_w"), degrees = cells.number("temperature_c");
  if (power && is_update(trace, trace.last, *power)) trace.power.push_back({trace.last, *power});
  if (degrees) trace.temperature.push_back({trace.last, *degrees});
}

}  // namespace

std::vector<std::vector<ThermalTrace>> read_thermal_nodes(const CsvTable& table,
                                                          TableScores& scores) {
  std::vector<std::vector<ThermalTrace>> nodes;
  for (size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    if (cells.is_skipped()) {
      scores.skip(cells.id(), cells.text("skip"));
      continue;
    }
    add_reading(trace_of(nodes, cells), cells);
  }
  for (std::vector<ThermalTrace>& traces : nodes)
    for (ThermalTrace& trace : traces)
      if (!trace.power.empty())
        trace.power.push_back({trace.last + 1 * unit::s, trace.power.back().value});
  return nodes;
}

spec::Chassis lonely_slot(const spec::Chassis& chassis) {
  spec::Chassis lonely = chassis;
  lonely.slots = {spec::Slot{}};
  lonely.fixed_heat = Watts();
  return lonely;
}

std::vector<std::vector<double>> predict_node(const std::vector<ThermalTrace>& traces,
                                              const spec::ThermalLadder& ladder,
                                              const spec::Chassis& chassis) {
  const auto hottest = std::ranges::max_element(
      traces,
      [](const ThermalTrace& a, const ThermalTrace& b) { return hottest_of(a) < hottest_of(b); });
  std::vector<std::vector<double>> shown;
  if (hottest == traces.end()) return shown;
  const Response leads = predict(*hottest, ladder, chassis, nullptr);
  for (const ThermalTrace& trace : traces)
    shown.push_back(&trace == &*hottest ? leads.shown
                                        : predict(trace, ladder, chassis, &leads.flows).shown);
  return shown;
}

}  // namespace triplepoint::calibrate
