// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/snapshot.h"

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"

#include "triplepoint/telemetry/live/snapshot_testing.h"
#include "triplepoint/telemetry/live/view.h"

namespace triplepoint::telemetry {
namespace {

using testing::sample_snapshot;

TEST_CASE("a snapshot's JSON has every GPU, every reading, and no member that is not known") {
  const Snapshot snapshot = sample_snapshot();
  const Json json = snapshot_json(snapshot);
  CHECK(json["gpus"][1]["uuid"] == "GPU-b");
  CHECK(json["gpus"][1]["answers"] == false);
  CHECK(json["gpus"][0]["power_limit_w"] == 700);
  CHECK_FALSE(json["gpus"][0].contains("max_sm_clock_mhz"));
  CHECK(json["readings"].size() == snapshot.readings.size());
  CHECK(json["readings"][2]["rate_per_s"] == 685);
}

TEST_CASE("a snapshot's CSV has a row for every reading") {
  const Snapshot snapshot = sample_snapshot();
  const auto table = CsvTable::parse(snapshot_csv(snapshot, true), "csv");
  REQUIRE(table);
  CHECK(table->rows() == snapshot.readings.size());
  CHECK(table->at(0, 0) == "2023-11-14T22:13:20.123Z");
  CHECK(table->at(0, *table->column("signal")) == "power_instant_w");
  CHECK(snapshot_csv(snapshot, true).ends_with(snapshot_csv(snapshot, false)));
}

TEST_CASE("what a GPU lacks is absent in its view") {
  const GpuView view = view_gpu(sample_snapshot(), 0);
  CHECK(*view.power_w == 690.5);
  CHECK_FALSE(view.power_is_average);
  CHECK(*view.power_limit_w == 700);
  CHECK(*view.scale_up_tx_bps == 2e9);
  CHECK_FALSE(view.memory_c);
  CHECK_FALSE(view.scale_up_rx_bps);
  const GpuView lost = view_gpu(sample_snapshot(), 1);
  CHECK_FALSE(lost.answers);
  CHECK_FALSE(lost.power_w);
}

TEST_CASE("without a power sensor the energy counter says the power") {
  Snapshot snapshot = sample_snapshot();
  std::erase_if(snapshot.readings,
                [](const LiveReading& r) { return r.about.signal.starts_with("power_"); });
  CHECK(*view_gpu(snapshot, 0).power_w == 685);
}

TEST_CASE("the cause is the residency of the last second, or the bits where nothing counts it") {
  Snapshot snapshot = sample_snapshot();
  CHECK(view_gpu(snapshot, 0).cause() == "power cap 25%");
  CHECK(view_gpu(snapshot, 0).throttle_share() == doctest::Approx(0.25));
  std::erase_if(snapshot.readings,
                [](const LiveReading& r) { return r.about.signal.starts_with("throttle_ns"); });
  CHECK(view_gpu(snapshot, 0).cause() == "power cap");
}

TEST_CASE("the processors are as busy as their share of time outside of idle and waiting") {
  const NodeView view = view_node(sample_snapshot());
  CHECK(*view.cpu_busy == doctest::Approx(0.5));
  CHECK(*view.gpu_power_w == 690.5);
  CHECK_FALSE(view.power_w);
}

TEST_CASE("a package's power is counted once") {
  Snapshot snapshot = sample_snapshot();
  snapshot.devices[1].facts.device.power_counted_on = 0;
  snapshot.readings.push_back(
      testing::reading("power_instant_w", 1, run::ReadingKind::instant, 690.5));
  CHECK(*view_node(snapshot).gpu_power_w == 690.5);
}

TEST_CASE("unknown bits of clock event reasons are shown, not dropped") {
  CHECK(held_back_by(0x103).empty());  // wishes
  CHECK(held_back_by(0x400 | 0x4 | 0x1) ==
        std::vector<std::string>{"software_power_cap", "bits 0x400"});
}

}  // namespace
}  // namespace triplepoint::telemetry
