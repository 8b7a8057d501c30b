// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/host/host.h"

#include <chrono>
#include <thread>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/host/node_power.h"

#include "tests/doubles/fake_drivers.h"
#include "tests/doubles/scripted_sensor.h"

namespace triplepoint::telemetry::host {
namespace {

using doubles::ScratchTree;

void add_zone(const ScratchTree& tree, const std::string& zone, const std::string& name,
              uint64_t energy_uj, uint64_t range_uj = 262143328850) {
  const Path folder = Path("class/powercap") / zone;
  tree.write(folder / "name", name + "\n");
  tree.write(folder / "energy_uj", fmt::format("{}\n", energy_uj));
  tree.write(folder / "max_energy_range_uj", fmt::format("{}\n", range_uj));
}

TEST_CASE("packages and DRAM of two sockets are added, and nothing inside them twice") {
  ScratchTree tree;
  const auto write = [&](double joules) {
    const auto uj = static_cast<uint64_t>(joules * 1e6);
    add_zone(tree, "intel-rapl:0", "package-0", 1000 + uj);
    add_zone(tree, "intel-rapl:0:0", "core", 3 * uj);
    add_zone(tree, "intel-rapl:0:1", "dram", uj / 4);
    add_zone(tree, "intel-rapl:1", "package-1", 2 * uj);
    add_zone(tree, "intel-rapl:1:0", "dram", uj / 4);
    add_zone(tree, "intel-rapl:2", "psys", 9 * uj);
    add_zone(tree, "intel-rapl-mmio:0", "package-0", 5 * uj);
  };
  write(10);
  const auto sensor = open_rapl(tree.root());
  readings_of(*sensor);
  write(110);
  const auto now = readings_of(*sensor, false);
  CHECK(now.at("cpu_energy_j").value == doctest::Approx(300));
  CHECK(now.at("dram_energy_j").value == doctest::Approx(50));
  CHECK(now.at("platform_energy_j").value == doctest::Approx(900));
  CHECK(now.size() == 3);
  CHECK(channel(*sensor, "cpu_energy_j")->about.scope == run::Scope::package);
  CHECK(channel(*sensor, "platform_energy_j")->about.scope == run::Scope::node);
}

TEST_CASE("an energy counter that wraps at its range goes on counting") {
  ScratchTree tree;
  constexpr uint64_t range = 65532610987;
  add_zone(tree, "intel-rapl:0", "package-0", range - 999'999, range);
  const auto sensor = open_rapl(tree.root());
  readings_of(*sensor);
  add_zone(tree, "intel-rapl:0", "package-0", 2'000'000, range);
  CHECK(readings_of(*sensor).at("cpu_energy_j").value == doctest::Approx(3));
  CHECK(sensor->take_troubles().empty());
}

TEST_CASE("cores stand for their package only where it says nothing") {
  ScratchTree tree;
  add_zone(tree, "intel-rapl:0:0", "core", 5);
  const auto sensor = open_rapl(tree.root());
  REQUIRE(channel(*sensor, "cpu_energy_j") != nullptr);
  CHECK(channel(*sensor, "cpu_energy_j")->about.scope == run::Scope::core);
}

TEST_CASE("energy that only root may read is a gap with the command that helps") {
  ScratchTree tree;
  add_zone(tree, "intel-rapl:0", "package-0", 5);
  tree.remove("class/powercap/intel-rapl:0/energy_uj");
  const auto sensor = open_rapl(tree.root());
  CHECK(sensor->channels().empty());
  CHECK(says_missing(*sensor, "energy of the CPU packages"));
  CHECK(says_missing(*sensor, "sudo chmod a+r"));
  ScratchTree none;
  CHECK(says_missing(*open_rapl(none.root()), "there is no RAPL"));
}

TEST_CASE("a machine without any sensor still has CPU time and memory") {
  ScratchTree tree;
  tree.write("stat", "cpu  100 20 30 4000 5 6 7 8 0 0\ncpu0 1 2 3\n");
  tree.write("meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable:  400 kB\n");
  const auto sensor = open_proc(tree.root());
  CHECK(readings_of(*sensor, false).empty());
  CHECK(readings_of(*sensor).at("cpu_user_s").value == 0);
  const double per_s = as_real(sysconf(_SC_CLK_TCK));
  tree.write("stat", "cpu  300 20 43 3990 15 6 7 8 0 0\n");
  const auto now = readings_of(*sensor);
  CHECK(now.at("cpu_user_s").value == doctest::Approx(200 / per_s));
  CHECK(now.at("cpu_system_s").value == doctest::Approx(13 / per_s));
  CHECK(now.at("cpu_idle_s").value == 0);  // the kernel's idle time may step back; ours does not
  CHECK(now.at("cpu_wait_s").value == doctest::Approx(10 / per_s));
  CHECK(now.at("memory_used_b").value == 600 * 1024);
}

TEST_CASE("this machine's own proc is read") {
  const auto sensor = open_proc("/proc");
  CHECK(readings_of(*sensor).size() == 5);
  CHECK(sensor->gaps().empty());
}

TEST_CASE("the CPU's temperature is that of its hottest package, not of a core or a drive") {
  ScratchTree tree;
  const Path hwmon = "class/hwmon";
  tree.write(hwmon / "hwmon0/name", "nvme\n");
  tree.write(hwmon / "hwmon0/temp1_input", "99000\n");
  for (int socket = 0; socket < 2; ++socket) {
    const Path chip = hwmon / fmt::format("hwmon{}", socket + 1);
    tree.write(chip / "name", "coretemp\n");
    tree.write(chip / "temp1_label", fmt::format("Package id {}\n", socket));
    tree.write(chip / "temp1_input", fmt::format("{}\n", 60000 + 5000 * socket));
    tree.write(chip / "temp2_label", "Core 0\n");
    tree.write(chip / "temp2_input", "80000\n");
  }
  const auto sensor = open_hwmon(tree.root());
  CHECK(readings_of(*sensor).at("cpu_c").value == 65);
}

TEST_CASE("Grace's meters are labelled by what they measure, and not taken for the node") {
  ScratchTree tree;
  for (int i = 0; i < 2; ++i) {
    const Path chip = Path("class/hwmon") / fmt::format("hwmon{}", i);
    tree.write(chip / "name", "power_meter\n");
    tree.write(chip / "power1_oem_info",
               i == 0 ? "Grace Power Socket 0\n" : "Module Power Socket 0\n");
    tree.write(chip / "power1_average", i == 0 ? "210000000\n" : "880000000\n");
    tree.write(chip / "power1_average_interval", "50\n");
  }
  const auto sensor = open_hwmon(tree.root());
  const auto now = readings_of(*sensor);
  CHECK(now.at("cpu_power_w").value == 210);
  CHECK(now.at("module_power_w").value == 880);
  CHECK(channel(*sensor, "module_power_w")->about.scope == run::Scope::module);
  CHECK(channel(*sensor, "module_power_w")->about.window == 50 * unit::ms);
  SensorOptions options;
  options.paths.sysfs = tree.root();
  options.paths.dev = tree.root() / "dev";
  std::vector<Gap> gaps;
  CHECK(open_node_power(options, gaps) == nullptr);
}

TEST_CASE("an ACPI power meter without a label is the node's") {
  ScratchTree tree;
  tree.write("class/hwmon/hwmon5/name", "power_meter\n");
  tree.write("class/hwmon/hwmon5/power1_average", "5400000000\n");
  tree.write("class/hwmon/hwmon5/power1_average_interval", "1000\n");
  SensorOptions options;
  options.paths.sysfs = tree.root();
  std::vector<Gap> gaps;
  const auto sensor = open_node_power(options, gaps);
  REQUIRE(sensor != nullptr);
  CHECK(readings_of(*sensor).at("node_power_w").value == 5400);
  CHECK(channel(*sensor, "node_power_w")->about.kind == run::ReadingKind::average);
  CHECK(channel(*sensor, "node_power_w")->about.scope == run::Scope::node);
}

void add_port(const ScratchTree& tree, const std::string& adapter, uint64_t words) {
  const Path port = Path("class/infiniband") / adapter / "ports/1";
  tree.write(port / "counters/port_xmit_data", fmt::format("{}\n", words));
  tree.write(port / "counters/port_rcv_data", fmt::format("{}\n", 2 * words));
  tree.write(port / "link_layer", "InfiniBand\n");
  tree.write(port / "state", "4: ACTIVE\n");
  tree.write(port / "rate", "400 Gb/sec (4X NDR)\n");
}

TEST_CASE("InfiniBand counts words of four bytes, over all adapters") {
  ScratchTree tree;
  add_port(tree, "mlx5_0", 1000), add_port(tree, "mlx5_1", 7);
  const auto sensor = open_network(tree.root());
  readings_of(*sensor);
  add_port(tree, "mlx5_0", 1100), add_port(tree, "mlx5_1", 57);
  const auto now = readings_of(*sensor);
  CHECK(now.at("scale_out_tx_bytes").value == 600);
  CHECK(now.at("scale_out_rx_bytes").value == 1200);
  CHECK(readings_of(*sensor, false).empty());
  NodeFacts facts;
  node_facts({.sysfs = tree.root(), .proc = tree.root()}, facts);
  REQUIRE(facts.nics.size() == 2);
  CHECK(facts.nics[0].name == "mlx5_0");
  CHECK(facts.nics[0].bandwidth == 400 * (unit::Gb / unit::s));
  CHECK(facts.nics[0].up);
  CHECK(facts.nics[0].kind == NicKind::infiniband);
}

TEST_CASE("Ethernet counts what has hardware behind it, so that bonds do not count twice") {
  ScratchTree tree;
  const auto add = [&](const std::string& name, bool hardware, const char* type, int bytes) {
    const Path folder = Path("class/net") / name;
    if (hardware) tree.write(folder / "device/vendor", "0x8086\n");
    tree.write(folder / "type", type);
    tree.write(folder / "operstate", "up\n");
    tree.write(folder / "speed", "25000\n");
    tree.write(folder / "statistics/tx_bytes", bytes);
    tree.write(folder / "statistics/rx_bytes", bytes);
  };
  const auto write = [&](int bytes) {
    add("eth0", true, "1\n", bytes), add("eth1", true, "1\n", bytes);
    add("bond0", false, "1\n", 2 * bytes), add("lo", false, "772\n", bytes);
    add("ib0", true, "32\n", bytes);
  };
  write(0);
  const auto sensor = open_network(tree.root());
  readings_of(*sensor);
  write(500);
  CHECK(readings_of(*sensor).at("ethernet_tx_bytes").value == 1000);
  NodeFacts facts;
  node_facts({.sysfs = tree.root(), .proc = tree.root()}, facts);
  REQUIRE(facts.nics.size() == 2);
  CHECK(facts.nics[1].bandwidth == 25 * (unit::Gb / unit::s));
}

TEST_CASE("a sum that lacks one of its parts is no reading, and said once") {
  ScratchTree tree;
  add_port(tree, "mlx5_0", 1000), add_port(tree, "mlx5_1", 7);
  const auto sensor = open_network(tree.root());
  CHECK(readings_of(*sensor).count("scale_out_tx_bytes") == 1);
  tree.write("class/infiniband/mlx5_1/ports/1/counters/port_xmit_data", "");
  for (int i = 0; i < 30; ++i)
    CHECK(readings_of(*sensor).count("scale_out_tx_bytes") == 0);
  CHECK(sensor->take_troubles().size() == 1);
}

TEST_CASE("a Cray node's counters come with their own stamps, and RAPL is not read twice") {
  ScratchTree tree;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t unix_us = now.tv_sec * 1'000'000LL + now.tv_nsec / 1000 - 200'000;
  const auto write = [&](int64_t joules) {
    tree.write("cray/pm_counters/power", fmt::format("2150 W {} us\n", unix_us));
    tree.write("cray/pm_counters/energy", fmt::format("{} J {} us\n", joules, unix_us));
    tree.write("cray/pm_counters/cpu_energy", fmt::format("{} J {} us\n", joules / 4, unix_us));
  };
  write(1'000'000);
  const auto sensor = open_cray(tree.root(), {"cpu_energy_j"});
  REQUIRE(sensor != nullptr);
  CHECK(channel(*sensor, "cpu_energy_j") == nullptr);
  CHECK(readings_of(*sensor).at("node_power_w").value == 2150);
  const int64_t age_ns = monotonic_now_ns() - readings_of(*sensor).at("node_power_w").time_ns;
  CHECK(age_ns > 190'000'000);
  write(1'000'500);
  CHECK(readings_of(*sensor).at("node_energy_j").value == 500);
  ScratchTree none;
  CHECK(open_cray(none.root(), {}) == nullptr);
}

TEST_CASE("a BMC's power is asked for by a thread, and the sampler finds the last answer") {
  ScratchTree tree;
  tree.write("ipmi0", "");
  tree.write("ipmitool",
             "#!/bin/sh\n[ \"$1 $2 $3\" = 'dcmi power reading' ] || exit 3\n"
             "echo '    Instantaneous power reading:                  5230 Watts'\n"
             "echo '    Power reading state is:                   activated'\n");
  chmod((tree.root() / "ipmitool").c_str(), 0755);
  SensorOptions options;
  options.paths.sysfs = tree.root();
  options.paths.dev = tree.root();
  options.paths.ipmitool = tree.root() / "ipmitool";
  options.node_power_period = 10 * unit::ms;
  std::vector<Gap> gaps;
  const auto sensor = open_node_power(options, gaps);
  REQUIRE(sensor != nullptr);
  CHECK(gaps.empty());
  CHECK(readings_of(*sensor, false).empty());
  CHECK(channel(*sensor, "node_power_w")->about.sensor == "ipmi dcmi");
  bool found = false;
  for (int i = 0; i < 500 && !found; ++i) {
    const auto now = readings_of(*sensor);
    found = now.count("node_power_w") > 0 && now.at("node_power_w").value == 5230;
    if (!found) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  CHECK(found);
}

TEST_CASE("a BMC without permission, or none, is a gap with a remedy") {
  ScratchTree tree;
  SensorOptions options;
  options.paths.sysfs = tree.root();
  options.paths.dev = tree.root();
  std::vector<Gap> gaps;
  CHECK(open_node_power(options, gaps) == nullptr);
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].remedy.find("modprobe ipmi_devintf") != std::string::npos);
  tree.write("ipmi0", "");
  options.paths.ipmitool = "no-such-ipmitool";
  gaps.clear();
  CHECK(open_node_power(options, gaps) == nullptr);
  REQUIRE(gaps.size() == 1);
  CHECK(gaps[0].why.find("no-such-ipmitool") != std::string::npos);
}

TEST_CASE("a site's own command gives the node's power") {
  SensorOptions options;
  options.node_power_command = "echo 3300";
  std::vector<Gap> gaps;
  const auto sensor = open_node_power(options, gaps);
  REQUIRE(sensor != nullptr);
  CHECK(readings_of(*sensor).at("node_power_w").value == 3300);
  for (const char* const bad : {"echo none", "exit 4", "echo -5"}) {
    options.node_power_command = bad;
    CHECK(open_node_power(options, gaps) == nullptr);
  }
  CHECK(gaps.size() == 3);
}

TEST_CASE("a command that hangs is killed with all it started") {
  const auto text = output_of({"/bin/sh", "-c", "sleep 600 & sleep 600"}, 50 * unit::ms);
  REQUIRE_FALSE(text);
  CHECK(text.error().what.find("takes longer than") != std::string::npos);
  CHECK(output_of({"/bin/sh", "-c", "echo hello; exit 0"}, 30 * unit::s) == std::string("hello\n"));
  CHECK(output_of({"/bin/sh", "-c", "exit 3 # secret"}, 30 * unit::s).error().what ==
        "--node-power-command failed (status 3)");
  CHECK_FALSE(output_of({"/no/such/program"}, 1 * unit::s));
}

TEST_CASE("texts of the kernel and of tools are read, or nothing") {
  CHECK_FALSE(parse_proc_stat("intr 1 2 3 4\n"));
  CHECK_FALSE(parse_proc_stat("cpu 1 2\n"));
  CHECK(parse_proc_stat("cpu 1 2 3 4")->idle == 4);
  CHECK_FALSE(parse_meminfo("MemTotal: 10 kB\nMemAvailable: 20 kB\n"));
  CHECK_FALSE(parse_meminfo("MemTotal: 10 kB\n"));
  CHECK(parse_dcmi_power("  Instantaneous power reading:   220 Watts\n") == 220);
  CHECK_FALSE(parse_dcmi_power("  Instantaneous power reading:   0 Watts\n"));
  CHECK_FALSE(
      parse_dcmi_power("Instantaneous power reading: 220 Watts\n"
                       "Power reading state is: deactivated\n"));
  CHECK(parse_pm_counter("325 W 1700000000123456 us")->unix_us == 1700000000123456);
  CHECK_FALSE(parse_pm_counter("325 W")->unix_us);
  CHECK_FALSE(parse_pm_counter("-1 W 17 us"));
  const CpuInfo info = parse_cpuinfo(
      "processor : 0\nmodel name : Xeon\nphysical id : 0\ncore id : 0\n\n"
      "processor : 1\nmodel name : Xeon\nphysical id : 0\ncore id : 0\n\n"
      "processor : 2\nphysical id : 1\ncore id : 0\n");
  CHECK(info.model == "Xeon");
  CHECK(info.sockets == 2);
  CHECK(info.cores == 2);
  CHECK(info.threads == 3);
}

}  // namespace
}  // namespace triplepoint::telemetry::host
