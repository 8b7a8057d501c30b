// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/random.h"

#include "triplepoint/telemetry/amd/sensor.h"
#include "triplepoint/telemetry/amd/sysfs_gpu.h"

#include "tests/doubles/fake_drivers.h"
#include "tests/doubles/gpu_metrics_blob.h"
#include "tests/doubles/scripted_sensor.h"

namespace triplepoint::telemetry::amd {
namespace {

namespace blob = doubles::blob;
using doubles::ScratchTree;

blob::V13 mi210() {
  auto now = blob::unavailable<blob::V13>(3);
  now.edge = 41, now.hotspot = 47, now.mem = 52;
  now.gfx_activity = 87, now.umc_activity = 40;
  now.average_socket_power = 245;
  now.energy_accumulator = 65'536'000;
  now.current_gfxclk = 1700, now.current_uclk = 1600;
  now.pcie_link_width = 16;
  now.firmware_timestamp = 123456;
  now.indep_throttle_status = 0;
  return now;
}

blob::V16 mi300x() {
  auto now = blob::unavailable<blob::V16>(6);
  now.hotspot = 61, now.mem = 58;
  now.curr_socket_power = 680;
  now.gfx_activity = 100, now.umc_activity = 35;
  now.energy_accumulator = 0;
  now.accumulation_counter = 1000;
  now.prochot = 0, now.ppt = 100, now.socket_thm = 7, now.vr_thm = 0, now.hbm_thm = 3;
  for (int i = 0; i < 7; ++i)
    now.xgmi_read[i] = 1000, now.xgmi_write[i] = 2000;
  now.firmware_timestamp = 55;
  for (auto& clock : now.current_gfxclk)
    clock = 2100;
  now.current_gfxclk[0] = 1300;
  now.current_uclk = 1300;
  return now;
}

TEST_CASE("every version's fields are where C puts them") {
  const auto old = must(parse_gpu_metrics(blob::bytes_of(mi210())));
  CHECK(old.edge_c == 41);
  CHECK(old.junction_c == 47);
  CHECK(old.memory_c == 52);
  CHECK(old.power_average_w == 245);
  CHECK_FALSE(old.power_instant_w);
  CHECK(old.utilization == doctest::Approx(0.87));
  CHECK(old.energy == 65'536'000);
  CHECK(old.sm_clock_mhz == 1700);
  CHECK(old.memory_clock_mhz == 1600);
  CHECK(old.firmware_time == 123456);
  CHECK(old.throttle_bits == 0);
  CHECK(old.pcie_width == 16);
  CHECK_FALSE(old.accumulation);

  const auto now = must(parse_gpu_metrics(blob::bytes_of(mi300x())));
  CHECK_FALSE(now.edge_c);  // MI300 has no edge sensor
  CHECK(now.sm_clock_mhz == 2000);
  CHECK(now.accumulation == 1000);
  CHECK(now.power_limit == 100);
  CHECK(now.socket_hot == 7);
  CHECK(now.memory_hot == 3);
  CHECK(now.xgmi_read_kb == 7000);  // the eighth link is not there
  CHECK(now.xgmi_written_kb == 14000);
}

template <class Version>
void check_common(uint8_t content) {
  auto now = blob::unavailable<Version>(content);
  now.hotspot = 50, now.mem = 51, now.curr_socket_power = 300;
  now.gfx_activity = 10, now.umc_activity = 20;
  now.energy_accumulator = 7, now.firmware_timestamp = 9;
  now.xgmi_read[7] = 11, now.xgmi_write[0] = 13;
  now.current_gfxclk[7] = 900, now.current_uclk = 1000, now.pcie_link_width = 8;
  CAPTURE(static_cast<int>(content));
  const auto read = must(parse_gpu_metrics(blob::bytes_of(now)));
  CHECK(read.content == content);
  CHECK(read.junction_c == 50);
  CHECK(read.memory_c == 51);
  CHECK(read.power_instant_w == 300);
  CHECK(read.utilization == doctest::Approx(0.1));
  CHECK(read.memory_utilization == doctest::Approx(0.2));
  CHECK(read.energy == 7);
  CHECK(read.firmware_time == 9);
  CHECK(read.xgmi_read_kb == 11);
  CHECK(read.xgmi_written_kb == 13);
  CHECK(read.sm_clock_mhz == 900);
  CHECK(read.memory_clock_mhz == 1000);
  CHECK(read.pcie_width == 8);
}

TEST_CASE("versions 1.4 to 1.8 say the same in their own places") {
  check_common<blob::V14>(4);
  check_common<blob::V15>(5);
  check_common<blob::V16>(6);
  check_common<blob::V17>(7);
  check_common<blob::V18>(8);
}

TEST_CASE("versions 1.1 and 1.2 are 1.3 without its end") {
  for (const auto& [content, size] : {std::pair(uint8_t{1}, uint16_t{96}), {2, 104}}) {
    auto now = mi210();
    now.head = {size, 1, content};
    const auto read = must(parse_gpu_metrics(blob::bytes_of(now)));
    CHECK(read.power_average_w == 245);
    CHECK(read.firmware_time.has_value() == (content == 2));
    CHECK_FALSE(read.throttle_bits);
  }
}

TEST_CASE("what is not available is absent in every version") {
  const auto empty = [](const GpuMetrics& metrics) {
    GpuMetrics nothing;
    nothing.content = metrics.content;
    return metrics == nothing;
  };
  CHECK(empty(*parse_gpu_metrics(blob::bytes_of(blob::unavailable<blob::V13>(3)))));
  CHECK(empty(*parse_gpu_metrics(blob::bytes_of(blob::unavailable<blob::V14>(4)))));
  CHECK(empty(*parse_gpu_metrics(blob::bytes_of(blob::unavailable<blob::V15>(5)))));
  CHECK(empty(*parse_gpu_metrics(blob::bytes_of(blob::unavailable<blob::V16>(6)))));
  CHECK(empty(*parse_gpu_metrics(blob::bytes_of(blob::unavailable<blob::V17>(7)))));
}

TEST_CASE("a version unknown, or of another size, is an error that says so") {
  auto strange = mi210();
  strange.head.content = 9;
  CHECK(parse_gpu_metrics(blob::bytes_of(strange)).error().what ==
        "gpu_metrics is version 1.9 (1.1 to 1.8 are known)");
  auto longer = mi210();
  longer.head.size = 118;
  CHECK(parse_gpu_metrics(blob::bytes_of(longer)).error().what ==
        "gpu_metrics 1.3 states 118 bytes and has 118 (that version has 120)");
  CHECK_FALSE(parse_gpu_metrics(blob::bytes_of(mi300x()).substr(0, 1000)));
  CHECK_FALSE(parse_gpu_metrics("abc"));
}

TEST_CASE("throttlers become the reasons that all series use") {
  CHECK(reasons_of(0) == 0);
  CHECK(reasons_of(1ULL << 0U) == 0x4);           // PPT0
  CHECK(reasons_of(1ULL << 22U) == 0x8);          // EDC
  CHECK(reasons_of(1ULL << 36U) == 0x40);         // hotspot
  CHECK(reasons_of(1ULL << 46U) == 0x20);         // PROCHOT
  CHECK(reasons_of(1ULL << 57U) == 1ULL << 25U);  // FIT: kept, without a name
}

/// A tree with GPUs, and sensors over it.
struct Machine {
  ScratchTree tree;

  void add(int card, const std::string& pci, const std::string& device,
           const std::string& metrics) {
    const Path folder = Path("class/drm") / ("card" + std::to_string(card)) / "device";
    tree.write(folder / "vendor", "0x1002\n");
    tree.write(folder / "device", device + "\n");
    tree.write(folder / "uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=" + pci + "\nMODALIAS=x\n");
    tree.write(folder / "unique_id", fmt::format("{:016x}\n", 0xabc0 + card));
    if (!metrics.empty()) tree.write(folder / "gpu_metrics", metrics);
    tree.write(Path("class/drm") / (fmt::format("card{}-DP-1", card)) / "status", "x\n");
  }
  Path folder(int card) const {
    return Path("class/drm") / ("card" + std::to_string(card)) / "device";
  }
  std::unique_ptr<Sensor> open(
      Wait wait = [](Seconds) {}, std::size_t gpu = 0) {
    node = std::make_unique<Node>(tree.root(), std::move(wait));
    return node->open(gpu, missing);
  }
  bool says_missing(const std::string& words) const {
    return telemetry::says_missing(missing.gaps(), words);
  }
  std::unique_ptr<Node> node;
  GapList missing;
};

TEST_CASE("an MI210 is read from its snapshot, with edge, junction and memory apart") {
  Machine machine;
  machine.add(1, "0000:c1:00.0", "0x740f", blob::bytes_of(mi210()));
  const auto sensor = machine.open();
  REQUIRE(sensor->devices().size() == 1);
  CHECK(sensor->devices()[0].name == "AMD Instinct MI210");
  CHECK(sensor->devices()[0].pci == "0000:c1:00.0");
  CHECK(sensor->devices()[0].uuid == "GPU-000000000000abc1");
  const auto now = readings_of(*sensor);
  CHECK(now.at("die_c").value == 41);
  CHECK(now.at("junction_c").value == 47);
  CHECK(now.at("memory_c").value == 52);
  CHECK(now.at("power_average_w").value == 245);
  CHECK(channel(*sensor, "power_average_w")->about.kind == run::ReadingKind::average);
  CHECK(channel(*sensor, "power_average_w")->about.scope == run::Scope::gpu);
  CHECK(channel(*sensor, "die_c")->about.sensor == "amdgpu gpu_metrics 1.3");
}

TEST_CASE("the same snapshot has the same stamp, a new one a later stamp") {
  Machine machine;
  machine.add(0, "0000:c1:00.0", "0x740f", blob::bytes_of(mi210()));
  const auto sensor = machine.open();
  const auto first = readings_of(*sensor), again = readings_of(*sensor);
  CHECK(first.at("die_c").time_ns == again.at("die_c").time_ns);
  auto next = mi210();
  next.firmware_timestamp += 100;
  machine.tree.write(machine.folder(0) / "gpu_metrics", blob::bytes_of(next));
  CHECK(readings_of(*sensor).at("die_c").time_ns > first.at("die_c").time_ns);
}

TEST_CASE("a package of two dies has its power once, on the die that says it") {
  Machine machine;
  auto second = mi210();
  second.average_socket_power = 0xffff;
  second.energy_accumulator = 0;
  machine.add(0, "0000:c1:00.0", "0x7408", blob::bytes_of(mi210()));
  machine.add(1, "0000:c6:00.0", "0x7408", blob::bytes_of(second));
  machine.add(2, "0000:c9:00.0", "0x7408", blob::bytes_of(mi210()));
  second.average_socket_power = 0;
  machine.add(3, "0000:ce:00.0", "0x7408", blob::bytes_of(second));
  for (const std::size_t gpu : {0, 1, 2, 3}) {
    const auto sensor = machine.open([](Seconds) {}, gpu);
    const bool is_first = gpu % 2 == 0;
    CHECK((channel(*sensor, "power_average_w") != nullptr) == is_first);
    if (is_first)
      CHECK(channel(*sensor, "power_average_w")->about.scope == run::Scope::package);
    else
      CHECK(channel(*sensor, "energy_j") == nullptr);
    REQUIRE(channel(*sensor, "die_c") != nullptr);
    CHECK(channel(*sensor, "die_c")->about.scope == run::Scope::gpu);
  }
  CHECK(machine.says_missing("power and energy of GPU 1: a second die; GPU 0"));
  CHECK(machine.says_missing("power and energy of GPU 3: a second die; GPU 2"));
  CHECK_FALSE(machine.node->facts(0).device.power_counted_on);
  CHECK(machine.node->facts(3).device.power_counted_on == 2);
}

TEST_CASE("an energy counter is believed only if it counts what power adds up to") {
  for (const double honesty : {1.0, 0.0, 0.1}) {
    CAPTURE(honesty);
    Machine machine;
    auto now = mi300x();
    machine.add(0, "0000:05:00.0", "0x74a1", blob::bytes_of(now));
    int64_t begin = 0;
    // Real time passes, and the counter says this much of 680 W over it.
    const auto sensor = machine.open([&](Seconds length) {
      if (begin == 0) begin = monotonic_now_ns();
      std::this_thread::sleep_for(std::chrono::duration<double>(length / unit::s / 5));
      const double seconds = as_real(monotonic_now_ns() - begin) * 1e-9;
      now.energy_accumulator = static_cast<uint64_t>(honesty * 680 * seconds * 65536);
      machine.tree.write(machine.folder(0) / "gpu_metrics", blob::bytes_of(now));
    });
    CHECK((channel(*sensor, "energy_j") != nullptr) == (honesty == 1.0));
    CHECK(machine.says_missing("energy counter of GPU 0") == (honesty != 1.0));
  }
}

TEST_CASE("residency becomes time: its share of the accumulation, times the time that passed") {
  Residency residency;
  constexpr int64_t second = 1'000'000'000;
  CHECK(residency.update(100, 1000, 0) == 0);
  CHECK(residency.update(130, 1100, second) == doctest::Approx(0.3e9));
  CHECK(residency.update(130, 1100, second) == doctest::Approx(0.3e9));
  CHECK(residency.update(130, 1200, 2 * second) == doctest::Approx(0.3e9));
  // Both wrap at 32 bits, and no share is over one.
  Residency wrapping;
  wrapping.update(0xfffffff0, 0xffffffc0, 0);
  CHECK(wrapping.update(0x10, 0x40, second) == doctest::Approx(0.25e9));
  CHECK(wrapping.update(0x1000, 0x50, 2 * second) == doctest::Approx(1.25e9));
}

TEST_CASE("time throttled is counted by cause on gpu_metrics 1.6") {
  Machine machine;
  machine.add(0, "0000:05:00.0", "0x74a1", blob::bytes_of(mi300x()));
  const auto sensor = machine.open();
  CHECK(readings_of(*sensor).at("throttle_ns_sw_power_cap").value == 0);
  auto next = mi300x();
  next.accumulation_counter += 100, next.ppt += 50, next.hbm_thm += 100;
  next.firmware_timestamp += 1;
  machine.tree.write(machine.folder(0) / "gpu_metrics", blob::bytes_of(next));
  const auto now = readings_of(*sensor);
  CHECK(now.at("throttle_ns_sw_power_cap").value > 0);
  CHECK(now.at("throttle_ns_hw_thermal_slowdown").value ==
        doctest::Approx(2 * now.at("throttle_ns_sw_power_cap").value));
  CHECK(now.at("throttle_ns_sw_thermal_slowdown").value == 0);
}

TEST_CASE("xGMI bytes count from the first reading, all links together") {
  Machine machine;
  machine.add(0, "0000:05:00.0", "0x74a1", blob::bytes_of(mi300x()));
  const auto sensor = machine.open();
  CHECK(readings_of(*sensor).at("scale_up_tx_bytes").value == 0);
  auto next = mi300x();
  next.xgmi_write[3] += 500, next.xgmi_read[0] += 100;
  next.firmware_timestamp += 1;
  machine.tree.write(machine.folder(0) / "gpu_metrics", blob::bytes_of(next));
  const auto now = readings_of(*sensor);
  CHECK(now.at("scale_up_tx_bytes").value == 500 * 1024);
  CHECK(now.at("scale_up_rx_bytes").value == 100 * 1024);
}

TEST_CASE("bits that a board shows when idle are not throttling") {
  Machine machine;
  auto idle = mi210();
  idle.gfx_activity = 0;
  idle.indep_throttle_status = 1ULL << 36U;
  machine.add(0, "0000:c1:00.0", "0x740f", blob::bytes_of(idle));
  const auto sensor = machine.open();
  CHECK(readings_of(*sensor).at("throttle_reasons").value == 0);
  idle.indep_throttle_status |= 1;
  machine.tree.write(machine.folder(0) / "gpu_metrics", blob::bytes_of(idle));
  CHECK(readings_of(*sensor).at("throttle_reasons").value == 4);
}

TEST_CASE("without a snapshot the single files are read, each with its label") {
  Machine machine;
  machine.add(0, "0000:03:00.0", "0x73bf", "");
  const Path hwmon = machine.folder(0) / "hwmon/hwmon3";
  const ScratchTree& tree = machine.tree;
  tree.write(hwmon / "name", "amdgpu\n");
  tree.write(hwmon / "temp1_label", "edge\n"), tree.write(hwmon / "temp1_input", "45000\n");
  tree.write(hwmon / "temp2_label", "junction\n"), tree.write(hwmon / "temp2_input", "52000\n");
  tree.write(hwmon / "temp2_crit", "110000\n");
  tree.write(hwmon / "power1_average", "30000000\n");
  tree.write(hwmon / "power1_cap", "203000000\n");
  tree.write(hwmon / "freq1_label", "sclk\n"), tree.write(hwmon / "freq1_input", "2105000000\n");
  tree.write(machine.folder(0) / "gpu_busy_percent", "64\n");
  tree.write(machine.folder(0) / "mem_info_vram_used", "17179869184\n");
  tree.write(machine.folder(0) / "pp_dpm_sclk", "0: 500Mhz\n1: 2105Mhz *\n2: 2475Mhz\n");
  const auto sensor = machine.open();
  const auto now = readings_of(*sensor);
  CHECK(now.at("die_c").value == 45);
  CHECK(now.at("junction_c").value == 52);
  CHECK(now.at("power_average_w").value == 30);
  CHECK(now.at("sm_clock_mhz").value == 2105);
  CHECK(now.at("utilization").value == doctest::Approx(0.64));
  CHECK(now.at("memory_used_b").value == 17179869184.0);
  CHECK(now.at("power_limit_w").value == 203);
  CHECK(readings_of(*sensor, false).count("power_limit_w") == 0);
  CHECK(machine.says_missing("gpu_metrics cannot be read; single files are read"));
  const auto facts = machine.node->facts(0);
  CHECK(facts.slowdown == Celsius(110));
  CHECK(facts.max_sm_clock == 2475 * unit::MHz);
  CHECK(facts.power_limit == 203 * unit::W);
}

TEST_CASE("a GPU that goes away is said once, and read again when it is back") {
  Machine machine;
  machine.add(0, "0000:c1:00.0", "0x740f", blob::bytes_of(mi210()));
  const auto sensor = machine.open();
  machine.tree.write(machine.folder(0) / "gpu_metrics", "");
  for (int i = 0; i < 40; ++i)
    CHECK(readings_of(*sensor).empty());
  const auto troubles = sensor->take_troubles();
  REQUIRE(troubles.size() == 1);
  CHECK(troubles[0] == "GPU 0 (0000:c1:00.0) cannot be read any more; its series have a gap");
  machine.tree.write(machine.folder(0) / "gpu_metrics", blob::bytes_of(mi210()));
  CHECK(readings_of(*sensor).at("die_c").value == 41);
}

TEST_CASE("cards are numbered by PCI address, and those of other vendors are left alone") {
  Machine machine;
  machine.add(1, "0000:c9:00.0", "0x740f", blob::bytes_of(mi210()));
  machine.add(2, "0000:03:00.0", "0x740f", blob::bytes_of(mi210()));
  machine.tree.write("class/drm/card0/device/vendor", "0x1a03\n");
  machine.tree.write("class/drm/renderD128/device/vendor", "0x1002\n");
  CHECK(machine.open()->devices().at(0).pci == "0000:03:00.0");
  CHECK(machine.node->devices().size() == 2);
}

TEST_CASE("architecture and xGMI links come from the compute driver's topology") {
  Machine machine;
  machine.add(0, "0000:05:00.0", "0x74a1", blob::bytes_of(mi300x()));
  const Path nodes = "class/kfd/kfd/topology/nodes";
  machine.tree.write(nodes / "0/properties", "cpu_cores_count 96\nsimd_count 0\n");
  machine.tree.write(nodes / "1/properties",
                     "simd_count 1216\ngfx_target_version 90402\nlocation_id 1280\ndomain 0\n");
  machine.tree.write(nodes / "2/properties", "simd_count 1216\nlocation_id 9728\ndomain 0\n");
  machine.tree.write(nodes / "1/io_links/0/properties", "type 2\nnode_to 0\n");
  machine.tree.write(nodes / "1/io_links/1/properties",
                     "type 11\nnode_to 2\nmax_bandwidth 64000\n");
  machine.open();
  const auto facts = machine.node->facts(0);
  CHECK(facts.architecture == "gfx942");
  REQUIRE(facts.links.size() == 1);
  CHECK(facts.links[0].remote_pci == "0000:26:00.0");
  CHECK(facts.links[0].bandwidth == 64 * (unit::GB / unit::s));
}

TEST_CASE("whatever bytes amdgpu shows, no reading is a sentinel") {
  for (uint64_t round = 0; round < 200; ++round) {
    auto now = mi300x();
    auto* const bytes = reinterpret_cast<unsigned char*>(&now);
    uint64_t drawn = 0;
    for (std::size_t i = sizeof(blob::Head); i + 2 <= sizeof now; i += 2)
      if (random_uniform({.seed = round}, drawn++) < 0.3) bytes[i] = bytes[i + 1] = 0xff;
    const auto read = must(parse_gpu_metrics(blob::bytes_of(now)));
    for (const auto& value :
         {read.edge_c, read.junction_c, read.memory_c, read.power_instant_w, read.sm_clock_mhz,
          read.memory_clock_mhz, read.utilization, read.memory_utilization})
      if (value) CHECK(*value < 65535);
    if (read.energy) CHECK(*read.energy != ~0ULL);
  }
}

TEST_CASE("no AMD GPU is a gap, not an error") {
  ScratchTree empty;
  SensorPaths paths;
  paths.sysfs = empty.root();
  std::vector<Gap> gaps;
  CHECK(find_devices(paths, gaps)->devices().empty());
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].why.find(empty.root().string()) != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::telemetry::amd
