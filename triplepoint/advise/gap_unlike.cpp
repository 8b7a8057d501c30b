// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/gap.h"
#include "triplepoint/answers/results.h"

namespace triplepoint::advise {
namespace {

struct Shape {
  std::optional<std::string> gpu;                            // of the library
  std::optional<int64_t> gpus, parameters, samples, tokens;  // the last two of a step
};

Shape shape_of(const run::Run& run) {
  Shape shape{.gpus = run.numbers.world_size};
  if (const auto& job = run.manifest.job) {
    shape.gpu = spec::gpu_named(job->cluster.gpu.name);
    shape.gpus = job->world_size();
    shape.parameters = static_cast<int64_t>(spec::count_parameters(job->model).total());
    shape.samples = job->plan.global_batch_size;
    if (!job->records) shape.tokens = job->plan.global_batch_size * job->model.sequence_length;
  }
  if (!run.devices.empty())
    if (auto gpu = spec::gpu_named(run.devices.front().name)) shape.gpu = std::move(gpu);
  if (!run.steps.empty() && run.steps.back().samples > 0) shape.samples = run.steps.back().samples;
  if (!run.steps.empty() && run.steps.back().tokens > 0) shape.tokens = run.steps.back().tokens;
  return shape;
}

/// "h100" and "h100-96gb" may be the same: drivers do not name all boards of a GPU apart.
bool may_be_the_same(const std::string& a, const std::string& b) {
  return (a + "-").starts_with(b + "-") || (b + "-").starts_with(a + "-");
}

}  // namespace

std::vector<std::string> unlike(const run::Run& measured, const run::Run& predicted) {
  const Shape own = shape_of(measured), other = shape_of(predicted);
  std::vector<std::string> all;
  if (own.gpu && other.gpu && !may_be_the_same(*own.gpu, *other.gpu))
    all.push_back(fmt::format("GPU {}, predicted {}", *own.gpu, *other.gpu));
  const auto compare = [&](const char* what, std::optional<int64_t> a, std::optional<int64_t> b) {
    constexpr double tolerance = 0.02;
    if (!a || !b) return;
    const auto x = as_real(*a), y = as_real(*b);
    if (std::abs(x - y) > tolerance * y)
      all.push_back(fmt::format("{} {}, predicted {}", whole(*a), what, whole(*b)));
  };
  const auto recorded = static_cast<int64_t>(measured.devices.size());
  const bool has_more = other.gpus && recorded > *other.gpus;  // less may be a part
  compare("GPUs", has_more ? recorded : own.gpus, other.gpus);
  compare("parameters", own.parameters, other.parameters);
  compare("samples a step", own.samples, other.samples);
  if (own.samples == other.samples || !own.samples || !other.samples)
    compare("tokens a step", own.tokens, other.tokens);
  return all;
}

std::vector<std::string> set_up_apart(const run::Run& measured, const run::Run& predicted) {
  std::vector<std::string> all;
  if (!measured.manifest.job || !predicted.manifest.job) return all;
  using Setting = std::optional<std::string>;  // nothing: its default
  std::map<std::string, std::pair<Setting, Setting>> both;
  for (const auto& [name, value] : answers::settings_of(measured))
    both[name].first = value;
  for (const auto& [name, value] : answers::settings_of(predicted))
    both[name].second = value;
  for (const auto& [name, values] : both) {
    const auto& [own, other] = values;
    // What a run suffers is a cause, not a setting.
    constexpr std::string_view no_settings[] = {"job",     "model", "cluster", "gpu",     "faults",
                                                "horizon", "seed",  "numbers", "producer"};
    if (std::ranges::find(no_settings, name) != std::end(no_settings)) continue;
    // A recording does not know its room.
    if (!own && (name == "inlet" || name == "cooling") &&
        measured.manifest.origin != run::Origin::simulated)
      continue;
    if (own != other)
      all.push_back(fmt::format("{} {}, predicted {}", name, own.value_or("default"),
                                other.value_or("default")));
  }
  constexpr std::size_t most = 5;
  if (all.size() > most) {
    all.resize(most);
    all.push_back("and more");
  }
  return all;
}

}  // namespace triplepoint::advise
