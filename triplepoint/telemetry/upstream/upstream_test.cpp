// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/upstream/upstream.h"

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/telemetry/upstream/imported_run.h"

namespace triplepoint::telemetry {
namespace {

run::Series series_of(const char* signal, int32_t device, double factor, bool of_node = false) {
  run::Series series{.signal = signal, .device = device, .of_node = of_node};
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
  for (int32_t i = 0; i < 4; ++i) {
    for (const char* signal : {"power_instant_w", "memory_power_w", "die_c", "memory_c",
                               "sm_clock_mhz", "memory_clock_mhz", "pcie_tx_bytes", "pcie_rx_bytes",
                               "scale_up_tx_bytes", "scale_up_rx_bytes"})
      run.series.push_back(series_of(signal, i, 1024 * (i + 1)));
    run.series.push_back(series_of("utilization", i, 1.0 / 32));
  }
  for (int32_t node = 0; node < 2; ++node) {
    for (const char* signal : {"cpu_idle_s", "cpu_wait_s", "cpu_c", "scale_out_tx_bytes"})
      run.series.push_back(series_of(signal, node, node + 2, true));
  }
  return run;
}

TEST_CASE("a run written as the artifact's files is read back to the nanosecond") {
  const ScratchFolder folder;
  const run::Run run = measured_run();
  REQUIRE(run::write_all(artifact_files(run), folder.folder()));
  REQUIRE(looks_like_upstream(folder.folder()));
  const run::Run read = read_upstream(folder.folder()).value();
  CHECK(read.manifest.origin == run::Origin::imported);
  CHECK(read.manifest.epoch_unix_ns == run.manifest.epoch_unix_ns);
  CHECK(read.series.size() == run.series.size());
  for (const run::Series& series : run.series) {
    CAPTURE(series.signal);
    const run::Series* same = find_series(read, series.signal, series.device, series.of_node);
    REQUIRE(same != nullptr);
    CHECK(same->times == series.times);
    REQUIRE(same->values.size() == series.values.size());
    for (size_t i = 0; i < series.values.size(); ++i)
      CHECK(same->values[i] == doctest::Approx(series.values[i]).epsilon(1e-12));
  }
  REQUIRE(read.devices.size() == 4);
  CHECK(read.devices[3].node == 1);  // its system files are of ranks 0 and 2
  CHECK(read.devices[3].rank == 3);
}

TEST_CASE("the step of an artifact's recording is what its scripts take for it") {
  const ScratchFolder folder;
  folder.file("gpu_power_0.csv", "1700000000.5,300\n1700000002.0,500\n");
  folder.file("gpu_thermal_0.csv", "1700000000.0,40\n1700000009.0,50\n");
  const run::Run run = read_upstream(folder.folder()).value();
  REQUIRE(run.steps.size() == 1);
  CHECK((run.steps[0].end - run.steps[0].begin) / unit::s == doctest::Approx(1.5));
  CHECK(run.steps[0].begin == Instant(500'000'000));
}

TEST_CASE("one power reading of each GPU gives no step, and that is said") {
  const ScratchFolder scratch;
  for (int rank = 0; rank < 2; ++rank)
    scratch.file(fmt::format("gpu_power_{}.csv", rank),
                 fmt::format("1700000000.{:03},400\n", 2 * rank));
  const auto run = read_artifact(scratch.folder());
  REQUIRE(run.has_value());
  CHECK(run->steps.empty());
  CHECK(std::ranges::any_of(run->manifest.notes, [](const std::string& note) {
    return note.starts_with("no step is known: no GPU has more than one power reading");
  }));
}

TEST_CASE("readings that failed are left out and counted") {
  const ScratchFolder folder;
  folder.file("gpu_power_0.csv", "1700000000.0,300\n1700000000.1,-1\n1700000000.2,310\n");
  folder.file("gpu_power_1.csv", "");
  const run::Run run = read_upstream(folder.folder()).value();
  CHECK(find_series(run, "power_instant_w", 0)->values == std::vector<double>{300, 310});
  CHECK(find_series(run, "power_instant_w", 1) == nullptr);
  const auto says = [](const std::string& note) {
    return note.find("1 readings failed") != std::string::npos;
  };
  CHECK(std::any_of(run.manifest.notes.begin(), run.manifest.notes.end(), says));
}

TEST_CASE("counters of which the low 32 bits were kept are put together again") {
  Samples counter;
  double truth = 4e9;
  for (int i = 0; i < 100; ++i, truth += 3e9) {
    counter.unix_ns.push_back(i);
    counter.values.push_back(std::fmod(truth, 4294967296.0));
  }
  unwrap(counter, 1);
  for (int i = 0; i < 100; ++i)
    CHECK(counter.values[i] == 3e9 * i);
}

TEST_CASE("a node's counters are summed over its devices, its temperature is the highest") {
  const ScratchFolder folder;
  folder.file("gpu_power_0.csv", "1700000000,300\n1700000001,300\n");
  folder.file("system_ib_tx_bytes_rank_0_id_mlx5_0.csv", "1700000000,100\n1700000001,150\n");
  folder.file("system_ib_tx_bytes_rank_0_id_mlx5_1.csv", "1700000000,7\n1700000001,8\n");
  folder.file("system_cpu_temp_rank_0_id_0.csv", "1700000000,40\n1700000001,60\n");
  folder.file("system_cpu_temp_rank_0_id_1.csv", "1700000000,50\n1700000001,50\n");
  folder.file("system_memory_used_0.csv", "1700000000,1000\n1700000001,1000\n");
  folder.file("system_memory_free_0.csv", "1700000000,900\n1700000001,600\n");
  const run::Run run = read_upstream(folder.folder()).value();
  CHECK(find_series(run, "scale_out_tx_bytes", 0, true)->values == std::vector<double>{0, 51});
  CHECK(find_series(run, "cpu_c", 0, true)->values == std::vector<double>{50, 60});
  CHECK(find_series(run, "memory_used_b", 0, true)->values == std::vector<double>{100, 400});
}

TEST_CASE("a row that was cut off at the end is no error, one in the middle is") {
  const ScratchFolder folder;
  folder.file("gpu_power_0.csv", "1700000000.0,300\n17000");
  CHECK(read_upstream(folder.folder()).value().series[0].values.size() == 1);
  folder.file("gpu_power_0.csv", "1700000000.0,300\noops\n1700000001.0,300\n");
  const auto refused = read_upstream(folder.folder());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("gpu_power_0.csv:2: \"oops\"") != std::string::npos);
}

TEST_CASE("a folder of something else is not taken for a recording") {
  const ScratchFolder folder;
  folder.file("results.csv", "name,value\na,1\n");
  folder.file("gpu_power_99999999999.csv", "1.0,300\n");
  folder.file("notes_3.csv", "hello\n");
  CHECK_FALSE(looks_like_upstream(folder.folder()));
  CHECK_FALSE(looks_like_upstream(folder / "no such file"));
  CHECK_FALSE(read_upstream(folder.folder()));
}

TEST_CASE("Zeus' power CSV is read with and without a header") {
  const ScratchFolder folder;
  const std::string rows = "1700000000.25,300.5,310\n1700000000.35,301,\n";
  const run::Run bare = read_upstream(folder.file("bare.csv", rows)).value();
  const run::Run titled =
      read_upstream(folder.file("titled.csv", "time,power2,power5\n" + rows)).value();
  CHECK(find_series(bare, "power_instant_w", 0)->values == std::vector<double>{300.5, 301});
  CHECK(find_series(bare, "power_instant_w", 1)->values == std::vector<double>{310});
  CHECK(find_series(titled, "power_instant_w", 2)->values == std::vector<double>{300.5, 301});
  CHECK(find_series(titled, "power_instant_w", 5)->values == std::vector<double>{310});
  CHECK(bare.manifest.epoch_unix_ns == 1'700'000'000'250'000'000);
}

TEST_CASE("the CSV of Zeus' older monitor has calendar times and milliwatts") {
  const ScratchFolder folder;
  const run::Run run = read_upstream(folder.file("bs32+gpu3.power.csv",
                                                 "Time,Power\n2022-07-13 02:07:36.708783111,32402\n"
                                                 "2022-07-13 02:07:36.761689374,32312\n"))
                           .value();
  CHECK(find_series(run, "power_instant_w", 3)->values == std::vector<double>{32.402, 32.312});
  CHECK(run.manifest.epoch_unix_ns == 1'657'678'056'708'783'111);  // date -u -d ... +%s
}

TEST_CASE("the steps of ZeusMonitor's log are its commonest windows, nested ones are not") {
  const ScratchFolder folder;
  const run::Run run =
      read_upstream(folder.file("windows.csv",
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
  const run::Run read = read_upstream(folder.folder()).value();
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
