// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/job_testing.h"

#include "triplepoint/power/power.h"
#include "triplepoint/sim/jobs_testing.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::sim {
namespace {

run::Run simulated(const char* limit, const Horizon& horizon) {
  const std::string text = std::string(R"(
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 1
[plan]
tensor_parallel_size = 8
global_batch_size = 8
[environment]
power_limit = ")") + limit +
                           "\"\n";
  return simulate(spec::job_of_text(text), horizon);
}

Seconds step_of(const run::Run& run) {
  return run.steps.back().end - run.steps.back().begin;
}

double largest_share(const run::Run& run) {
  double largest = 0;
  for (int32_t device = 0; device < 8; ++device) {
    const run::Series* shares = run::find_series(run, "throttled_share", device);
    REQUIRE(shares != nullptr);
    const run::Series* clocks = run::find_series(run, "sm_clock_mhz", device);
    REQUIRE(clocks != nullptr);
    CHECK(shares->times == clocks->times);
    for (const double share : shares->values) {
      CHECK(share >= 0);
      CHECK(share <= 1 + 1e-9);
      largest = std::max(largest, share);
    }
  }
  return largest;
}

TEST_CASE("series are kept to a thousandth of their unit, shares to a millionth") {
  Horizon minutes;
  minutes.duration = 10 * unit::s;
  for (const Horizon& horizon : {Horizon{}, minutes}) {
    const run::Run run = simulated("400 W", horizon);
    REQUIRE(run.series.size() > 32);
    for (const run::Series& series : run.series)
      for (const double value : series.values) {
        const bool is_share = series.signal == "throttled_share" || series.signal == "utilization";
        const double steps = is_share ? 1e6 : 1e3;
        CHECK_MESSAGE(as_real(std::llround(value * steps)) / steps == value, series.signal);
      }
  }
}

TEST_CASE("what holds a clock back shows over time, and only where something does") {
  Horizon minutes;
  minutes.duration = 10 * unit::s;
  for (const Horizon& horizon : {Horizon{}, minutes}) {
    const run::Run capped = simulated("400 W", horizon), open = simulated("2000 W", horizon);
    CHECK(capped.summaries[0].throttle.at("software_power_cap") > 0.1);
    CHECK(largest_share(capped) > 0.5);
    CHECK(open.summaries[0].throttle.at("software_power_cap") == 0);
    CHECK(largest_share(open) == 0);
  }
}

TEST_CASE("clock and throttling along the step have the means of the step") {
  const run::Run run = simulated("400 W", {});
  const auto mean = [&](const char* signal, int32_t device) {
    const std::vector<double>& all = run::find_series(run, signal, device)->values;
    return std::accumulate(all.begin(), all.end(), 0.0) / as_real(all.size());
  };
  for (int32_t d = 0; d < 8; ++d) {
    const run::DeviceSummary& device = run.summaries[as_size(d)];
    CHECK(mean("sm_clock_mhz", d) == doctest::Approx(*device.sm_clock_mean_mhz).epsilon(1e-5));
    CHECK(mean("throttled_share", d) ==
          doctest::Approx(device.throttle.at("software_power_cap")).epsilon(1e-4));
  }
}

TEST_CASE("the highest reading of all sensors is not below the highest of one") {
  for (const char* limit : {"300 W", "400 W", "500 W", "600 W", "2000 W"}) {
    const run::Run run = simulated(limit, {});
    for (const run::DeviceSummary& device : run.summaries)
      CHECK(run.numbers.power_peak_w >= *device.power_peak_w);
  }
}

double sum(const auto& ledger) {
  double all = 0;
  for (const auto& [purpose, joules] : ledger)
    all += joules;
  return all;
}

TEST_CASE("the clock while passes run is below the mean, which counts waits at the highest clock") {
  const run::Run capped = simulated("400 W", {}), open = simulated("2000 W", {});
  double mean = 0, lowest = 1e9;
  for (const run::DeviceSummary& device : capped.summaries) {
    mean += *device.sm_clock_mean_mhz / 8;
    lowest = std::min(lowest, *device.sm_clock_min_mhz);
  }
  CHECK(*capped.numbers.clock_in_passes_mhz < mean - 1);
  CHECK(*capped.numbers.clock_in_passes_mhz >= lowest - 0.1);
  CHECK(*open.numbers.clock_in_passes_mhz == doctest::Approx(1980));
}

TEST_CASE("the energy ledger has no negative part and adds up to mean power over the step") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    spec::Job job = random_training_job(seed);
    job.environment.ambient = Celsius(10 + 4 * as_real(seed));
    if (seed % 2 == 0) job.environment.power_limit = 400 * unit::W;
    Horizon horizon{.timeline = false};
    if (seed % 3 == 0) horizon.steps = 2;
    const run::Run run = simulate(job, horizon);
    REQUIRE(!run.steps.empty());
    const double step_s = (run.steps.back().end - run.steps.back().begin) / unit::s;
    for (const run::DeviceSummary& device : run.summaries) {
      for (const auto& part : device.energy_ledger_j)
        CHECK_MESSAGE(part.second >= 0, part.first << " " << part.second);
      CHECK(device.energy_ledger_j.at("leakage") > 0);
      CHECK(sum(device.energy_ledger_j) == doctest::Approx(*device.energy_j).epsilon(1e-12));
      CHECK(*device.energy_j == doctest::Approx(*device.power_mean_w * step_s).epsilon(1e-9));
    }
  }
}

TEST_CASE("a run knows the conditions it was simulated under") {
  spec::Job job = random_training_job(1);
  job.environment.ambient = Celsius(38);
  job.environment.faults = {*spec::parse_fault("node=1,inlet=+4")};
  for (const bool is_transient : {false, true}) {
    Horizon horizon;
    if (is_transient) horizon.duration = 10 * unit::s;
    const run::Run run = simulate(job, horizon);
    CHECK(run.manifest.job->environment == job.environment);
    CHECK(run.manifest.producer.starts_with("triplepoint "));
    CHECK(run.manifest.producer.size() > 12);  // with a version
    CHECK(run.manifest.numbers.size() == 16);
    CHECK(run.numbers.duration_s == (is_transient ? std::optional(10.0) : std::nullopt));
    CHECK(run.manifest.fidelity ==
          (is_transient ? run::Fidelity::transient : run::Fidelity::steady_state));
    const double spread = 3 * (job.cluster.chassis.inlet_spread / unit::K);
    for (int32_t node = 0; node < 2; ++node) {
      const run::Series* inlet = run::find_series(run, "inlet_c", node, true);
      REQUIRE(inlet != nullptr);
      CHECK(std::abs(inlet->values.back() - (node == 1 ? 42 : 38)) <= spread);
    }
  }
  spec::Job other = job;
  other.cluster.gpu.power->leakage *= 1.01;
  const std::string numbers = simulate(job, {}).manifest.numbers;
  CHECK(simulate(other, {}).manifest.numbers != numbers);
  other = job;
  other.cluster.num_nodes = 2 * job.cluster.num_nodes;
  CHECK(simulate(other, {}).manifest.numbers == numbers);
}

spec::Job sharded(const std::string& more) {
  const std::string text =
      "model = \"llama3-70b\"\ncluster = \"hgx-h200\"\nnodes = 4\n[plan]\n"
      "tensor_parallel_size = 8\nsharding = \"parameters\"\nglobal_batch_size = 8\n"
      "recompute = \"full\"\n" +
      more;
  return spec::job_of_text(text);
}

/// Share of the step that rank 0 waits in its tensor-parallel collectives.
double tensor_wait(const run::Run& run) {
  Seconds wait;
  run::for_each_span(run.timeline, 0, [&](const run::Span& span) {
    if (run.timeline.types[as_size(span.type)].group == spec::GroupKind::tensor) wait += span.wait;
  });
  return wait / step_of(run);
}

TEST_CASE("tensor-parallel ranks wait in their collectives for peers whose FSDP gathers are late") {
  spec::Job job = sharded("");
  // Gathers take nearly all of the step. Of it 7 of 8 ranks wait.
  CHECK(tensor_wait(simulate(job, {})) > 0.6);
  CHECK(tensor_wait(simulate(job, {})) < 0.875);
  job.cluster.scale_out.nic_bandwidth *= 1000;
  job.cluster.scale_out.latency = job.cluster.scale_out.launch = Seconds();
  CHECK(tensor_wait(simulate(job, {})) < 0.05);
  job = sharded("");
  job.plan.sharding = spec::Sharding::optimizer;
  CHECK(tensor_wait(simulate(job, {})) < 0.05);
}

TEST_CASE("with one connection to the device forward gathers of FSDP add to the kernels") {
  const auto step = [](const char* more) { return step_of(simulate(sharded(more), {})); };
  const Seconds several = step("");
  CHECK(step("cuda_device_max_connections = 8\n") == several);
  CHECK(step("cuda_device_max_connections = 1\n") > 1.03 * several);
  CHECK(step("cuda_device_max_connections = 1\n") < 1.2 * several);
}

double total_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// Time in which some kernel of the rank's timeline runs.
Seconds time_with_kernel(const run::Timeline& timeline, int32_t rank) {
  std::vector<std::pair<Instant, Instant>> kernels;
  run::for_each_span(timeline, rank, [&](const run::Span& span) {
    if (timeline.types[as_size(span.type)].kind <= run::SpanKind::other)
      kernels.emplace_back(span.begin, span.end);
  });
  std::ranges::sort(kernels);
  Seconds sum;
  Instant until = kernels.front().first;
  for (const auto& [begin, end] : kernels) {
    sum += std::max(Seconds(), end - std::max(begin, until));
    until = std::max(until, end);
  }
  return sum;
}

TEST_CASE("utilization over a step is the share in which the timeline has a kernel") {
  spec::Job job = simulated("700 W", {}).manifest.job.value();
  for (const int64_t stages : {1, 4}) {
    job.plan.tensor_parallel_size = 8 / stages;
    job.plan.pipeline_parallel_size = stages;
    const run::Run run = simulate(job, {});
    for (const run::Device& device : run.devices) {
      const run::Series* use = run::find_series(run, "utilization", device.index);
      REQUIRE(use != nullptr);
      for (const double share : use->values) {
        CHECK(share >= 0);
        CHECK(share <= 1);
      }
      if (*device.rank % job.plan.tensor_parallel_size != 0) continue;  // not traced
      const double mean = total_of(use->values) / as_real(use->values.size());
      const Seconds with_kernel = time_with_kernel(run.timeline, *device.rank);
      CHECK(mean == doctest::Approx(with_kernel / step_of(run)).epsilon(0.03));
    }
  }
}

TEST_CASE("a GPU that waits in collectives for a slower one is in use meanwhile") {
  spec::Job job = simulated("700 W", {}).manifest.job.value();
  job.environment.faults = {*spec::parse_fault("gpu=3,power=0.5")};
  const run::Run run = simulate(job, {});
  std::vector<double> means;
  for (int32_t device = 0; device < 8; ++device)
    means.push_back(
        run::statistics(*run::find_series(run, "utilization", device)).time_weighted_mean);
  const auto [least, most] = std::ranges::minmax(means);
  CHECK(most - least < 0.01);
  CHECK(least > 0.95);
}

TEST_CASE("memory is as warm as the lid, and what it draws times its resistance above it") {
  const run::Run run = simulated("700 W", {});
  const spec::Gpu& gpu = run.manifest.job->cluster.gpu;
  const run::Series* memory = run::find_series(run, "memory_c", 3);
  const run::Series* die = run::find_series(run, "die_c", 3);
  REQUIRE(memory != nullptr);
  const double bins = as_real(die->values.size());
  const double rise = (total_of(memory->values) - total_of(die->values)) / bins;
  // In a periodic state the means are those of the mean power. Of the traffic's energy the part on
  // the chip, which follows the clock, does not heat the memory.
  const run::DeviceSummary& summary = run.summaries[3];
  const spec::PowerCoefficients& power = *gpu.power;
  const power::ClockPoint clock =
      power::clock_point(power, *summary.sm_clock_mean_mhz / (*gpu.max_clock / unit::MHz));
  const double in_memory = 1 - power.hbm_clocked_share;
  const double across = power.hbm_clocked_share * clock.ratio * clock.voltage_squared;
  const double traffic = summary.energy_ledger_j.at("memory") / (step_of(run) / unit::s) *
                         in_memory / (in_memory + across);
  const double above = (*gpu.thermal->memory_idle / unit::W + traffic) *
                       (gpu.thermal->memory_resistance / (unit::K / unit::W));
  const double below = *summary.power_mean_w * (gpu.thermal->resistances[0] / (unit::K / unit::W));
  CHECK(std::abs(rise - (above - below)) < 0.05 * below + 0.1);  // boards differ from their type
}

TEST_CASE("what a stream runs one after the other does not overlap by a rounding") {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const run::Run run = simulate(random_training_job(seed), {});
    std::map<std::pair<int32_t, run::Stream>, std::vector<std::pair<int64_t, int64_t>>> streams;
    run::for_each_span(run.timeline, -1, [&](const run::Span& span) {
      streams[{span.rank, run.timeline.types[as_size(span.type)].stream}].push_back(
          {span.begin.nanoseconds(), span.end.nanoseconds()});
    });
    for (auto& [stream, spans] : streams) {
      std::ranges::sort(spans);
      for (size_t i = 1; i < spans.size(); ++i) {
        const int64_t overlap = spans[i - 1].second - spans[i].first;
        CHECK((overlap <= 0 || overlap > 1000));  // ns; a send may lie beside a pass
      }
    }
  }
}

}  // namespace
}  // namespace triplepoint::sim
