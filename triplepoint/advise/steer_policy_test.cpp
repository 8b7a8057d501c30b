// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_policy.h"

#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/random.h"

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

}  // namespace
}  // namespace triplepoint::advise
