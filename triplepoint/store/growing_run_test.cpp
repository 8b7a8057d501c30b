// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/growing_run.h"

#include <cmath>
#include <csignal>
#include <filesystem>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/random.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/store/store.h"

namespace triplepoint::run {
namespace {

namespace fs = std::filesystem;

Run start_of_recording() {
  Run run;
  run.manifest = {.origin = Origin::measured,
                  .fidelity = Fidelity::real,
                  .name = "growing",
                  .producer = "test",
                  .epoch_unix_ns = 1'700'000'000'000'000'000,
                  .hosts = {"node1"},
                  .anchors = {{.instant = Instant(0), .unix_ns = 1'700'000'000'000'000'000}}};
  run.numbers = {.recording_s = 1.5, .epoch_monotonic_ns = 9'007'199'254'740'993};
  run.devices = {{.index = 0, .name = "gpu", .uuid = "GPU-1", .pci = "1b:00.0"},
                 {.index = 1, .local = 1, .name = "gpu", .power_counted_on = 0}};
  return run;
}

/// What the second number `tick` says: two devices, one axis, a slow series, spans and steps.
double value_at(size_t series, int64_t tick) {
  return std::round(500 + 100 * random_normal({.seed = series}, static_cast<uint64_t>(tick))) / 8;
}
constexpr int64_t tick_ns = 100'000'000;

void declare_all(GrowingRun& run) {
  for (int32_t device : {0, 1}) {
    const SeriesSource source{.signal = "power_instant_w",
                              .device = device,
                              .sensor = "double",
                              .period = 100 * unit::ms};
    run.declare({.signal = "power_instant_w", .device = device}, &source);
    run.declare({.signal = "die_c", .device = device}, nullptr);
  }
  run.declare({.signal = "cpu_user_s", .of_node = true}, nullptr);
}

/// As it has grown.
Result<void> finish(GrowingRun& run) {
  return run.finish([&](const SeriesLoader&) { return run.head(); });
}

void add_tick(GrowingRun& run, int64_t tick) {
  const Instant now(tick * tick_ns);
  for (size_t series = 0; series < 4; ++series)
    run.add(series, now, value_at(series, tick));
  if (tick % 10 == 0) run.add(4, now, value_at(4, tick));
  if (tick % 20 != 19) return;
  const int32_t type =
      run.intern({.name = "forward", .kind = SpanKind::pass, .stream = Stream::host});
  for (int32_t rank : {0, 1})
    run.add({.begin = Instant((tick - 5) * tick_ns), .end = now, .type = type, .rank = rank});
  run.add(StepRecord{
      .begin = Instant((tick - 19) * tick_ns), .end = now, .samples = 4, .tokens = tick});
}

/// The first ticks as a run that was put together at once.
Run expected_after(int64_t ticks) {
  Run run = start_of_recording();
  run.sources = {
      {.signal = "power_instant_w", .sensor = "double", .period = 100 * unit::ms},
      {.signal = "power_instant_w", .device = 1, .sensor = "double", .period = 100 * unit::ms}};
  run.series = {{.signal = "power_instant_w"},
                {.signal = "die_c"},
                {.signal = "power_instant_w", .device = 1},
                {.signal = "die_c", .device = 1},
                {.signal = "cpu_user_s", .of_node = true}};
  for (int64_t tick = 0; tick < ticks; ++tick) {
    const Instant now(tick * tick_ns);
    for (size_t series = 0; series < 5; ++series) {
      if (series == 4 && tick % 10 != 0) continue;
      run.series[series].times.push_back(now);
      run.series[series].values.push_back(value_at(series, tick));
    }
    if (tick % 20 != 19) continue;
    run.timeline.num_ranks = 2;
    run.timeline.intern({.name = "forward", .kind = SpanKind::pass, .stream = Stream::host});
    for (int32_t rank : {0, 1})
      run.timeline.spans.push_back(
          {.begin = Instant((tick - 5) * tick_ns), .end = now, .rank = rank});
    run.steps.push_back(
        {.begin = Instant((tick - 19) * tick_ns), .end = now, .samples = 4, .tokens = tick});
  }
  sort(run.timeline);
  return run;
}

void check_same(const Run& run, const Run& expected) {
  CHECK(run.manifest.name == expected.manifest.name);
  CHECK(run.manifest.epoch_unix_ns == expected.manifest.epoch_unix_ns);
  CHECK(run.numbers == expected.numbers);
  CHECK(run.manifest.hosts == expected.manifest.hosts);
  CHECK(run.manifest.anchors == expected.manifest.anchors);
  CHECK(run.devices == expected.devices);
  CHECK(run.sources == expected.sources);
  CHECK(run.series == expected.series);
  CHECK(run.steps == expected.steps);
  CHECK(run.timeline == expected.timeline);
}

TEST_CASE("a growing run is readable after every sync, also across folds") {
  const ScratchFolder folder;
  GrowingRun run = GrowingRun::create(folder / "a.run", start_of_recording()).value();
  declare_all(run);
  for (int64_t tick = 0; tick < 1500; ++tick) {
    add_tick(run, tick);
    if (tick % 10 != 9) continue;
    REQUIRE(run.sync());
    if (tick % 130 == 129 || tick == 609) {
      const Run now = load(folder / "a.run").value();
      check_same(now, expected_after(tick + 1));
      CHECK(now.manifest.notes.back().find("not finished") != std::string::npos);
    }
  }
  const Run head = peek(folder / "a.run").value();
  CHECK(head.steps.size() == 75);
  CHECK(head.series.empty());
  CHECK(head.timeline.empty());
}

TEST_CASE("a finished run is what grew, in one file") {
  for (int64_t ticks : {0, 7, 100, 3000}) {
    const ScratchFolder folder;
    GrowingRun run = GrowingRun::create(folder / "a.run", start_of_recording()).value();
    declare_all(run);
    for (int64_t tick = 0; tick < ticks; ++tick) {
      add_tick(run, tick);
      if (tick % 10 == 9) REQUIRE(run.sync());
    }
    Run closing = run.head();
    closing.summaries = {{.power_mean_w = 1.5}, {}};
    REQUIRE(run.finish([&](const SeriesLoader&) { return closing; }));
    const Run finished = load(folder / "a.run").value();
    check_same(finished, expected_after(ticks));
    CHECK(finished.manifest.notes.empty());
    CHECK(finished.summaries == closing.summaries);
    CHECK(std::distance(fs::directory_iterator(folder.folder()), {}) == 1);
  }
}

TEST_CASE("who closes a run can ask for its series") {
  const ScratchFolder folder;
  GrowingRun run = GrowingRun::create(folder / "a.run", start_of_recording()).value();
  declare_all(run);
  for (int64_t tick = 0; tick < 700; ++tick) {
    add_tick(run, tick);
    if (tick % 10 == 9) REQUIRE(run.sync());
  }
  const Run expected = expected_after(700);
  REQUIRE(run.finish([&](const SeriesLoader& series) {
    for (const Series& wanted : expected.series)
      CHECK(series({.signal = wanted.signal, .device = wanted.device, .of_node = wanted.of_node}) ==
            wanted);
    CHECK(series({.signal = "none"}).values.empty());
    return run.head();
  }));
  check_same(load(folder / "a.run").value(), expected);
}

TEST_CASE("cut at every byte, a growing run opens and has lost no more than what was cut") {
  const ScratchFolder folder;
  GrowingRun run = GrowingRun::create(folder / "a.run", start_of_recording()).value();
  declare_all(run);
  const int64_t ticks = GrowingRun::fold_after * 10 + 40;
  for (int64_t tick = 0; tick < ticks; ++tick) {
    add_tick(run, tick);
    if (tick % 10 == 9) REQUIRE(run.sync());
  }
  const std::string main = read_file(folder / "a.run").value();
  const std::string tail = read_file(tail_of(folder / "a.run")).value();
  const ScratchFolder copy;
  size_t values = 0;
  const auto load_cut = [&](const std::string& main_bytes, const std::string& tail_bytes) {
    REQUIRE(write_file_atomically(copy / "a.run", main_bytes));
    REQUIRE(write_file_atomically(tail_of(copy / "a.run"), tail_bytes));
    const auto loaded = must(load(copy / "a.run"));
    values = loaded.series.empty() ? 0 : loaded.series[0].values.size();
    for (size_t i = 0; i < values; ++i)
      if (loaded.series[0].values[i] != value_at(0, static_cast<int64_t>(i)))
        FAIL("not a beginning");
  };
  load_cut(main, tail);
  CHECK(values == as_size(ticks));
  size_t last = 0;
  for (size_t cut = 0; cut <= tail.size(); ++cut) {
    load_cut(main, tail.substr(0, cut));
    CHECK(values >= as_size(GrowingRun::fold_after) * 10);
    CHECK(values >= last);
    CHECK(values % 10 == 0);
    last = values;
  }
  for (size_t cut = 24; cut < main.size(); cut += 1 + main.size() / 300)
    load_cut(main.substr(0, cut), tail);
}

TEST_CASE("killed at 200 random moments, a run has everything up to its last sync") {
  const ScratchFolder folder;
  for (uint64_t round = 0; round < 200; ++round) {
    const Path path = folder / (std::to_string(round) + ".run");
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      GrowingRun run = GrowingRun::create(path, start_of_recording()).value();
      declare_all(run);
      for (int64_t tick = 0;; ++tick) {
        add_tick(run, tick);
        if (tick % 3 != 2) continue;
        if (!run.sync()) _exit(1);
        const int64_t synced = tick + 1;
        if (write(pipe_ends[1], &synced, sizeof synced) < 0) _exit(1);
      }
    }
    close(pipe_ends[1]);
    int64_t synced = 0, next = 0;
    REQUIRE(read(pipe_ends[0], &synced, sizeof synced) == sizeof synced);
    usleep(static_cast<useconds_t>(5000 * random_uniform({.seed = 4}, round)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(pipe_ends[0], &next, sizeof next) == sizeof next)
      synced = next;
    close(pipe_ends[0]);
    const auto run = must(load(path));
    const auto ticks = static_cast<int64_t>(run.series[0].values.size());
    CHECK(ticks >= synced);
    CHECK(run.series == expected_after(ticks).series);
  }
}

TEST_CASE("reading a growing run changes nothing, and sees it grow while it is folded") {
  const ScratchFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    GrowingRun run = GrowingRun::create(folder / "a.run", start_of_recording()).value();
    declare_all(run);
    for (int64_t tick = 0; tick < 4000; ++tick) {
      add_tick(run, tick);
      if (tick % 4 == 3 && !run.sync()) _exit(1);
    }
    _exit(finish(run) ? 0 : 1);
  }
  size_t last = 0;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    const auto run = load(folder / "a.run");
    if (!run || run->series.empty()) continue;
    const size_t now = run->series[0].values.size();
    // A tail that is emptied under the reader's hands may cost it what came last.
    CHECK(now + 4 * GrowingRun::fold_after >= last);
    CHECK(run->series[0] == expected_after(static_cast<int64_t>(now)).series[0]);
    last = now;
  }
  CHECK(WEXITSTATUS(status) == 0);
  check_same(load(folder / "a.run").value(), expected_after(4000));
}

TEST_CASE("while the disk is full values wait, and are dropped only when too many wait") {
  const ScratchFolder folder;
  GrowingRun run = GrowingRun::create(folder / "a.run", start_of_recording()).value();
  declare_all(run);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit tight{.rlim_cur = 4000, .rlim_max = before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &tight) == 0);
  int64_t tick = 0;
  bool refused = false;
  for (; tick < 3000; ++tick) {
    add_tick(run, tick);
    if (tick % 10 == 9) refused = !run.sync() || refused;
  }
  CHECK(refused);
  CHECK(run.num_dropped() == 0);
  CHECK_FALSE(finish(run));
  CHECK(load(folder / "a.run"));
  setrlimit(RLIMIT_FSIZE, &before);
  REQUIRE(run.sync());
  check_same(load(folder / "a.run").value(), expected_after(tick));
  REQUIRE(setrlimit(RLIMIT_FSIZE, &tight) == 0);
  for (; run.num_dropped() == 0; ++tick)
    add_tick(run, tick);
  CHECK(tick >= most_values_per_chunk);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  REQUIRE(finish(run));
  CHECK(load(folder / "a.run"));
}

TEST_CASE("a recording takes less than two bytes a value") {
  const ScratchFolder folder;
  GrowingRun run = GrowingRun::create(folder / "a.run", start_of_recording()).value();
  constexpr size_t devices = 8, signals = 24, ticks = 3600;
  for (size_t series = 0; series < devices * signals; ++series)
    run.declare({.signal = "signal" + std::to_string(series % signals),
                 .device = static_cast<int32_t>(series / signals)},
                nullptr);
  std::vector<double> state(devices * signals, 40);
  for (uint64_t tick = 0; tick < ticks; ++tick) {
    for (size_t series = 0; series < devices * signals; ++series) {
      const RandomKey key{.seed = series};
      const double noise = random_normal(key, tick);
      double& now = state[series];
      switch (series % 6) {
        case 0:
          now = std::round((600 + 15 * noise) * 1000) / 1000;
          break;
        case 1:
          now = std::round(60 + 2 * noise);
          break;
        case 2:
          now = 1980 - 15 * std::floor(6 * random_uniform(key, tick));
          break;
        case 3:
          now += std::round(60000 + 1500 * noise);
          break;
        case 4:
          now = random_uniform(key, tick) < 0.02 ? 0 : 4;
          break;
        default:
          now = std::round(50 + 20 * noise) / 100;
      }
      const auto jitter =
          static_cast<int64_t>(2e5 * random_normal({.seed = 9, .stream = series / signals}, tick));
      run.add(series, Instant(static_cast<int64_t>(tick) * tick_ns + jitter), now);
    }
    if (tick % 10 == 9) REQUIRE(run.sync());
  }
  REQUIRE(finish(run));
  CHECK(as_real(fs::file_size(folder / "a.run")) / as_real(devices * signals * ticks) < 2);
}

}  // namespace
}  // namespace triplepoint::run
