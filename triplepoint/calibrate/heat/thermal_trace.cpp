// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/heat/thermal_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "triplepoint/base/statistics.h"

#include "triplepoint/calibrate/tables/cells.h"
#include "triplepoint/thermal/chassis.h"

namespace triplepoint::calibrate {
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
    const double share = static_cast<double>(i) / moments;
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
  std::vector<double> differences;
  for (size_t i = 0; i < shown.size(); ++i)
    differences.push_back(trace.temperature[i].value - shown[i]);
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
    const auto found = std::find_if(traces.begin(), traces.end(),
                                    [&](const ThermalTrace& t) { return t.name == name; });
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
  const auto hottest = std::max_element(
      traces.begin(), traces.end(),
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
