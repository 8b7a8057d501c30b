// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/thermal_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "triplepoint/base/statistics.h"

#include "triplepoint/calibrate/table_cells.h"
#include "triplepoint/thermal/chassis.h"

namespace triplepoint::calibrate {
namespace {

using thermal::ChassisModel;
using Sample = ThermalTrace::Sample;

constexpr double noticeable_w = 25;
constexpr int moments = 20;  // places in a gap that are tried

/// A seat whose network follows the fans.
class Seat {
 public:
  Seat(const spec::ThermalLadder& ladder, const spec::Chassis& chassis)
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

/// Plays a gap whose power changes after `share` of it; the temperatures at its readings.
std::vector<double> play(Seat& seat, const Gap& gap, double share) {
  const double change = share * ((gap.to.at - gap.from.at) / unit::s);
  double now = 0;
  const auto advance_to = [&](double t) {
    if (now < change) seat.advance(gap.from.value, std::min(t, change) - now);
    if (t > change) seat.advance(gap.to.value, t - std::max(now, change));
    now = t;
  };
  std::vector<double> shown;
  for (const Sample& reading : gap.readings) {
    advance_to((reading.at - gap.from.at) / unit::s);
    shown.push_back(seat.die());
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

double best_moment(Seat& seat, const Gap& gap) {
  if (gap.readings.empty() || std::abs(gap.to.value - gap.from.value) < noticeable_w) return 0;
  const ChassisModel::State before = seat.state();
  double best = 0, least = INFINITY;
  for (int i = 0; i <= moments; ++i) {
    const double share = static_cast<double>(i) / moments;
    const double cost = misfit(play(seat, gap, share), gap);
    seat.restore(before);
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

struct Played {
  std::vector<double> shown;
  Flows flows;
};

/// given: what the fans do; null where this device leads them.
Played play_all(const ThermalTrace& trace, const spec::ThermalLadder& ladder,
                const spec::Chassis& chassis, const Flows* given) {
  Seat seat(ladder, chassis);
  Played played;
  if (trace.power.empty()) return played;
  seat.settle(trace.power.front().value);
  played.flows.push_back({trace.power.front().at, seat.flow()});
  for (const Gap& gap : gaps_of(trace)) {
    if (given) seat.set_flow(flow_at(*given, gap.from.at));
    const double share = trace.switches_known ? 1 : best_moment(seat, gap);
    const std::vector<double> part = play(seat, gap, share);
    played.shown.insert(played.shown.end(), part.begin(), part.end());
    if (!given) seat.follow_fans((gap.to.at - gap.from.at) / unit::s);
    played.flows.push_back({gap.to.at, seat.flow()});
  }
  return played;
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
Played predict(const ThermalTrace& trace, const spec::ThermalLadder& ladder,
               const spec::Chassis& chassis, const Flows* given) {
  spec::Chassis room = chassis;
  Played played;
  for (int pass = 0; pass < 2; ++pass) {
    played = play_all(trace, ladder, room, given);
    room.inlet = room.inlet + median_difference(trace, played.shown) * unit::K;
  }
  const double left = median_difference(trace, played.shown);
  for (double& degrees : played.shown)
    degrees += left;
  return played;
}

double hottest_of(const ThermalTrace& trace) {
  double hottest = -std::numeric_limits<double>::infinity();
  for (const Sample& reading : trace.temperature)
    hottest = std::max(hottest, reading.value);
  return hottest;
}

/// "server-run1-card0": "server-run1"; a name without such an end stays whole.
std::string node_name_of(const ThermalTrace& trace) {
  const size_t end = trace.name.rfind("-card");
  const bool numbered = end != std::string::npos && end + 5 < trace.name.size() &&
                        trace.name.find_first_not_of("0123456789", end + 5) == std::string::npos;
  return numbered ? trace.name.substr(0, end) : trace.name;
}

}  // namespace

std::vector<ThermalTrace> read_thermal_traces(const CsvTable& table) {
  std::vector<ThermalTrace> traces;
  for (size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    const std::string name = cells.text("trace_id");
    if (traces.empty() || traces.back().name != name)
      traces.push_back({.name = name, .gpu = cells.text("gpu"), .power = {}, .temperature = {}});
    ThermalTrace& trace = traces.back();
    const Seconds at = cells.number_or("t_s", 0) * unit::s;
    const auto power = cells.number("power_w"), degrees = cells.number("temp_core_c");
    if (power && is_update(trace, at, *power)) trace.power.push_back({at, *power});
    if (degrees) trace.temperature.push_back({at, *degrees});
    const bool ends = r + 1 == table.rows() || Cells(table, r + 1).text("trace_id") != name;
    if (ends && !trace.power.empty())
      trace.power.push_back({at + 1 * unit::s, trace.power.back().value});
  }
  return traces;
}

spec::Chassis lonely_seat(const spec::Chassis& chassis) {
  spec::Chassis lonely = chassis;
  lonely.seats = {spec::Seat{}};
  lonely.fixed_heat = Watts();
  return lonely;
}

std::vector<double> predict_trace(const ThermalTrace& trace, const spec::ThermalLadder& ladder,
                                  const spec::Chassis& chassis) {
  return predict(trace, ladder, chassis, nullptr).shown;
}

std::vector<std::vector<double>> predict_node(const std::vector<ThermalTrace>& traces,
                                              const spec::ThermalLadder& ladder,
                                              const spec::Chassis& chassis) {
  const auto hottest = std::max_element(
      traces.begin(), traces.end(),
      [](const ThermalTrace& a, const ThermalTrace& b) { return hottest_of(a) < hottest_of(b); });
  std::vector<std::vector<double>> shown;
  if (hottest == traces.end()) return shown;
  const Played leads = predict(*hottest, ladder, chassis, nullptr);
  for (const ThermalTrace& trace : traces)
    shown.push_back(&trace == &*hottest ? leads.shown
                                        : predict(trace, ladder, chassis, &leads.flows).shown);
  return shown;
}

std::vector<std::vector<ThermalTrace>> nodes_of(const std::vector<ThermalTrace>& traces) {
  std::vector<std::vector<ThermalTrace>> nodes;
  for (const ThermalTrace& trace : traces) {
    const auto same = std::find_if(nodes.begin(), nodes.end(), [&](const auto& node) {
      return node.front().gpu == trace.gpu && node_name_of(trace) != trace.name &&
             node_name_of(node.front()) == node_name_of(trace);
    });
    if (same == nodes.end())
      nodes.push_back({trace});
    else
      same->push_back(trace);
  }
  return nodes;
}

}  // namespace triplepoint::calibrate
