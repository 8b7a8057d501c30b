// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/thermal/chassis.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include <doctest/doctest.h>

namespace triplepoint::thermal {
namespace {

using doctest::Approx;
using State = ChassisModel::State;

spec::ThermalLadder ladder() {
  return {.resistances = {KelvinsPerWatt(0.012), KelvinsPerWatt(0.010), KelvinsPerWatt(0.016)},
          .capacities = {JoulesPerKelvin(8), JoulesPerKelvin(120), JoulesPerKelvin(1500)},
          .memory_resistance = KelvinsPerWatt(0.1)};
}

/// Two rows of four in an air stream: slots 4..7 stand behind 0..3.
spec::Chassis two_rows() {
  spec::Chassis chassis;
  chassis.inlet = Celsius(25);
  chassis.volume_flow_m3_s = 0.5;
  chassis.sink_flow_exponent = 0.5;
  chassis.slots.resize(8);
  for (size_t rear = 4; rear < 8; ++rear) {
    chassis.slots[rear].upstream_heating.assign(8, 0.0);
    chassis.slots[rear].upstream_heating[rear - 4] = 3;
  }
  return chassis;
}

ChassisModel model(double flow_share = 1) {
  return ChassisModel(two_rows(), ladder(), 1, flow_share);
}

std::vector<Watts> all(double watts) {
  return std::vector<Watts>(8, watts * unit::W);
}

std::vector<Watts> uneven() {
  return numbered(8, [](int slot) { return (200 + 60.0 * slot) * unit::W; });
}

double largest_difference(const State& a, const State& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

TEST_CASE("without power everything settles at the inlet") {
  const State state = model().steady(all(0), Celsius(25));
  CHECK(largest_difference(state, model().uniform(Celsius(25))) < 1e-12);
}

TEST_CASE("without power a slot settles at its inlet offset and the fixed heat") {
  spec::Chassis chassis = two_rows();
  chassis.slots[2].inlet_offset = 7 * unit::K;
  chassis.fixed_heat = 400 * unit::W;
  const ChassisModel warm(chassis, ladder(), 1, 0.8);
  const State state = warm.steady(all(0), Celsius(25));
  const double fixed = 400 / (air_heat_capacity_j_per_m3_k * 0.5 * 0.8);
  CHECK(warm.die(state, 2).degrees() == Approx(25 + 7 + fixed));
  CHECK(warm.die(state, 0).degrees() == Approx(25 + fixed));
}

TEST_CASE("a slot without upstream heating settles at P times R over the inlet") {
  const State state = model().steady(all(600), Celsius(30));
  CHECK(model().die(state, 0).degrees() == Approx(30 + 600 * (0.012 + 0.010 + 0.016)));
}

TEST_CASE("a rear slot is hotter by the heat that the air took up at the front slot") {
  const State state = model().steady(all(600), Celsius(25));
  const double picked_up = 3 * 600 / (air_heat_capacity_j_per_m3_k * 0.5);
  CHECK(model().die(state, 4).degrees() - model().die(state, 0).degrees() == Approx(picked_up));
  CHECK(model().coolant(state, 4, Celsius(25)).degrees() == Approx(25 + picked_up));
  CHECK(model().coolant(state, 0, Celsius(25)).degrees() == Approx(25));
}

TEST_CASE("heat moves downstream only") {
  std::vector<Watts> rear = all(0), front = all(0);
  rear[5] = front[1] = 500 * unit::W;
  const ChassisModel chassis = model();
  CHECK(chassis.die(chassis.steady(rear, Celsius(25)), 1).degrees() == Approx(25));
  CHECK(chassis.die(chassis.steady(front, Celsius(25)), 5).degrees() > 26);
}

TEST_CASE("in the steady state the coolant carries off all power") {
  const State state = model().steady(uneven(), Celsius(25));
  Watts total = sum_of(uneven());
  CHECK(model().carried_off(state, Celsius(25)) / total == Approx(1).epsilon(1e-12));
}

TEST_CASE("heat that comes in is stored or carried off") {
  const ChassisModel chassis = model();
  State state = chassis.uniform(Celsius(40));
  const Joules before = chassis.stored(state, Celsius(25));
  const Seconds step = 0.05 * unit::s;
  const Propagator propagator = chassis.prepare(0.5 * step);
  Joules in, out;
  for (int i = 0; i < 400; ++i) {  // Simpson's rule for what leaves
    const Watts first = chassis.carried_off(state, Celsius(25));
    chassis.advance(state, uneven(), Celsius(25), propagator);
    const Watts middle = chassis.carried_off(state, Celsius(25));
    chassis.advance(state, uneven(), Celsius(25), propagator);
    const Watts last = chassis.carried_off(state, Celsius(25));
    out += step / 6 * (first + 4 * middle + last);
    for (Watts power : uneven())
      in += power * step;
  }
  const Joules gained = chassis.stored(state, Celsius(25)) - before;
  CHECK((gained + out) / in == Approx(1).epsilon(1e-9));
}

TEST_CASE("a long advance reaches the steady state") {
  State state = model().uniform(Celsius(80));
  model().advance(state, uneven(), Celsius(25), 3600 * unit::s);
  CHECK(largest_difference(state, model().steady(uneven(), Celsius(25))) < 1e-8);
}

TEST_CASE("the steady state stays") {
  const State steady = model().steady(uneven(), Celsius(25));
  State state = steady;
  for (double seconds : {0.001, 1.0, 100.0})
    model().advance(state, uneven(), Celsius(25), seconds * unit::s);
  CHECK(largest_difference(state, steady) < 1e-9);
}

TEST_CASE("two half steps are one step") {
  for (double seconds : {0.01, 0.3, 7.0, 250.0}) {
    State once = model().uniform(Celsius(30)), twice = once;
    model().advance(once, uneven(), Celsius(25), seconds * unit::s);
    for (int i = 0; i < 2; ++i)
      model().advance(twice, uneven(), Celsius(25), 0.5 * seconds * unit::s);
    CHECK(largest_difference(once, twice) < 1e-9);
  }
}

/// The same network, one explicit Euler step after the other, written from the header's equations.
State euler(const State& from, const std::vector<Watts>& power, double seconds, int steps) {
  const spec::ThermalLadder l = ladder();
  const spec::Chassis chassis = two_rows();
  const double dt = seconds / steps, capacity_rate = air_heat_capacity_j_per_m3_k * 0.5;
  State t = from;
  for (int step = 0; step < steps; ++step) {
    State next = t;
    double heat[8] = {};
    for (size_t slot = 0; slot < 8; ++slot) {  // upstream first
      double air = 25;
      for (size_t other = 0; other < chassis.slots[slot].upstream_heating.size(); ++other)
        air += chassis.slots[slot].upstream_heating[other] * heat[other] / capacity_rate;
      double in = power[slot] / unit::W;
      for (size_t node = 0; node < 3; ++node) {
        const double far = node == 2 ? air : t[3 * slot + node + 1];
        const double out = (t[3 * slot + node] - far) / l.resistances[node].in_base_units();
        next[3 * slot + node] += dt * (in - out) / l.capacities[node].in_base_units();
        in = out;
      }
      heat[slot] = in;
    }
    t = next;
  }
  return t;
}

TEST_CASE("explicit Euler converges to the exact step, at first order") {
  State exact = model().uniform(Celsius(25));
  model().advance(exact, uneven(), Celsius(25), 2 * unit::s);
  double before = 0;
  for (int steps : {1000, 2000, 4000}) {
    const double error =
        largest_difference(exact, euler(model().uniform(Celsius(25)), uneven(), 2, steps));
    if (before > 0) CHECK(before / error == Approx(2).epsilon(0.02));
    before = error;
  }
  CHECK(before < 0.05);
}

TEST_CASE("a hotter inlet makes everything hotter by the same amount") {
  State cool = model().uniform(Celsius(25)), warm = model().uniform(Celsius(36));
  model().advance(cool, uneven(), Celsius(25), 17 * unit::s);
  model().advance(warm, uneven(), Celsius(36), 17 * unit::s);
  for (size_t i = 0; i < cool.size(); ++i)
    CHECK(warm[i] - cool[i] == Approx(11).epsilon(1e-10));
}

TEST_CASE("rises of two powers add up") {
  const ChassisModel chassis = model();
  const std::vector<Watts> both =
      numbered(8, [](int slot) { return uneven()[as_size(slot)] + 100 * unit::W; });
  const auto after = [&](const std::vector<Watts>& power) {
    State state = chassis.uniform(Celsius(25));
    chassis.advance(state, power, Celsius(25), 9 * unit::s);
    return state;
  };
  const State one = after(uneven()), other = after(all(100)), sum = after(both);
  for (size_t i = 0; i < sum.size(); ++i)
    CHECK(sum[i] - 25 == Approx(one[i] - 25 + other[i] - 25));
}

TEST_CASE("more air makes every device cooler") {
  Celsius before(1000);
  for (double share : {0.3, 0.5, 0.8, 1.0}) {
    const ChassisModel chassis = model(share);
    const Celsius rear = chassis.die(chassis.steady(all(600), Celsius(25)), 7);
    CHECK(rear < before);
    before = rear;
  }
}

TEST_CASE("half of the flow raises a sink's resistance by 2 to its exponent") {
  const ChassisModel half = model(0.5);
  const double expected = 600 * (0.012 + 0.010 + 0.016 * std::sqrt(2.0));
  CHECK(half.die(half.steady(all(600), Celsius(25)), 0).degrees() - 25 == Approx(expected));
}

TEST_CASE("many chassis at once are each advanced as if alone") {
  const ChassisModel chassis = model();
  const Propagator propagator = chassis.prepare(3 * unit::s);
  std::vector<double> states;
  std::vector<Watts> power;
  std::vector<Celsius> inlet;
  for (int c = 0; c < 5; ++c) {
    const State start = chassis.uniform(Celsius(30.0 + c));
    states.insert(states.end(), start.begin(), start.end());
    for (Watts watts : uneven())
      power.push_back(watts + 10.0 * c * unit::W);
    inlet.emplace_back(22.0 + c);
  }
  std::vector<double> together = states;
  chassis.advance_many(propagator, together, power, inlet);
  const auto size = as_size(chassis.state_size());
  for (size_t c = 0; c < 5; ++c) {
    State alone(states.begin() + static_cast<int64_t>(c * size),
                states.begin() + static_cast<int64_t>((c + 1) * size));
    chassis.advance(alone, std::span(power).subspan(8 * c, 8), inlet[c], propagator);
    CHECK(
        std::equal(alone.begin(), alone.end(), together.begin() + static_cast<int64_t>(c * size)));
  }
}

TEST_CASE("a badly mounted board is hotter by its factor, also with the type's propagator") {
  const std::vector<double> boards{1.1, 1, 1, 1, 1, 1, 1, 1};
  const ChassisModel odd(two_rows(), ladder(), 1, 1, boards);
  const Propagator of_the_type = model().prepare(3600 * unit::s);
  State state = odd.uniform(Celsius(25));
  odd.advance(state, all(600), Celsius(25), of_the_type);
  CHECK(odd.die(state, 0).degrees() == Approx(25 + 600 * 1.1 * (0.012 + 0.010 + 0.016)));
  CHECK(odd.die(state, 1).degrees() == Approx(25 + 600 * (0.012 + 0.010 + 0.016)));
}

TEST_CASE("threads that ask for the same durations get the same bits") {
  const ChassisModel chassis = model();
  std::vector<State> results(8, chassis.uniform(Celsius(25)));
  std::vector<std::jthread> threads;
  for (State& state : results)
    threads.emplace_back([&chassis, &state] {
      for (double seconds : {0.1, 1.0, 0.1, 2.0, 3.0})
        chassis.advance(state, uneven(), Celsius(25), seconds * unit::s);
    });
  threads.clear();
  for (const State& state : results)
    CHECK(state == results.front());
}

TEST_CASE("two dies of a package share its lid") {
  spec::ThermalLadder shared = ladder();
  shared.lateral_resistance = KelvinsPerWatt(0.01);
  const ChassisModel apart = model(), joined(two_rows(), shared, 2, 1);
  std::vector<Watts> one_die = all(0);
  one_die[0] = 250 * unit::W;
  const State alone = apart.steady(one_die, Celsius(25)),
              warmed = joined.steady(one_die, Celsius(25));
  CHECK(joined.die(warmed, 0) < apart.die(alone, 0));    // its heat has a second way out
  CHECK(joined.die(warmed, 1).degrees() > 26);           // through its neighbour
  CHECK(joined.die(warmed, 2).degrees() == Approx(25));  // not through the next package
  CHECK(joined.carried_off(warmed, Celsius(25)) / unit::W == Approx(250));
}

TEST_CASE("a liquid loop in series warms from plate to plate, a parallel one does not") {
  spec::Chassis loop = two_rows();
  loop.cooling = spec::Cooling::liquid;
  loop.coolant_heat_capacity_w_per_k = 700;
  loop.volume_flow_m3_s = 0;
  for (size_t slot = 0; slot < 8; ++slot) {
    loop.slots[slot].upstream_heating.assign(8, 0.0);
    for (size_t upstream = 0; upstream < slot; ++upstream)
      loop.slots[slot].upstream_heating[upstream] = 1;
  }
  const ChassisModel series(loop, ladder(), 1, 1);
  const State state = series.steady(all(700), Celsius(30));
  for (int64_t slot = 0; slot < 8; ++slot)
    CHECK(series.coolant(state, slot, Celsius(30)).degrees() == Approx(30 + as_real(slot)));
  for (spec::Slot& slot : loop.slots)
    slot.upstream_heating.clear();
  const ChassisModel parallel(loop, ladder(), 1, 1);
  CHECK(parallel.die(parallel.steady(all(700), Celsius(30)), 7).degrees() ==
        Approx(parallel.die(parallel.steady(all(700), Celsius(30)), 0).degrees()));
}

TEST_CASE("memory sits above the lid by its own power") {
  const ChassisModel chassis = model();
  const State state = chassis.steady(all(600), Celsius(25));
  CHECK(chassis.memory(state, 0, 60 * unit::W).degrees() ==
        Approx(25 + 600 * (0.010 + 0.016) + 60 * 0.1));
}

TEST_CASE("a repeating power swings the die as a long simulation shows") {
  const ChassisModel chassis = model();
  const std::vector<PowerStretch> pattern{{0.2 * unit::s, 900 * unit::W},
                                          {0.3 * unit::s, 300 * unit::W}};
  State state = chassis.steady(all(540), Celsius(25));  // the pattern's mean
  double peak = 0;
  for (int round = 0; round < 400; ++round)
    for (const PowerStretch& stretch : pattern) {
      chassis.advance(state, all(stretch.power / unit::W), Celsius(25), stretch.duration);
      if (round > 300) peak = std::max(peak, chassis.die(state, 0).degrees());
    }
  const double mean = chassis.die(chassis.steady(all(540), Celsius(25)), 0).degrees();
  CHECK(chassis.periodic_peak_rise(0, pattern) / unit::K == Approx(peak - mean).epsilon(1e-3));
}

spec::Chassis with_fans() {
  spec::Chassis chassis;
  chassis.inlet = Celsius(25);
  chassis.fan_target = Celsius(75);
  chassis.fan_floor = 0.3;
  chassis.fan_slew_per_s = 0.02;
  return chassis;
}

constexpr Seconds settling_time = 1e6 * unit::s;

TEST_CASE("fans that hold the target stay as they are") {
  CHECK(next_flow_share(with_fans(), 0.6, Celsius(75), 10 * unit::s) == Approx(0.6));
}

TEST_CASE("fans move no faster than their slew") {
  CHECK(next_flow_share(with_fans(), 0.5, Celsius(95), 3 * unit::s) == Approx(0.5 + 3 * 0.02));
  CHECK(next_flow_share(with_fans(), 0.5, Celsius(35), 3 * unit::s) == Approx(0.5 - 3 * 0.02));
}

TEST_CASE("fans stay between their floor and full speed") {
  CHECK(next_flow_share(with_fans(), 0.5, Celsius(200), settling_time) == 1);
  CHECK(next_flow_share(with_fans(), 0.5, Celsius(10), settling_time) == Approx(0.3));
}

TEST_CASE("a hotter device never gets less air") {
  double before = 0;
  for (double degrees = 0; degrees < 120; degrees += 0.5) {
    const double now = next_flow_share(with_fans(), 0.5, Celsius(degrees), 60 * unit::s);
    CHECK(now >= before);
    before = now;
  }
}

TEST_CASE("the controller settles where the hottest device is at its target") {
  for (double exponent : {0.3, 0.5, 1.0}) {
    // A device whose rise at full flow is 40 K and goes with flow^-exponent.
    double share = 1, degrees = 0;
    for (int i = 0; i < 200; ++i) {
      degrees = 25 + 40 * std::pow(share, -exponent);
      share = next_flow_share(with_fans(), share, Celsius(degrees), settling_time);
    }
    CHECK(degrees == Approx(75).epsilon(1e-6));
  }
}

}  // namespace

}  // namespace triplepoint::thermal
