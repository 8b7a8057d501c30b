// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::spec {
namespace {

const Library library = default_library();

TEST_CASE("every model of the library reads, and counts its published parameters within 1 %") {
  const auto names = list_models(library);
  CHECK(names.size() >= 24);
  for (const std::string& name : names) {
    CAPTURE(name);
    const Result<Model> model = load_model(library, name);
    REQUIRE_MESSAGE(model, model.error().what);
    CHECK(model->name == name);
    REQUIRE(model->published_parameters);
    const ParameterCount count = count_parameters(*model);
    CHECK(count.total() / *model->published_parameters == doctest::Approx(1).epsilon(0.01));
    if (model->published_active_parameters)
      CHECK(count.active() / *model->published_active_parameters ==
            doctest::Approx(1).epsilon(0.01));
  }
}

TEST_CASE("coefficients of a library give way to those fitted without a source") {
  Library without = library;
  without.overrides = std::make_shared<const TomlValue>(*parse_toml(R"(
[stacks]
vllm = "megatron-core"
[stacks.megatron-core]
microbatch_gap = "7 ms"
[calibrations.h100.kernels]
hbm_share = 0.5
)",
                                                                    "left_out.toml"));
  CHECK(load_stack(without, "megatron-core")->microbatch_gap == 7 * unit::ms);
  CHECK(load_stack(without, "vllm")->name == "megatron-core");
  CHECK(load_cluster(without, "dgx-h100")->gpu.kernels.hbm_share == 0.5);
  CHECK(load_gpu(without, "h200") == load_gpu(library, "h200"));
  CHECK(!without_source(library, "no such source"));
}

TEST_CASE("every GPU, cluster, stack and optimizer of the library reads") {
  for (const std::string& name : list_gpus(library)) {
    const Result<Gpu> gpu = load_gpu(library, name);
    REQUIRE_MESSAGE(gpu, gpu.error().what);
  }
  for (const std::string& name : list_clusters(library)) {
    const Result<Cluster> cluster = load_cluster(library, name);
    REQUIRE_MESSAGE(cluster, cluster.error().what);
    if (cluster->shared_cores == 0)  // an emulated one has no chassis
      CHECK(cluster->chassis.seats.size() == static_cast<std::size_t>(cluster->gpus_per_node));
  }
  for (const std::string& name : list_stacks(library)) {
    const Result<Stack> stack = load_stack(library, name);
    REQUIRE_MESSAGE(stack, stack.error().what);
  }
  for (const std::string& name : list_optimizers(library)) {
    const Result<OptimizerState> optimizer = load_optimizer(library, name);
    REQUIRE_MESSAGE(optimizer, optimizer.error().what);
  }
}

}  // namespace
}  // namespace triplepoint::spec
