// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/transient.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/job_testing.h"

#include "triplepoint/sim/simulate.h"

namespace triplepoint::sim {
namespace {

spec::Job small_job(const std::string& more = "") {
  return spec::job_of_text(R"(
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 2
[plan]
tensor_parallel_size = 8
global_batch_size = 32
)" + more);
}

const run::Series& series_of(const run::Run& run, const char* signal, int32_t device) {
  const run::Series* series = run::find_series(run, signal, device);
  REQUIRE(series != nullptr);
  return *series;
}
double last(const run::Run& run, const char* signal, int32_t device = 0) {
  return series_of(run, signal, device).values.back();
}

void append(run::Run& first, const run::Run& second) {
  for (size_t s = 0; s < first.series.size(); ++s) {
    run::Series& to = first.series[s];
    const run::Series& from = second.series[s];
    std::vector<Instant>& times = to.times.own();
    times.insert(times.end(), from.times.begin(), from.times.end());
    to.values.insert(to.values.end(), from.values.begin(), from.values.end());
  }
  first.steps.insert(first.steps.end(), second.steps.begin(), second.steps.end());
}

TEST_CASE("simulating twice thirty seconds is simulating sixty, bit for bit") {
  TransientSimulation one(small_job()), two(small_job());
  const run::Run whole = one.advance(60 * unit::s);
  run::Run parts = two.advance(30 * unit::s);
  append(parts, two.advance(30 * unit::s));
  CHECK(parts.series == whole.series);
  CHECK(parts.steps == whole.steps);
  CHECK(one.now() == two.now());
}

TEST_CASE("parts that end between whole seconds differ by what a second of clocks can") {
  TransientSimulation one(small_job()), two(small_job());
  const run::Run whole = one.advance(40 * unit::s);
  two.advance(13.37 * unit::s);
  const run::Run part = two.advance(26.63 * unit::s);
  for (int32_t device = 0; device < 16; ++device)
    CHECK(last(part, "die_c", device) ==
          doctest::Approx(last(whole, "die_c", device)).epsilon(0.005));
}

TEST_CASE("a copy does what the original does, and leaves it alone") {
  TransientSimulation original(small_job());
  original.advance(10 * unit::s);
  TransientSimulation copy(original);
  const run::Run copied = copy.advance(20 * unit::s);
  CHECK(original.now() == 10 * unit::s);
  const run::Run first = original.advance(20 * unit::s);
  CHECK(copied.series == first.series);
  CHECK(copied.steps == first.steps);
}

TEST_CASE("changing to the same job changes nothing") {
  TransientSimulation one(small_job()), two(small_job());
  one.advance(10 * unit::s);
  two.advance(10 * unit::s);
  two.change(small_job());
  CHECK(one.advance(10 * unit::s).series == two.advance(10 * unit::s).series);
}

TEST_CASE("heat goes on through a change") {
  TransientSimulation simulation(small_job());
  const run::Run before = simulation.advance(60 * unit::s);
  spec::Job other = small_job();
  other.environment.power_limit = 400 * unit::W;
  simulation.change(other);
  CHECK(simulation.now() == 60 * unit::s);
  const run::Run after = simulation.advance(1 * unit::s);
  const Celsius inlet = other.cluster.chassis.inlet;
  CHECK(last(after, "die_c") > inlet.degrees() + 10);
  CHECK(last(after, "die_c") < last(before, "die_c"));
  CHECK(last(after, "power_w") < last(before, "power_w"));
}

TEST_CASE("a pause cools, and its time counts") {
  TransientSimulation simulation(small_job());
  const double hot = last(simulation.advance(60 * unit::s), "die_c");
  simulation.pause(300 * unit::s);
  CHECK(simulation.now() == 360 * unit::s);
  CHECK(last(simulation.advance(1 * unit::s), "die_c") < hot - 5);
}

TEST_CASE("time leads to the steady state, and stays there") {
  TransientSimulation patient(small_job()), settled(small_job());
  patient.advance(3000 * unit::s);
  settled.solve_steady_state();
  CHECK(settled.now() == Seconds());
  const run::Run one = patient.advance(5 * unit::s), other = settled.advance(5 * unit::s);
  for (int32_t device = 0; device < 16; ++device)
    CHECK(last(one, "die_c", device) ==
          doctest::Approx(last(other, "die_c", device)).epsilon(0.03));
  CHECK(other.summaries[3].power_mean_w.has_value());
}

TEST_CASE("memory temperature and utilization of a long transient are those of the steady step") {
  for (const char* layout : {"", "pipeline_parallel_size = 2\n"}) {
    const spec::Job job = small_job(layout);
    const run::Run steady = simulate(job, {});
    TransientSimulation simulation(job);
    const run::Run transient = simulation.advance(20 * 60 * unit::s);
    for (int32_t device = 0; device < 16; ++device) {
      const auto mean = [&](const char* signal) {
        return run::statistics(series_of(steady, signal, device)).time_weighted_mean;
      };
      CHECK(last(transient, "memory_c", device) == doctest::Approx(mean("memory_c")).epsilon(0.01));
      CHECK(last(transient, "utilization", device) ==
            doctest::Approx(mean("utilization")).epsilon(0.005));
    }
  }
}

TEST_CASE("memory warms with the package, and cools to its idle power while training stands") {
  TransientSimulation simulation(small_job());
  const run::Run warming = simulation.advance(60 * unit::s);
  const run::Series& memory = series_of(warming, "memory_c", 3);
  CHECK(std::ranges::is_sorted(memory.values));
  CHECK(memory.times == series_of(warming, "die_c", 3).times);
  const spec::ThermalLadder& ladder = *simulation.job().cluster.gpu.thermal;
  const double idle_rise = ladder.memory_resistance * *ladder.memory_idle / unit::K;
  CHECK(memory.values.front() > 25 + idle_rise);
  CHECK(memory.values.back() > memory.values.front() + 5);
}

TEST_CASE("nodes count what they draw from the first window on, with the job's cooling") {
  spec::Job job = small_job();
  job.cluster.liquid_chassis = job.cluster.chassis;
  job.cluster.liquid_chassis->fan_power = Watts();
  const auto counted = [](const spec::Job& cooled) {
    const run::Run run = TransientSimulation(cooled).advance(20 * unit::s);
    double devices = 0;
    for (const run::Device& device : run.devices)
      for (const double watts : series_of(run, "power_w", device.index).values)
        devices += watts / 2;  // of two nodes; windows last a second
    const double node =
        run::counter_difference(*run::SeriesIndex(run).find("node_energy_j", 0, true), Instant(),
                                instant_at(20 * unit::s))
            .value();
    CHECK(node > 1.1 * devices);
    return node;
  };
  const double air = counted(job);
  job.environment.cooling = spec::Cooling::liquid;
  CHECK(counted(job) < 0.99 * air);
}

TEST_CASE("a transient is one simulation advanced once") {
  const spec::Job job = small_job();
  TransientSimulation simulation(job);
  const run::Run advanced = simulation.advance(20 * unit::s);
  const run::Run simulated = simulate(job, {.duration = 20 * unit::s});
  CHECK(advanced.steps == simulated.steps);
  // The detailed step adds what nodes draw along it.
  std::vector<run::Series> of_devices = simulated.series;
  const auto of_step = [](const run::Series& series) { return series.signal == "node_power_w"; };
  CHECK(std::erase_if(of_devices, of_step) == 2);
  CHECK(advanced.series == of_devices);
  CHECK(simulated.steps.back().end <= instant_at(20 * unit::s));
  CHECK(!simulated.timeline.empty());
}

TEST_CASE("the step in detail is as long as the last one, though a fault flaps or has just begun") {
  for (const char* fault : {"gpu=3,power=0.3,every=2s@10s", "node=1,link=0.05,every=3s@10s",
                            "gpu=3,power=0.3@59.9s", "gpu=3,heat_path=20@40s"}) {
    CAPTURE(fault);
    spec::Job job = small_job();
    job.environment.faults = {*spec::parse_fault(fault)};
    const run::Run run = simulate(job, {.duration = 60 * unit::s});
    const auto shown = run::extent(run.timeline);
    REQUIRE(shown.has_value());
    const double last = (run.steps.back().end - run.steps.back().begin) / unit::s;
    CHECK((shown->end - shown->begin) / unit::s == doctest::Approx(last).epsilon(0.02));
    for (const run::DeviceSummary& device : run.summaries)
      CHECK(*device.energy_j == doctest::Approx(*device.power_mean_w * last).epsilon(1e-8));
    for (const run::Bottleneck& found : run.bottlenecks)
      CHECK(*found.cost / unit::s < last);
  }
}

TEST_CASE("a run shorter than a step has no figures of one") {
  const run::Run run = simulate(small_job(), {.duration = 0.5 * unit::s});
  CHECK(run.steps.empty());
  CHECK(run.timeline.empty());
  CHECK(run.summaries.empty());
  CHECK(run.bottlenecks.empty());
}

TEST_CASE("a horizon of N steps has N steps") {
  const run::Run run = simulate(small_job(), {.steps = 7});
  CHECK(run.steps.size() == 7);
  CHECK(run.steps.back().end == run.series.front().times.back());
}

}  // namespace
}  // namespace triplepoint::sim
