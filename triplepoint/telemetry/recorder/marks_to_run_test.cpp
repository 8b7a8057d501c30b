// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/marks_to_run.h"

#include <filesystem>
#include <limits>

#include <doctest/doctest.h>
#include <unistd.h>

namespace triplepoint::telemetry {
namespace {

namespace fs = std::filesystem;
using mark::EventKind;
constexpr int64_t s = 1'000'000'000;

/// A growing run and processes that mark into it.
class Bench {
 public:
  Bench() : folder_(fs::temp_directory_path() / ("triplepoint_marks_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    run::Run start;
    for (int32_t i = 0; i < 2; ++i)
      start.devices.push_back({.index = i, .local = i, .uuid = "GPU-" + std::to_string(i)});
    growing_.emplace(run::GrowingRun::create(folder_ / "a.run", start).value());
    marks_.emplace(*growing_, epoch);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() { fs::remove_all(folder_); }

  static constexpr int64_t epoch = 100 * s;
  std::vector<mark::Process> processes = {{.pid = 1, .rank = 8, .local_rank = 0},
                                          {.pid = 2, .rank = 9, .local_rank = 1}};

  void say(mark::Event event) {
    event.begin_ns += epoch;
    if (event.end_ns > 0) event.end_ns += epoch;
    marks_->take(event, processes);
  }
  void step(int32_t process, int64_t number, int64_t begin, int64_t end, double tokens = 0) {
    say({.kind = EventKind::step_begin, .process = process, .begin_ns = begin, .number = number});
    if (tokens > 0)
      say({.kind = EventKind::value,
           .process = process,
           .begin_ns = begin,
           .name = "tokens",
           .value = tokens});
    say({.kind = EventKind::step_end, .process = process, .begin_ns = end, .number = number});
  }
  MarksToRun& marks() { return *marks_; }
  run::Run load() {
    marks_->finish();
    REQUIRE(growing_->sync());
    return run::load_growing(folder_ / "a.run").value();
  }

 private:
  Path folder_;
  std::optional<run::GrowingRun> growing_;
  std::optional<MarksToRun> marks_;
};

std::string name_of(const run::Run& run, size_t span) {
  return run.timeline.types[as_size(run.timeline.spans[span].type)].name;
}

TEST_CASE("a step of the run lasts from the first rank's begin to the last rank's end") {
  Bench bench;
  bench.step(0, 1, 1 * s, 2 * s, 100);
  bench.step(0, 2, 2 * s, 3 * s, 100);
  bench.step(1, 1, 1 * s + 5, 2 * s + 7, 50);
  bench.step(1, 2, 2 * s - 4, 3 * s, 50);
  const run::Run run = bench.load();
  REQUIRE(run.steps.size() == 2);
  CHECK(run.steps[0] ==
        run::StepRecord{.begin = Instant(1 * s), .end = Instant(2 * s + 7), .tokens = 150});
  CHECK(run.steps[1].begin == Instant(2 * s - 4));
  CHECK(run.timeline.spans.size() == 4);
  CHECK(run.timeline.num_ranks == 10);
  CHECK_FALSE(run::find_fault(run.timeline));
}

TEST_CASE("steps are kept while they come, when every rank has had the time to say so") {
  Bench bench;
  bench.step(0, 1, 1 * s, 2 * s);
  bench.marks().keep_finished_steps(Bench::epoch + 2 * s + 100);
  bench.step(1, 1, 1 * s, 2 * s + 50);
  bench.marks().keep_finished_steps(Bench::epoch + 4 * s);
  bench.step(1, 1, 5 * s, 6 * s);  // too late for the first, and so another round of counting
  const run::Run run = bench.load();
  REQUIRE(run.steps.size() == 2);
  CHECK(run.steps[0].end == Instant(2 * s + 50));
}

TEST_CASE("a program that counts from 0 again has new steps") {
  Bench bench;
  bench.processes.resize(1);
  for (int64_t i = 0; i < 6; ++i)
    bench.step(0, i % 3, i * s, (i + 1) * s - 1);
  CHECK(bench.load().steps.size() == 6);
}

TEST_CASE("a program that does not count has its steps counted") {
  Bench bench;
  for (int64_t i = 0; i < 3; ++i) {
    bench.step(0, -1, i * s, i * s + 9);
    bench.step(1, -1, i * s, i * s + 10);
  }
  const run::Run run = bench.load();
  REQUIRE(run.steps.size() == 3);
  CHECK(run.steps[2].end == Instant(2 * s + 10));
}

TEST_CASE("regions nest per thread, and an end without a name closes the innermost") {
  Bench bench;
  const auto region = [&](EventKind kind, const char* name, int64_t at, int32_t thread) {
    bench.say({.kind = kind, .thread = thread, .begin_ns = at, .name = name});
  };
  region(EventKind::region_begin, "forward", 10, 1);
  region(EventKind::region_begin, "attention", 20, 1);
  region(EventKind::region_begin, "loader", 15, 2);
  region(EventKind::region_end, "", 30, 1);
  region(EventKind::region_end, "forward", 40, 1);
  region(EventKind::region_end, "never begun", 45, 1);
  region(EventKind::region_end, "loader", 50, 2);
  const run::Run run = bench.load();
  REQUIRE(run.timeline.spans.size() == 3);
  CHECK(name_of(run, 0) == "forward");
  CHECK(run.timeline.spans[0].end == Instant(40));
  CHECK(name_of(run, 1) == "loader");
  CHECK(name_of(run, 2) == "attention");
  CHECK(run.timeline.spans[2].end == Instant(30));
}

TEST_CASE("a region whose inner ones were never ended ends them too") {
  Bench bench;
  for (const char* name : {"a", "b", "c"})
    bench.say({.kind = EventKind::region_begin, .begin_ns = 10, .name = name});
  bench.say({.kind = EventKind::region_end, .begin_ns = 20, .name = "a"});
  CHECK(bench.load().timeline.spans.size() == 3);
}

TEST_CASE("spans of collectives are communication of their group") {
  Bench bench;
  bench.say({.kind = EventKind::span,
             .begin_ns = 1,
             .end_ns = 5,
             .name = "all_reduce",
             .group = "dp",
             .bytes = 1e9});
  bench.say({.kind = EventKind::span, .begin_ns = 6, .end_ns = 9, .name = "gemm", .flops = 1e12});
  bench.say({.kind = EventKind::span, .begin_ns = 9, .end_ns = 8, .name = "gemm"});
  const run::Run run = bench.load();
  REQUIRE(run.timeline.spans.size() == 2);
  const run::SpanType& reduce = run.timeline.types[0];
  CHECK(reduce.kind == run::SpanKind::communication);
  CHECK(reduce.collective == spec::Collective::all_reduce);
  CHECK(reduce.group == spec::GroupKind::data);
  CHECK(run.timeline.spans[0].bytes == 1e9 * unit::B);
  CHECK(run.timeline.types[1].kind == run::SpanKind::compute);
  CHECK(run.timeline.spans[1].flops == 1e12 * unit::FLOP);
}

TEST_CASE("operations named as the workload names them keep group, amounts and microbatch") {
  Bench bench;
  bench.say({.kind = EventKind::span,
             .begin_ns = 1,
             .end_ns = 5,
             .number = 3,
             .name = "gradient_reduce_scatter",
             .group = "edp ring",
             .bytes = 4096});
  bench.say(
      {.kind = EventKind::span, .begin_ns = 5, .end_ns = 6, .name = "ep_dispatch", .group = "ep"});
  bench.say(
      {.kind = EventKind::span, .begin_ns = 6, .end_ns = 7, .name = "input_norm", .bytes = 64});
  bench.say(
      {.kind = EventKind::span, .begin_ns = 7, .end_ns = 8, .name = "qkv", .bytes = 9, .flops = 5});
  bench.say({.kind = EventKind::span, .begin_ns = 8, .end_ns = 9, .name = "load_batch"});
  const run::Run run = bench.load();
  REQUIRE(run.timeline.spans.size() == 5);
  const auto type = [&](size_t span) {
    return run.timeline.types[as_size(run.timeline.spans[span].type)];
  };
  CHECK(type(0).collective == spec::Collective::reduce_scatter);
  CHECK(type(0).group == spec::GroupKind::expert_data);
  CHECK(run.timeline.spans[0].microbatch == 3);
  CHECK(run.timeline.spans[1].microbatch == -1);
  CHECK(type(1).kind == run::SpanKind::communication);
  CHECK(type(1).group == spec::GroupKind::expert);
  CHECK(type(2).kind == run::SpanKind::memory);
  CHECK(type(2).op_class == spec::OpClass::elementwise);
  CHECK(type(3).op_class == spec::OpClass::gemm);
  CHECK(type(4).kind == run::SpanKind::pass);
}

TEST_CASE("threads of one process may be their own ranks") {
  Bench bench;
  bench.processes = {{.pid = 1}};
  for (int32_t rank = 0; rank < 3; ++rank) {
    const int32_t thread = 70 + rank;
    const auto say = [&](EventKind kind, int64_t at, const char* name, double value) {
      bench.say({.kind = kind,
                 .thread = thread,
                 .begin_ns = at,
                 .number = 1,
                 .name = name,
                 .value = value});
    };
    say(EventKind::value, 1, "rank", rank);
    say(EventKind::step_begin, 10 + rank, "", 0);
    say(EventKind::value, 15, "tokens", 8);
    say(EventKind::step_end, 20 + rank, "", 0);
  }
  const run::Run run = bench.load();
  REQUIRE(run.steps.size() == 1);
  CHECK(run.steps[0].begin == Instant(10));
  CHECK(run.steps[0].end == Instant(22));
  CHECK(run.steps[0].tokens == 24);
  CHECK(run.timeline.num_ranks == 3);
  CHECK(run.series.empty());
}

TEST_CASE("what a rank waits for cores is told per step, from its first step's end on") {
  Bench bench;
  for (int64_t i = 0; i < 5; ++i)
    for (const int32_t process : {0, 1}) {
      const auto step = as_real(i);
      bench.say({.kind = EventKind::step_end,
                 .process = process,
                 .begin_ns = (i + 1) * s,
                 .number = i,
                 .value = process == 0 ? 7 + 0.5 * step : -1});  // -1: the kernel does not count
    }
  CHECK(bench.load().core_waits == std::map<int32_t, Seconds>{{8, 0.5 * unit::s}});
}

TEST_CASE("a rank's device is the one its process sees") {
  Bench bench;
  bench.processes = {{.pid = 1, .rank = 3, .local_rank = 0, .visible_devices = "1,0"},
                     {.pid = 2, .rank = 4, .local_rank = 1, .visible_devices = "1,0"}};
  bench.step(0, 1, 1, 2);
  bench.step(1, 1, 1, 2);
  const run::Run run = bench.load();
  CHECK(run.devices[0].rank == 4);
  CHECK(run.devices[1].rank == 3);
}

TEST_CASE("values that are not of a step are series of the rank's device") {
  Bench bench;
  for (int64_t i = 1; i <= 3; ++i)
    bench.say({.kind = EventKind::value,
               .process = 1,
               .begin_ns = i * s,
               .name = "loss",
               .value = 5.0 - as_real(i)});
  bench.say({.kind = EventKind::value,
             .process = 1,
             .begin_ns = 9 * s,
             .name = "loss",
             .value = std::numeric_limits<double>::infinity()});
  const run::Run run = bench.load();
  const run::Series* loss = run::find_series(run, "mark_loss", 1);
  REQUIRE(loss != nullptr);
  CHECK(loss->values == std::vector<double>{4, 3, 2});
}

TEST_CASE("ends without a begin and unknown processes do no harm") {
  Bench bench;
  bench.say({.kind = EventKind::step_end, .begin_ns = 5, .number = 3});
  bench.say({.kind = EventKind::region_end, .begin_ns = 5});
  bench.say({.kind = EventKind::step_begin, .process = 7, .begin_ns = 5});
  bench.say({.kind = EventKind::step_begin, .process = -1, .begin_ns = 5});
  bench.say({.kind = EventKind::step_begin, .process = 0, .begin_ns = 5, .number = 9});
  const run::Run run = bench.load();
  CHECK(run.steps.empty());
  CHECK(run.timeline.empty());
}

}  // namespace
}  // namespace triplepoint::telemetry
