// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/search.h"

#include "triplepoint/search/layout_scan.h"
#include "triplepoint/search/testing.h"

namespace triplepoint::search {
namespace {

constexpr Goal all_goals[] = {Goal::throughput, Goal::energy, Goal::edp, Goal::cost};

Objective objective_of(Goal goal) {
  return {.goal = goal, .rate = 0.01, .price = 1e-7, .at_rest = 5000, .share = 1.7};
}

struct Best {
  double value = 1e300;
  int64_t index = -1;
};

/// Simulates every plan.
std::vector<Best> exhaust(const Space& space, const Limits& limits) {
  StepEvaluator evaluator(space.base(), typical_of(space.base()));
  std::vector<Best> best(std::size(all_goals));
  for (int64_t i = 0; i < space.size(); ++i) {
    const spec::Plan plan = space.plan(i);
    const workload::MemoryVerdict memory = evaluator.memory(plan);
    const Bytes needed = memory.stages[as_size(memory.worst_stage)].total();
    if (needed > usable_memory(space.base(), limits)) continue;
    const StepEstimate step = evaluator.evaluate(plan);
    for (size_t g = 0; g < best.size(); ++g) {
      const double value = objective_of(all_goals[g]).value(step.time, step.energy);
      if (value < best[g].value) best[g] = {value, i};
    }
  }
  return best;
}

TEST_CASE("the search finds the optimum of an exhaustive one, for every objective") {
  struct Case {
    spec::Job job;
    Reach reach;
    const char* fixed;
  };
  const Case cases[] = {
      {test::job_on("llama3-8b", "hgx-h200", {.nodes = 1, .batch = 16}), Reach::everything,
       "cp=1|2,mbs=1,recompute=none|selective,tp=1|2,uneven=off"},
      {test::job_on("gpt3-5b", "dgx-a100", {.nodes = 2, .batch = 32}), Reach::launchable,
       "cp=1,mbs=1|4,tp=2|4,pp=1|2|3"},
      {test::job_on("mixtral-8x7b", "dgx-h100", {.nodes = 2, .batch = 32, .layers = 16}),
       Reach::launchable, "cp=1,mbs=2,tp=1|2,pp=2|4"}};
  for (const Case& each : cases) {
    const Space space(each.job, each.reach, must(parse_fixed(each.fixed)));
    CAPTURE(each.job.name);
    REQUIRE(space.size() > 500);
    const std::vector<Best> expected = exhaust(space, {});
    for (size_t g = 0; g < expected.size(); ++g) {
      const Found found = search(space, objective_of(all_goals[g]), {}, {.threads = 1, .keep = 3});
      REQUIRE_FALSE(found.best.empty());
      CAPTURE(name_of(all_goals[g]));
      CHECK(found.best[0].value == expected[g].value);
      CHECK(found.best[0].index == expected[g].index);
      CHECK(found.counts.simulated < space.size());
    }
  }
}

TEST_CASE("a plan is turned down without its shared links only where it cannot win with them") {
  const spec::Job job = test::job_on("llama3-70b", "hgx-h200", {.nodes = 2, .batch = 32});
  const Space space(job, Reach::launchable, must(parse_fixed("tp=2,cp=1,recompute=none")));
  StepEvaluator evaluator(job, typical_of(job));
  int64_t turned_down = 0, slowed = 0;
  for (int64_t i = 0; i < space.size(); i += 1 + space.size() / 200) {
    const spec::Plan plan = space.plan(i);
    const StepEstimate step = evaluator.evaluate(plan);
    StepBound alone;
    const auto note = [&](const StepBound& bound) {
      alone = bound;
      return true;
    };
    CHECK(evaluator.evaluate(plan, note)->time == step.time);
    if (alone.time == 0) continue;  // nothing shares its links
    CHECK(alone.time <= step.time * (1 + 1e-12));
    CHECK(alone.energy <= step.energy * (1 + 1e-12));
    slowed += alone.time < 0.999 * step.time ? 1 : 0;
    const int64_t linked = evaluator.linked();
    CHECK_FALSE(evaluator.evaluate(plan, [](const StepBound&) { return false; }));
    CHECK(evaluator.linked() == linked);
    ++turned_down;
  }
  CHECK(turned_down > 20);
  CHECK(slowed > 0);
}

TEST_CASE("of equally good plans the first of the space is found") {
  // With one microbatch stages work one after the other: where layers stand changes nothing but the
  // last bits of a bound.
  const spec::Job job =
      test::job_on("gpt3-1.3b", "dgx-a100", {.nodes = 2, .batch = 16, .layers = 8});
  const Space space(job, Reach::launchable,
                    must(parse_fixed("tp=2,pp=4,cp=1,mbs=8,sp=off,recompute=none")));
  REQUIRE(space.layouts().size() == 1);
  const std::vector<Best> expected = exhaust(space, {});
  for (size_t g = 0; g < expected.size(); ++g) {
    CAPTURE(name_of(all_goals[g]));
    const Found found = search(space, objective_of(all_goals[g]), {}, {.keep = 1});
    REQUIRE(found.best.size() == 1);
    CHECK(found.best[0].value == expected[g].value);
    CHECK(found.best[0].index == expected[g].index);
  }
}

TEST_CASE("any number of threads finds the same plans and counts the same work") {
  const spec::Job job = test::job_on("gpt3-175b", "hgx-h200", {.nodes = 4, .batch = 128});
  const Space space(job, Reach::launchable, must(parse_fixed("cp=1,sp=on")));
  const Found one = search(space, {}, {}, {.threads = 1, .keep = 6});
  for (const int threads : {2, 5}) {
    const Found many = search(space, {}, {}, {.threads = threads, .keep = 6});
    REQUIRE(many.best.size() == one.best.size());
    for (size_t i = 0; i < one.best.size(); ++i) {
      CHECK(many.best[i].index == one.best[i].index);
      CHECK(many.best[i].value == one.best[i].value);
    }
    CHECK(many.counts.simulated == one.counts.simulated);
    CHECK(many.counts.out_of_memory == one.counts.out_of_memory);
  }
}

TEST_CASE("memory that must stay free is left free, and asking for it never speeds a plan up") {
  const spec::Job job = test::job_on("gpt3-175b", "hgx-h200", {.nodes = 4, .batch = 128});
  const Space space(job, Reach::launchable, must(parse_fixed("cp=1,vpp=1")));
  double last = 0;
  for (const double free_gb : {0., 10., 20.}) {
    Limits limits;
    limits.headroom = free_gb * unit::GB;
    const Found found = search(space, {}, limits, {.threads = 1, .keep = 3});
    REQUIRE_FALSE(found.best.empty());
    for (const Candidate& candidate : found.best)
      CHECK(candidate.memory <= usable_memory(job, limits));
    CHECK(found.best[0].value >= last);
    last = found.best[0].value;
  }
}

TEST_CASE("a model that fits nowhere leaves no plan, and every plan is counted as too large") {
  const spec::Job job = test::job_on("gpt3-175b", "dgx-a100-40gb", {.nodes = 1, .batch = 16});
  const Space space(job, Reach::launchable, {});
  const Found found = search(space, {}, {}, {});
  CHECK(found.best.empty());
  CHECK(found.counts.out_of_memory + found.counts.exact_out_of_memory == found.counts.plans);
}

}  // namespace
}  // namespace triplepoint::search
