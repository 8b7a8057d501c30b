// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/trace_what_if.h"

#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint::sim {

namespace {

using run::SpanKind;
using run::Stream;

/// A training loop as a machine would instance it: a thread that launches, a stream that computes,
/// one that communicates, ranks that meet in collectives, a wait for the device at the end of a
/// step.
struct TestMachine {
  int32_t ranks = 3;
  int steps = 3, blocks = 6, kernels = 5;
  int64_t launch_ns = 6'000;         // of the host, per kernel
  int64_t kernel_ns = 50'000;        // of rank 0; each next rank needs a tenth more
  double compute = 1, transfer = 1;  // factors, what a trace what-if must find
  bool overlap = false;              // the next block does not wait for the collective
};

constexpr int64_t latency = 4'000, wake = 3'000, event = 1'500;

class MeasuredMachine {
 public:
  explicit MeasuredMachine(const TestMachine& machine)
      : m_(machine), state_(static_cast<size_t>(machine.ranks)) {
    t_.num_ranks = m_.ranks;
    t_.names = run::NameKind::kernels;
    t_.types = {{.name = "cudaLaunchKernel", .kind = SpanKind::host, .stream = Stream::host},
                {.name = "gemm", .kind = SpanKind::compute, .op_class = spec::OpClass::gemm},
                {.name = "copy_kernel", .kind = SpanKind::memory},
                {.name = "ncclDevKernel_AllReduce",
                 .kind = SpanKind::communication,
                 .stream = Stream::communication,
                 .op_class = spec::OpClass::communication,
                 .collective = spec::Collective::all_reduce},
                {.name = "cudaDeviceSynchronize", .kind = SpanKind::host, .stream = Stream::host},
                {.name = "ProfilerStep#1", .kind = SpanKind::step, .stream = Stream::host}};
    t_.communicators = {{.name = "world", .ranks = {}, .size = m_.ranks}};
    for (int32_t rank = 0; rank < m_.ranks; ++rank) {
      t_.lanes.push_back({rank, Stream::host, 1, "thread 1"});
      t_.lanes.push_back({rank, Stream::compute, 7, "stream 7"});
      t_.lanes.push_back({rank, Stream::compute, 20, "stream 20"});
    }
  }

  run::Timeline timeline() {
    for (int step = 0; step < m_.steps; ++step) {
      for (int block = 0; block < m_.blocks; ++block) {
        for (int32_t rank = 0; rank < m_.ranks; ++rank)
          compute(rank, block);
        meet();
      }
      for (int32_t rank = 0; rank < m_.ranks; ++rank)
        synchronize(rank);
    }
    run::sort(t_);
    return t_;
  }

 private:
  struct State {
    int64_t host = 0, computed = 0, communicated = 0, ready = 0, correlation = 0;
  };

  void add(int32_t rank, int lane, int32_t type, int64_t begin, int64_t end,
           run::SpanDetail detail) {
    detail.lane = 3 * rank + lane;
    t_.spans.push_back({Instant(begin), Instant(end), type, rank});
    if (type == 3) t_.spans.back().bytes = 1e6 * unit::B;
    t_.details.push_back(detail);
  }

  int64_t launch(State& state, int32_t rank) {
    const int64_t begin = state.host;
    state.host += m_.launch_ns;
    add(rank, 0, 0, begin, begin + m_.launch_ns / 2, {.correlation = ++state.correlation});
    return begin + latency;
  }

  void compute(int32_t rank, int block) {
    State& state = state_[static_cast<size_t>(rank)];
    for (int i = 0; i < m_.kernels; ++i) {
      const bool moves = i % 3 == 2;
      const int64_t length = m_.kernel_ns + m_.kernel_ns * rank / 10 + 1'000 * block;
      const int64_t begin = std::max(launch(state, rank), state.computed);
      const int64_t now = moves ? length : std::llround(static_cast<double>(length) * m_.compute);
      add(rank, 1, moves ? 2 : 1, begin, begin + now, {.correlation = state.correlation});
      state.computed = begin + now;
    }
    state.ready = std::max({launch(state, rank), state.communicated, state.computed + event});
  }

  void meet() {
    int64_t last = 0;
    for (const State& state : state_)
      last = std::max(last, state.ready);
    const int64_t end = last + std::llround(80'000 * m_.transfer);
    for (int32_t rank = 0; rank < m_.ranks; ++rank) {
      State& state = state_[static_cast<size_t>(rank)];
      add(rank, 2, 3, state.ready, end,
          {.communicator = 0, .sequence = sequence_, .correlation = state.correlation});
      state.communicated = end;
      if (!m_.overlap) state.computed = end + event;
    }
    ++sequence_;
  }

  void synchronize(int32_t rank) {
    State& state = state_[static_cast<size_t>(rank)];
    const int64_t begin = state.host;
    state.host = std::max({begin + wake, state.communicated + wake, state.computed + wake});
    add(rank, 0, 4, begin, state.host, {});
    state.host += 20'000;  // reading the loss
  }

  TestMachine m_;
  run::Timeline t_;
  std::vector<State> state_;
  int64_t sequence_ = 0;
};

run::Timeline measured_on(const TestMachine& machine) {
  return MeasuredMachine(machine).timeline();
}

/// The largest difference of any begin or end.
int64_t largest_difference(const run::Timeline& a, const run::Timeline& b) {
  REQUIRE(a.spans.size() == b.spans.size());
  int64_t most = 0;
  for (size_t i = 0; i < a.spans.size(); ++i) {
    most =
        std::max(most, std::abs(a.spans[i].begin.nanoseconds() - b.spans[i].begin.nanoseconds()));
    most = std::max(most, std::abs(a.spans[i].end.nanoseconds() - b.spans[i].end.nanoseconds()));
  }
  return most;
}

std::vector<TestMachine> machines() {
  return {{},
          {.ranks = 1},
          {.launch_ns = 90'000, .overlap = true},               // the host sets the pace
          {.kernels = 2, .kernel_ns = 7'000, .overlap = true},  // short kernels
          {.kernel_ns = 400'000, .overlap = true},              // collectives behind computation
          {.steps = 6, .blocks = 2, .overlap = true}};
}

}  // namespace

TEST_CASE("repeated without a change, every span is where it was measured") {
  for (const TestMachine& machine : machines()) {
    const run::Timeline measured = measured_on(machine);
    const TraceWhatIf again = what_if_from_trace(measured, {});
    CHECK(again.timeline == measured);
    CHECK(again.rendezvous == (machine.ranks > 1 ? machine.steps * machine.blocks : 0));
    if (machine.launch_ns < 10'000) CHECK(again.waits == machine.ranks * machine.steps);
  }
}

TEST_CASE("timelines of any shape come out unchanged when nothing is scaled") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    run::Timeline t = measured_on({.ranks = 2, .steps = 1, .blocks = 2});
    for (size_t i = 0; i < t.spans.size(); ++i) {  // throw everything about
      const auto draw = [&](uint64_t n) { return random_uniform({seed, n}, i); };
      const auto begin = static_cast<int64_t>(draw(1) * 1e6);
      t.spans[i].begin = Instant(begin);
      t.spans[i].end = Instant(begin + static_cast<int64_t>(draw(2) * draw(3) * 1e5));
      t.details[i].sequence = static_cast<int64_t>(draw(4) * 3);
    }
    run::sort(t);
    CHECK(what_if_from_trace(t, {}).timeline == t);
    CHECK_FALSE(run::find_fault(what_if_from_trace(t, at_clock(0.7, 0)).timeline));
  }
}

TEST_CASE("a trace what-if at a lower clock is what the machine does at that clock") {
  for (const TestMachine& machine : machines())
    for (const double clock : {0.5, 0.8, 0.95}) {
      // Where kernels are as short as gaps, times do not tell who waited for whom.
      if (machine.kernel_ns < 10'000) continue;
      TestMachine slower = machine;
      slower.compute = 1 / clock;
      const run::Timeline truth = measured_on(slower);
      const TraceWhatIf predicted = what_if_from_trace(measured_on(machine), at_clock(clock, 0));
      const auto length = run::extent(truth)->end - run::extent(truth)->begin;
      CAPTURE(machine.launch_ns);
      CAPTURE(machine.kernel_ns);
      CAPTURE(machine.steps);
      CAPTURE(clock);
      // Rounding aside, the length of the whole is what it should be.
      CHECK((run::extent(predicted.timeline)->end - run::extent(predicted.timeline)->begin) /
                length ==
            doctest::Approx(1).epsilon(2e-3));
    }
  TestMachine slower;
  slower.compute = 2;
  CHECK(largest_difference(what_if_from_trace(measured_on({}), at_clock(0.5, 0)).timeline,
                           measured_on(slower)) < 10);
}

TEST_CASE("a trace what-if on faster links is what the machine does with them") {
  for (const double transfer : {0.25, 0.5, 3.0}) {
    TraceScaling scaling;
    scaling.transfer = [&](const CollectiveInstance& instance) {
      return instance.transfer * transfer;
    };
    TestMachine other;
    other.transfer = transfer;
    CHECK(largest_difference(what_if_from_trace(measured_on({}), scaling).timeline,
                             measured_on(other)) < 10);
  }
}

TEST_CASE("waiting for the slow rank goes when it is fast, and is no transfer") {
  // Rank 2 is a fifth slower; what the others wait in their collectives is its doing.
  const run::Timeline measured = measured_on({});
  int64_t seen = 0;
  TraceScaling scaling;
  scaling.transfer = [&](const CollectiveInstance& instance) {
    ++seen;
    CHECK(instance.transfer / unit::us == doctest::Approx(80));
    CHECK(instance.payload == 1e6 * unit::B);
    CHECK(instance.ranks == 3);
    return instance.transfer;
  };
  const TraceWhatIf again = what_if_from_trace(measured, scaling);
  CHECK(seen == again.rendezvous);
}

TEST_CASE("a host that sets the pace hides the clock") {
  const TestMachine bound{.launch_ns = 90'000};
  const run::Timeline measured = measured_on(bound);
  const auto length = [](const run::Timeline& t) {
    return run::extent(t)->end - run::extent(t)->begin;
  };
  const double change =
      length(what_if_from_trace(measured, at_clock(0.9, 0)).timeline) / length(measured);
  CHECK(change < 1.02);
  CHECK(length(what_if_from_trace(measured_on({}), at_clock(0.9, 0)).timeline) /
            length(measured_on({})) >
        1.04);
}

TEST_CASE("steps are drawn around what they enclose, wherever it moves") {
  run::Timeline t = measured_on({.ranks = 1, .steps = 1});
  const auto whole = run::extent(t);
  t.spans.push_back({whole->begin, whole->end, 5, 0});
  t.details.push_back({.lane = 0});
  run::sort(t);
  const TraceWhatIf slow = what_if_from_trace(t, at_clock(0.5, 0));
  const auto after = run::extent(slow.timeline);
  for (const run::Span& span : slow.timeline.spans)
    if (span.type == 5) {
      CHECK(span.begin == after->begin);
      CHECK(span.end == after->end);
    }
}

TEST_CASE("a step that shares a kernel's correlation did not launch it") {
  run::Timeline t = measured_on({.ranks = 1, .steps = 1});
  t.spans.push_back({Instant(0), t.spans.back().end, 5, 0});
  t.details.push_back({.lane = 0, .correlation = 1});
  run::sort(t);
  CHECK(what_if_from_trace(t, {}).timeline == t);
}

TEST_CASE("the clock-insensitive share of a kernel stays as long as it is") {
  CHECK(at_clock(0.5, 0).compute_time == 2);
  CHECK(at_clock(0.5, 1).compute_time == 1);
  CHECK(at_clock(0.5, 0.5).compute_time == 1.5);
  CHECK(at_clock(0.5, 0.5).memory_time == 1);
}

}  // namespace triplepoint::sim
