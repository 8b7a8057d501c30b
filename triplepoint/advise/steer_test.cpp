// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer.h"

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/steer_moves.h"
#include "triplepoint/advise/steer_scenarios.h"

namespace triplepoint::advise {
namespace {

SteerOption option(std::string setting, double ratio, bool restarts = false) {
  return {std::move(setting), restarts, ratio};
}

TEST_CASE("what gains most is taken, if it gains enough") {
  const SteerPolicy policy({.margin = 0.01}, "a");
  const std::vector<SteerOption> options = {option("b", 0.97), option("c", 0.9), option("d", 1.2)};
  CHECK(policy.choose(Seconds(), options).option == 1);
  const std::vector<SteerOption> small = {option("b", 0.995)};
  CHECK(!policy.choose(Seconds(), small).option);
  CHECK(!policy.choose(Seconds(), small).why.empty());
}

TEST_CASE("a restart must gain more than a limit that costs nothing") {
  const SteerPolicy policy({.margin = 0.01, .restart_margin = 0.05}, "a");
  const std::vector<SteerOption> options = {option("restart", 0.96, true), option("b", 0.97)};
  CHECK(policy.choose(Seconds(), options).option == 1);
}

TEST_CASE("staying is no move, and what is no number is no gain") {
  const SteerPolicy policy({}, "a");
  const std::vector<SteerOption> options = {option("a", 0.1),
                                            option("b", std::numeric_limits<double>::quiet_NaN())};
  CHECK(!policy.choose(Seconds(), options).option);
}

TEST_CASE("nothing moves within the dwell time of a move") {
  SteerPolicy policy({.dwell = 100 * unit::s}, "a");
  policy.moved(10 * unit::s, option("b", 0.9));
  const std::vector<SteerOption> options = {option("c", 0.5)};
  CHECK(!policy.choose(109 * unit::s, options).option);
  CHECK(policy.choose(110 * unit::s, options).option == 0);
}

TEST_CASE("moves and restarts end with their budget") {
  SteerPolicy policy({.dwell = Seconds(), .most_moves = 2, .most_restarts = 1}, "a");
  policy.moved(0 * unit::s, option("b", 0.9, true));
  const std::vector<SteerOption> restart = {option("c", 0.5, true)}, limit = {option("d", 0.5)};
  CHECK(!policy.choose(1000 * unit::s, restart).option);
  CHECK(policy.choose(1000 * unit::s, limit).option);
  policy.moved(1000 * unit::s, limit[0]);
  CHECK(!policy.choose(9000 * unit::s, limit).option);
}

/// What a world full of disturbances makes look good changes at random, all the time.
struct RandomWorld {
  uint64_t seed;
  std::vector<SteerOption> at(int tick) const {
    std::vector<SteerOption> options;
    for (int i = 0; i < 6; ++i) {
      const auto index = static_cast<uint64_t>(6 * tick + i);
      options.push_back(option(fmt::format("setting {}", i),
                               0.5 + random_uniform({.seed = seed, .stream = 1}, index), i == 5));
    }
    return options;
  }
};

struct Move {
  double when;
  std::string from, to;
};

std::vector<Move> steer_randomly(uint64_t seed, const SteerRules& rules, int ticks) {
  const RandomWorld world{seed};
  SteerPolicy policy(rules, "setting 0");
  std::vector<Move> moves;
  for (int tick = 0; tick < ticks; ++tick) {
    const auto options = world.at(tick);
    const Seconds now = 10.0 * tick * unit::s;
    const auto chosen = policy.choose(now, options).option;
    if (!chosen) continue;
    moves.push_back({now / unit::s, policy.setting(), options[*chosen].setting});
    policy.moved(now, options[*chosen]);
  }
  return moves;
}

TEST_CASE("over random disturbances nothing is left and taken again within the dwell time") {
  const SteerRules rules{.dwell = 60 * unit::s, .most_moves = 1000, .most_restarts = 1000};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const std::vector<Move> moves = steer_randomly(seed, rules, 720);
    REQUIRE(moves.size() > 2);
    for (std::size_t i = 0; i < moves.size(); ++i)
      for (std::size_t j = i + 1; j < moves.size(); ++j) {
        CHECK(moves[j].when - moves[i].when >= 60);
        if (moves[j].to == moves[i].from) CHECK(moves[j].when - moves[i].when >= 120);
      }
  }
}

TEST_CASE("what flaps for ever is followed ever more rarely") {
  // Six settings, each may be entered 1 + log2(T / dwell) times.
  const SteerRules rules{.dwell = 60 * unit::s, .most_moves = 100'000, .most_restarts = 100'000};
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::size_t moves = steer_randomly(seed, rules, 7200).size();
    CHECK(static_cast<double>(moves) <= 6 * (2 + std::log2(72'000.0 / 60)));
  }
}

TEST_CASE("never more moves than asked for, whatever happens") {
  for (int most = 0; most < 5; ++most) {
    const SteerRules rules{.dwell = 10 * unit::s, .most_moves = most, .most_restarts = 1};
    for (uint64_t seed = 1; seed <= 50; ++seed)
      CHECK(static_cast<int>(steer_randomly(seed, rules, 500).size()) <= most);
  }
}

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

TEST_CASE("on a fault-free machine nothing is done, and both sides are equal") {
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

TEST_CASE("the controller does not act before the disturbance") {
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

TEST_CASE("the longer a gain lasts, the more a restart pays") {
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
