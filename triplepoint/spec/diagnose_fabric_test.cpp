// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/diagnose_fabric.h"

#include <string>

#include <doctest/doctest.h>

namespace triplepoint::spec {
namespace {

Job job_on(FabricKind kind, int64_t nodes) {
  Job job;
  job.cluster.num_nodes = nodes;
  job.cluster.scale_out.kind = kind;
  job.cluster.scale_out.nodes_per_leaf = 4;
  return job;
}

std::string refusal(const Job& job) {
  const std::vector<Diagnosis> found = diagnose_fabric(job);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Diagnosis::Severity::error);
  CHECK(found[0].what.find("; ") != std::string::npos);
  return found[0].what;
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("fabrics of every kind are fine as they come") {
  for (const FabricKind kind :
       {FabricKind::fat_tree, FabricKind::rail_optimized, FabricKind::torus, FabricKind::dragonfly})
    for (const int64_t nodes : {1, 6, 32, 97})
      CHECK(diagnose_fabric(job_on(kind, nodes)).empty());
}

TEST_CASE("a torus holds its nodes exactly") {
  Job job = job_on(FabricKind::torus, 32);
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{4, 8}, std::vector<int64_t>{2, 4, 4}, std::vector<int64_t>{32}}) {
    job.cluster.scale_out.torus_shape = shape;
    CHECK(diagnose_fabric(job).empty());
  }
  job.cluster.scale_out.torus_shape = {4, 4};
  CHECK(holds(refusal(job), "4 x 4 does not hold 32 nodes"));
  job.cluster.scale_out.torus_shape = {0, 32};
  CHECK(holds(refusal(job), "does not hold 32 nodes"));
}

TEST_CASE("a torus has no layer that could be oversubscribed, and no domains across nodes") {
  Job job = job_on(FabricKind::torus, 32);
  job.cluster.scale_out.oversubscription = 2;
  CHECK(holds(refusal(job), "no switches to save on"));
  job.cluster.scale_out.oversubscription = 1;
  job.cluster.scale_up.domain_size = 2 * job.cluster.gpus_per_node;
  CHECK(holds(refusal(job), "is not modelled"));
}

TEST_CASE("a group of a dragonfly is made of whole leaf switches") {
  Job job = job_on(FabricKind::dragonfly, 32);
  for (const int64_t group : {2, 4, 16, 64}) {
    job.cluster.scale_out.nodes_per_group = group;
    CHECK(diagnose_fabric(job).empty());
  }
  job.cluster.scale_out.nodes_per_group = 6;
  CHECK(holds(refusal(job), "try groups of 4 or 8 nodes"));
}

TEST_CASE("keys of another kind of fabric are refused") {
  Job job = job_on(FabricKind::fat_tree, 32);
  job.cluster.scale_out.torus_shape = {32};
  CHECK(holds(refusal(job), "kind = \"torus\""));
  job.cluster.scale_out.torus_shape.clear();
  job.cluster.scale_out.nodes_per_group = 8;
  CHECK(holds(refusal(job), "kind = \"dragonfly\""));
}

TEST_CASE("numbers that no fabric has are refused") {
  Job job = job_on(FabricKind::fat_tree, 32);
  job.cluster.scale_out.oversubscription = 0;
  CHECK(holds(refusal(job), "oversubscription is 0"));
  job = job_on(FabricKind::fat_tree, 32);
  job.cluster.scale_out.hop_latency = -1 * unit::us;
  CHECK(holds(refusal(job), "hop_latency is negative"));
  job = job_on(FabricKind::dragonfly, 32);
  job.cluster.scale_out.nodes_per_group = -1;
  CHECK(holds(refusal(job), "nodes_per_group is -1"));
}

}  // namespace
}  // namespace triplepoint::spec
