// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/recorder.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>
#include <utility>

#include <doctest/doctest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/store/store.h"
#include "triplepoint/telemetry/recorder/child_process.h"

#include "tests/doubles/scripted_sensor.h"

namespace triplepoint::telemetry {
namespace {

namespace fs = std::filesystem;
using run::ReadingKind;

std::vector<std::unique_ptr<Sensor>> one_gpu() {
  auto sensor = std::make_unique<doubles::ScriptedSensor>("scripted");
  sensor->add_device({.name = "toy", .uuid = "GPU-1"});
  sensor->add("power_instant_w", 0, ReadingKind::instant, [](double) { return 500.0; });
  sensor->add("energy_j", 0, ReadingKind::counter, [](double t) { return 500 * t; });
  sensor->add("die_c", 0, ReadingKind::instant, [](double) { return 60.0; });
  sensor->add("throttle_ns_sw_power_cap", 0, ReadingKind::counter,
              [](double t) { return 0.25e9 * t; });
  sensor->add_gap({.what = "memory temperature", .why = "a toy has none"});
  std::vector<std::unique_ptr<Sensor>> all;
  all.push_back(std::move(sensor));
  return all;
}

RecordingPlan plan_for(const Path& file) {
  return {.file = file,
          .sampling = {.interval = 5 * unit::ms, .probe = Seconds()},
          .name = "test",
          .producer = "test",
          .host = "node1",
          .facts = {{"command", "true"}}};
}

void record_for(Recorder& recorder, int64_t ticks) {
  while (recorder.sampler().cost().ticks < ticks) {
    REQUIRE(recorder.turn());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// Longest time without a turn of the recorder while it records for a second.
std::chrono::nanoseconds record_a_second(Recorder& recorder) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = Clock::now();
  std::chrono::nanoseconds longest{};
  for (int64_t ticks = 1; ticks <= 200; ++ticks) {
    record_for(recorder, ticks);
    longest = std::max(longest, Clock::now() - std::exchange(last, Clock::now()));
  }
  return longest;
}

struct CalmSecond {
  RecordingSummary summary;
  double slip = 0;  // the longest stretch without a turn, of the whole: so far off may stamps lie
};

/// Where others keep the machine busy, stamps lie off their readings; then it is recorded again.
CalmSecond record_in_a_calm_second(const Path& file) {
  for (int attempt = 0;; ++attempt) {
    auto recorder = must(Recorder::begin(plan_for(file), one_gpu()));
    const auto longest = record_a_second(*recorder);
    const auto finished = must(recorder->finish());
    const RecordingSummary summary = finished;
    if (longest < std::chrono::milliseconds(25) || attempt == 9)
      return {summary,
              std::chrono::duration<double>(longest).count() / (summary.duration / unit::s)};
    std::filesystem::remove(file);
  }
}

TEST_CASE("a recording is a run with devices, series, sources, clocks and summaries") {
  const ScratchFolder folder;
  const auto [summary, slip] = record_in_a_calm_second(folder / "a.run");
  const run::Run run = run::load((folder / "a.run").string()).value();
  CHECK(run.manifest.origin == run::Origin::measured);
  CHECK(run.manifest.hosts == std::vector<std::string>{"node1"});
  CHECK(run.manifest.anchors.size() >= 2);
  CHECK(run.manifest.facts.at("not_measured").find("a toy has none") != std::string::npos);
  if (slip < 0.025) CHECK(run.manifest.notes.empty());  // else the sources of energy are at odds
  CHECK(run.devices[0].uuid == "GPU-1");
  const run::Series* power = run::find_series(run, "power_instant_w", 0);
  REQUIRE(power != nullptr);
  CHECK(power->values.size() >= 40);
  CHECK(run::find_series(run, "sampler_cpu_s", 0, true) != nullptr);
  REQUIRE(run.summaries.size() == 1);
  CHECK(run.summaries[0].power_mean_w.value() == doctest::Approx(500).epsilon(1e-3));
  CHECK(run.summaries[0].throttle.at("software_power_cap") ==
        doctest::Approx(0.25).epsilon(0.1 + slip));
  CHECK(summary.energy.value() / unit::J ==
        doctest::Approx(500 * (summary.duration / unit::s)).epsilon(1e-3 + slip));
  CHECK(text_of(summary, "a.run").find("software_power_cap") != std::string::npos);
}

TEST_CASE("a recording below a second does not name the recorder's share of a core") {
  RecordingSummary summary;
  summary.numbers.sampler_share_of_a_core = 1.2;
  for (const double seconds : {0.2, 2.0}) {
    summary.duration = seconds * unit::s;
    const bool says = text_of(summary, "a.run").find("of one core") != std::string::npos;
    CHECK(says == (seconds > 1));
  }
}

TEST_CASE("a recording that is under way can be read, and its recorder's end changes nothing") {
  const ScratchFolder folder;
  auto recorder = Recorder::begin(plan_for(folder / "a.run"), one_gpu()).value();
  record_for(*recorder, 300);  // over a second, so that it was synced
  const run::Run growing = run::load((folder / "a.run").string()).value();
  const run::Series* early = run::find_series(growing, "power_instant_w", 0);
  REQUIRE(early != nullptr);
  recorder->finish().value();
  const run::Run finished = run::load((folder / "a.run").string()).value();
  const run::Series* late = run::find_series(finished, "power_instant_w", 0);
  REQUIRE(late->times.size() >= early->times.size());
  CHECK(std::equal(early->times.begin(), early->times.end(), late->times.begin()));
}

TEST_CASE("what is recorded is refused where it cannot be written") {
  const ScratchFolder folder;
  CHECK_FALSE(Recorder::begin(plan_for(folder / "no/such/a.run"), one_gpu()));
}

TEST_CASE("an old recording is kept under another name") {
  const ScratchFolder folder;
  REQUIRE(write_file_atomically(folder / "a.run", "first"));
  CHECK(keep_old_recording(folder / "a.run").value() == folder / "a.1.run");
  CHECK_FALSE(keep_old_recording(folder / "a.run").value());
  REQUIRE(write_file_atomically(folder / "a.run", "second"));
  CHECK(keep_old_recording(folder / "a.run").value() == folder / "a.2.run");
  CHECK(read_file(folder / "a.1.run").value() == "first");
  CHECK(file_of_node("x/job.run", "n1") == "x/job.n1.run");
}

TEST_CASE("nothing but an old recording makes room for a new one") {
  const ScratchFolder folder;
  REQUIRE(write_file_atomically(folder / "job.toml", "mine"));
  REQUIRE(make_folder(folder / "runs.run"));
  std::filesystem::create_symlink("/dev/null", folder / "device.run");
  for (const char* name : {"job.toml", "runs.run", "device.run"})
    CHECK_FALSE(keep_old_recording(folder / name).has_value());
  CHECK(read_file(folder / "job.toml").value() == "mine");
  CHECK(std::filesystem::is_directory(folder / "runs.run"));
  CHECK(std::filesystem::is_symlink(folder / "device.run"));
}

TEST_CASE("warm-up is dropped, the given number of steps is measured, in order of time") {
  std::vector<run::StepRecord> all;
  all.reserve(20);
  for (int64_t i = 19; i >= 0; --i)
    all.push_back({.begin = Instant(i), .end = Instant(i + 1)});
  const auto ten = measured_steps(all, {.warmup = 3, .steps = 10});
  CHECK(ten.size() == 10);
  CHECK(ten.front().begin == Instant(3));
  CHECK(measured_steps(all, {.warmup = 0, .steps = std::nullopt}).size() == 20);
  CHECK(measured_steps(all, {.warmup = 15, .steps = 10}).size() == 5);
  CHECK(measured_steps(all, {.warmup = 50, .steps = 10}).size() == 1);
  CHECK(measured_steps({}, {}).empty());
}

TEST_CASE(
    "the power of a package is the energy of all its dies, and sensors at odds are that unsure") {
  run::Run head;
  run::Run all;
  for (int32_t d = 0; d < 4; ++d) {
    head.devices.push_back({.index = d, .local = d});
    if (d % 2 == 1) continue;
    run::Series& power = all.series.emplace_back();
    power = {.signal = "power_average_w", .device = d};
    for (int64_t at = 0; at <= 15'000; at += 100) {
      power.times.emplace_back(at * 1'000'000);
      power.values.push_back(d == 0 ? 480 : 490);
    }
  }
  const auto close = [&] {
    RecordingSummary summary;
    close_recording(
        head, Instant(15'000'000'000), {},
        [&](const run::Series& wanted) {
          const auto* const found =
              run::find_series(all, wanted.signal, wanted.device, wanted.of_node);
          return found == nullptr ? wanted : *found;
        },
        summary);
    return summary;
  };
  CHECK(energy_coverage(close()).starts_with("2 of 4 GPUs"));
  head.devices[1].power_counted_on = 0;
  head.devices[3].power_counted_on = 2;
  const RecordingSummary summary = close();
  CHECK(energy_coverage(summary).empty());
  CHECK(*summary.energy / unit::J == doctest::Approx(970 * 15));
  CHECK(text_of(summary, "x.run").find("of 2 packages with all their dies") != std::string::npos);
  // A counter that says 187 J where power says 327 W.
  run::Series counter{.signal = "energy_j", .device = 0};
  for (int64_t at = 0; at <= 15'000; at += 100) {
    counter.times.emplace_back(at * 1'000'000);
    counter.values.push_back(0.27 * as_real(at));
  }
  all.series.push_back(counter);
  const RecordingSummary odd = close();
  CHECK(*odd.energy_uncertainty > 0.5 * (270.0 * 15 * unit::J));
}

TEST_CASE("the interval of a mean is Student's") {
  const MeanWithInterval two = mean_with_interval({1, 3});
  CHECK(two.mean == 2);
  CHECK(two.half_width.value() == doctest::Approx(12.706));
  CHECK(mean_with_interval({5, 5, 5}).half_width.value() == 0);
  CHECK_FALSE(mean_with_interval({5}).half_width);
  const std::vector<double> many = numbered<double>(400, [](int i) { return i % 2 == 0 ? -1 : 1; });
  CHECK(mean_with_interval(many).half_width.value() == doctest::Approx(1.96 / 20).epsilon(0.01));
}

TEST_CASE("clocks are kept at the start, every minute and when the wall clock jumps") {
  constexpr int64_t s = 1'000'000'000;
  ClockWatch watch;
  int64_t kept = 0, jumps = 0;
  int64_t wall = 0;
  for (int64_t t = 0; t <= 600; ++t) {
    if (t == 90) wall -= 3600 * s;
    const auto verdict = watch.look({.monotonic_ns = t * s, .unix_ns = t * s + wall + 100 * t});
    kept += verdict.keep ? 1 : 0;
    if (verdict.jumped_ns) {
      ++jumps;
      CHECK(*verdict.jumped_ns == doctest::Approx(-3600.0 * s));
    }
  }
  CHECK(jumps == 1);
  CHECK(kept >= 11);
  CHECK(kept <= 12);
}

int run_command(const std::vector<std::string>& words,
                const std::function<void(pid_t)>& meanwhile = {},
                ChildProcess::Place place = ChildProcess::Place::beside) {
  const SignalsForCommand signals;
  auto child = must(ChildProcess::start(words, {{"TPT_TEST", "7"}}, signals, place));
  if (meanwhile) meanwhile(child.id());
  while (true)
    if (const auto code = child.wait_for(10 * unit::s)) return *code;
}

// qemu-user runs posix_spawn's vfork as fork: it neither waits for the command's start nor hears
// that it failed.
bool spawn_waits_for_the_start() {
  char name[] = "/no/such";
  char* words[] = {name, nullptr};
  pid_t id = 0;
  if (posix_spawn(&id, name, nullptr, nullptr, words, nullptr) != 0) return true;
  waitpid(id, nullptr, 0);
  MESSAGE("skipped: posix_spawn does not wait for the command's start here");
  return false;
}

TEST_CASE("a command's exit code is passed on, its end by a signal is 128 and the signal") {
  CHECK(run_command({"true"}) == 0);
  CHECK(run_command({"sh", "-c", "exit 42"}) == 42);
  CHECK(run_command({"sh", "-c", "kill -9 $$"}) == 137);
  CHECK(run_command({"sh", "-c", "exit $TPT_TEST"}) == 7);
}

TEST_CASE("a command that is not there is told from one that may not run") {
  if (!spawn_waits_for_the_start()) return;
  const SignalsForCommand signals;
  CHECK_FALSE(ChildProcess::start({"no-such-command-anywhere"}, {}, signals));
  CHECK(start_failed("no-such-command-anywhere") == 127);
  CHECK(start_failed("/etc/passwd") == 126);
  CHECK(start_failed("/no/such") == 127);
}

TEST_CASE("signals that we get are the command's") {
  for (int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    const auto send = [&](pid_t) { kill(getpid(), signal); };
    CHECK(run_command({"sh", "-c", "sleep 20 & wait"}, send) == 128 + signal);
  }
}

TEST_CASE("a command apart is in its own group and hears of the first Ctrl-C as SIGUSR1") {
  if (!spawn_waits_for_the_start()) return;
  const auto send = [](int signal) {
    return [signal](pid_t id) {
      CHECK(getpgid(id) == id);
      kill(getpid(), signal);
    };
  };
  const auto apart = [&](int signal) {
    return run_command({"sh", "-c", "sleep 20 & wait"}, send(signal), ChildProcess::Place::apart);
  };
  CHECK(apart(SIGINT) == 128 + SIGUSR1);
  CHECK(apart(SIGHUP) == 128 + SIGUSR1);
  CHECK(apart(SIGTERM) == 128 + SIGTERM);
  CHECK(run_command({"sh", "-c", "read line || exit 3"}, {}, ChildProcess::Place::apart) == 3);
}

TEST_CASE("a command has the signals it would have had without us") {
  std::signal(SIGPIPE, SIG_IGN);
  // A shell that ignores SIGPIPE cannot reset it: `kill` would not end it.
  CHECK(run_command({"sh", "-c", "kill -PIPE $$; exit 3"}) == 128 + SIGPIPE);
  std::signal(SIGPIPE, SIG_DFL);
}

constexpr int many_ranks = 64;

/// A rank's process: says whether it leads, follows or failed; a leader waits for all the others.
[[noreturn]] void be_rank(int rank, const Path& base, int say, int go) {
  const LaunchEnvironment place{.launcher = "test",
                                .rank = rank,
                                .local_rank = rank,
                                .local_size = many_ranks,
                                .job = "job",
                                .visible_devices = std::to_string(rank % 8)};
  const auto gathering = NodeGathering::join(place, 1, base);
  const bool leads = gathering && gathering->leads();
  const char said = !gathering ? 'e' : leads ? 'l' : 'f';
  if (write(say, &said, 1) != 1) _exit(1);
  char wait = 0;
  while (!leads && read(go, &wait, 1) > 0) {
  }
  if (!leads) _exit(0);
  while (gathering->ranks().size() < many_ranks || !gathering->others_have_left())
    usleep(1000);
  _exit(gathering->ranks()[7].visible_devices == "7" ? 0 : 2);
}

TEST_CASE("of all ranks that begin at once exactly one records, and it knows when others end") {
  const ScratchFolder folder;
  int ready[2], go[2];
  REQUIRE(pipe(ready) == 0);
  REQUIRE(pipe(go) == 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < many_ranks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      close(go[1]);
      be_rank(rank, folder.folder(), ready[1], go[0]);
    }
    children.push_back(child);
  }
  std::string said(many_ranks, ' ');
  for (char& one : said)
    REQUIRE(read(ready[0], &one, 1) == 1);
  CHECK(std::ranges::count(said, 'l') == 1);
  CHECK(std::ranges::count(said, 'f') == many_ranks - 1);
  close(go[0]);
  close(go[1]);
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 0);
  }
}

TEST_CASE("launches of different names, and processes without a launcher, do not meet") {
  const ScratchFolder folder;
  const auto join = [&](const LaunchEnvironment& place, int64_t parent) {
    return NodeGathering::join(place, parent, folder.folder()).value();
  };
  const auto first = join({.rank = 0, .job = "one"}, 5), other = join({.rank = 0, .job = "two"}, 5);
  CHECK(first.leads());
  CHECK(other.leads());
  CHECK_FALSE(join({.rank = 1, .job = "one"}, 5).leads());
  CHECK(join({.rank = 0, .job = "one", .node = "elsewhere"}, 5).leads());
  const auto nameless = join({.rank = 0}, 77);
  CHECK(nameless.leads());
  CHECK_FALSE(join({.rank = 1}, 77).leads());
  CHECK(join({.rank = 1}, 78).leads());
}

TEST_CASE("the folder of a launch is private, and is removed with its recorder") {
  const ScratchFolder folder;
  Path place;
  {
    const auto gathering = NodeGathering::join({}, 1, folder.folder()).value();
    place = gathering.marks().parent_path();
    CHECK(fs::exists(gathering.marks()));
    CHECK((fs::status(place).permissions() & fs::perms::others_all) == fs::perms::none);
  }
  CHECK_FALSE(fs::exists(place));
  const LaunchEnvironment named{.rank = 0, .job = "open"};
  place = NodeGathering::join(named, 1, folder.folder()).value().marks().parent_path();
  fs::create_directories(place);
  fs::permissions(place, fs::perms::all);
  CHECK_FALSE(NodeGathering::join(named, 1, folder.folder()));
}

}  // namespace
}  // namespace triplepoint::telemetry
