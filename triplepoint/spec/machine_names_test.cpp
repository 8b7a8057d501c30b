// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/machine_names.h"

#include <doctest/doctest.h>

namespace triplepoint::spec {
namespace {

const spec::Library library = spec::default_library();

TEST_CASE("every GPU of the library but those of other machines has a cluster") {
  for (const std::string& gpu : spec::list_gpus(library))
    if (const auto name = usual_cluster(gpu)) {
      CAPTURE(*name);
      const auto cluster = spec::load_cluster(library, *name);
      REQUIRE_MESSAGE(cluster, cluster.error().what);
      CHECK(cluster->gpu.name == gpu);
    }
  CHECK(usual_cluster("h100") == "dgx-h100");
  CHECK(!usual_cluster("abacus"));
}

TEST_CASE("drivers' and tables' names of a board lead to the library's") {
  CHECK(gpu_named("NVIDIA H100 80GB HBM3") == "h100");
  CHECK(gpu_named("H100-96GB-HBM2e") == "h100-96gb");
  CHECK(gpu_named("H200-NVL") == "h200-nvl");
  CHECK(gpu_named("V100-SXM2-32GB") == "v100-32gb");
  CHECK(gpu_named("MI350X") == "mi350x");
}

TEST_CASE("a machine has exactly the GPUs asked for, in whole nodes where they add up") {
  CHECK(usual_machine(library, "H100", 64)->num_nodes == 8);
  CHECK(usual_machine(library, "GB200", 8)->gpus_per_node == 4);
  for (const int64_t gpus : {1, 2, 4, 12, 24, 768, 16384}) {
    const auto cluster = usual_machine(library, "A100-SXM-80GB", gpus);
    REQUIRE(cluster);
    CHECK(cluster->num_gpus() == gpus);
    CHECK(cluster->chassis.seats.size() == static_cast<std::size_t>(cluster->gpus_per_node));
  }
  CHECK(!usual_machine(library, "abacus", 8));
}

TEST_CASE("what a note says of the links between nodes is believed") {
  const auto gbps = [](std::string_view note) {
    return *node_bandwidth_in(note, 8) / (1e9 / 8 * unit::B / unit::s);
  };
  CHECK(gbps("400 Gbps inter-node") == doctest::Approx(400));
  CHECK(gbps("A100 80GB with 1600 Gbps node-node interconnect (RoCE)") == doctest::Approx(1600));
  CHECK(gbps("Grand Teton, 700W TDP, 400Gbps RoCE per GPU, 24K-GPU Clos") == doctest::Approx(3200));
  CHECK(gbps("Selene, DGX A100 80GB, 8x HDR200 IB per node") == doctest::Approx(1600));
  CHECK(gbps("100 Gb/s x 4 Omni-Path per 8 GPUs") == doctest::Approx(400));
  CHECK(gbps("2TB, 4 * 100Gb RoCE") == doctest::Approx(400));
  CHECK(!node_bandwidth_in("cooling: Air-cooled | B200 TGP 1000W", 8));
}

}  // namespace
}  // namespace triplepoint::spec
