// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/merge.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint::run {
namespace {

constexpr int64_t s = 1'000'000'000, us = 1000;
constexpr int64_t unix_begin = 1'700'000'000 * s;

/// How a node's clocks lie to the true time, which begins when the first node's recording does.
struct Node {
  std::string host;
  int64_t begins = 0;      // true time of its instant 0
  int64_t wall_error = 0;  // of its wall clock
  int32_t first_rank = 0;
};

/// Collectives at true times, every one ending on all ranks within `jitter` of each other.
Run recording_of(const Node& node, int64_t num_collectives, int64_t num_steps, int64_t jitter) {
  Run run;
  run.manifest.origin = Origin::measured;
  run.manifest.name = "job";
  run.manifest.hosts = {node.host};
  run.manifest.epoch_unix_ns = unix_begin + node.begins + node.wall_error;
  for (int64_t t = 0; t < 3; ++t)
    run.manifest.anchors.push_back(
        {.instant = Instant(60 * t * s),
         .unix_ns = unix_begin + node.begins + 60 * t * s + node.wall_error + t * 20 * us});
  run.numbers.epoch_monotonic_ns = 5;
  run.manifest.facts = {{"boot_id", node.host}, {"command", "train"}};
  run.timeline.num_ranks = node.first_rank + 2;
  const int32_t type = run.timeline.intern({.name = "all_reduce",
                                            .kind = SpanKind::communication,
                                            .stream = Stream::communication,
                                            .group = spec::GroupKind::data});
  for (int32_t i = 0; i < 2; ++i) {
    const int32_t rank = node.first_rank + i;
    run.devices.push_back({.index = i, .local = i, .rank = rank});
    run.summaries.push_back({.power_mean_w = 100.0 + rank});
    run.series.push_back(
        {.signal = "power_w", .device = i, .times = {Instant(0)}, .values = {1.0 * rank}});
    run.sources.push_back({.signal = "power_w", .device = i});
    for (int64_t k = 0; k < num_collectives; ++k) {
      const int64_t end = (k + 1) * s - node.begins +
                          static_cast<int64_t>(as_real(jitter) *
                                               random_uniform({.seed = static_cast<uint64_t>(rank)},
                                                              static_cast<uint64_t>(k)));
      run.timeline.spans.push_back(
          {.begin = Instant(end - 1000 * us), .end = Instant(end), .type = type, .rank = rank});
    }
  }
  run.series.push_back(
      {.signal = "cpu_user_s", .of_node = true, .times = {Instant(0)}, .values = {0}});
  for (int64_t k = 0; k < num_steps; ++k)
    run.steps.push_back({.begin = Instant(k * s - node.begins),
                         .end = Instant((k + 1) * s - node.begins + node.first_rank * us),
                         .samples = 2,
                         .tokens = 10});
  sort(run.timeline);
  return run;
}

const Node here{.host = "n1"};
const Node there{.host = "n2", .begins = 2 * s, .wall_error = 3'000 * us, .first_rank = 2};

TEST_CASE("ends of collectives find the clocks that the wall clocks miss") {
  const Merged merged =
      merge({recording_of(there, 50, 10, 7 * us), recording_of(here, 50, 10, 7 * us)}).value();
  REQUIRE(merged.alignments.size() == 2);
  const Alignment& second = merged.alignments[1];
  CHECK(second.host == "n2");
  CHECK(second.by == AlignedBy::collectives);
  CHECK(second.num_events == 50);
  CHECK(std::abs(second.offset / unit::ns - 2.0 * s) < 10.0 * us);
  CHECK(second.residual.value() < 10 * unit::us);
}

TEST_CASE("ends of steps do where there are no collectives") {
  const Merged merged =
      merge({recording_of(here, 0, 10, 0), recording_of(there, 0, 10, 0)}).value();
  CHECK(merged.alignments[1].by == AlignedBy::steps);
  CHECK(std::abs(merged.alignments[1].offset / unit::ns - 2.0 * s) < 10.0 * us);
}

TEST_CASE("without common events the wall clocks are believed") {
  const Merged merged = merge({recording_of(here, 0, 0, 0), recording_of(there, 0, 0, 0)}).value();
  CHECK(merged.alignments[1].by == AlignedBy::wall_clock);
  CHECK(merged.alignments[1].offset / unit::ns == doctest::Approx(2.0 * s + 3000.0 * us));
  CHECK(merged.alignments[1].residual.value() / unit::us == doctest::Approx(80));
}

TEST_CASE("steps that do not end together do not move clocks") {
  Run other = recording_of(there, 0, 10, 0);
  for (size_t i = 0; i < other.steps.size(); ++i)
    other.steps[i].end = other.steps[i].end + random_normal({.seed = 3}, i) * 0.2 * unit::s;
  const Merged merged = merge({recording_of(here, 0, 10, 0), other}).value();
  CHECK(merged.alignments[1].offset / unit::ns == doctest::Approx(2.0 * s + 3000.0 * us));
  CHECK(merged.alignments[1].residual.value() > 50 * unit::ms);
}

TEST_CASE("recordings of one kernel have the same clock, whatever their wall clocks say") {
  Run other = recording_of(there, 20, 10, 7 * us);
  other.manifest.facts["boot_id"] = here.host;
  other.numbers.epoch_monotonic_ns = 5 + 2 * s;
  const Merged merged = merge({recording_of(here, 20, 10, 7 * us), other}).value();
  CHECK(merged.alignments[1].by == AlignedBy::same_clock);
  CHECK(merged.alignments[1].offset == 2 * unit::s);
  CHECK(merged.alignments[1].residual.value() < 15 * unit::us);
}

TEST_CASE("a merged run has all devices, series, ranks and steps on one time line") {
  const Run first = recording_of(here, 50, 10, 0), second = recording_of(there, 50, 10, 0);
  const Run all = merge({first, second}).value().run;
  CHECK(all.manifest.hosts == std::vector<std::string>{"n1", "n2"});
  CHECK(all.manifest.anchors.size() == 6);
  CHECK(all.manifest.facts.at("command") == "train");
  CHECK(all.manifest.facts.at("boot_id@n2") == "n2");
  REQUIRE(all.devices.size() == 4);
  CHECK(all.devices[3].index == 3);
  CHECK(all.devices[3].node == 1);
  CHECK(all.devices[3].rank == 3);
  CHECK(all.summaries[3].power_mean_w == 103);
  CHECK(find_series(all, "power_w", 3)->values[0] == 3);
  CHECK(find_series(all, "power_w", 3)->times[0].nanoseconds() == doctest::Approx(2.0 * s));
  CHECK(find_series(all, "cpu_user_s", 1, true) != nullptr);
  CHECK(all.sources.size() == 4);
  CHECK(all.timeline.num_ranks == 4);
  CHECK(all.timeline.spans.size() == 200);
  CHECK_FALSE(find_fault(all.timeline));
  REQUIRE(all.steps.size() == 10);
  CHECK(all.steps[4].tokens == 20);
  CHECK(all.steps[4].begin.nanoseconds() == doctest::Approx(4.0 * s));
}

TEST_CASE("recordings with the same ranks have them numbered on") {
  Node twin = there;
  twin.first_rank = 0;
  const Run all = merge({recording_of(here, 3, 0, 0), recording_of(twin, 3, 0, 0)}).value().run;
  CHECK(all.timeline.num_ranks == 4);
  CHECK(all.devices[2].rank == 2);
  CHECK(all.manifest.notes[0].find("renumbered") != std::string::npos);
}

TEST_CASE("of disturbed nodes the worst one's processors are those of all") {
  const auto merged = [](double here_share, double there_share) {
    Run first = recording_of(here, 3, 0, 0), second = recording_of(there, 3, 0, 0);
    first.numbers.others_cpu_share = here_share, first.numbers.idle_cpu_share = 0.1;
    second.numbers.others_cpu_share = there_share, second.numbers.idle_cpu_share = 0.1;
    return *merge({first, second}).value().run.numbers.others_cpu_share;
  };
  CHECK(merged(0.5, 0.3) == 0.5);
  CHECK(merged(0.3, 0.5) == 0.5);
  CHECK(merged(0.1, 0.3) == 0.3);
}

TEST_CASE("what cannot be merged is a sentence") {
  CHECK_FALSE(merge({}));
  Run simulated;
  CHECK_FALSE(merge({recording_of(here, 0, 0, 0), simulated}));
}

TEST_CASE("two recordings of the same GPUs are refused by name") {
  Run first = recording_of(here, 3, 0, 0), again = first, elsewhere = recording_of(there, 3, 0, 0);
  for (Run* run : {&first, &again, &elsewhere})
    for (Device& device : run->devices)
      device.uuid = "GPU-" + std::to_string(device.index);
  again.manifest.name = "job-2";
  const auto merged = merge({first, again});
  REQUIRE_FALSE(merged);
  for (const char* words : {"job and job-2 of n1", "GPU-0", "give one recording per node"})
    CHECK_MESSAGE(merged.error().what.find(words) != std::string::npos, words);
  CHECK(merge({first, elsewhere}));
}

TEST_CASE("energies of nodes add up, where every node knows its own") {
  Run first = recording_of(here, 20, 10, 0), second = recording_of(there, 20, 10, 0);
  first.numbers.recording_cpu_energy_j = 100;
  first.numbers.measured_step_energy_j = 7;
  second.numbers.recording_cpu_energy_j = 50;
  const Run all = merge({first, second}).value().run;
  CHECK(all.numbers.recording_cpu_energy_j == 150);
  CHECK_FALSE(all.numbers.measured_step_energy_j);
}

TEST_CASE("one node's recordings, or one recording twice, are no two nodes") {
  const Run one = recording_of({"n1", 0, 0, 0}, 5, 5, 0);
  Run other = recording_of({"n1", 2 * s, 0, 2}, 5, 5, 0), copy = one;
  copy.manifest.hosts = {"n2"};
  copy.manifest.facts["boot_id"] = "n2";
  for (const Run& second : {one, other, copy}) {
    const auto merged = merge({one, second});
    REQUIRE(!merged);
    CHECK(merged.error().what.find("give one recording per node") != std::string::npos);
  }
  other.manifest.hosts = {"n2"};
  other.manifest.facts["boot_id"] = "n2";
  CHECK(merge({one, other}));
}

TEST_CASE("recordings of different times are refused by name") {
  Run early = recording_of(here, 3, 0, 0);
  Run late = recording_of({.host = "n2", .begins = 372 * s, .first_rank = 2}, 0, 0, 0);
  late.manifest.name = "job-2";
  const auto merged = merge({early, late});
  REQUIRE_FALSE(merged);
  for (const char* words : {"job and job-2 do not overlap in time", "252.0 s after the end"})
    CHECK_MESSAGE(merged.error().what.find(words) != std::string::npos, merged.error().what);
}

TEST_CASE("nodes that marked other numbers of steps are left out of them, and it is said") {
  const Run all = merge({recording_of(here, 0, 10, 0), recording_of(there, 0, 9, 0)}).value().run;
  CHECK(all.steps.size() == 10);
  CHECK(all.steps[0].tokens == 10);
  CHECK(all.manifest.notes[0].find("9 measured steps") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::run
