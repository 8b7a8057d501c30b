// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_recipes.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/sources.h"
#include "triplepoint/spec/table_reader.h"

#include "triplepoint/calibrate/training_rules.h"

namespace triplepoint::spec {
template <>
struct EnumNames<calibrate::Dispatch> {
  static constexpr auto names = words({"alltoall", "deepep", "hybridep"});
};
}  // namespace triplepoint::spec

namespace triplepoint::calibrate {

template <class Visitor>
static void visit_fields(Visitor& visit, Recipe& recipe) {
  visit("model", recipe.model, spec::Need::required);
  visit("workload", recipe.workload);
  visit("gpus", recipe.gpus, spec::Need::required);
  visit("precisions", recipe.precisions);
  visit("releases", recipe.releases);
  visit("tensor_parallel_size", recipe.tensor_parallel_size);
  visit("pipeline_parallel_size", recipe.pipeline_parallel_size);
  visit("virtual_pipeline_size", recipe.virtual_pipeline_size);
  visit("context_parallel_size", recipe.context_parallel_size);
  visit("expert_parallel_size", recipe.expert_parallel_size);
  visit("micro_batch_size", recipe.micro_batch_size);
  visit("recompute_modules", recipe.recompute_modules);
  visit("dispatch", recipe.dispatch);
  visit("overlap_expert", recipe.overlap_expert);
  visit("fp8_attention", recipe.fp8_attention);
  visit("source", recipe.source, spec::Need::required);
}

namespace {

template <class T>
bool holds(const std::vector<T>& list, const auto& wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

/// A size that both state is the same.
bool agree(const std::optional<int64_t>& recipe, const std::optional<int64_t>& printed) {
  return !recipe || !printed || *recipe == *printed;
}

bool is_of_release(const Recipe& recipe, const TrainingRow& row) {
  return recipe.releases.empty() ||
         std::any_of(recipe.releases.begin(), recipe.releases.end(),
                     [&](const std::string& word) { return mentions(row.framework, word); });
}

bool has_layout(const Recipe& recipe, const TrainingRow& row) {
  return agree(recipe.tensor_parallel_size, row.tensor) &&
         agree(recipe.pipeline_parallel_size, row.pipeline) &&
         agree(recipe.virtual_pipeline_size, row.virtual_pipeline) &&
         agree(recipe.context_parallel_size, row.context) &&
         agree(recipe.expert_parallel_size, row.expert) &&
         agree(recipe.micro_batch_size, row.micro_batch);
}

}  // namespace

Result<std::vector<Recipe>> load_recipes(const spec::Library& library, std::string_view name) {
  const Path path = Path(library.root) / "recipes" / fmt::format("{}.toml", name);
  const std::string text = TPT_TRY(read_file(path));
  const spec::TomlValue root = TPT_TRY(spec::parse_toml(text, path.string()));
  if (auto sources = spec::collect_provenance(root, path.string()); !sources)
    return tl::unexpected(sources.error());
  std::vector<Recipe> recipes;
  spec::ReadScope scope;
  scope.library = &library;
  scope.file = path.string();
  spec::TableReader reader(root, scope);
  reader.allow("source");
  reader("recipe", recipes, spec::Need::required);
  if (auto finished = reader.finish(); !finished) return tl::unexpected(finished.error());
  return recipes;
}

const Recipe* recipe_of(const std::vector<Recipe>& recipes, const TrainingRow& row,
                        const spec::Job& job) {
  const auto found = std::find_if(recipes.begin(), recipes.end(), [&](const Recipe& recipe) {
    return recipe.model == job.model.name && recipe.workload == row.workload &&
           holds(recipe.gpus, job.cluster.gpu.name) &&
           (recipe.precisions.empty() || holds(recipe.precisions, job.plan.precision)) &&
           is_of_release(recipe, row) && has_layout(recipe, row);
  });
  return found == recipes.end() ? nullptr : &*found;
}

}  // namespace triplepoint::calibrate
