// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"

#include "triplepoint/telemetry/gpu_opening.h"
#include "triplepoint/telemetry/sensor_opening.h"

#include "tests/doubles/fake_drivers.h"
#include "tests/doubles/gpu_metrics_blob.h"

namespace triplepoint::telemetry {
namespace {

using doubles::FakeNvml;
using doubles::ScratchTree;

/// Options that see a made tree and nothing of this machine.
SensorOptions only(const ScratchTree& tree) {
  SensorOptions options;
  options.paths = {
      .nvml = "libno-nvml.so.1", .sysfs = tree.root(), .proc = tree.root(), .dev = tree.root()};
  return options;
}

void add_amd_gpu(const ScratchTree& tree) {
  auto blob = doubles::blob::unavailable<doubles::blob::V14>(4);
  blob.hotspot = 60, blob.curr_socket_power = 500;
  tree.write("class/drm/card0/device/vendor", "0x1002\n");
  tree.write("class/drm/card0/device/device", "0x74a1\n");
  tree.write("class/drm/card0/device/uevent", "PCI_SLOT_NAME=0000:05:00.0\n");
  tree.write("class/drm/card0/device/gpu_metrics", doubles::blob::bytes_of(blob));
}

TEST_CASE("a machine with nothing has gaps with reasons, and no error") {
  ScratchTree tree;
  const auto sensors = must(open_sensors(only(tree)));
  CHECK(sensors.devices.empty());
  std::set<std::string> missing;
  for (const Gap& gap : sensors.gaps)
    missing.insert(gap.what);
  for (const auto& sensor : sensors.all) {
    CHECK(sensor->channels().empty());
    for (const Gap& gap : sensor->gaps())
      missing.insert(gap.what);
  }
  for (const char* const what : {"NVIDIA GPUs", "AMD GPUs", "CPU time", "memory in use",
                                 "energy of the CPU packages", "power of the whole node"})
    CHECK(missing.count(what) == 1);
}

TEST_CASE("GPUs of both vendors on a node are numbered through, and each has its facts") {
  ScratchTree tree;
  FakeNvml fake("gpus 2\n");
  add_amd_gpu(tree);
  SensorOptions options = only(tree);
  options.paths.nvml = fake.library();
  const auto sensors = must(open_sensors(options));
  REQUIRE(sensors.devices.size() == 3);
  for (int i = 0; i < 3; ++i) {
    const DeviceFacts& facts = sensors.devices.at(as_size(i));
    CHECK(facts.device.local == i);
    const Sensor& sensor = *sensors.all.at(as_size(facts.sensor));
    CHECK(sensor.devices().at(as_size(facts.device.index)) == facts.device);
  }
  CHECK(sensors.devices[2].vendor == "amd");
  CHECK(sensors.node.nvidia_driver == "580.95.05");
}

TEST_CASE("only the devices asked for are opened, under the numbers the node gives them") {
  ScratchTree tree;
  FakeNvml fake("gpus 4\n");
  SensorOptions options = only(tree);
  options.paths.nvml = fake.library();
  options.devices = {"2-3"};
  const auto sensors = must(open_sensors(options));
  REQUIRE(sensors.devices.size() == 2);
  CHECK(sensors.devices[0].device.local == 2);
  CHECK(sensors.devices[0].device.index == 0);
  options.devices = {"none"};
  CHECK(open_sensors(options)->devices.empty());
  options.devices = {"9"};
  CHECK(open_sensors(options).error().what ==
        "no GPU is called '9' (a number, a range like 0-3, the beginning of a UUID or a PCI "
        "address); there are 0-3");
}

TEST_CASE("words for devices are numbers, ranges, UUIDs and PCI addresses") {
  std::vector<run::Device> devices(3);
  for (std::size_t i = 0; i < 3; ++i) {
    devices[i].local = static_cast<int32_t>(i);
    devices[i].uuid = i == 1 ? "GPU-aaaa1111" : "GPU-bbbb2222";
    devices[i].pci = i == 2 ? "0000:C1:00.0" : "0000:1b:00.0";
  }
  using Selected = std::vector<bool>;
  CHECK(*select_devices(devices, {}) == Selected{true, true, true});
  CHECK(*select_devices(devices, {"none"}) == Selected{false, false, false});
  CHECK(*select_devices(devices, {"0", "2"}) == Selected{true, false, true});
  CHECK(*select_devices(devices, {"1-9"}) == Selected{false, true, true});
  CHECK(*select_devices(devices, {"gpu-AAAA"}) == Selected{false, true, false});
  CHECK(*select_devices(devices, {"c1:00.0"}) == Selected{false, false, true});
  for (const char* const bad : {"", "GPU", "3-5", "x", "-1", "1-", "0x1"})
    CHECK_FALSE(select_devices(devices, {bad}));
}

TEST_CASE("the environment moves where sensors look") {
  setenv("TRIPLEPOINT_SYSFS", "/host/sys", 1);
  CHECK(sensor_paths_from_environment().sysfs == "/host/sys");
  CHECK(sensor_paths_from_environment().proc == "/proc");
  unsetenv("TRIPLEPOINT_SYSFS");
  CHECK(sensor_paths_from_environment() == SensorPaths());
}

TEST_CASE("no two channels of a node say the same signal of the same device") {
  ScratchTree tree;
  FakeNvml fake("gpus 2\n");
  add_amd_gpu(tree);
  SensorOptions options = only(tree);
  options.paths.nvml = fake.library();
  options.node_power_command = "echo 900";
  tree.write("cray/pm_counters/power", "900 W 1 us\n");
  tree.write("class/powercap/intel-rapl:0/name", "package-0\n");
  tree.write("class/powercap/intel-rapl:0/energy_uj", "5\n");
  tree.write("cray/pm_counters/cpu_energy", "900 J 1 us\n");
  const auto sensors = must(open_sensors(options));
  std::set<std::pair<std::string, int>> seen;
  for (const auto& sensor : sensors.all)
    for (const Channel& channel : sensor->channels()) {
      const int device =
          channel.about.of_node ? -1 : sensor->devices().at(as_size(channel.about.device)).local;
      CAPTURE(channel.about.signal);
      CHECK(seen.insert({channel.about.signal, device}).second);
    }
  CHECK(seen.count({"node_power_w", -1}) == 1);
  CHECK(seen.count({"cpu_energy_j", -1}) == 1);
}

}  // namespace
}  // namespace triplepoint::telemetry
