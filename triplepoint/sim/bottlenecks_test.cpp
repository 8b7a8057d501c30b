// SPDX-License-Identifier: Apache-2.0
// Planted culprits of random kind, place and layout are found; fair clusters name no device.
#include <map>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/job_testing.h"

#include "triplepoint/sim/simulate.h"

namespace triplepoint::sim {
namespace {

// Below this share of the step no device is named (metrics/run/bottlenecks.cpp).
constexpr double min_named_cost = 0.01;

class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  uint64_t below(uint64_t n) { return random_bits({seed_, 18}, drawn_++) % n; }
  double between(double low, double high) {
    return low + (high - low) * (as_real(below(1001)) / 1000);
  }

 private:
  uint64_t seed_, drawn_ = 0;
};

struct Layout {
  const char* parallelism;  // of which the table speaks
  const char* model;
  int64_t nodes, tensor, pipeline, expert;
  const char* sharding;
};
constexpr Layout layouts[] = {{"TP", "llama3-8b", 1, 8, 1, 1, "none"},
                              {"TP", "llama3-8b", 2, 8, 1, 1, "optimizer"},
                              {"PP", "llama3-8b", 1, 1, 8, 1, "none"},
                              {"PP", "llama3-8b", 2, 4, 4, 1, "none"},
                              {"PP", "llama3-8b", 4, 8, 4, 1, "none"},
                              {"DP", "llama3-8b", 1, 1, 1, 1, "optimizer"},
                              {"DP", "llama3-8b", 4, 1, 1, 1, "parameters"},
                              {"DP", "llama3-8b", 4, 4, 1, 1, "optimizer"},
                              {"EP", "qwen3-30b-a3b", 1, 1, 1, 8, "optimizer"},
                              {"EP", "qwen3-30b-a3b", 4, 1, 2, 8, "optimizer"}};

spec::Job job_of(const Layout& layout, uint64_t seed) {
  const int64_t replicas = 8 * layout.nodes / layout.tensor / layout.pipeline;
  const spec::Job job = spec::job_of_text(
      fmt::format("model = \"{}\"\ncluster = \"hgx-h200\"\nnodes = {}\n[plan]\n"
                  "tensor_parallel_size = {}\npipeline_parallel_size = {}\n"
                  "expert_parallel_size = {}\nglobal_batch_size = {}\nrecompute = \"full\"\n"
                  "sharding = \"{}\"\n[environment]\nseed = {}\n",
                  layout.model, layout.nodes, layout.tensor, layout.pipeline, layout.expert,
                  8 * replicas, layout.sharding, seed));
  REQUIRE_FALSE(spec::has_errors(spec::diagnose(job)));
  return job;
}

run::Run settled(const spec::Job& job) {
  return simulate(job, {.timeline = false});
}
Seconds step_time(const run::Run& run) {
  return run.steps.back().end - run.steps.back().begin;
}

/// Whom the run names first; null within the noise.
const run::Bottleneck* named(const run::Run& run) {
  for (const run::Bottleneck& one : run.bottlenecks)
    if (*one.cost >= min_named_cost * step_time(run)) return &one;
  return nullptr;
}

constexpr const char* kinds[] = {"power", "heat_path", "fan", "link", "network", "host"};

std::optional<spec::Fault> fault_of(const std::string& kind, const Layout& layout, Draws& draws) {
  const uint64_t gpu = draws.below(static_cast<uint64_t>(8 * layout.nodes));
  const uint64_t node = draws.below(static_cast<uint64_t>(layout.nodes));
  const bool several = layout.nodes > 1;
  std::string text;
  if (kind == "power") text = fmt::format("gpu={},power={:.2f}", gpu, draws.between(0.3, 0.7));
  if (kind == "heat_path")
    text = fmt::format("gpu={},heat_path={:.2f}", gpu, draws.between(1.8, 4));
  if (kind == "link") text = fmt::format("gpu={},link={:.2f}", gpu, draws.between(0.05, 0.5));
  if (kind == "host") text = fmt::format("node={},host={:.2f}", node, draws.between(2, 8));
  if (kind == "fan" && several)
    text = fmt::format("node={},fan={:.2f}", node, draws.between(0.15, 0.4));
  if (kind == "network" && several)
    text = fmt::format("node={},link={:.2f}", node, draws.between(0.05, 0.5));
  if (text.empty()) return std::nullopt;
  const auto fault = spec::parse_fault(text);
  REQUIRE(fault.has_value());
  return *fault;
}

bool is_culprit(const run::Bottleneck& found, const spec::Fault& fault) {
  return (found.of == run::Bottleneck::Of::node) == fault.node.has_value() &&
         found.who.front() == (fault.node ? *fault.node : *fault.gpu);
}

struct Tally {
  int cases = 0, right = 0;
};

void print(const char* what, const std::map<std::string, Tally>& table) {
  std::string text;
  for (const auto& [name, tally] : table)
    text += fmt::format("\n  {:<16} {:>3} of {:>3}", name, tally.right, tally.cases);
  MESSAGE(std::string(what) << text);
}

TEST_CASE("planted culprits are found, whatever their kind and the layout") {
  std::map<std::string, Tally> table;
  Tally all;
  for (uint64_t seed = 1; all.cases < 100 && seed < 600; ++seed) {
    Draws draws(seed);
    const Layout& layout = layouts[draws.below(std::size(layouts))];
    const char* kind = kinds[draws.below(std::size(kinds))];
    spec::Job job = job_of(layout, seed);
    const auto fault = fault_of(kind, layout, draws);
    if (!fault) continue;
    const Seconds before = step_time(settled(job));
    job.environment.faults = {*fault};
    const run::Run run = settled(job);
    // A fault that hides behind something else slows no other rank.
    if (run.steps.empty() || step_time(run) < 1.03 * before) continue;
    const run::Bottleneck* found = named(run);
    const bool right = found != nullptr && is_culprit(*found, *fault);
    for (Tally* tally : {&all, &table[fmt::format("{} {}", layout.parallelism, kind)]}) {
      ++tally->cases;
      tally->right += right ? 1 : 0;
    }
    if (!right)
      MESSAGE(
          "missed: " << std::string(layout.parallelism) << " " << layout.nodes << " nodes, "
                     << spec::to_text(*fault) << ", " << step_time(run) / before << " times; "
                     << (found ? fmt::format("named {}", found->who.front()) : "no device named"));
  }
  print("planted culprits found, by parallelism and kind", table);
  CHECK(all.cases == 100);
  CHECK(all.right >= 95);
}

TEST_CASE("no device is named on fair clusters") {
  std::map<std::string, Tally> table;
  Tally all;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Draws draws(seed + 10'000);
    const Layout& layout = layouts[draws.below(std::size(layouts))];
    spec::Job job = job_of(layout, seed);
    job.environment.ambient = Celsius(draws.between(18, 35));
    job.environment.power_limit = draws.between(450, 700) * unit::W;
    const run::Run run = settled(job);
    const run::Bottleneck* found = named(run);
    for (Tally* tally : {&all, &table[layout.parallelism]}) {
      ++tally->cases;
      tally->right += found == nullptr ? 1 : 0;
    }
    if (found != nullptr)
      MESSAGE("blamed: " << std::string(layout.parallelism) << " " << layout.nodes
                         << " nodes, seed " << seed << ", " << job.environment.ambient->degrees()
                         << " C, " << *job.environment.power_limit / unit::W
                         << " W: " << found->who.front() << " " << found->evidence.front().value
                         << " against " << found->evidence.front().peers);
  }
  print("fair clusters without a named device, by parallelism", table);
  CHECK(all.right >= 95);
}

TEST_CASE("a GPU at half power is named with its clock and what it costs") {
  for (const Layout& layout : {layouts[0], layouts[2], layouts[5]}) {
    spec::Job job = job_of(layout, 1);
    const Seconds before = step_time(settled(job));
    job.environment.faults = {*spec::parse_fault("gpu=3,power=0.5")};
    const run::Run run = settled(job);
    REQUIRE(!run.bottlenecks.empty());
    const run::Bottleneck& found = run.bottlenecks.front();
    CHECK(found.who == std::vector<int32_t>{3});
    CHECK(found.evidence.front().kind == run::Evidence::Kind::clock);
    CHECK(found.evidence.front().value < 0.8 * found.evidence.front().peers);
    // The others gain a little clock while they wait, so the two differ somewhat.
    CHECK(*found.cost / (step_time(run) - before) == doctest::Approx(1).epsilon(0.15));
  }
}

}  // namespace
}  // namespace triplepoint::sim
