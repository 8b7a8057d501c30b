// SPDX-License-Identifier: Apache-2.0
// Gaps of traces and of marked regions alone.
#include <algorithm>
#include <cmath>

#include "triplepoint/advise/gap_testing.h"
#include "triplepoint/metrics/trace/breakdown.h"

namespace triplepoint::advise {
namespace {

using doctest::Approx;

/// Traces whose idle time is known: of ranks whose profilers begin one by one, of some steps of
/// kernels with gaps of all classes before them.
struct Traced {
  run::Run run;
  metrics::IdleTime idle;  // of a mean rank's mean step, ns
  double length = 0;       // ns
};

Traced traced(uint64_t seed, bool marked) {
  uint64_t draws = 0;
  const auto upto = [&](int64_t most) {
    return static_cast<int64_t>(random_uniform({seed, 3}, draws++) * as_real(most));
  };
  const int64_t ranks = 1 + upto(4), steps = marked ? 4 : 1;
  Traced result;
  run::Timeline& timeline = result.run.timeline;
  timeline.num_ranks = static_cast<int32_t>(ranks);
  timeline.names = run::NameKind::kernels;
  const auto type = [&](const std::string& name, run::SpanKind kind) {
    const bool on_host = kind == run::SpanKind::host || kind == run::SpanKind::step;
    return timeline.intern(
        {.name = name, .kind = kind, .stream = on_host ? run::Stream::host : run::Stream::compute});
  };
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const auto lane = static_cast<int32_t>(timeline.lanes.size());
    timeline.lanes.push_back({rank, run::Stream::host, 1, "thread 1"});
    timeline.lanes.push_back({rank, run::Stream::compute, 7, "stream 7"});
    const auto add = [&](int64_t begin, int64_t end, int32_t of, bool host, int64_t correlation) {
      timeline.spans.push_back({Instant(begin), Instant(end), of, rank});
      timeline.details.push_back({.lane = host ? lane : lane + 1, .correlation = correlation});
    };
    const int64_t start = upto(50'000'000);
    int64_t now = start, last_begin = now, first_begin = 0;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t begin = now;
      for (int64_t kernel = 0; kernel < 12; ++kernel) {
        const bool is_first = kernel == 0;
        const int64_t kind = is_first ? 0 : upto(4), number = 1000 * step + kernel + 1;
        const int64_t gap = is_first    ? 3'000'000
                            : kind == 1 ? 5'000 + upto(20'000)
                                        : 100'000 + upto(900'000);
        const bool is_seen = step > 0 || !is_first;
        const double share =
            1.0 / as_real(ranks * (is_first ? std::max<int64_t>(1, steps - 1) : steps));
        int64_t& idle = result.idle.*metrics::idle_classes[as_size(kind)];
        if (is_seen) idle += std::llround(share * as_real(gap));
        const int64_t called = kind == 0 ? now + gap / 2 : last_begin;
        if (kind < 3)
          add(called, called + 2'000, type("cudaLaunchKernel", run::SpanKind::host), true, number);
        last_begin = now + gap;
        if (step == 0 && is_first) first_begin = last_begin;
        now = last_begin + 1'000'000 + upto(500'000);
        add(last_begin, now, type(fmt::format("kernel {}", kernel), run::SpanKind::compute), false,
            number);
      }
      if (marked)
        add(begin, now, type(fmt::format("ProfilerStep#{}", step), run::SpanKind::step), true, -1);
    }
    if (marked)  // of a profiler that was stopped
      add(now, now + 50'000, type("ProfilerStep#last", run::SpanKind::step), true, -1);
    result.length += as_real(now - (marked ? start : first_begin)) / as_real(ranks * steps);
  }
  run::sort(timeline);
  result.run.manifest.origin = run::Origin::imported;
  result.run.steps = steps_of_traces(timeline);
  return result;
}

double cost_of(const Gap& gap, std::string_view cause) {
  double sum = 0;
  for (const GapPart& part : gap.parts)
    if (part.cause == cause) sum += part.cost / unit::ns;
  return sum;
}

TEST_CASE("idle time of traces is each rank's own, and has no cause that they do not show") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Traced truth = traced(seed, seed % 2 == 0);
    const Gap gap = gap_of(truth.run, nullptr);
    check_sum(gap);
    CHECK(gap.is_whole_trace == (seed % 2 == 1));
    CHECK(gap.measured / unit::ns == Approx(truth.length).epsilon(1e-6));
    const auto shown = [&](int64_t time) {
      return as_real(time) < 0.01 * truth.length ? 0 : as_real(time);
    };
    CHECK(cost_of(gap, "host") == Approx(shown(truth.idle.host_wait)).epsilon(1e-4));
    CHECK(cost_of(gap, "launch_gaps") == Approx(shown(truth.idle.kernel_wait)).epsilon(1e-4));
    CHECK(cost_of(gap, unknown_cause) ==
          Approx(shown(truth.idle.other) + shown(truth.idle.unknown)).epsilon(1e-4));
  }
}

TEST_CASE("what the host is at while GPUs idle is told where its calls are in the trace") {
  const auto named = [](const char* call, bool before) {
    Traced truth = traced(4, true);
    run::Timeline& timeline = truth.run.timeline;
    const int32_t type =
        timeline.intern({.name = call, .kind = run::SpanKind::host, .stream = run::Stream::host});
    // Around the begin of each step's gap, or in it.
    const run::Timeline plain = timeline;
    for (size_t i = 0; i < plain.spans.size(); ++i)
      if (plain.types[as_size(plain.spans[i].type)].kind == run::SpanKind::step) {
        const Instant begin = plain.spans[i].begin;
        timeline.spans.push_back({before ? begin - 0.1 * unit::ms : begin + 0.1 * unit::ms,
                                  begin + (before ? 0.1 : 2.9) * unit::ms, type,
                                  plain.spans[i].rank});
        timeline.details.push_back({.lane = plain.details[i].lane});
      }
    run::sort(timeline);
    const Gap gap = gap_of(truth.run, nullptr);
    REQUIRE(!gap.parts.empty());
    return gap.parts.front();
  };
  const GapPart loader =
      named("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", false);
  CHECK(loader.cause == "data_loader");
  CHECK(loader.what.find("between steps") != std::string::npos);
  CHECK(named("cudaFree", false).cause == "allocator");
  CHECK(named("cudaStreamSynchronize", true).cause == "synchronization");
  const GapPart other = named("optimizer", false);
  CHECK(other.cause == "host");
}

TEST_CASE("long steps are at what the recording marks then") {
  const auto cause_of = [](const char* region) {
    run::Run run;
    run.manifest.origin = run::Origin::measured;
    const int32_t forward = run.timeline.intern({.name = "forward", .kind = run::SpanKind::pass}),
                  other = run.timeline.intern({.name = region, .kind = run::SpanKind::pass});
    run.timeline.num_ranks = 2;
    Instant time;
    for (size_t i = 0; i < recorded_steps; ++i) {
      const Seconds in_region = (i % 12 == 11 ? 3.0 : 0.1) * unit::s,
                    own = (0.9 + 0.004 * random_normal({3, 9}, i)) * unit::s;
      const Instant middle = time + own, end = middle + in_region;
      run.steps.push_back({time, end, 0, 0});
      for (const int32_t rank : {0, 1})
        run.timeline.spans.push_back({time, middle, forward, rank});
      run.timeline.spans.push_back({middle, end, other, 1});  // the other rank waits
      time = end;
    }
    run::sort(run.timeline);
    const Gap gap = gap_of(run, nullptr);
    return gap.parts.empty() ? std::string() : gap.parts.front().cause;
  };
  CHECK(cause_of("data") == "data_loader");
  CHECK(cause_of("save_checkpoint") == "checkpoint");
  CHECK(cause_of("evaluate") == "region");
}

TEST_CASE("single long steps of less than a hundredth of the training are not told") {
  const auto parts_of = [](double longer) {
    run::Run run;
    run.manifest.origin = run::Origin::measured;
    Instant time;
    for (size_t i = 0; i < recorded_steps; ++i) {
      const bool is_long = i == 7 || i == 31;
      const double own = 1 + 0.004 * random_normal({3, 9}, i) + (is_long ? longer : 0);
      run.steps.push_back({time, time + own * unit::s, 0, 0});
      time = run.steps.back().end;
    }
    return gap_of(run, nullptr).parts.size();
  };
  CHECK(parts_of(0.3 * 0.01 * recorded_steps) == 0);
  CHECK(parts_of(1.5 * 0.01 * recorded_steps) == 1);
}

TEST_CASE("steps behind a break in the numbers are left out, and that is told") {
  run::Run run;
  run.manifest.origin = run::Origin::imported;
  run.timeline.num_ranks = 1;
  const int32_t gemm = run.timeline.intern({.name = "gemm", .kind = run::SpanKind::compute});
  Instant time;
  for (const int number : {4, 5, 6, 105}) {
    const int32_t mark = run.timeline.intern({.name = fmt::format("ProfilerStep#{}", number),
                                              .kind = run::SpanKind::step,
                                              .stream = run::Stream::host});
    run.timeline.spans.push_back({time, time + 1 * unit::s, mark});
    run.timeline.spans.push_back({time, time + 0.9 * unit::s, gemm});
    time = time + (number == 6 ? 100 : 1) * unit::s;
  }
  run::sort(run.timeline);
  run.steps = steps_of_traces(run.timeline);
  const Gap gap = gap_of(run, nullptr);
  CHECK(gap.measured / unit::s == Approx(1).epsilon(0.05));
  CHECK(std::ranges::any_of(
      gap.untold, [](const std::string& text) { return text.starts_with("1 more marked steps"); }));
}

/// Kernels and the communication of one group, in milliseconds.
struct SmallTrace {
  run::Run run;
  int32_t gemm = 0, talk = 0;

  SmallTrace(int32_t ranks, spec::Collective collective) {
    run.manifest.origin = run::Origin::imported;
    run.timeline.num_ranks = ranks;
    run.timeline.names = run::NameKind::kernels;
    run.timeline.communicators = {{.name = "group", .size = ranks}};
    gemm = run.timeline.intern({.name = "gemm", .kind = run::SpanKind::compute});
    talk = run.timeline.intern({.name = "nccl",
                                .kind = run::SpanKind::communication,
                                .stream = run::Stream::communication,
                                .op_class = spec::OpClass::communication,
                                .collective = collective});
  }
  void add(double begin, double end, int32_t rank, int64_t number = -1) {
    const auto at = [](double ms) { return instant_at(ms * unit::ms); };
    if (rank < 0) return run.steps.push_back({at(begin), at(end), 0, 0});
    run.timeline.spans.push_back({at(begin), at(end), number < 0 ? gemm : talk, rank});
    run.timeline.details.push_back({.communicator = number < 0 ? -1 : 0, .sequence = number});
  }
  Gap gap() {
    run::sort(run.timeline);
    return gap_of(run, nullptr);
  }
};

/// Ranks that compute with collectives beside; rank 1 takes `slower` times as long.
Gap overlapped(double slower) {
  constexpr int32_t ranks = 4, steps = 20, layers = 16;
  SmallTrace trace(ranks, spec::Collective::all_reduce);
  double start = 0, done = 0;
  for (int32_t step = 0; step < steps; ++step) {
    std::vector<double> now(ranks, start);
    for (int32_t layer = 0; layer < layers; ++layer) {
      for (int32_t rank = 0; rank < ranks; ++rank) {
        const double begin = now[as_size(rank)];
        trace.add(begin, now[as_size(rank)] = begin + 0.4 * (rank == 1 ? slower : 1), rank);
      }
      if (layer < layers / 2 || layer % 2 == 0) continue;
      const double end = std::max(done, std::ranges::max(now)) + 0.3;
      for (int32_t rank = 0; rank < ranks; ++rank)
        trace.add(std::max(done, now[as_size(rank)]), end, rank, step * layers + layer);
      done = end;
    }
    trace.add(start, done, -1);
    start = done;
  }
  return trace.gap();
}

TEST_CASE("a late rank costs what the step loses, though some waits are hidden") {
  for (const double slower : {1.3, 1.5}) {
    CAPTURE(slower);
    const Gap gap = overlapped(slower);
    REQUIRE(!gap.parts.empty());
    CHECK(gap.parts.front().what.starts_with("Rank 1 slows the others"));
    CHECK(gap.parts.front().cost / (gap.measured - overlapped(1).measured) ==
          Approx(1).epsilon(0.15));
  }
}

TEST_CASE("waits for the stage before are the pipeline's, and no transfer") {
  SmallTrace trace(2, spec::Collective::send_recv);
  for (int i = 0; i < 60; ++i) {  // the stages take turns
    const double begin = 5 * i, end = begin + 5;
    trace.add(begin, end - 0.1, i % 2);
    trace.add(end - 0.1, end, i % 2, i);
    trace.add(begin, end, 1 - i % 2, i);
    if (i % 2 == 0) trace.add(begin, begin + 10, -1);
  }
  const Gap gap = trace.gap();
  CHECK(cost_of(gap, "bubble") == Approx(5e6).epsilon(0.05));
  CHECK(cost_of(gap, "exposed_communication") == 0);
}

}  // namespace
}  // namespace triplepoint::advise
