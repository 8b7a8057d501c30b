// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/host/host.h"

#include <algorithm>
#include <array>

#include <unistd.h>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/host/file_sensor.h"
#include "triplepoint/telemetry/open_file.h"

namespace triplepoint::telemetry::host {
namespace {

void adapter_facts(const Path& infiniband, NodeFacts& node) {
  for (const std::string& adapter : names_in(infiniband)) {
    NicFacts nic;
    nic.name = adapter;
    for (const std::string& port : names_in(infiniband / adapter / "ports")) {
      const Path folder = infiniband / adapter / "ports" / port;
      nic.kind =
          first_line(folder / "link_layer") == "Ethernet" ? NicKind::roce : NicKind::infiniband;
      nic.up = nic.up || contains(first_line(folder / "state"), "ACTIVE");
      // "400 Gb/sec (4X NDR)"
      if (const auto rate = leading_number(first_line(folder / "rate")); rate && *rate > 0)
        nic.bandwidth = nic.bandwidth.value_or(BytesPerSecond()) + *rate * (unit::Gb / unit::s);
    }
    node.nics.push_back(std::move(nic));
  }
}

void interface_facts(const Path& net, NodeFacts& node) {
  for (const std::string& interface : names_in(net)) {
    const Path folder = net / interface;
    if (!path_exists(folder / "device") || first_line(folder / "type") != "1") continue;
    NicFacts nic;
    nic.name = interface;
    nic.up = first_line(folder / "operstate") == "up";
    // Mb/s; -1 where there is no link
    if (const auto rate = leading_number(first_line(folder / "speed")); rate && *rate > 0)
      nic.bandwidth = *rate * (unit::Mb / unit::s);
    node.nics.push_back(std::move(nic));
  }
}

std::string joined(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() ? a + b : a + " " + b;
}

}  // namespace

void node_facts(const SensorPaths& paths, NodeFacts& node) {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) node.host = name.data();
  node.kernel = first_line(paths.proc / "sys/kernel/osrelease");
  const Path dmi = paths.sysfs / "class/dmi/id";
  node.system = joined(first_line(dmi / "sys_vendor"), first_line(dmi / "product_name"));
  if (const auto text = read_file(paths.proc / "cpuinfo")) {
    const CpuInfo info = parse_cpuinfo(*text);
    node.cpu = info.model;
    node.sockets = info.sockets;
    node.cores = info.cores;
    node.threads = info.threads;
  }
  if (const auto text = read_file(paths.proc / "meminfo"))
    if (const auto memory = parse_meminfo(*text)) node.memory = as_real(memory->total_b) * unit::B;
  node.amd_driver = first_line(paths.sysfs / "module/amdgpu/version");
  adapter_facts(paths.sysfs / "class/infiniband", node);
  interface_facts(paths.sysfs / "class/net", node);
}

namespace {

using run::ReadingKind;
using run::Scope;

bool is_cpu(const std::string& chip) {
  constexpr std::array<std::string_view, 4> chips = {"coretemp", "k10temp", "zenpower",
                                                     "cpu_thermal"};
  return holds(chips, chip);
}

/// Whether a label names a whole CPU rather than one of its cores or dies.
bool is_whole_cpu(const std::string& label) {
  return label.starts_with("Package") || label == "Tctl" || label == "Tdie";
}

/// Numbers of a channel in a chip's folder: 1 for "temp1_input".
std::vector<std::string> inputs_of(const Path& chip, std::string_view kind,
                                   std::string_view ending) {
  std::vector<std::string> found;
  for (const std::string& name : names_in(chip))
    if (name.starts_with(kind) && name.ends_with(ending))
      found.push_back(name.substr(0, name.size() - ending.size()));
  return found;
}

/// What is asked of all chips, sorted by what it means.
struct Found {
  std::vector<Path> cpu, any_cpu, inlet, grace, module;
  std::optional<Seconds> window;  // of the power meters
};

void look_at_temperatures(const Path& chip, bool cpu, Found& found) {
  for (const std::string& input : inputs_of(chip, "temp", "_input")) {
    const std::string label = first_line(chip / (input + "_label"));
    const Path file = chip / (input + "_input");
    if (cpu && is_whole_cpu(label)) found.cpu.push_back(file);
    if (cpu) found.any_cpu.push_back(file);
    const std::string words = lower_case(label);
    if (contains(words, "inlet") || contains(words, "ambient")) found.inlet.push_back(file);
  }
}

/// Grace's meters are told apart by their OEM text; those of a plain node have none.
void look_at_meters(const Path& chip, Found& found) {
  for (const std::string& input : inputs_of(chip, "power", "_average")) {
    const std::string label = first_line(chip / (input + "_oem_info"));
    const Path file = chip / (input + "_average");
    if (label.starts_with("Grace")) found.grace.push_back(file);
    if (label.starts_with("Module")) found.module.push_back(file);
    if (const auto ms = OpenFile(chip / (input + "_average_interval")).number())
      found.window = *ms * unit::ms;
  }
}

Found look(const Path& hwmon) {
  Found found;
  for (const std::string& entry : names_in(hwmon)) {
    const Path chip = hwmon / entry;
    const std::string name = first_line(chip / "name");
    if (name == "amdgpu") continue;  // a GPU; its own sensor reads it
    look_at_temperatures(chip, is_cpu(name), found);
    if (name == "power_meter") look_at_meters(chip, found);
  }
  if (found.cpu.empty()) found.cpu = found.any_cpu;
  return found;
}

constexpr double infiniband_unit_b = 4;  // port_*_data count words. Source: IBA 1.3, PortCounters

struct Direction {
  std::vector<Path> words, bytes;
};

/// Ports of InfiniBand and RoCE adapters; EFA's adapters count bytes in other files.
void look_at_adapters(const Path& infiniband, const char* words, const char* bytes,
                      Direction& direction) {
  for (const std::string& adapter : names_in(infiniband))
    for (const std::string& port : names_in(infiniband / adapter / "ports")) {
      const Path folder = infiniband / adapter / "ports" / port;
      if (path_exists(folder / "counters" / words))
        direction.words.push_back(folder / "counters" / words);
      else if (path_exists(folder / "hw_counters" / bytes))
        direction.bytes.push_back(folder / "hw_counters" / bytes);
    }
}

/// Interfaces with hardware behind them: bonds, bridges and tunnels would count the same bytes
/// again, and IP over InfiniBand (type 32) is in the adapter's counters.
std::vector<Path> ethernet_files(const Path& net, const char* file) {
  std::vector<Path> files;
  for (const std::string& interface : names_in(net)) {
    const Path folder = net / interface;
    if (path_exists(folder / "device") && first_line(folder / "type") == "1")
      files.push_back(folder / "statistics" / file);
  }
  return files;
}

void add(FileSensor& sensor, const char* signal, const char* from, double unit,
         std::vector<Path> files) {
  if (files.empty()) return;
  sensor.add({.channel = node_channel(signal, run::Scope::nic, run::ReadingKind::counter, from,
                                      Polling::slow),
              .files = std::move(files),
              .unit = unit},
             signal, "");
}

}  // namespace

std::unique_ptr<Sensor> open_hwmon(const Path& sysfs) {
  auto sensor = std::make_unique<FileSensor>("hwmon");
  const Found found = look(sysfs / "class/hwmon");
  const auto add = [&](const char* signal, Scope scope, ReadingKind kind, double unit,
                       const std::vector<Path>& files) {
    FileNumber number{.channel = node_channel(signal, scope, kind, "hwmon", Polling::slow),
                      .files = files,
                      .unit = unit,
                      .combine = kind == ReadingKind::instant ? Combine::highest : Combine::sum};
    if (kind == ReadingKind::average) number.channel.about.window = found.window;
    if (!files.empty()) sensor->add(std::move(number), signal, "");
  };
  add("cpu_c", Scope::package, ReadingKind::instant, 1e-3, found.cpu);
  add("inlet_c", Scope::node, ReadingKind::instant, 1e-3, found.inlet);
  add("cpu_power_w", Scope::package, ReadingKind::average, 1e-6, found.grace);
  add("module_power_w", Scope::module, ReadingKind::average, 1e-6, found.module);
  if (found.cpu.empty())
    sensor->add_gap({"temperature of the CPUs",
                     "no coretemp or k10temp in " + (sysfs / "class/hwmon").string(),
                     "modprobe coretemp (Intel) or k10temp (AMD); virtual machines have none"});
  return sensor;
}

std::unique_ptr<Sensor> open_network(const Path& sysfs) {
  auto sensor = std::make_unique<FileSensor>("network");
  Direction out, in;
  look_at_adapters(sysfs / "class/infiniband", "port_xmit_data", "tx_bytes", out);
  look_at_adapters(sysfs / "class/infiniband", "port_rcv_data", "rx_bytes", in);
  add(*sensor, "scale_out_tx_bytes", "infiniband port_xmit_data", infiniband_unit_b, out.words);
  add(*sensor, "scale_out_rx_bytes", "infiniband port_rcv_data", infiniband_unit_b, in.words);
  if (out.words.empty()) {
    add(*sensor, "scale_out_tx_bytes", "efa tx_bytes", 1, out.bytes);
    add(*sensor, "scale_out_rx_bytes", "efa rx_bytes", 1, in.bytes);
  }
  add(*sensor, "ethernet_tx_bytes", "net tx_bytes", 1,
      ethernet_files(sysfs / "class/net", "tx_bytes"));
  add(*sensor, "ethernet_rx_bytes", "net rx_bytes", 1,
      ethernet_files(sysfs / "class/net", "rx_bytes"));
  if (out.words.empty() && out.bytes.empty())
    sensor->add_gap({"InfiniBand and RoCE bytes",
                     "no adapter in " + (sysfs / "class/infiniband").string(), ""});
  return sensor;
}

namespace {

/// The kernel writes the whole of /proc/stat at each read, a line per interrupt: a millisecond on
/// large machines. Slow polling is enough, as these are counters.
class ProcSensor final : public Sensor {
 public:
  explicit ProcSensor(const Path& proc)
      : stat_(proc / "stat"),
        memory_(proc / "meminfo"),
        ticks_per_s_(as_real(sysconf(_SC_CLK_TCK))) {
    has_stat_ = read_ticks().has_value();
    for (const char* const signal : {"cpu_user_s", "cpu_system_s", "cpu_idle_s", "cpu_wait_s"})
      if (has_stat_) add(signal, ReadingKind::counter, "proc stat");
    if (read_memory()) add("memory_used_b", ReadingKind::instant, "proc meminfo");
    if (!has_stat_) miss("CPU time", proc / "stat", stat_);
    if (!read_memory()) miss("memory in use", proc / "meminfo", memory_);
  }

  std::string_view name() const override { return "proc"; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }

  void read(bool slow, std::vector<Reading>& readings) override {
    if (!slow) return;
    int32_t channel = 0;
    const int64_t now = monotonic_now_ns();
    if (has_stat_) {
      if (const auto ticks = read_ticks())
        for (const double seconds : since_begin(*ticks))
          readings.push_back({channel++, now, seconds});
      channel = 4;
    }
    const bool has_memory = as_size(channel) < channels_.size();
    if (const auto memory = read_memory(); memory && has_memory)
      readings.push_back({channel, now, as_real(memory->used_b)});
  }

 private:
  void add(const char* signal, ReadingKind kind, const char* sensor) {
    channels_.push_back(node_channel(signal, Scope::host, kind, sensor, Polling::slow));
  }
  void miss(const char* what, const Path& path, const OpenFile& file) {
    gaps_.push_back(
        {what, path.string() + (file.is_open() ? " is not as expected" : ": " + file.why()), ""});
  }
  std::optional<CpuTicks> read_ticks() const {
    std::array<char, 512> buffer{};
    const auto text = stat_.read(buffer);
    return text ? parse_proc_stat(*text) : std::nullopt;
  }
  std::optional<MemoryUse> read_memory() const {
    std::array<char, 2048> buffer{};
    const auto text = memory_.read(buffer);
    return text ? parse_meminfo(*text) : std::nullopt;
  }
  /// The kernel lets iowait and idle step back a little; what we count does not.
  std::array<double, 4> since_begin(const CpuTicks& ticks) {
    const std::array<uint64_t, 4> now = {ticks.user, ticks.system, ticks.idle, ticks.wait};
    if (!begun_) highest_ = begin_ = now, begun_ = true;
    std::array<double, 4> seconds{};
    for (std::size_t i = 0; i < now.size(); ++i) {
      highest_.at(i) = std::max(highest_.at(i), now.at(i));
      seconds.at(i) = as_real(highest_.at(i) - begin_.at(i)) / ticks_per_s_;
    }
    return seconds;
  }

  OpenFile stat_, memory_;
  double ticks_per_s_;
  bool has_stat_ = false, begun_ = false;
  std::array<uint64_t, 4> begin_{}, highest_{};
  std::vector<run::Device> devices_;
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;
};

constexpr const char* remedy =
    "sudo chmod a+r /sys/class/powercap/*/energy_uj (the kernel keeps it for root; see "
    "docs/measure/sensors.md)";

struct Zone {
  std::string name;  // "package-0", "dram", "core", "psys"
  Path folder;
};

/// "intel-rapl:0", "intel-rapl:0:1". The same packages appear once more as intel-rapl-mmio.
std::vector<Zone> zones_in(const Path& powercap) {
  std::vector<Zone> zones;
  for (const std::string& entry : names_in(powercap))
    if (entry.starts_with("intel-rapl:"))
      zones.push_back({first_line(powercap / entry / "name"), powercap / entry});
  return zones;
}

/// All zones of one kind, as one number: the sum over sockets.
FileNumber sum_of_zones(const std::vector<Zone>& zones, std::string_view beginning,
                        Channel channel) {
  FileNumber number{.channel = std::move(channel), .unit = 1e-6};
  for (const Zone& zone : zones) {
    if (!zone.name.starts_with(beginning)) continue;
    number.files.push_back(zone.folder / "energy_uj");
    const auto range = OpenFile(zone.folder / "max_energy_range_uj").count();
    number.moduli.push_back(range ? *range + 1 : 0);
  }
  return number;
}

struct Kind {
  const char *beginning, *signal, *what;
  run::Scope scope;
};

}  // namespace

std::unique_ptr<Sensor> open_proc(const Path& proc) {
  return std::make_unique<ProcSensor>(proc);
}

std::unique_ptr<Sensor> open_rapl(const Path& sysfs) {
  auto sensor = std::make_unique<FileSensor>("rapl");
  const std::vector<Zone> zones = zones_in(sysfs / "class/powercap");
  const auto has = [&](std::string_view beginning) {
    return std::ranges::any_of(zones,
                               [&](const Zone& zone) { return zone.name.starts_with(beginning); });
  };
  std::vector<Kind> kinds = {
      {"package", "cpu_energy_j", "energy of the CPU packages", run::Scope::package},
      {"dram", "dram_energy_j", "energy of the DRAM", run::Scope::dram},
      {"psys", "platform_energy_j", "energy of the platform (packages included)",
       run::Scope::node}};
  // A package's cores are part of it; they stand for it only where it is not told.
  if (!has("package")) kinds[0] = {"core", "cpu_energy_j", "energy of the cores", run::Scope::core};
  for (const Kind& kind : kinds)
    if (has(kind.beginning))
      sensor->add(
          sum_of_zones(zones, kind.beginning,
                       node_channel(kind.signal, kind.scope, run::ReadingKind::counter,
                                    std::string("rapl ") + kind.beginning, Polling::every_tick)),
          kind.what, remedy);
  if (zones.empty())
    sensor->add_gap({"energy of the CPU packages",
                     "there is no RAPL in " + (sysfs / "class/powercap").string(),
                     "modprobe intel_rapl_msr; virtual machines have none"});
  return sensor;
}

}  // namespace triplepoint::telemetry::host
