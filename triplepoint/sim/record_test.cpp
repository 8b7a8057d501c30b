// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

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
  const auto job = spec::parse_job(spec::default_library(), text, "job.toml");
  REQUIRE(job.has_value());
  return simulate(*job, horizon);
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

}  // namespace
}  // namespace triplepoint::sim
