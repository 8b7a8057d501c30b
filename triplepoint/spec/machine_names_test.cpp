// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/machine_names.h"

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

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

}  // namespace
}  // namespace triplepoint::spec
