// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer.h"

#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/job_testing.h"

#include "triplepoint/advise/steer_moves.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {
namespace {

using doctest::Approx;

SteerMove move_to(std::string setting, double ratio, bool restarts = false) {
  SteerMove move;
  move.name = std::move(setting);
  move.restarts = restarts;
  move.ratio = ratio;
  return move;
}

TEST_CASE("what gains most is taken, if it gains enough") {
  const SteerPolicy policy({.margin = 0.01}, "a");
  const std::vector<SteerMove> moves = {move_to("b", 0.97), move_to("c", 0.9), move_to("d", 1.2)};
  CHECK(policy.choose(Seconds(), moves).move == 1);
  const std::vector<SteerMove> small = {move_to("b", 0.995)};
  CHECK(!policy.choose(Seconds(), small).move);
  CHECK(!policy.choose(Seconds(), small).why.empty());
}

TEST_CASE("a restart must gain more than a limit that costs nothing") {
  const SteerPolicy policy({.margin = 0.01, .restart_margin = 0.05}, "a");
  const std::vector<SteerMove> moves = {move_to("restart", 0.96, true), move_to("b", 0.97)};
  CHECK(policy.choose(Seconds(), moves).move == 1);
}

TEST_CASE("staying is no move, and what is no number is no gain") {
  const SteerPolicy policy({}, "a");
  const std::vector<SteerMove> moves = {move_to("a", 0.1),
                                        move_to("b", std::numeric_limits<double>::quiet_NaN())};
  CHECK(!policy.choose(Seconds(), moves).move);
}

TEST_CASE("nothing moves within the dwell time of a move") {
  SteerPolicy policy({.dwell = 100 * unit::s}, "a");
  policy.moved(10 * unit::s, move_to("b", 0.9));
  const std::vector<SteerMove> moves = {move_to("c", 0.5)};
  CHECK(!policy.choose(109 * unit::s, moves).move);
  CHECK(policy.choose(110 * unit::s, moves).move == 0);
}

TEST_CASE("restarts end with their budget, limits do not") {
  SteerPolicy policy({.dwell = Seconds(), .most_restarts = 1}, "a");
  policy.moved(0 * unit::s, move_to("b", 0.9, true));
  const std::vector<SteerMove> restart = {move_to("c", 0.5, true)}, limit = {move_to("d", 0.5)};
  CHECK(!policy.choose(1000 * unit::s, restart).move);
  CHECK(policy.choose(1000 * unit::s, limit).move);
}

struct Moved {
  double when;
  std::string from, to;
};

/// What a world full of disturbances makes look good changes at random, all the time.
std::vector<Moved> steer_randomly(uint64_t seed, const SteerRules& rules, int ticks) {
  SteerPolicy policy(rules, "setting 0");
  std::vector<Moved> moved;
  for (int tick = 0; tick < ticks; ++tick) {
    std::vector<SteerMove> moves;
    for (int i = 0; i < 6; ++i) {
      const double ratio =
          0.5 + random_uniform({.seed = seed, .stream = 1}, static_cast<uint64_t>(6 * tick + i));
      moves.push_back(move_to(fmt::format("setting {}", i), ratio, i == 5));
    }
    const Seconds now = 10.0 * tick * unit::s;
    const auto chosen = policy.choose(now, moves).move;
    if (!chosen) continue;
    moved.push_back({now / unit::s, policy.setting(), moves[*chosen].name});
    policy.moved(now, moves[*chosen]);
  }
  return moved;
}

TEST_CASE("over random disturbances nothing is left and taken again within the dwell time") {
  const SteerRules rules{.dwell = 60 * unit::s, .most_restarts = 1000};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const std::vector<Moved> moves = steer_randomly(seed, rules, 720);
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
  const SteerRules rules{.dwell = 60 * unit::s, .most_restarts = 100'000};
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const std::size_t moves = steer_randomly(seed, rules, 7200).size();
    CHECK(as_real(moves) <= 6 * (2 + std::log2(72'000.0 / 60)));
  }
}

/// Two nodes, with what goes wrong as --fault takes it.
spec::Job small_job(const std::vector<std::string>& faults = {}) {
  spec::Job job = spec::job_of_text(R"(
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 2
[plan]
tensor_parallel_size = 8
global_batch_size = 32
micro_batch_size = 2
sharding = "optimizer"
)");
  for (const std::string& fault : faults)
    job.environment.faults.push_back(spec::parse_fault(fault).value());
  return job;
}

TEST_CASE("costs count: what restarts for nothing is worse than leaving it") {
  const Forecast same{2 * unit::s, 10 * unit::kW};
  const MoveCost restart{100 * unit::s, 1 * unit::kW};
  CHECK(worth(same, same, {}, 1000 * unit::s) == Approx(1));
  CHECK(worth(same, same, restart, 1000 * unit::s) ==
        Approx(1.1 * (100 * 1 + 1000 * 10) / (1000 * 10.0)));
  CHECK(std::isinf(worth(same, {}, {}, 1000 * unit::s)));
}

TEST_CASE("the longer a gain lasts, the more a restart pays") {
  const Forecast slow{2 * unit::s, 10 * unit::kW}, fast{1.8 * unit::s, 10 * unit::kW};
  const MoveCost restart{300 * unit::s, 1 * unit::kW};
  CHECK(worth(slow, fast, restart, 600 * unit::s) > 1);
  CHECK(worth(slow, fast, restart, 36'000 * unit::s) < 0.85);
}

TEST_CASE("a swapped node leaves its faults behind, and no others") {
  const spec::Job job = small_job({"node=1,power=0.6", "gpu=9,power=0.6", "power=0.6"});
  const spec::Job swapped = job_with(job, {.ceiling = 1, .swapped = {1}});
  CHECK(swapped.environment.faults == std::vector{job.environment.faults.back()});
}

TEST_CASE("alternatives are legal, differ, and always lead back to the beginning") {
  const spec::Job job = small_job();
  const SteerSetting initial, present{.ceiling = 0.8};
  const auto all = possible_moves(job, initial, present, 1, {.spares = 1, .may_restart = true});
  bool leads_back = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    leads_back = leads_back || all[i].setting == initial;
    CHECK(all[i].setting != present);
    CHECK(!spec::has_errors(spec::diagnose(job_with(job, all[i].setting))));
    for (std::size_t j = 0; j < i; ++j)
      CHECK(all[i].name != all[j].name);
  }
  CHECK(leads_back);
}

SteerOptions short_options() {
  SteerOptions options;
  options.duration = 600 * unit::s;
  options.interval = 20 * unit::s;
  options.rules.dwell = 60 * unit::s;
  options.moves.may_restart = false;
  return options;
}

TEST_CASE("on a fault-free machine nothing is done, and both sides are equal") {
  const SteerOutcome outcome = steer(small_job(), short_options());
  CHECK(outcome.moves == 0);
  CHECK(outcome.ratio() == 1);
}

TEST_CASE("energy has one column where that of the GPUs counts, else two") {
  const SteerTotals totals{.time = 60 * unit::s, .steps = 20};
  SteerOutcome outcome{.fixed = {.totals = totals}, .steered = {.totals = totals}};
  const auto sides = [&] { return steer_answer(small_job(), outcome).sections[0].tables[0]; };
  const size_t columns = sides().columns.size();
  CHECK(sides().rows.back().size() == columns);
  outcome.scope = metrics::EnergyScope::site;
  CHECK(sides().columns.size() == columns + 1);
}

TEST_CASE("a slow node is met with a limit that costs nothing, and pays") {
  const SteerOutcome outcome = steer(small_job({"node=1,power=0.6@100s"}), short_options());
  CHECK(outcome.moves >= 1);
  CHECK(outcome.ratio() < 1);
  for (const Decision& decision : outcome.decisions)
    CHECK(decision.time >= 100 * unit::s);
}

TEST_CASE("a side ends where heat ends the job, and whatever keeps it running is worth most") {
  const SteerOutcome outcome = steer(small_job({"gpu=3,heat_path=30@100s"}), short_options());
  CHECK(outcome.fixed.ended.find("GPU 3 reaches") == 0);
  CHECK(outcome.fixed.totals.time < 600 * unit::s);
  CHECK(outcome.fixed.totals.hottest < Celsius(100));
  const Forecast dies, slow{2 * unit::s, 10 * unit::kW}, fast{1 * unit::s, 10 * unit::kW};
  CHECK(worth(dies, slow, {}, unit::h) == 0);
  CHECK(std::isinf(worth(fast, dies, {}, unit::h)));
  SteerMove to_slow = move_to("slow", 0), to_fast = move_to("fast", 0);
  to_slow.then = slow;
  to_fast.then = fast;
  CHECK(SteerPolicy({}, "a").choose(Seconds(), std::vector{to_slow, to_fast}).move == 1);
}

TEST_CASE("the controller knows what is wrong, not what comes nor when it ends") {
  const spec::Job job = small_job({"node=1,power=0.6@100s..300s", "node=1,lost=5min@100s"});
  CHECK(faults_known_at(job, 50 * unit::s).empty());
  const std::vector<spec::Fault> later = faults_known_at(job, 150 * unit::s);
  REQUIRE(later.size() == 1);
  CHECK(!later[0].end);
  CHECK(faults_known_at(job, 350 * unit::s).empty());
}

/// Some faults of all kinds, at random times.
std::vector<std::string> random_faults(uint64_t seed, double duration_s) {
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < 5; ++i) {
    const auto draw = [&](uint64_t stream) {
      return random_uniform({.seed = seed, .stream = stream}, i);
    };
    const double begin = draw(1) * duration_s, end = begin + (0.05 + 0.4 * draw(2)) * duration_s;
    const std::string what[] = {fmt::format("power={:.2f}", 0.6 + 0.3 * draw(5)),
                                fmt::format("inlet=+{:.1f}", 15 * draw(5)),
                                fmt::format("heat_path={:.2f}", 1 + draw(5)),
                                fmt::format("host={:.2f},every=40s", 1 + 3 * draw(5))};
    faults.push_back(fmt::format("node={},{}@{:.0f}s..{:.0f}s", draw(3) < 0.5 ? 0 : 1,
                                 what[static_cast<int>(4 * draw(4))], begin, end));
  }
  return faults;
}

TEST_CASE("over random disturbances the controller does not swing, and repeats itself to the bit") {
  const SteerOptions options = short_options();
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const spec::Job job = small_job(random_faults(seed, 600));
    const SteerOutcome outcome = steer(job, options);
    std::optional<Seconds> last;
    for (const Decision& decision : outcome.decisions) {
      if (!decision.move) continue;
      if (last) CHECK(decision.time - *last >= options.rules.dwell);
      last = decision.time;
    }
    if (seed > 1) continue;
    const SteerOutcome again = steer(job, options);
    CHECK(again.steered.totals.energy == outcome.steered.totals.energy);
    CHECK(again.steered.totals.steps == outcome.steered.totals.steps);
    CHECK(again.decisions.size() == outcome.decisions.size());
  }
}

TEST_CASE("the controller sees the power that a simulation of the same fault does") {
  spec::Job job = small_job({"node=1,fan=0.5"});
  job.environment.pue = 1.5;
  const metrics::Metrics simulated = metrics::measure(sim::simulate(job, {}));
  const Forecast seen = foresee(sim::TransientSimulation(job), job, metrics::EnergyScope::site);
  CHECK(seen.power * seen.step_time / unit::J ==
        doctest::Approx(*simulated.site_energy_j).epsilon(0.005));
}

SteerReadings settled(const spec::Job& job) {
  sim::TransientSimulation session(job);
  session.solve_steady_state();
  const auto seen = readings_of(session.advance(20 * unit::s), job);
  REQUIRE(seen);
  return *seen;
}

/// What readings of a machine with this fault are explained by.
std::vector<spec::Fault> explained(const std::vector<std::string>& faults) {
  return explain(small_job(), settled(small_job()), settled(small_job(faults)));
}

const spec::Fault& only(const std::vector<spec::Fault>& faults, spec::FaultKind kind) {
  const auto found = std::ranges::find(faults, kind, &spec::Fault::kind);
  REQUIRE(found != faults.end());
  CHECK(std::ranges::count(faults, kind, &spec::Fault::kind) == 1);
  return *found;
}

TEST_CASE("a fault-free machine needs no explanation") {
  CHECK(explained({}).empty());
}

TEST_CASE("warmer air is found, with its node and temperature") {
  const auto faults = explained({"node=1,inlet=+8"});
  const spec::Fault& inlet = only(faults, spec::FaultKind::inlet);
  CHECK(inlet.node == 1);
  CHECK(inlet.rise / unit::K == Approx(8).epsilon(0.4));
}

TEST_CASE("a loose sink is found at its device") {
  CHECK(only(explained({"gpu=12,heat_path=2.5"}), spec::FaultKind::heat_path).gpu == 12);
}

TEST_CASE("a power brake is found at its node, and at no other") {
  CHECK(only(explained({"node=1,power=0.6"}), spec::FaultKind::power).node == 1);
}

TEST_CASE(
    "a device far below its power says nothing of air and sinks, and one held by heat of power") {
  const SteerReadings before = settled(small_job());
  SteerReadings now = before;
  for (std::size_t d = 0; d < 8; ++d) {
    // Far below its power a die is warmer than its path says.
    now.clock[d] *= 0.2;
    now.power_w[d] *= 0.3;
    now.die_c[d] -= 10;
  }
  const auto has_inlet = [](const std::vector<spec::Fault>& faults) {
    return holds(faults, spec::FaultKind::inlet, &spec::Fault::kind);
  };
  CHECK_FALSE(has_inlet(explain(small_job(), before, now)));
  SteerReadings warm = before;
  for (double& die : warm.die_c)
    die += 8;
  CHECK(has_inlet(explain(small_job(), before, warm)));
  now.braked.assign(now.clock.size(), 0);
  std::fill_n(now.braked.begin(), 8, 0.9);
  const auto faults = explain(small_job(), before, now);
  REQUIRE(faults.size() == 1);
  CHECK(only(faults, spec::FaultKind::power).node == 0);
  now.braked.clear();
  now.hot.assign(now.clock.size(), 0.9);
  for (const spec::Fault& fault : explain(small_job(), before, now))
    CHECK(fault.kind != spec::FaultKind::power);
}

TEST_CASE("a recording raises an alarm when a fault comes, and is silent before") {
  sim::TransientSimulation world(small_job({"node=1,power=0.6@120s"}));
  world.solve_steady_state();
  const run::Run run = world.advance(300 * unit::s);
  Watcher watcher(small_job());
  std::vector<Alarm> alarms;
  for (Seconds end = 30 * unit::s; end <= 300 * unit::s; end += 30 * unit::s)
    if (auto alarm = watcher.look(run, {instant_at(end - 30 * unit::s), instant_at(end)}))
      alarms.push_back(*std::move(alarm));
  REQUIRE(!alarms.empty());
  CHECK(alarms.front().time > 120 * unit::s);
  CHECK(alarms.front().seen.find("step time") != std::string::npos);
  CHECK(only(alarms.back().faults, spec::FaultKind::power).node == 1);
}

TEST_CASE("time in which training stands still is no power limit to who watches") {
  sim::TransientSimulation world(small_job({"node=1,lost=50s@125s"}));
  world.solve_steady_state();
  const run::Run run = world.advance(300 * unit::s);
  Watcher watcher(small_job());
  for (Seconds end = 30 * unit::s; end <= 300 * unit::s; end += 30 * unit::s)
    if (const auto alarm = watcher.look(run, {instant_at(end - 30 * unit::s), instant_at(end)})) {
      CHECK(alarm->faults.empty());
      CHECK(alarm->seen.find("% of its clock") == std::string::npos);
    }
  CHECK(watcher.has_baseline());
}

}  // namespace
}  // namespace triplepoint::advise
