// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/machine_names.h"

#include <doctest/doctest.h>

namespace triplepoint::calibrate {
namespace {

const spec::Library library = spec::default_library();

MachineChoice machine(std::string_view gpu, std::string_view note, int64_t gpus) {
  Result<MachineChoice> found = machine_of(library, gpu, note, gpus);
  REQUIRE_MESSAGE(found, found.error().what);
  return *std::move(found);
}

TEST_CASE("every spelling of a GPU in the published tables leads to a machine of the library") {
  struct Spelling {
    const char *gpu, *cluster;
  };
  const Spelling spellings[] = {
      {"H100-SXM-80GB", "dgx-h100"},
      {"H100-96GB-HBM2e", "hgx-h100-96gb"},
      {"H200-SXM", "dgx-h200"},
      {"H200-NVL", "h200-nvl"},
      {"B200-SXM", "dgx-b200"},
      {"B300-SXM", "dgx-b300"},
      {"GB200", "gb200-nvl72"},
      {"GB300", "gb300-nvl72"},
      {"A100-SXM-80GB", "dgx-a100"},
      {"A100-SXM-40GB", "dgx-a100-40gb"},
      {"A100-class (Ampere)", "dgx-a100"},
      {"A100-SXM", "dgx-a100"},
      {"H800-SXM", "hgx-h800"},
      {"MI300X", "mi300x"},
      {"MI325X", "mi325x"},
      {"MI350X", "mi350x"},
      {"MI355X", "mi355x"},
      {"MI250", "mi250"},
      {"V100-SXM2-32GB", "jean-zay-v100"},
  };
  for (const Spelling& spelling : spellings) {
    CAPTURE(spelling.gpu);
    CHECK(cluster_with(spelling.gpu) == spelling.cluster);
    CHECK(machine(spelling.gpu, "", 8).cluster.num_gpus() == 8);
  }
  CHECK(!cluster_with("TPU v5p"));
  CHECK(cluster_with("H100-SXM-80GB", "EFA 3200 Gbps inter-node") == "aws-p5");
  CHECK(cluster_with("B200-SXM", "EFA") == "dgx-b200");
  CHECK(cluster_with("H100-SXM-80GB", "AWS p5.48xlarge") == "aws-p5");
  CHECK(cluster_with("A100-SXM-80GB", "Jean Zay, 4x 100 Gb/s Omni-Path") == "jean-zay-a100");
  CHECK(cluster_with("H100-SXM-80GB", "4x 100 Gb/s Omni-Path") == "dgx-h100");
}

TEST_CASE("a machine has exactly the GPUs asked for, in whole nodes where they add up") {
  CHECK(machine("H100", "", 64).cluster.num_nodes == 8);
  CHECK(machine("GB200", "", 8).cluster.gpus_per_node == 4);
  for (const int64_t gpus : {1, 2, 4, 12, 24, 768, 16384}) {
    const spec::Cluster cluster = machine("A100-SXM-80GB", "", gpus).cluster;
    CHECK(cluster.num_gpus() == gpus);
    CHECK(cluster.chassis.seats.size() == static_cast<std::size_t>(cluster.gpus_per_node));
  }
  CHECK(!machine_of(library, "H100", "", 0));
  CHECK(!machine_of(library, "abacus", "", 8));
}

TEST_CASE("what a note says of the links between nodes is believed") {
  const auto gbps = [](std::string_view note) {
    return *node_bandwidth_in(note, 8) / (1e9 / 8 * unit::B / unit::s);
  };
  CHECK(gbps("400 Gbps inter-node") == doctest::Approx(400));
  CHECK(gbps("A100 80GB with 1600 Gbps node-node interconnect (RoCE)") == doctest::Approx(1600));
  CHECK(gbps("Grand Teton, 700W TDP, 400Gbps RoCE per GPU, 24K-GPU Clos") == doctest::Approx(3200));
  CHECK(gbps("Selene, DGX A100 80GB, 8x HDR200 IB per node") == doctest::Approx(1600));
  CHECK(gbps("4 x 100 Gb/s Omni-Path per node") == doctest::Approx(400));
  CHECK(gbps("100 Gb/s x 4 Omni-Path per 8 GPUs") == doctest::Approx(400));
  CHECK(gbps("2TB, 4 * 100Gb RoCE") == doctest::Approx(400));
  CHECK(!node_bandwidth_in("cooling: Air-cooled | B200 TGP 1000W", 8));
  CHECK(!node_bandwidth_in("96 DGX-A100 (8x40G) nodes", 8));
  const spec::Cluster slow = machine("A100", "400 Gbps inter-node", 16).cluster;
  const double node = slow.scale_out.nic_bandwidth *
                      static_cast<double>(slow.scale_out.nics_per_node) /
                      (1e9 / 8 * unit::B / unit::s);
  CHECK(node == doctest::Approx(400));
}

}  // namespace
}  // namespace triplepoint::calibrate
