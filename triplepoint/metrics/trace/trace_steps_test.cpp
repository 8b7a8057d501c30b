// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/trace_steps.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/random_trace_testing.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {
namespace {

using namespace testing;

void add(run::Timeline& timeline, int64_t begin, int64_t end, int32_t type,
         run::SpanDetail detail = {}) {
  timeline.spans.push_back({Instant(begin), Instant(end), type});
  timeline.details.push_back(detail);
}

TEST_CASE("a kernel belongs to the step that launched it, not to the one during which it runs") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 1;
  for (int64_t step : {0, 1}) {
    const int32_t mark = timeline.intern({.name = step == 0 ? "ProfilerStep#4" : "ProfilerStep#5",
                                          .kind = run::SpanKind::step,
                                          .stream = run::Stream::host});
    add(timeline, 100 * step, 100 * step + 100, mark);
    add(timeline, 100 * step + 50, 100 * step + 52, launch, {.correlation = step});
    add(timeline, 100 * step + 120, 100 * step + 160, gemm, {.correlation = step});
  }
  run::sort(timeline);
  const TraceSteps found = find_steps(timeline);
  CHECK(found.source == StepSource::annotations);
  REQUIRE(found.steps.size() == 2);
  CHECK(found.steps[1].name == "ProfilerStep#5");
  for (size_t step : {0, 1}) {
    const run::Timeline part = step_of(timeline, found, step);
    REQUIRE(part.spans.size() == 3);
    CHECK(part.spans.back().begin == Instant(static_cast<int64_t>(100 * step + 120)));
  }
}

TEST_CASE("without marks, steps are where the kernels repeat") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 1;
  int64_t now = 1000;
  const auto add_span = [&](int32_t type) {
    add(timeline, now, now + 10, type);
    now += 11;
  };
  add_span(memcpy_);  // what comes before the first step
  for (int step = 0; step < 5; ++step) {
    now += 500;
    for (int layer = 0; layer < 3; ++layer)
      for (int32_t type : {gemm, norm, gemm, all_reduce})
        add_span(type);
    add_span(unnamed);
    add_span(norm);
  }
  const TraceSteps found = find_steps(timeline);
  CHECK(found.source == StepSource::periodicity);
  REQUIRE(found.steps.size() == 5);
  for (size_t step = 0; step < 5; ++step)
    CHECK(step_of(timeline, found, step).spans.size() == 14);
  CHECK(found.step_of_span.front() == -1);
}

TEST_CASE("where nothing repeats there are no steps") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 1;
  for (int32_t type : {gemm, norm, unnamed, all_reduce})
    add(timeline, 10 * type, 10 * type + 5, type);
  CHECK(find_steps(timeline).source == StepSource::none);
}

TEST_CASE("the table by label has the time of the table by name") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const run::Timeline timeline = random_trace(seed);
    int64_t by_label = 0, by_name = 0, spans = 0;
    for (const KernelRow& row : kernel_table(timeline, KernelTableBy::label))
      by_label += row.total, spans += row.count;
    for (const KernelRow& row : kernel_table(timeline, KernelTableBy::name))
      by_name += row.total, spans -= row.count;
    CHECK(by_label == by_name);
    CHECK(spans == 0);
  }
}

TEST_CASE("a block's last warp counts whole, and occupancy is weighted by time") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 1;
  add(timeline, 0, 10, gemm, {.blocks = 100, .threads_per_block = 96, .occupancy = 50});
  add(timeline, 10, 40, gemm, {.blocks = 10, .threads_per_block = 33, .occupancy = 90});
  add(timeline, 40, 45, gemm);
  const auto nvidia = kernel_table(timeline, KernelTableBy::name);
  REQUIRE(nvidia.size() == 1);
  CHECK(nvidia[0].with_grid == 2);
  CHECK(nvidia[0].blocks == 110);
  CHECK(nvidia[0].warps == 100 * 3 + 10 * 2);
  CHECK(*nvidia[0].occupancy == doctest::Approx(80));
  CHECK(kernel_table(timeline, KernelTableBy::name, -1, 64)[0].warps == 100 * 2 + 10);
}

TEST_CASE("where the host runs ahead, steps and their idle time are the device's") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 1;
  for (int64_t step : {0, 1, 2}) {
    const int32_t mark = timeline.intern({.name = fmt::format("ProfilerStep#{}", step),
                                          .kind = run::SpanKind::step,
                                          .stream = run::Stream::host});
    add(timeline, 100 * step, 100 * step + 100, mark);
    for (int64_t half : {0, 1}) {  // halves of two steps lie between each other
      const int64_t begin = 500 * step + 1000 * half;
      add(timeline, 100 * step + 50, 100 * step + 52, launch, {.correlation = 2 * step + half});
      add(timeline, begin + 200, begin + 690, gemm, {.correlation = 2 * step + half});
    }
  }
  run::sort(timeline);
  const std::vector<MeanStep> means = mean_steps(timeline, find_steps(timeline));
  REQUIRE(means.size() == 1);
  CHECK(means[0].length == (2690 - 200) / 3);
  CHECK(means[0].idle.total() == 40 / 3);  // four gaps of 10, while two kernels overlap
}

TEST_CASE("kernels of no step are no idle time, and a break in the numbers is no time between") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 1;
  int64_t now = 0;
  for (const int number : {4, 5, 6, 105, 106}) {
    if (number == 105) now += 50'000;  // another cycle of the profiler
    const int32_t mark = timeline.intern({.name = fmt::format("ProfilerStep#{}", number),
                                          .kind = run::SpanKind::step,
                                          .stream = run::Stream::host});
    add(timeline, now, now + 100, mark);
    add(timeline, now + 1, now + 3, launch, {.correlation = now});
    add(timeline, now + 10, now + 90, gemm, {.correlation = now});
    // An evaluation, launched outside.
    add(timeline, now + 101, now + 103, launch, {.correlation = now + 1});
    add(timeline, now + 105, now + 195, gemm, {.correlation = now + 1});
    now += 200;
  }
  run::sort(timeline);
  const TraceSteps steps = consecutive_steps(find_steps(timeline));
  REQUIRE(steps.steps.size() == 3);
  CHECK(steps.steps.back().name == "ProfilerStep#6");
  const std::vector<MeanStep> means = mean_steps(timeline, steps);
  REQUIRE(means.size() == 1);
  CHECK(means[0].outside == 2 * 90 / 3);
  CHECK(means[0].idle.total() < 40);
}

TEST_CASE("of captures in one file that number their calls alike, each kernel has its own") {
  run::Timeline timeline;
  add_types(timeline);
  timeline.num_ranks = 1;
  for (int64_t capture : {0, 1}) {
    add(timeline, 1000 * capture, 1000 * capture + 5, launch, {.correlation = 7});
    add(timeline, 1000 * capture + 1, 1000 * capture + 4, launch, {.correlation = 7});  // inside
    add(timeline, 1000 * capture + 20, 1000 * capture + 30, gemm, {.correlation = 7});
  }
  const std::vector<int32_t> launches = launches_of(timeline);
  CHECK(launches[2] == 1);
  CHECK(launches[5] == 4);
}

}  // namespace
}  // namespace triplepoint::metrics
