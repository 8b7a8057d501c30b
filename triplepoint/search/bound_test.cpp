// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/bound.h"

#include "triplepoint/base/random.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/search/layout_scan.h"
#include "triplepoint/search/step.h"
#include "triplepoint/search/testing.h"

namespace triplepoint::search {
namespace {

bool every_plan(const StepBound&) {
  return true;
}

/// Compares the bound of one plan in many with its schedule; returns how many were compared.
int64_t compare_some(const spec::Job& job, uint64_t seed) {
  const Space space(job, Reach::everything, {});
  const Typical typical = typical_of(job);
  Limits limits;
  limits.headroom = -10 * unit::TB;  // so that nothing is dropped
  LayoutScan scan(space, limits, typical);
  StepEvaluator evaluator(job, typical);
  int64_t compared = 0;
  for (size_t layout = 0; layout < space.layouts().size(); ++layout)
    scan.visit(layout, every_plan, [&](const VariantAt&, int64_t index, const StepBound& bound) {
      const auto position = static_cast<uint64_t>(index);
      if (random_uniform({seed, 7}, position) * as_real(space.size()) > 60) return;
      const StepEstimate step = evaluator.evaluate(space.plan(index));
      CAPTURE(index);
      CHECK(bound.time <= step.time * (1 + 1e-12));
      CHECK(bound.energy <= step.energy * (1 + 1e-12));
      CHECK(bound.time >= 0.1 * step.time);
      ++compared;
    });
  return compared;
}

TEST_CASE("no plan is faster or thriftier than its bound") {
  for (const spec::Job& job : test::few_jobs()) {
    CAPTURE(job.name);
    CHECK(compare_some(job, 3) > 25);
  }
}

TEST_CASE("no plan is faster or thriftier than its bound under a power limit, with warm dies") {
  for (const size_t which : {0U, 2U}) {
    spec::Job job = test::few_jobs()[which];
    job.environment.power_limit = 0.6 * job.power_limit();
    job.environment.ambient = Celsius(40);
    CAPTURE(job.name);
    CHECK(compare_some(job, 5) > 25);
  }
}

TEST_CASE("the energy that a bound finds is most of what a plan needs") {
  for (const spec::Job& job : test::few_jobs()) {
    const Space space(job, Reach::launchable, must(parse_fixed("cp=1,recompute=none")));
    LayoutScan scan(space, {}, typical_of(job));
    StepEvaluator evaluator(job, typical_of(job));
    std::vector<double> found;
    for (size_t layout = 0; layout < space.layouts().size(); layout += 7)
      scan.visit(layout, every_plan, [&](const VariantAt&, int64_t index, const StepBound& bound) {
        found.push_back(bound.energy / evaluator.evaluate(space.plan(index)).energy);
      });
    CAPTURE(job.name);
    CHECK(median(found) > 0.8);
  }
}

TEST_CASE("no plan has a lower bound than its layout, no layout a lower one than its many layers") {
  for (const spec::Job& job : test::few_jobs())
    for (const EnergyBound energy : {EnergyBound::none, EnergyBound::lowest_clock}) {
      const Space space(job, Reach::everything, {});
      LayoutScan scan(space, {}, typical_of(job), energy);
      int64_t bounded = 0;
      // The largest ratios of a layout over its plans, and of its many layers over the layout.
      double closest = 0, thriftiest = 0, closest_many = 0, thriftiest_many = 0;
      for (size_t layout = 0; layout < space.layouts().size(); layout += 31) {
        const std::optional<StepBound> many = scan.bound(layout, CountedParts::many_layers);
        const std::optional<StepBound> whole = scan.bound(layout, CountedParts::all);
        REQUIRE(many.has_value() == whole.has_value());
        int64_t plans = 0;
        scan.visit(layout, every_plan, [&](const VariantAt&, int64_t, const StepBound& bound) {
          ++plans;
          if (!whole) return;
          closest = std::max(closest, whole->time / bound.time);
          thriftiest = std::max(thriftiest, whole->energy / bound.energy);
        });
        if (!whole) {
          CHECK(plans == 0);
          continue;
        }
        ++bounded;
        closest_many = std::max(closest_many, many->time / whole->time);
        thriftiest_many = std::max(thriftiest_many, many->energy / whole->energy);
      }
      CAPTURE(job.name);
      CHECK(bounded > 4);
      CHECK(closest > 0.9);
      CHECK(closest <= 1 + 1e-12);
      CHECK(thriftiest <= 1 + 1e-12);
      CHECK(closest_many > 0.7);
      CHECK(closest_many <= 1 + 1e-12);
      CHECK(thriftiest_many <= 1 + 1e-12);
    }
}

TEST_CASE("plans that are not asked for are left out, all others are visited") {
  const spec::Job job = test::few_jobs()[0];
  const Space space(job, Reach::launchable, {});
  LayoutScan scan(space, {}, typical_of(job));
  for (double StepBound::*of : {&StepBound::time, &StepBound::energy})
    for (size_t layout = 0; layout < space.layouts().size(); layout += 29) {
      const auto indices = [&](const MayWin& may_win, double limit) {
        std::vector<int64_t> found;
        scan.visit(layout, may_win, [&](const VariantAt&, int64_t index, const StepBound& bound) {
          if (bound.*of <= limit) found.push_back(index);
        });
        return found;
      };
      double least = 1e300;
      scan.visit(layout, every_plan, [&](const VariantAt&, int64_t, const StepBound& bound) {
        least = std::min(least, bound.*of);
      });
      const double limit = 1.1 * least;
      const auto may_win = [&](const StepBound& bound) { return bound.*of <= limit; };
      CHECK(indices(may_win, limit) == indices(every_plan, limit));
      CHECK(indices([](const StepBound&) { return false; }, 1e300).empty());
    }
}

TEST_CASE("no plan needs less memory than its bound") {
  for (const spec::Job& base : test::few_jobs()) {
    spec::Job job = base;
    const Space space(job, Reach::everything, {});
    StepEvaluator evaluator(job, typical_of(job));
    for (int64_t i = 3; i < space.size(); i += space.size() / 150) {
      job.plan = space.plan(i);
      const workload::MemoryVerdict verdict = evaluator.memory(job.plan);
      const Bytes needed = verdict.stages[as_size(verdict.worst_stage)].total();
      const auto layout = workload::lay_out_layers(job);
      CAPTURE(i);
      CHECK_FALSE(exceeds_memory(job, layout, MemoryBound::warm_up, needed));
      CHECK(exceeds_memory(job, layout, MemoryBound::warm_up, 0.01 * needed));
      spec::Job bare = job;
      bare.plan.recompute = spec::Recompute::none;
      bare.plan.recompute_layers.reset();
      CHECK_FALSE(exceeds_memory(bare, layout, MemoryBound::states, needed));
    }
  }
}

TEST_CASE("the bound of equal stages that never wait to send is their step") {
  spec::Job job = test::job_on("gpt3-5b", "dgx-a100", {.nodes = 1, .batch = 32});
  job.model.vocabulary_size = 128;  // the ends weigh nothing
  job.plan.pipeline_parallel_size = 1;
  job.plan.tensor_parallel_size = 8;
  job.environment.ambient = Celsius(5);
  const Typical typical{Celsius(20), 1};
  StepEvaluator evaluator(job, typical);
  const StepEstimate step = evaluator.evaluate(job.plan);
  const auto layout = workload::lay_out_layers(job);
  const LayerCosts layers = estimate_layers(job, typical);
  const PipelineParts parts = count_parts(job, layout);
  const SendCosts sends = estimate_sends(job, typical);
  const std::vector<EndCost> ends = estimate_epilogues(job);
  const StepBound bound =
      bound_step(job, {.layers = layers, .parts = parts, .sends = sends, .ends = ends});
  CHECK(bound.time == doctest::Approx(step.time - step.term(Term::throttling)).epsilon(1e-9));
}

}  // namespace
}  // namespace triplepoint::search
