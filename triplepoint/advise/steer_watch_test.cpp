// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_watch.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/sim/transient.h"

namespace triplepoint::advise {
namespace {

using spec::Fault;
using spec::FaultKind;

spec::Job small_job(std::vector<Fault> faults = {}) {
  auto job = spec::parse_job(spec::default_library(), R"(
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 2
[plan]
tensor_parallel_size = 8
global_batch_size = 32
sharding = "optimizer"
)",
                             "job.toml");
  REQUIRE(job.has_value());
  job->environment.faults = std::move(faults);
  return *std::move(job);
}

SteerReadings settled(const spec::Job& job) {
  sim::TransientSimulation session(job);
  session.solve_steady_state();
  const auto seen = readings_of(session.advance(20 * unit::s), job);
  REQUIRE(seen);
  return *seen;
}

Fault fault_of(FaultKind kind, double share) {
  Fault fault;
  fault.kind = kind;
  fault.share = share;
  return fault;
}

const Fault* find(const std::vector<Fault>& faults, FaultKind kind) {
  for (const Fault& fault : faults)
    if (fault.kind == kind) return &fault;
  return nullptr;
}

TEST_CASE("a fault-free machine needs no explanation") {
  const spec::Job job = small_job();
  CHECK(explain(job, settled(job), settled(job)).empty());
}

TEST_CASE("warmer air is found, with its node and temperature") {
  Fault heat = fault_of(FaultKind::inlet, 1);
  heat.node = 1;
  heat.rise = 8 * unit::K;
  const auto found = explain(small_job(), settled(small_job()), settled(small_job({heat})));
  const Fault* inlet = find(found, FaultKind::inlet);
  REQUIRE(inlet != nullptr);
  CHECK(inlet->node == 1);
  CHECK(inlet->rise / unit::K == doctest::Approx(8).epsilon(0.4));
}

TEST_CASE("a loose sink is found at its device") {
  Fault sink = fault_of(FaultKind::heat_path, 2.5);
  sink.gpu = 12;
  const auto found = explain(small_job(), settled(small_job()), settled(small_job({sink})));
  const Fault* path = find(found, FaultKind::heat_path);
  REQUIRE(path != nullptr);
  CHECK(path->gpu == 12);
}

TEST_CASE("a power brake is found at its node's devices, and at no others") {
  Fault brake = fault_of(FaultKind::power, 0.6);
  brake.node = 1;
  const auto found = explain(small_job(), settled(small_job()), settled(small_job({brake})));
  CHECK(find(found, FaultKind::power) != nullptr);
  for (const Fault& fault : found)
    if (fault.kind == FaultKind::power) CHECK(fault.gpu.value() >= 8);
}

TEST_CASE("a window has the steps that end in it and the values that hold in it") {
  run::Run run;
  run.devices.push_back({.index = 0});
  for (int i = 0; i < 10; ++i)
    run.steps.push_back({.begin = instant_at(i * unit::s),
                         .end = instant_at((i + 1) * unit::s),
                         .samples = 1,
                         .tokens = 1});
  run.series.push_back({.signal = "die_c",
                        .device = 0,
                        .of_node = false,
                        .times = {instant_at(0 * unit::s), instant_at(5 * unit::s)},
                        .values = {40, 50}});
  const run::Run window = window_of(run, 2 * unit::s, 6 * unit::s);
  CHECK(window.steps.size() == 4);
  CHECK(window.series[0].values == std::vector<double>{40, 50});
  CHECK(window.series[0].times.front() == instant_at(2 * unit::s));
  CHECK(!extent_of(run::Run{}));
}

TEST_CASE("readings alone lead to advice that helps against a power brake, once") {
  Fault brake = fault_of(FaultKind::power, 0.6);
  brake.node = 1;
  brake.begin = 120 * unit::s;
  sim::TransientSimulation world(small_job({brake}));
  world.solve_steady_state();
  SteerOptions options;
  options.interval = 30 * unit::s;
  options.moves.may_restart = false;
  Watcher watcher(small_job(), options);
  std::vector<Decision> moves;
  for (int i = 0; i < 14; ++i) {
    const run::Run window = world.advance(options.interval);
    const auto decision = watcher.look(window, world.now());
    if (!decision || decision->kind == MoveKind::leave) continue;
    moves.push_back(*decision);
    watcher.followed();
  }
  REQUIRE(!moves.empty());
  CHECK(moves.front().time > 120 * unit::s);
  CHECK(moves.front().ratio < 1);
  CHECK(moves.front().seen.find("held at") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::advise
