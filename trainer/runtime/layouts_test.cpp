// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "trainer/runtime/jobs_testing.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

constexpr int64_t steps = 20;
constexpr int64_t slices = 6;

TrainOutcome outcome_of(const spec::Job& job) {
  TrainSettings settings;
  settings.steps = steps;
  settings.rate.peak = 2e-3;
  settings.peak_flops = 1e9;  // not measured
  const Result<TrainOutcome> outcome =
      train_with_threads(job, settings, endpoint_settings(job, 60));
  if (!outcome) FAIL(outcome.error().what);
  return *outcome;
}

double final_loss(const TrainOutcome& outcome) {
  return outcome.own.steps.back().loss;
}

/// Largest relative difference of two trainings' losses over all steps.
double difference(const TrainOutcome& a, const TrainOutcome& b) {
  double largest = 0;
  for (size_t i = 0; i < a.own.steps.size(); ++i)
    largest = std::max(largest, std::abs(a.own.steps[i].loss / b.own.steps[i].loss - 1));
  return largest;
}

/// Bytes of one group and class that all ranks of a stage moved, and what `workload` says.
struct BytesMoved {
  double bytes = 0, said = 0;
};

BytesMoved moved_by_stage(const TrainOutcome& outcome, size_t stage, size_t group, size_t kind) {
  BytesMoved sum;
  for (const TrainReport& rank : outcome.all) {
    if (rank.stage != stage) continue;
    sum.bytes += rank.traffic[group][kind];
    sum.said += rank.expected[group][kind] * as_real(steps);
  }
  return sum;
}

/// "stage 0 tensor all_reduce: 4096 moved, 2048 by workload", for each class that differs.
std::string wrong_bytes(const spec::Job& job, const TrainOutcome& outcome) {
  std::string wrong;
  for (size_t stage = 0; stage < as_size(job.plan.pipeline_parallel_size); ++stage)
    for (size_t group = 0; group < spec::group_kind_count; ++group)
      for (size_t kind = 0; kind < spec::collective_count; ++kind) {
        const BytesMoved sum = moved_by_stage(outcome, stage, group, kind);
        if (sum.bytes == sum.said) continue;
        wrong +=
            fmt::format("stage {} {} {}: {} moved, {} by workload\n", stage,
                        spec::name_of(static_cast<spec::GroupKind>(group)),
                        spec::name_of(static_cast<spec::Collective>(kind)), sum.bytes, sum.said);
      }
  return wrong;
}

/// Each against the same training on one rank.
void check(const std::vector<test::Choice>& layouts, size_t first = 0, size_t every = 1) {
  std::map<int, TrainOutcome> alone;
  for (size_t i = first; i < layouts.size(); i += every) {
    const int training = test::training_of(layouts[i]);
    if (alone.count(training) == 0) alone.emplace(training, outcome_of(test::alone(layouts[i])));
    const spec::Job job = test::job_of(layouts[i]);
    const TrainOutcome outcome = outcome_of(job);
    CAPTURE(test::describe(layouts[i]));
    CHECK(final_loss(outcome) < outcome.own.steps.front().loss);
    CHECK(difference(outcome, alone.at(training)) < 1e-5);
    CHECK(wrong_bytes(job, outcome) == "");
  }
}

/// Every so-manieth layout of the covering array.
void check_slice(size_t slice) {
  const std::vector<test::Choice> layouts = test::pairwise_layouts(16);
  REQUIRE(layouts.size() >= 54);
  check(layouts, slice, slices);
}

}  // namespace

// Twenty optimizer steps in fp32, every pair of features somewhere, bytes as `workload` counts
// them.
TEST_CASE("layouts train like one rank and move the bytes of workload, part 1 of 6") {
  check_slice(0);
}
TEST_CASE("layouts train like one rank and move the bytes of workload, part 2 of 6") {
  check_slice(1);
}
TEST_CASE("layouts train like one rank and move the bytes of workload, part 3 of 6") {
  check_slice(2);
}
TEST_CASE("layouts train like one rank and move the bytes of workload, part 4 of 6") {
  check_slice(3);
}
TEST_CASE("layouts train like one rank and move the bytes of workload, part 5 of 6") {
  check_slice(4);
}
TEST_CASE("layouts train like one rank and move the bytes of workload, part 6 of 6") {
  check_slice(5);
}

TEST_CASE("so do layouts of 32 ranks") {
  const std::vector<test::Choice> layouts = test::layouts_of_size(32, 8);
  REQUIRE(layouts.size() == 8);
  check(layouts);
}

}  // namespace triplepoint::trainer
