// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/thermal_trace.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "triplepoint/base/median.h"

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
    flow_ = thermal::next_flow_share(chassis_, flow_, model_.die(state_, 0), seconds * unit::s);
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
      if (trace.temperature[next].at >= gap.from.at)
        gap.readings.push_back(trace.temperature[next]);
    gaps.push_back(std::move(gap));
  }
  return gaps;
}

std::vector<double> play_all(const ThermalTrace& trace, const spec::ThermalLadder& ladder,
                             const spec::Chassis& chassis) {
  Seat seat(ladder, chassis);
  std::vector<double> shown;
  if (trace.power.empty()) return shown;
  seat.settle(trace.power.front().value);
  for (const Gap& gap : gaps_of(trace)) {
    const std::vector<double> part = play(seat, gap, best_moment(seat, gap));
    shown.insert(shown.end(), part.begin(), part.end());
    seat.follow_fans((gap.to.at - gap.from.at) / unit::s);
  }
  return shown;
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
  // Twice: fans follow the real temperature, so the coolant's has to be known before they are.
  spec::Chassis room = chassis;
  std::vector<double> shown;
  for (int pass = 0; pass < 2; ++pass) {
    shown = play_all(trace, ladder, room);
    room.inlet = room.inlet + median_difference(trace, shown) * unit::K;
  }
  const double left = median_difference(trace, shown);
  for (double& degrees : shown)
    degrees += left;
  return shown;
}

}  // namespace triplepoint::calibrate
