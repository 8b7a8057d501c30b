// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/energy/energy.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint::telemetry {
namespace {

constexpr int64_t ms = 1'000'000;

/// Power over time whose integral is known: pieces of constant power.
struct Load {
  std::vector<int64_t> ends;  // of the pieces; the first one begins at 0
  std::vector<double> watts;

  /// Joules from 0 to a time.
  double energy(int64_t until) const {
    double sum = 0;
    int64_t from = 0;
    for (size_t i = 0; i < ends.size() && from < until; ++i) {
      sum += watts[i] * as_real(std::min(ends[i], until) - from) * 1e-9;
      from = ends[i];
    }
    return sum;
  }
  double mean(int64_t begin, int64_t end) const {
    return (energy(end) - energy(begin)) / (as_real(end - begin) * 1e-9);
  }
};

/// Training steps of about 730 ms: forward and backward, all-reduce, optimizer, each with its
/// power, none of them in step with any sensor.
Load training(int64_t length) {
  Load load;
  constexpr double powers[] = {640, 310, 480, 150};
  constexpr int64_t lengths[] = {410 * ms, 170 * ms, 90 * ms, 61 * ms};
  int64_t at = 0;
  for (uint64_t i = 0; at < length; ++i) {
    const double stretch = 1 + 0.05 * random_normal({.seed = 11}, i);
    at += static_cast<int64_t>(as_real(lengths[i % 4]) * stretch);
    load.ends.push_back(at);
    load.watts.push_back(powers[i % 4]);
  }
  return load;
}

/// How a sensor shows power: an update every `period`, the mean of the `window` before it.
struct SensorModel {
  const char* name;
  double period_ms, window_ms;
};
// Source: "Part-time power measurements" (arXiv 2312.02741), table of GPUs.
constexpr SensorModel models[] = {{"H100 PCIe, instant", 100, 25},
                                  {"H100, average", 100, 1000},
                                  {"A100", 101, 25},
                                  {"V100", 20, 10},
                                  {"P100", 20, 10},
                                  {"Turing", 101, 100},
                                  {"RTX 3090, instant", 100, 100},
                                  {"Maxwell M40", 31, 14}};

run::Run seen_by(const SensorModel& model, const Load& load, int64_t length) {
  const auto period = static_cast<int64_t>(model.period_ms * ms);
  const auto window = static_cast<int64_t>(model.window_ms * ms);
  const bool average = model.window_ms >= 1000;
  run::Series power{.signal = average ? "power_average_w" : "power_instant_w"};
  run::Series counter{.signal = "energy_j"};
  for (int64_t t = period; t <= length; t += period) {
    power.times.emplace_back(t);
    power.values.push_back(std::round(load.mean(std::max<int64_t>(0, t - window), t) * 1000) /
                           1000);
  }
  for (int64_t t = 0; t <= length; t += 100 * ms) {
    counter.times.emplace_back(t);
    counter.values.push_back(std::round(load.energy(t) * 1000) / 1000);
  }
  run::Run run;
  run.sources = {
      {.signal = power.signal,
       .kind = average ? run::ReadingKind::average : run::ReadingKind::instant,
       .period = as_real(period) * unit::ns,
       .window = as_real(window) * unit::ns},
      {.signal = "energy_j", .kind = run::ReadingKind::counter, .period = 100 * unit::ms}};
  run.series = {power, counter};
  return run;
}

TEST_CASE("a known energy is recovered within one per cent at every sensor model") {
  const int64_t length = 120'000 * ms;
  const Load load = training(length);
  for (const SensorModel& model : models) {
    CAPTURE(model.name);
    const run::Run run = seen_by(model, load, length);
    for (const int64_t begin : {2'000 * ms, 7'777 * ms}) {
      const int64_t end = length - 2 * begin;
      const double truth = load.energy(end) - load.energy(begin);
      const MeasuredEnergy found = energy_of(run, 0, Instant(begin), Instant(end));
      REQUIRE(found.counter);
      REQUIRE(found.integrated);
      CHECK(found.method == "counter");
      CHECK(found.counter->energy / unit::J == doctest::Approx(truth).epsilon(0.01));
      CHECK(found.integrated->energy / unit::J == doctest::Approx(truth).epsilon(0.01));
      CHECK(found.disagreement().value() < 0.01);
    }
  }
}

TEST_CASE("a sensor that lags behind loses nothing over a long stretch") {
  // Kepler: the reading creeps towards the power, with a time constant.
  const int64_t length = 120'000 * ms;
  const Load load = training(length);
  run::Run run;
  run.series = {{.signal = "power_instant_w"}};
  double shown = load.mean(0, 1000 * ms);
  for (int64_t t = 15 * ms; t <= length; t += 15 * ms) {
    shown += (load.mean(t - 15 * ms, t) - shown) * (1 - std::exp(-15.0 / 600));
    run.series[0].times.emplace_back(t);
    run.series[0].values.push_back(shown);
  }
  const int64_t begin = 3000 * ms, end = 110'000 * ms;
  const double truth = load.energy(end) - load.energy(begin);
  const MeasuredEnergy found = energy_of(run, 0, Instant(begin), Instant(end));
  CHECK(found.method == "integrated");
  CHECK(found.integrated->energy / unit::J == doctest::Approx(truth).epsilon(0.01));
}

TEST_CASE(
    "what was recovered lies within its uncertainty, which the edges rule when time is short") {
  const int64_t length = 60'000 * ms;
  const Load load = training(length);
  for (const SensorModel& model : models) {
    CAPTURE(model.name);
    const run::Run run = seen_by(model, load, length);
    double last_share = 10;
    for (const int64_t duration : {1'500 * ms, 6'000 * ms, 24'000 * ms}) {
      const int64_t begin = 9'123 * ms;
      const MeasuredEnergy found = energy_of(run, 0, Instant(begin), Instant(begin + duration));
      const EnergyEstimate& best = *found.best();
      const double truth = load.energy(begin + duration) - load.energy(begin);
      CHECK(std::abs(best.energy / unit::J - truth) <= best.uncertainty() / unit::J);
      CHECK(best.edges / best.energy < last_share);
      CHECK(best.gain / best.energy == doctest::Approx(gain_error));
      last_share = best.edges / best.energy;
    }
  }
}

TEST_CASE("a sensor whose scale is off is off, by less than it says") {
  const int64_t length = 30'000 * ms;
  run::Run run = seen_by(models[0], training(length), length);
  for (run::Series& series : run.series)
    for (double& value : series.values)
      value *= 1.045;
  const double truth = training(length).energy(25'000 * ms) - training(length).energy(5'000 * ms);
  const MeasuredEnergy found = energy_of(run, 0, Instant(5'000 * ms), Instant(25'000 * ms));
  CHECK(found.best()->energy / unit::J == doctest::Approx(1.045 * truth).epsilon(0.01));
  CHECK(std::abs(found.best()->energy / unit::J - truth) < found.best()->uncertainty() / unit::J);
}

TEST_CASE("a load in step with a part-time sensor is misread, and the counter disagrees") {
  // 100 ms of load with the sensor looking at the same 25 ms of it each time: no integration can
  // know. The counter, which sees all, does.
  const int64_t length = 30'000 * ms;
  Load load;
  for (int64_t t = 0; t < length; t += 100 * ms) {
    load.ends.insert(load.ends.end(), {t + 75 * ms, t + 100 * ms});
    load.watts.insert(load.watts.end(), {200, 700});
  }
  const run::Run run = seen_by(models[0], load, length);
  const MeasuredEnergy found = energy_of(run, 0, Instant(5'000 * ms), Instant(25'000 * ms));
  CHECK(found.integrated->energy / unit::J == doctest::Approx(700.0 * 20));
  CHECK(found.best()->energy / unit::J == doctest::Approx(325.0 * 20));
  CHECK(found.disagreement().value() > 1);
}

TEST_CASE("a stretch of few counter updates is integrated, a long one is counted") {
  const run::Run run = seen_by({"V100", 20, 10}, training(20'000 * ms), 20'000 * ms);
  CHECK(energy_of(run, 0, Instant(5000 * ms), Instant(5900 * ms)).method == "integrated");
  CHECK(energy_of(run, 0, Instant(5000 * ms), Instant(6000 * ms)).method == "counter");
}

TEST_CASE("energy that nothing measured is absent") {
  run::Run run = seen_by(models[0], training(20'000 * ms), 20'000 * ms);
  CHECK_FALSE(energy_of(run, 1, Instant(5000 * ms), Instant(9000 * ms)).best());
  CHECK_FALSE(energy_of(run, 0, Instant(15'000 * ms), Instant(29'000 * ms)).best());
  CHECK_FALSE(energy_of(run, 0, Instant(5000 * ms), Instant(5000 * ms)).best());
  run.series.pop_back();
  CHECK(energy_of(run, 0, Instant(5000 * ms), Instant(9000 * ms)).method == "integrated");
}

TEST_CASE("instant and averaged power are never mixed: one series makes the integral") {
  run::Run run = seen_by(models[0], training(20'000 * ms), 20'000 * ms);
  const run::Run average = seen_by(models[1], training(20'000 * ms), 20'000 * ms);
  const MeasuredEnergy alone = energy_of(run, 0, Instant(5000 * ms), Instant(15'000 * ms));
  run.series.push_back(average.series[0]);
  run.sources.push_back(average.sources[0]);
  const MeasuredEnergy both = energy_of(run, 0, Instant(5000 * ms), Instant(15'000 * ms));
  CHECK(both.integrated->energy == alone.integrated->energy);
}

/// Bits and residency as they are polled every 100 ms of an episode in [begin, end).
run::Run throttled(int64_t begin, int64_t end) {
  run::Series bits{.signal = "throttle_reasons"};
  run::Series counter{.signal = "throttle_ns_hw_thermal_slowdown"};
  for (int64_t t = 0; t <= 10'000 * ms; t += 100 * ms) {
    bits.times.emplace_back(t);
    bits.values.push_back(t >= begin && t < end ? 64 : 0);
    counter.times.emplace_back(t);
    counter.values.push_back(as_real(std::clamp<int64_t>(t - begin, 0, end - begin)));
  }
  run::Run run;
  run.series = {bits, counter};
  return run;
}

TEST_CASE("30 ms of throttling between two polls are found by residency and missed by the bits") {
  const run::Run run = throttled(5'020 * ms, 5'050 * ms);
  const auto found = throttle_residency(run, 0, Instant(0), Instant(10'000 * ms));
  const ThrottleResidency& thermal = found.at("hardware_thermal");
  CHECK(*thermal.counted / unit::ms == doctest::Approx(30));
  CHECK(*thermal.polled / unit::ms == 0);
  CHECK(thermal.was_missed_by_polling());
  const auto shares = throttle_shares(found, 10 * unit::s);
  CHECK(shares.at("hardware_thermal") == doctest::Approx(0.003));
  CHECK(shares.size() == 1);
}

TEST_CASE("throttling that polls see is counted for what it was, not for what was held") {
  const run::Run run = throttled(4'990 * ms, 5'020 * ms);
  const auto found = throttle_residency(run, 0, Instant(0), Instant(10'000 * ms));
  const ThrottleResidency& thermal = found.at("hardware_thermal");
  CHECK_FALSE(thermal.was_missed_by_polling());
  CHECK(*thermal.polled / unit::ms == doctest::Approx(100));
  CHECK(throttle_shares(found, 10 * unit::s).at("hardware_thermal") == doctest::Approx(0.003));
}

TEST_CASE("where only bits are polled they are what is told") {
  run::Run run = throttled(4'000 * ms, 6'000 * ms);
  run.series.pop_back();
  const auto found = throttle_residency(run, 0, Instant(0), Instant(10'000 * ms));
  CHECK_FALSE(found.at("hardware_thermal").counted);
  CHECK(throttle_shares(found, 10 * unit::s).at("hardware_thermal") == doctest::Approx(0.2));
  CHECK(throttle_residency({}, 0, Instant(0), Instant(1)).empty());
}

TEST_CASE("energy over a gap is within what is stated, whether the counter was reset or went on") {
  constexpr int64_t length = 12'000 * ms, from = 4'000 * ms, until = 6'000 * ms;
  const Load load = training(length);
  for (const bool reset : {false, true}) {
    run::Run run = seen_by(models[0], load, length);
    const double lost = reset ? load.energy(until) - load.energy(from) : 0;
    for (run::Series& series : run.series) {
      run::Series kept{.signal = series.signal};
      for (size_t i = 0; i < series.times.size(); ++i) {
        const int64_t time = series.times[i].nanoseconds();
        if (time > from && time < until) continue;
        kept.times.push_back(series.times[i]);
        const bool counts = series.signal == "energy_j";
        kept.values.push_back(series.values[i] - (counts && time >= until ? lost : 0));
      }
      series = kept;
    }
    const MeasuredEnergy found = energy_of(run, 0, Instant(), Instant(length));
    const double truth = load.energy(length);
    CAPTURE(reset);
    REQUIRE(found.counter);
    CHECK(found.method == "counter");
    CHECK(std::abs(found.counter->energy / unit::J - truth) < 0.05 * truth);
    CHECK(std::abs(found.counter->energy / unit::J - truth) < found.counter->edges / unit::J);
    // What was not seen is stated.
    REQUIRE(found.integrated);
    CHECK(found.integrated->edges / unit::J > 0.1 * truth);
    CHECK((found.counter->edges / unit::J > 0.1 * truth) == reset);
  }
}

TEST_CASE("energy is known of a driver that opens within a second, and shares of what is seen") {
  run::Run run;
  run::Series power{.signal = "power_instant_w", .device = 0};
  run::Series held{.signal = "throttle_ns_sw_power_cap", .device = 0};
  for (int64_t at = 640 * ms; at <= 5000 * ms; at += 20 * ms) {
    power.times.emplace_back(at);
    power.values.push_back(745);
    held.times.emplace_back(at);
    held.values.push_back(0.6 * as_real(at - 640 * ms));
  }
  run.series = {power, held};
  const MeasuredEnergy energy = energy_of(run, 0, Instant(0), Instant(5000 * ms));
  REQUIRE(energy.best() != nullptr);
  CHECK(energy.best()->energy / unit::J == doctest::Approx(5 * 745));
  CHECK(energy.best()->edges / unit::J > 0.6 * 745);
  const auto shares =
      throttle_shares(throttle_residency(run, 0, Instant(0), Instant(5000 * ms)), 5 * unit::s);
  CHECK(shares.at("software_power_cap") == doctest::Approx(0.6));
  // What is open counts at the mean of the rest, not at that of the first two stamps.
  run::Series counter{.signal = "energy_j", .device = 0, .times = power.times};
  for (const Instant at : power.times)
    counter.values.push_back(745e-9 * as_real(at.nanoseconds()));
  counter.values[1] += 10;
  run.series.push_back(counter);
  const MeasuredEnergy counted = energy_of(run, 0, Instant(0), Instant(5000 * ms));
  CHECK(counted.counter->energy / unit::J == doctest::Approx(5 * 745));
  run.series.pop_back();
  // A tenth of a recording is not a fifth of one.
  CHECK(energy_of(run, 0, Instant(0), Instant(2000 * ms)).best() == nullptr);
}

TEST_CASE("the bit of any hardware slowdown is left out where another bit says which one") {
  run::Run run;
  run.series.push_back(
      {"throttle_reasons", 0, false, {Instant(0), Instant(500 * ms)}, {0x48, 0x8}});
  const auto shares =
      throttle_shares(throttle_residency(run, 0, Instant(0), Instant(1000 * ms)), 1 * unit::s);
  CHECK(shares.at("hardware_thermal") == doctest::Approx(0.5));
  CHECK(shares.at("hardware_slowdown") == doctest::Approx(0.5));
  run.series[0].values[1] = 0x80 | 0x8;
  CHECK(throttle_shares(throttle_residency(run, 0, Instant(0), Instant(1000 * ms)), 1 * unit::s)
            .size() == 2);
}

}  // namespace
}  // namespace triplepoint::telemetry
