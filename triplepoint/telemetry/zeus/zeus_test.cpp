// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/zeus/zeus.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/scratch_folder.h"

namespace triplepoint::telemetry {
namespace {

run::Series series_of(const char* signal, int32_t device, double factor) {
  run::Series series{.signal = signal, .device = device};
  for (int i = 0; i < 20; ++i) {
    series.times.emplace_back(i * 50'000'123LL);
    series.values.push_back(factor * i);
  }
  return series;
}

run::Run measured_run() {
  run::Run run;
  run.manifest.epoch_unix_ns = 1'700'000'000'123'456'789;
  for (int32_t i = 0; i < 4; ++i)
    run.devices.push_back({.index = i, .node = i / 2, .local = i % 2, .rank = i});
  for (int32_t i = 0; i < 4; ++i)
    run.series.push_back(series_of("power_instant_w", i, 1024 * (i + 1)));
  return run;
}

TEST_CASE("readings that failed are left out and counted") {
  const ScratchFolder folder;
  const std::string rows = "1700000000.0,300,-1\n1700000000.1,-1,-1\n1700000000.2,310,-1\n";
  const run::Run run = read_zeus(folder.file("power.csv", rows)).value();
  CHECK(find_series(run, "power_instant_w", 0)->values == std::vector<double>{300, 310});
  CHECK(find_series(run, "power_instant_w", 1) == nullptr);
  const auto says = [](const std::string& note) {
    return note.find("4 readings failed") != std::string::npos;
  };
  CHECK(std::any_of(run.manifest.notes.begin(), run.manifest.notes.end(), says));
}

TEST_CASE("a row that was cut off at the end is no error, one in the middle is") {
  const ScratchFolder folder;
  const Path cut = folder.file("cut.csv", "1700000000.0,300\n17000");
  CHECK(read_zeus(cut).value().series[0].values.size() == 1);
  const auto refused =
      read_zeus(folder.file("broken.csv", "1700000000.0,300\noops\n1700000001.0,300\n"));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("broken.csv:2: \"oops\"") != std::string::npos);
}

TEST_CASE("a folder of something else is not taken for a recording") {
  const ScratchFolder folder;
  folder.file("results.csv", "name,value\na,1\n");
  folder.file("counts.csv", "1.0,300\n");
  folder.file("notes_3.csv", "hello\n");
  CHECK_FALSE(looks_like_zeus(folder.folder()));
  CHECK_FALSE(looks_like_zeus(folder / "no such file"));
}

TEST_CASE("Zeus' power CSV is read with and without a header") {
  const ScratchFolder folder;
  const std::string rows = "1700000000.25,300.5,310\n1700000000.35,301,\n";
  const run::Run bare = read_zeus(folder.file("bare.csv", rows)).value();
  const run::Run titled =
      read_zeus(folder.file("titled.csv", "time,power2,power5\n" + rows)).value();
  CHECK(find_series(bare, "power_instant_w", 0)->values == std::vector<double>{300.5, 301});
  CHECK(find_series(bare, "power_instant_w", 1)->values == std::vector<double>{310});
  CHECK(find_series(titled, "power_instant_w", 2)->values == std::vector<double>{300.5, 301});
  CHECK(find_series(titled, "power_instant_w", 5)->values == std::vector<double>{310});
  CHECK(bare.manifest.epoch_unix_ns == 1'700'000'000'250'000'000);
}

TEST_CASE("the CSV of Zeus' older monitor has calendar times and milliwatts") {
  const ScratchFolder folder;
  const run::Run run = read_zeus(folder.file("bs32+gpu3.power.csv",
                                             "Time,Power\n2022-07-13 02:07:36.708783111,32402\n"
                                             "2022-07-13 02:07:36.761689374,32312\n"))
                           .value();
  CHECK(find_series(run, "power_instant_w", 3)->values == std::vector<double>{32.402, 32.312});
  CHECK(run.manifest.epoch_unix_ns == 1'657'678'056'708'783'111);  // date -u -d ... +%s
}

TEST_CASE("the steps of ZeusMonitor's log are its commonest windows, nested ones are not") {
  const ScratchFolder folder;
  const run::Run run =
      read_zeus(folder.file("windows.csv",
                            "start_time,window_name,elapsed_time,gpu0_energy,gpu1_energy\n"
                            "1700000000,step,2,600,700\n"
                            "1700000000.5,forward,0.5,100,100\n"
                            "1700000002,step,2,610,710\n"
                            "1700000000,epoch,4,1210,1410\n"))
          .value();
  REQUIRE(run.steps.size() == 2);
  CHECK((run.steps[1].end - run.steps[1].begin) / unit::s == 2);
  REQUIRE(run.summaries.size() == 2);
  CHECK(run.summaries[1].energy_j == 710);
  CHECK(run.summaries[1].power_mean_w == 355);
}

TEST_CASE("a run written as Zeus' files is read back, energy and all") {
  const ScratchFolder folder;
  run::Run run = measured_run();
  run.steps = {{.begin = Instant(0), .end = Instant(500'001'230)}};
  REQUIRE(run::write_all(zeus_files(run), folder.folder()));
  const run::Run read = read_zeus(folder.folder()).value();
  for (int32_t i = 0; i < 4; ++i) {
    const run::Series& power = *find_series(run, "power_instant_w", i);
    CHECK(find_series(read, "power_instant_w", i)->times == power.times);
    CHECK(find_series(read, "power_instant_w", i)->values == power.values);
    // 1024 (i + 1) W times 0, 1, ... 9, a twentieth of a second each.
    CHECK(read.summaries[i].energy_j.value() ==
          doctest::Approx(1024.0 * (i + 1) * 45 * 0.050000123));
  }
  CHECK(read.steps == run.steps);
}

}  // namespace
}  // namespace triplepoint::telemetry
