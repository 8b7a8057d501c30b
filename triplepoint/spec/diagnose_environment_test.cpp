// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/diagnose_environment.h"

#include <cmath>
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/spec/fault_text.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::spec {
namespace {

/// 4 nodes of 8 H200.
Job sound_job() {
  Job job;
  job.cluster = *load_cluster(default_library(), "hgx-h200");
  job.cluster.num_nodes = 4;
  return job;
}

std::string refusal(const Job& job) {
  const std::vector<Diagnosis> found = diagnose_environment(job);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Diagnosis::Severity::error);
  return found[0].what;
}

std::string refusal(const char* fault) {
  Job job = sound_job();
  job.environment.faults = {*parse_fault(fault)};
  return refusal(job);
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("possible faults are not objected to") {
  Job job = sound_job();
  for (const char* text : {"gpu=31,power=0.25@120s..300s", "node=3,fan=0.3@60s", "inlet=+10",
                           "gpu=0,heat_path=2", "node=2,link=0.1,every=2s", "link=0.5",
                           "node=0,host=3", "node=1,lost=5min,every=30min@10min"})
    job.environment.faults.push_back(*parse_fault(text));
  CHECK(diagnose_environment(job).empty());
}

TEST_CASE("a fault is somewhere in the cluster") {
  CHECK(refusal("gpu=32,power=0.5") ==
        "fault 1 (power) names gpu 32 (hgx-h200 has GPUs 0 to 31); choose one of them");
  CHECK(refusal("node=4,fan=0.5") ==
        "fault 1 (fan) names node 4 (hgx-h200 has nodes 0 to 3); choose one of them");
  CHECK(holds(refusal("gpu=1,node=0,power=0.5"), "it is one or the other"));
  CHECK(holds(refusal("gpu=9,fan=0.5"), "name its node, 1"));
}

TEST_CASE("a fault leaves something, and adds nothing") {
  CHECK(holds(refusal("power=0"), "the job would never end"));
  CHECK(holds(refusal("link=-1"), "the job would never end"));
  CHECK(holds(refusal("fan=1.5"), "a fault cannot add any"));
  CHECK(holds(refusal("inlet=0"), "has no rise"));
}

TEST_CASE("what is far beyond any machine room is a typing error") {
  for (const char* fault : {"inlet=-400", "inlet=1e9", "heat_path=1e300", "host=1e6", "link=1e-12",
                            "gpu=3,power=1e-300"}) {
    CAPTURE(fault);
    CHECK(holds(refusal(fault), "surely a typing error"));
  }
  Job job = sound_job();
  for (const double degrees : {-300., 1e9, std::nan("")}) {
    job.environment.ambient = Celsius(degrees);
    CHECK(holds(refusal(job), "surely a typing error"));
  }
  job.environment.ambient = Celsius(45);
  CHECK(diagnose_environment(job).empty());
}

TEST_CASE("a fault takes its time") {
  CHECK(holds(refusal("power=0.5@20s..10s"), "end it later"));
  CHECK(holds(refusal("power=0.5,every=1ms"), "nothing here is followed below 100 ms"));
  CHECK(holds(refusal("lost=0s@10s"), "has no restart time"));
  CHECK(holds(refusal("lost=10s@10s..20s"), "leave end out"));
}

TEST_CASE("a list of limits has one for every GPU, each of which can be set") {
  Job job = sound_job();
  job.environment.device_power_limits.assign(8, 500 * unit::W);
  CHECK(refusal(job) ==
        "device_power_limits has 8 entries for 32 GPUs (each GPU has its own, node by node); write "
        "one per GPU or none");
  job.environment.device_power_limits.assign(32, 500 * unit::W);
  CHECK(diagnose_environment(job).empty());
  job.environment.device_power_limits[7] = 900 * unit::W;
  CHECK(holds(refusal(job), "device_power_limits[7] 900 W is above"));
  job.environment.device_power_limits.clear();
  job.environment.device_clock_limits.assign(32, 1500 * unit::MHz);
  CHECK(diagnose_environment(job).empty());
  job.environment.device_clock_limits[31] = 100 * unit::MHz;
  CHECK(holds(refusal(job), "device_clock_limits[31]"));
}

}  // namespace
}  // namespace triplepoint::spec
