// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_recipes.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"

#include "triplepoint/calibrate/training_recompute.h"

namespace triplepoint::calibrate {
namespace {

using spec::RecomputeModule;

const spec::Library library = spec::default_library();

/// A row that prints the recipe's own sizes, and the machine it ran on.
struct Printed {
  TrainingRow row;
  spec::Job job;
};

Printed row_of(const Recipe& recipe, const std::string& gpu, spec::Precision precision) {
  Printed printed;
  printed.row.framework = "Megatron-Bridge (" +
                          (recipe.releases.empty() ? "NeMo 26.10" : recipe.releases.front()) + ")";
  printed.row.tensor = recipe.tensor_parallel_size;
  printed.row.pipeline = recipe.pipeline_parallel_size;
  printed.row.virtual_pipeline = recipe.virtual_pipeline_size;
  printed.row.context = recipe.context_parallel_size;
  printed.row.expert = recipe.expert_parallel_size;
  printed.row.micro_batch = recipe.micro_batch_size;
  printed.row.workload = recipe.workload;
  printed.job.model.name = recipe.model;
  printed.job.cluster.gpu.name = gpu;
  printed.job.plan.precision = precision;
  return printed;
}

/// Sizes that no recipe has, where this one leaves them open.
void print_other_sizes(TrainingRow& row) {
  constexpr int64_t nobodys = 3;
  for (std::optional<int64_t>* size : {&row.tensor, &row.pipeline, &row.virtual_pipeline,
                                       &row.context, &row.expert, &row.micro_batch})
    if (!*size) *size = nobodys;
}

std::vector<std::vector<Recipe>> all_recipes() {
  std::vector<std::vector<Recipe>> files;
  for (const char* name : {"megatron-bridge", "mlperf"})
    files.push_back(load_recipes(library, name).value());
  return files;
}

TEST_CASE("every public recipe names models and GPUs of the library") {
  const std::vector<std::vector<Recipe>> files = all_recipes();
  for (const std::vector<Recipe>& recipes : files)
    for (const Recipe& recipe : recipes) {
      CAPTURE(recipe.source);
      CHECK(spec::load_model(library, recipe.model));
      for (const std::string& gpu : recipe.gpus)
        CHECK(spec::load_gpu(library, gpu));
    }
}

/// Those that some row finds which prints their own sizes, in any precision.
std::set<const Recipe*> found_of(const std::vector<Recipe>& recipes) {
  const auto precisions = {spec::Precision::bf16, spec::Precision::fp8, spec::Precision::mxfp8,
                           spec::Precision::nvfp4};
  std::set<const Recipe*> found;
  for (const Recipe& recipe : recipes)
    for (const std::string& gpu : recipe.gpus)
      for (const spec::Precision precision : precisions) {
        Printed printed = row_of(recipe, gpu, precision);
        print_other_sizes(printed.row);
        found.insert(recipe_of(recipes, printed.row, printed.job));
      }
  return found;
}

TEST_CASE("every public recipe is found by a row that prints its sizes") {
  const std::vector<std::vector<Recipe>> files = all_recipes();
  for (const std::vector<Recipe>& recipes : files) {
    const std::set<const Recipe*> found = found_of(recipes);
    for (const Recipe& recipe : recipes) {
      CAPTURE(recipe.model);
      CAPTURE(recipe.source);
      CHECK(found.count(&recipe) == 1);
    }
  }
}

TEST_CASE("a recipe of one release, precision or layout is nobody else's") {
  Recipe recipe;
  recipe.model = "a model";
  recipe.gpus = {"gpu"};
  recipe.precisions = {spec::Precision::mxfp8};
  recipe.releases = {"NeMo 26.02"};
  recipe.pipeline_parallel_size = 4;
  const std::vector<Recipe> recipes = {recipe};
  const auto finds = [&](const auto& change) {
    Printed printed = row_of(recipe, "gpu", spec::Precision::mxfp8);
    change(printed);
    return recipe_of(recipes, printed.row, printed.job) != nullptr;
  };
  CHECK(finds([](Printed&) {}));
  CHECK(finds([](Printed& printed) { printed.row.pipeline.reset(); }));
  CHECK(!finds([](Printed& printed) { printed.row.pipeline = 8; }));
  CHECK(!finds([](Printed& printed) { printed.row.framework = "Megatron-Bridge (NeMo 26.04)"; }));
  CHECK(!finds([](Printed& printed) { printed.job.plan.precision = spec::Precision::bf16; }));
  CHECK(!finds([](Printed& printed) { printed.job.model.name = "another model"; }));
  CHECK(!finds([](Printed& printed) { printed.row.workload = "lora"; }));
  CHECK(!finds([](Printed& printed) { printed.job.cluster.gpu.name = "another gpu"; }));
}

TEST_CASE("an unknown key of a recipe is an error that names it") {
  const Path root = std::filesystem::temp_directory_path() / "triplepoint-recipes-test";
  REQUIRE(make_folder(root / "recipes"));
  const std::string text =
      "[[recipe]]\nmodel = \"m\"\ngpus = [\"g\"]\nsource = \"s\"\nrecompute = [\"moe_act\"]\n";
  REQUIRE(write_file_atomically(root / "recipes" / "wrong.toml", text));
  const auto recipes = load_recipes({.root = root.string()}, "wrong");
  REQUIRE(!recipes);
  CHECK(recipes.error().what.find("recompute") != std::string::npos);
  std::filesystem::remove_all(root);
}

TEST_CASE("cheap parts are parts that the model has") {
  const auto parts = [](const char* name) {
    return cheap_parts(spec::load_model(library, name).value());
  };
  const auto holds = [](const std::vector<RecomputeModule>& list, RecomputeModule part) {
    return std::find(list.begin(), list.end(), part) != list.end();
  };
  CHECK(parts("llama3-70b") == std::vector<RecomputeModule>{RecomputeModule::layernorm});
  CHECK(holds(parts("deepseek-v3"), RecomputeModule::mla_up_proj));
  CHECK(holds(parts("deepseek-v3"), RecomputeModule::mlp));
  CHECK(holds(parts("qwen3-235b-a22b"), RecomputeModule::moe_act));
  CHECK(!holds(parts("qwen3-235b-a22b"), RecomputeModule::shared_experts));
  CHECK(!holds(parts("qwen3-235b-a22b"), RecomputeModule::mla_up_proj));
}

}  // namespace
}  // namespace triplepoint::calibrate
