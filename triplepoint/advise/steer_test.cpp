// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer.h"

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/steer_scenarios.h"

namespace triplepoint::advise {
namespace {

using doctest::Approx;

spec::Job small_job() {
  const auto job = spec::parse_job(spec::default_library(), R"(
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 2
[plan]
tensor_parallel_size = 8
global_batch_size = 32
micro_batch_size = 2
sharding = "optimizer"
)",
                                   "job.toml");
  REQUIRE(job.has_value());
  return *job;
}

SteerOptions short_options() {
  SteerOptions options;
  options.duration = 600 * unit::s;
  options.interval = 20 * unit::s;
  options.rules.dwell = 60 * unit::s;
  options.moves.may_restart = false;
  options.check = false;
  return options;
}

spec::Job disturbed(spec::Job job, std::vector<spec::Fault> faults) {
  job.environment.faults = std::move(faults);
  return job;
}

TEST_CASE("on a calm machine nothing is done, and both sides come to the same") {
  const SteerOutcome outcome = steer(small_job(), short_options());
  CHECK(outcome.moves == 0);
  CHECK(outcome.ratio(search::Goal::edp) == 1);
}

TEST_CASE("a slow node is met with a limit that costs nothing, and pays") {
  const spec::Job job = small_job();
  const SteerOptions options = short_options();
  const auto scenario = scenario_named(job, options.duration, "slow-node");
  REQUIRE(scenario);
  const SteerOutcome outcome = steer(disturbed(job, scenario->faults), options);
  CHECK(outcome.moves >= 1);
  CHECK(outcome.ratio(search::Goal::edp) < 1);
  for (const Decision& decision : outcome.decisions)
    CHECK(decision.time >= options.duration / 6);
}

TEST_CASE("nobody acts on a disturbance before it is there") {
  const spec::Job job = small_job();
  for (const Scenario& scenario : scenarios_for(job, 600 * unit::s)) {
    const spec::Job known = known_at(disturbed(job, scenario.faults), 50 * unit::s);
    CHECK(known.environment.faults.empty());
    const spec::Job later = known_at(disturbed(job, scenario.faults), 150 * unit::s);
    REQUIRE(later.environment.faults.size() == 1);
    CHECK(!later.environment.faults[0].end);
  }
}

TEST_CASE("costs count: what restarts for nothing is worse than leaving it") {
  const Forecast same{2 * unit::s, 10 * unit::kW, Celsius(60)};
  const MoveCost restart{100 * unit::s, 1 * unit::kW};
  CHECK(worth(same, same, {}, 1000 * unit::s, search::Goal::edp) == Approx(1));
  CHECK(worth(same, same, restart, 1000 * unit::s, search::Goal::edp) ==
        Approx(1.1 * (100 * 1 + 1000 * 10) / (1000 * 10.0)));
  CHECK(worth(same, same, restart, 1000 * unit::s, search::Goal::throughput) == Approx(1.1));
}

TEST_CASE("the longer a gain lasts, the more a restart for it is worth") {
  const Forecast slow{2 * unit::s, 10 * unit::kW, Celsius(60)};
  const Forecast fast{1.8 * unit::s, 10 * unit::kW, Celsius(60)};
  const MoveCost restart{300 * unit::s, 1 * unit::kW};
  CHECK(worth(slow, fast, restart, 600 * unit::s, search::Goal::edp) > 1);
  CHECK(worth(slow, fast, restart, 36'000 * unit::s, search::Goal::edp) < 0.85);
}

TEST_CASE("a swapped node leaves its faults behind, and no others") {
  spec::Job job = small_job();
  spec::Fault slow, own, all;
  slow.kind = own.kind = all.kind = spec::FaultKind::power;
  slow.node = 1;
  own.gpu = 9;
  job.environment.faults = {slow, own, all};
  SteerSetting setting = setting_of(job);
  setting.swapped = {1};
  CHECK(job_with(job, setting).environment.faults == std::vector<spec::Fault>{all});
}

TEST_CASE("alternatives are legal, differ, and always lead back to the beginning") {
  const spec::Job job = small_job();
  const SteerSetting initial = setting_of(job);
  SteerSetting present = initial;
  present.ceiling = 0.8;
  SteerReadings seen;
  seen.clock.assign(16, 0.9);
  seen.lowest_clock = seen.mean_clock = 0.9;
  const auto all = candidates(job, initial, present, seen, {.spares = 1, .may_restart = true});
  bool leads_back = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    leads_back = leads_back || all[i].setting == initial;
    CHECK(all[i].setting != present);
    CHECK(!spec::has_errors(spec::diagnose(job_with(job, all[i].setting))));
    for (std::size_t j = 0; j < i; ++j)
      CHECK(words_of(all[i].setting, job) != words_of(all[j].setting, job));
  }
  CHECK(leads_back);
}

/// Some faults of all kinds, at random times.
std::vector<spec::Fault> random_faults(uint64_t seed, Seconds duration) {
  std::vector<spec::Fault> faults;
  const auto draw = [&](uint64_t stream, std::size_t i) {
    return random_uniform({.seed = seed, .stream = stream}, i);
  };
  for (std::size_t i = 0; i < 5; ++i) {
    spec::Fault fault;
    fault.begin = draw(1, i) * duration;
    fault.end = fault.begin + (0.05 + 0.4 * draw(2, i)) * duration;
    fault.node = draw(3, i) < 0.5 ? 0 : 1;
    switch (static_cast<int>(4 * draw(4, i))) {
      case 0:
        fault.kind = spec::FaultKind::power;
        fault.share = 0.6 + 0.3 * draw(5, i);
        break;
      case 1:
        fault.kind = spec::FaultKind::inlet;
        fault.rise = 15 * draw(5, i) * unit::K;
        break;
      case 2:
        fault.kind = spec::FaultKind::heat_path;
        fault.share = 1 + draw(5, i);
        break;
      default:
        fault.kind = spec::FaultKind::host;
        fault.share = 1 + 3 * draw(5, i);
        fault.period = 40 * unit::s;
    }
    faults.push_back(fault);
  }
  return faults;
}

TEST_CASE("over random disturbances the controller neither swings nor moves more than asked") {
  SteerOptions options = short_options();
  options.rules.most_moves = 3;
  options.tune = false;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const spec::Job job = disturbed(small_job(), random_faults(seed, options.duration));
    const SteerOutcome outcome = steer(job, options);
    CHECK(outcome.moves <= 3);
    std::optional<Seconds> last;
    for (const Decision& decision : outcome.decisions) {
      if (decision.kind == MoveKind::leave) continue;
      if (last) CHECK(decision.time - *last >= options.rules.dwell);
      last = decision.time;
    }
  }
}

TEST_CASE("the same job and options give the same decisions, bit for bit") {
  SteerOptions options = short_options();
  options.duration = 240 * unit::s;
  const auto scenario = scenario_named(small_job(), options.duration, "power-cap");
  REQUIRE(scenario);
  const spec::Job job = disturbed(small_job(), scenario->faults);
  const SteerOutcome a = steer(job, options), b = steer(job, options);
  CHECK(a.steered.energy == b.steered.energy);
  CHECK(a.steered.steps == b.steered.steps);
  CHECK(a.decisions.size() == b.decisions.size());
}

TEST_CASE("an unknown scenario is refused with the known ones") {
  const auto nothing = scenario_named(small_job(), 600 * unit::s, "heat-wav");
  REQUIRE(!nothing);
  CHECK(nothing.error().what.find("heat-wave") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::advise
