// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <sstream>
#include <thread>
#include <utility>

#include "triplepoint/telemetry/amd/sensor.h"
#include "triplepoint/telemetry/amd/sysfs_gpu.h"
#include "triplepoint/telemetry/open_file.h"
#include "triplepoint/telemetry/sensor.h"
#include "triplepoint/telemetry/sensor_opening.h"

namespace triplepoint::telemetry::amd {
namespace {

constexpr uint64_t is_xgmi = 11;  // link type, HSA_IOLINK_TYPE_XGMI

using Properties = std::map<std::string, uint64_t>;

/// "key number" lines.
Properties properties_of(const Path& folder) {
  Properties properties;
  const auto text = read_file(folder / "properties");
  std::istringstream lines(text ? *text : "");
  for (std::string key, value; lines >> key >> value;)
    if (const auto number = leading_count(value)) properties[key] = *number;
  return properties;
}

uint64_t get(const Properties& properties, const char* key) {
  return value_at(properties, key).value_or(0);
}

/// location_id is bus << 8 | device << 3 | function.
std::string pci_of(const Properties& node) {
  const uint64_t location = get(node, "location_id");
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", get(node, "domain"), location >> 8U & 0xffU,
                     location >> 3U & 0x1fU, location & 7U);
}

/// 90402 is gfx942, 90010 is gfx90a.
std::string architecture_of(uint64_t version) {
  if (version == 0) return "";
  return fmt::format("gfx{}{}{:x}", version / 10000, version / 100 % 100, version % 100);
}

/// Architecture and xGMI links of the GPU with this PCI address, as the compute driver's topology
/// (/sys/class/kfd/kfd/topology/nodes) has them.
void add_kfd_facts(const Path& nodes, DeviceFacts& facts) {
  for (const std::string& name : names_in(nodes)) {
    const Properties node = properties_of(nodes / name);
    if (get(node, "simd_count") == 0 || pci_of(node) != facts.device.pci) continue;
    facts.architecture = architecture_of(get(node, "gfx_target_version"));
    for (const std::string& link : names_in(nodes / name / "io_links")) {
      const Properties xgmi = properties_of(nodes / name / "io_links" / link);
      if (get(xgmi, "type") != is_xgmi) continue;
      LinkFacts to{.kind = LinkKind::xgmi, .remote_pci = "", .count = 1};
      const Properties remote = properties_of(nodes / std::to_string(get(xgmi, "node_to")));
      if (get(remote, "simd_count") > 0) to.remote_pci = pci_of(remote);
      if (const uint64_t megabytes = get(xgmi, "max_bandwidth"); megabytes > 0)
        to.bandwidth = as_real(megabytes) * (unit::MB / unit::s);
      facts.links.push_back(std::move(to));
    }
  }
}

/// A counter and a power that should be its derivative, watched for a while.
struct EnergyCheck {
  OpenFile file;
  std::optional<uint64_t> first, last;
  double joules = 0;  // by power
  double power_w = 0;
  int64_t last_ns = 0;

  void look() {
    const auto metrics = read_metrics(file);
    if (!metrics || !metrics->energy) return;
    const double watts = metrics->power_instant_w.value_or(metrics->power_average_w.value_or(0));
    const int64_t now = monotonic_now_ns();
    if (first) joules += (power_w + watts) / 2 * as_real(now - last_ns) * 1e-9;
    if (!first) first = metrics->energy;
    last = metrics->energy, power_w = watts, last_ns = now;
  }
  double counted_j() const {
    return first && *last >= *first ? as_real(*last - *first) * energy_unit_j : 0;
  }
  /// Rough on purpose: half a second of two sensors of different windows.
  bool agrees() const {
    return joules > 0 && counted_j() > 0.6 * joules && counted_j() < 1.6 * joules;
  }
};

class SysfsSensor final : public Sensor {
 public:
  SysfsSensor(const SysfsGpu& gpu, const Wait& wait, GapList& missing) : devices_{gpu.device} {
    const EnergyCheck check = check_energy(gpu, wait);
    reader_.emplace(gpu, check.agrees(), channels_);
    note_gaps(gpu, check, missing);
  }

  std::string_view name() const override { return "amdgpu"; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }
  void read(bool slow, std::vector<Reading>& readings) override {
    reader_->read(slow, channels_, readings);
  }
  std::vector<std::string> take_troubles() override { return reader_->take_troubles(); }

 private:
  static EnergyCheck check_energy(const SysfsGpu& gpu, const Wait& wait) {
    EnergyCheck check{.file = OpenFile(gpu.folder / "gpu_metrics")};
    check.look();
    for (int i = 0; check.first && i < 12; ++i) {
      wait(50 * unit::ms);
      check.look();
    }
    return check;
  }

  static void note_gaps(const SysfsGpu& gpu, const EnergyCheck& check, GapList& missing) {
    const auto add = [&](std::string what, std::string why, std::string remedy = "") {
      missing.add({std::move(what), std::move(why), std::move(remedy)}, gpu.device.local);
    };
    const auto metrics = read_metrics(OpenFile(gpu.folder / "gpu_metrics"));
    if (!metrics) add("one consistent snapshot", metrics.error().what + "; single files are read");
    if (gpu.device.power_counted_on)
      add("power and energy",
          fmt::format("a second die; GPU {} reports the power of the whole package",
                      *gpu.device.power_counted_on));
    else if (check.first && !check.agrees())
      add("energy counter",
          fmt::format("it counts {} of what power adds up to", ratio_words(check)),
          "a newer amdgpu driver; energy is integrated from power meanwhile");
    else if (!check.first)
      add("energy counter", "gpu_metrics has none");
    add("PCIe bytes", "amdgpu counts them without direction");
    if (metrics && !metrics->accumulation)
      add("time throttled by cause", "gpu_metrics has it from version 1.6 on");
  }

  static std::string ratio_words(const EnergyCheck& check) {
    if (check.counted_j() == 0) return "nothing";
    return fmt::format("{:.0f} %", 100 * check.counted_j() / std::max(check.joules, 1e-9));
  }

  std::vector<run::Device> devices_;
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;  // none: they are said for all GPUs together
  std::optional<SysfsReader> reader_;
};

/// The clock of the last state in a pp_dpm file: "2: 2100Mhz *".
std::optional<Hertz> highest_clock(const Path& file) {
  const auto text = read_file(file);
  std::optional<Hertz> highest;
  for (std::size_t at = 0; text && at < text->size();) {
    const auto end = std::min(text->find('\n', at), text->size());
    const std::string_view line(text->data() + at, end - at);
    const auto colon = line.find(':');
    const auto mhz =
        colon == std::string_view::npos ? std::nullopt : leading_number(line.substr(colon + 1));
    if (mhz && *mhz > 0 && *mhz < 1e5)
      highest = std::max(highest.value_or(Hertz()), *mhz * unit::MHz);
    at = end + 1;
  }
  return highest;
}

std::optional<Watts> microwatts(const Path& file) {
  const auto number = OpenFile(file).number();
  return number && *number > 0 ? std::optional(*number * 1e-6 * unit::W) : std::nullopt;
}

/// "temp2_input" of a label, with another ending: "temp2_crit".
std::optional<Celsius> limit(const Path& hwmon, std::string_view label, std::string_view ending) {
  Path input = labelled_input(hwmon, "temp", label);
  if (input.empty()) return std::nullopt;
  std::string name = input.filename();
  name = name.substr(0, name.find('_') + 1) + std::string(ending);
  const auto number = OpenFile(input.replace_filename(name)).number();
  return number && *number > 0 ? std::optional(Celsius(*number * 1e-3)) : std::nullopt;
}

std::optional<int32_t> small_number(const Path& file) {
  const auto number = OpenFile(file).number();
  return number && *number >= 0 && *number < 1e6 ? std::optional(static_cast<int32_t>(*number))
                                                 : std::nullopt;
}

DeviceFacts facts_of(const SysfsGpu& gpu) {
  DeviceFacts facts;
  facts.device = gpu.device;
  facts.vendor = "amd";
  facts.power_limit = microwatts(gpu.hwmon / "power1_cap");
  facts.power_limit_default = microwatts(gpu.hwmon / "power1_cap_default");
  facts.power_limit_min = microwatts(gpu.hwmon / "power1_cap_min");
  facts.slowdown = limit(gpu.hwmon, "junction", "crit");
  facts.shutdown = limit(gpu.hwmon, "junction", "emergency");
  if (const auto bytes = OpenFile(gpu.folder / "mem_info_vram_total").number())
    facts.memory = *bytes * unit::B;
  facts.max_sm_clock = highest_clock(gpu.folder / "pp_dpm_sclk");
  facts.pcie_width = small_number(gpu.folder / "current_link_width");
  facts.pcie_width_max = small_number(gpu.folder / "max_link_width");
  return facts;
}

void really_wait(Seconds length) {
  std::this_thread::sleep_for(std::chrono::duration<double>(length / unit::s));
}

}  // namespace

Node::Node(Path sysfs, Wait wait)
    : sysfs_(std::move(sysfs)), wait_(std::move(wait)), gpus_(sysfs_gpus(sysfs_)) {
  for (const SysfsGpu& gpu : gpus_)
    devices_.push_back(gpu.device);
}

std::unique_ptr<Sensor> Node::open(std::size_t gpu, GapList& missing) const {
  return std::make_unique<SysfsSensor>(gpu_at(gpu), wait_, missing);
}

DeviceFacts Node::facts(std::size_t gpu) const {
  DeviceFacts facts = facts_of(gpu_at(gpu));
  add_kfd_facts(sysfs_ / "class/kfd/kfd/topology/nodes", facts);
  return facts;
}

/// With the numbers that the node gave the devices meanwhile.
SysfsGpu Node::gpu_at(std::size_t gpu) const {
  SysfsGpu found = gpus_[gpu];
  found.device = devices_[gpu];
  return found;
}

std::unique_ptr<Node> find_devices(const SensorPaths& paths, std::vector<Gap>& gaps) {
  auto node = std::make_unique<Node>(paths.sysfs, really_wait);
  if (node->devices().empty())
    gaps.push_back({"AMD GPUs", "amdgpu shows none in " + paths.sysfs.string(),
                    "in a container, mount the host's /sys"});
  return node;
}

}  // namespace triplepoint::telemetry::amd
