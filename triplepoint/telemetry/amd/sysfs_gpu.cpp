// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/amd/sysfs_gpu.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace triplepoint::telemetry::amd {
namespace {

constexpr int none = -1;

/// Where the fields of one version are, in bytes.
struct Layout {
  int content, size;
  int edge, hotspot, memory, hbm;           // u16; hbm: four
  int average_power, current_power;         // u16 W
  int gfx_activity, memory_activity;        // u16 %
  int energy;                               // u64
  int gfx_clock, gfx_clocks, memory_clock;  // u16 MHz; how many of the first
  int throttle;                             // u64
  int accumulation;                         // u32; five residencies follow
  int pcie_width;                           // u16
  int xgmi_read, xgmi_write;                // u64, eight each
  int firmware_time;                        // u64
};

constexpr int xgmi_links = 8, most_hbm = 4;

// clang-format off
constexpr std::array<Layout, 8> layouts = {{
  // content size edge hot mem  hbm  avgP curP gfx mem energy gclk n uclk thr   acc  pcie  xrd   xwr   fw
  {1,   96,  4,    6,  8,   88,  22,  none, 16, 18,  24,  54, 1, 58,  none, none, 74, none, none, none},
  {2,  104,  4,    6,  8,   88,  22,  none, 16, 18,  24,  54, 1, 58,  none, none, 74, none, none,  96},
  {3,  120,  4,    6,  8,   88,  22,  none, 16, 18,  24,  54, 1, 58,  112,  none, 74, none, none,  96},
  {4,  288, none,  4,  6, none, none, 10,   12, 14,  24, 240, 8, 280, none, none, 48,  104,  168, 232},
  {5,  360, none,  4,  6, none, none, 10,   12, 14,  88, 312, 8, 352, none, none, 112, 176,  240, 304},
  {6, 1664, none,  4,  6, none, none, 10,   12, 14,  16, 264, 8, 304, none, 32,   60,  128,  192, 256},
  {7, 2208, none,  4,  6, none, none, 10,   12, 14,  24, 296, 8, 336, none, 40,   68,  136,  200, 288},
  {8, 3872, none,  4,  6, none, none, 10,   12, 14,  24, 296, 8, 336, none, 40,   68,  136,  200, 288},
}};
// clang-format on

/// Reads numbers at offsets that may not exist; sentinels are none.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
  std::optional<uint64_t> raw(int offset) const {
    Number number{};
    if (offset == none || as_size(offset) + sizeof number > bytes_.size()) return std::nullopt;
    std::memcpy(&number, bytes_.data() + offset, sizeof number);
    if (is_sentinel(number, 8 * sizeof number)) return std::nullopt;
    return number;
  }
  std::optional<double> gauge(int offset, std::string_view signal, double unit = 1) const {
    const auto number = raw<uint16_t>(offset);
    if (!number) return std::nullopt;
    const double value = as_real(*number) * unit;
    return plausible_range(signal).holds(value) ? std::optional(value) : std::nullopt;
  }
  /// Mean of those of `count` neighbours that say something.
  std::optional<double> mean(int offset, int count, std::string_view signal) const {
    double sum = 0;
    int said = 0;
    for (int i = 0; i < count && offset != none; ++i)
      if (const auto value = gauge(offset + 2 * i, signal)) sum += *value, ++said;
    return said > 0 ? std::optional(sum / said) : std::nullopt;
  }
  std::optional<double> highest(int offset, int count, std::string_view signal) const {
    std::optional<double> high;
    for (int i = 0; i < count && offset != none; ++i)
      if (const auto value = gauge(offset + 2 * i, signal); value && *value > 0)
        high = std::max(high.value_or(*value), *value);
    return high;
  }
  /// Links that are not there say so; none at all: absent.
  std::optional<uint64_t> sum(int offset, int count) const {
    std::optional<uint64_t> sum;
    for (int i = 0; i < count && offset != none; ++i)
      if (const auto value = raw<uint64_t>(offset + 8 * i)) sum = sum.value_or(0) + *value;
    return sum;
  }

 private:
  std::string_view bytes_;
};

void take_gauges(const Bytes& bytes, const Layout& at, GpuMetrics& metrics) {
  metrics.edge_c = bytes.gauge(at.edge, "die_c");
  metrics.junction_c = bytes.gauge(at.hotspot, "junction_c");
  metrics.memory_c = bytes.gauge(at.memory, "memory_c");
  // Some boards of version 1.3 say the temperature of each stack only.
  if (metrics.memory_c.value_or(0) == 0) {
    const auto stacks = bytes.highest(at.hbm, most_hbm, "memory_c");
    if (stacks) metrics.memory_c = stacks;
  }
  metrics.power_average_w = bytes.gauge(at.average_power, "power_average_w");
  metrics.power_instant_w = bytes.gauge(at.current_power, "power_instant_w");
  metrics.utilization = bytes.gauge(at.gfx_activity, "utilization", 0.01);
  metrics.memory_utilization = bytes.gauge(at.memory_activity, "memory_utilization", 0.01);
  metrics.sm_clock_mhz = bytes.mean(at.gfx_clock, at.gfx_clocks, "sm_clock_mhz");
  metrics.memory_clock_mhz = bytes.gauge(at.memory_clock, "memory_clock_mhz");
}

void take_counters(const Bytes& bytes, const Layout& at, GpuMetrics& metrics) {
  metrics.energy = bytes.raw<uint64_t>(at.energy);
  metrics.firmware_time = bytes.raw<uint64_t>(at.firmware_time);
  metrics.xgmi_read_kb = bytes.sum(at.xgmi_read, xgmi_links);
  metrics.xgmi_written_kb = bytes.sum(at.xgmi_write, xgmi_links);
  metrics.throttle_bits = bytes.raw<uint64_t>(at.throttle);
  const auto residency = [&](int which) {
    return bytes.raw<uint32_t>(at.accumulation == none ? none : at.accumulation + 4 * which);
  };
  metrics.accumulation = residency(0);
  metrics.prochot = residency(1);
  metrics.power_limit = residency(2);
  metrics.socket_hot = residency(3);
  metrics.regulator_hot = residency(4);
  metrics.memory_hot = residency(5);
  if (const auto width = bytes.raw<uint16_t>(at.pcie_width))
    metrics.pcie_width = static_cast<int32_t>(*width);
}

}  // namespace

Result<GpuMetrics> parse_gpu_metrics(std::string_view bytes) {
  struct Head {
    uint16_t size;
    uint8_t format, content;
  } head{};
  if (bytes.size() < sizeof head)
    return error("gpu_metrics has {} bytes (its head has 4)", bytes.size());
  std::memcpy(&head, bytes.data(), sizeof head);
  const auto* const layout = std::ranges::find_if(
      layouts, [&](const Layout& one) { return head.format == 1 && head.content == one.content; });
  if (layout == layouts.end())
    return error("gpu_metrics is version {}.{} (1.1 to 1.8 are known)", head.format, head.content);
  if (head.size != layout->size || bytes.size() < head.size)
    return error("gpu_metrics 1.{} states {} bytes and has {} (that version has {})", head.content,
                 head.size, bytes.size(), layout->size);
  GpuMetrics metrics;
  metrics.content = head.content;
  const Bytes fields(bytes.substr(0, head.size));
  take_gauges(fields, *layout, metrics);
  take_counters(fields, *layout, metrics);
  return metrics;
}

uint64_t reasons_of(uint64_t throttle_bits) {
  const auto any = [&](unsigned first, unsigned last) {
    const uint64_t up_to_last = last >= 63 ? ~0ULL : (1ULL << (last + 1)) - 1;
    return (throttle_bits & up_to_last & ~((1ULL << first) - 1)) != 0;
  };
  constexpr unsigned first_other = 48;
  uint64_t reasons = throttle_bits >> first_other << 16U;
  if (any(0, 15)) reasons |= 0x4;
  if (any(16, 31)) reasons |= 0x8;
  if (any(32, 45)) reasons |= 0x40;
  if (any(46, 47)) reasons |= 0x20;
  return reasons;
}

namespace {

constexpr std::string_view amd_vendor = "0x1002";

struct ModelName {
  uint32_t device_id;
  const char* name;
  bool two_dies;  // of one package, each a device
};
constexpr std::array<ModelName, 9> model_names = {{{0x738c, "AMD Instinct MI100", false},
                                                   {0x7408, "AMD Instinct MI250X", true},
                                                   {0x740c, "AMD Instinct MI250", true},
                                                   {0x740f, "AMD Instinct MI210", false},
                                                   {0x74a0, "AMD Instinct MI300A", false},
                                                   {0x74a1, "AMD Instinct MI300X", false},
                                                   {0x74a5, "AMD Instinct MI325X", false},
                                                   {0x75a0, "AMD Instinct MI350X", false},
                                                   {0x75a3, "AMD Instinct MI355X", false}}};

const ModelName* model_of(uint32_t device_id) {
  return find_in(model_names, device_id, &ModelName::device_id);
}

uint32_t hexadecimal(std::string_view text) {
  uint32_t number = 0;
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  return number;
}

/// The value of "PCI_SLOT_NAME=0000:c1:00.0" in a device's uevent.
std::string slot_name(const Path& folder) {
  const auto text = read_file(folder / "uevent");
  constexpr std::string_view key = "PCI_SLOT_NAME=";
  const auto at = text ? text->find(key) : std::string::npos;
  if (at == std::string::npos) return "";
  const auto begin = at + key.size();
  return text->substr(begin, text->find('\n', begin) - begin);
}

Path hwmon_of(const Path& folder) {
  const auto names = names_in(folder / "hwmon");
  return names.empty() ? Path() : folder / "hwmon" / names.front();
}

bool is_card(std::string_view name) {
  return name.starts_with("card") && name.size() > 4 &&
         name.find_first_not_of("0123456789", 4) == std::string_view::npos;
}

SysfsGpu look_at(const Path& folder) {
  SysfsGpu gpu;
  gpu.folder = folder;
  gpu.hwmon = hwmon_of(folder);
  gpu.device_id = hexadecimal(first_line(folder / "device"));
  gpu.device.pci = slot_name(folder);
  const std::string unique = first_line(folder / "unique_id");
  if (!unique.empty()) gpu.device.uuid = "GPU-" + unique;
  gpu.device.name = first_line(folder / "product_name");
  const ModelName* const model = model_of(gpu.device_id);
  if (gpu.device.name.empty())
    gpu.device.name =
        model != nullptr ? std::string(model->name) : fmt::format("AMD GPU {:#x}", gpu.device_id);
  gpu.shares_package = model != nullptr && model->two_dies;
  return gpu;
}

/// Of two dies in a package the first says the power of both, the other one zero or nothing.
void pair_dies(std::vector<SysfsGpu>& gpus) {
  std::optional<int32_t> first;
  for (SysfsGpu& gpu : gpus) {
    if (!gpu.shares_package) continue;
    if (power_now(gpu).value_or(0) > 0)
      first = gpu.device.local;
    else
      gpu.device.power_counted_on = std::exchange(first, std::nullopt);
  }
}

struct GaugeWanted {
  const char* signal;
  std::optional<double> GpuMetrics::*value;
  run::ReadingKind kind;
};
constexpr std::array<GaugeWanted, 9> gauges_wanted = {{
    {"power_instant_w", &GpuMetrics::power_instant_w, run::ReadingKind::instant},
    {"power_average_w", &GpuMetrics::power_average_w, run::ReadingKind::average},
    {"die_c", &GpuMetrics::edge_c, run::ReadingKind::instant},
    {"junction_c", &GpuMetrics::junction_c, run::ReadingKind::instant},
    {"memory_c", &GpuMetrics::memory_c, run::ReadingKind::instant},
    {"utilization", &GpuMetrics::utilization, run::ReadingKind::average},
    {"memory_utilization", &GpuMetrics::memory_utilization, run::ReadingKind::average},
    {"sm_clock_mhz", &GpuMetrics::sm_clock_mhz, run::ReadingKind::instant},
    {"memory_clock_mhz", &GpuMetrics::memory_clock_mhz, run::ReadingKind::instant},
}};

bool is_power(std::string_view signal) {
  return signal.starts_with("power_instant") || signal.starts_with("power_average") ||
         signal == "energy_j";
}

}  // namespace

std::vector<SysfsGpu> sysfs_gpus(const Path& sysfs) {
  std::vector<SysfsGpu> gpus;
  const Path drm = sysfs / "class/drm";
  for (const std::string& name : names_in(drm)) {
    const Path folder = drm / name / "device";
    if (is_card(name) && first_line(folder / "vendor") == amd_vendor)
      gpus.push_back(look_at(folder));
  }
  std::ranges::sort(gpus, [](const auto& a, const auto& b) { return a.device.pci < b.device.pci; });
  for (std::size_t i = 0; i < gpus.size(); ++i)
    gpus[i].device.local = static_cast<int32_t>(i);
  pair_dies(gpus);
  return gpus;
}

Result<GpuMetrics> read_metrics(const OpenFile& file) {
  std::array<char, 4096> buffer{};
  const auto bytes = file.read(buffer);
  if (!bytes) return error("gpu_metrics cannot be read");
  return parse_gpu_metrics(*bytes);
}

Path labelled_input(const Path& hwmon, std::string_view kind, std::string_view label) {
  for (const std::string& name : names_in(hwmon))
    if (name.starts_with(kind) && name.ends_with("_label") && first_line(hwmon / name) == label)
      return hwmon / (name.substr(0, name.size() - 5) + "input");
  return {};
}

std::optional<double> power_now(const SysfsGpu& gpu) {
  if (const auto metrics = read_metrics(OpenFile(gpu.folder / "gpu_metrics")))
    return metrics->power_instant_w ? metrics->power_instant_w : metrics->power_average_w;
  for (const char* const name : {"power1_input", "power1_average"})
    if (const auto microwatts = OpenFile(gpu.hwmon / name).number()) return *microwatts * 1e-6;
  return std::nullopt;
}

double Residency::update(uint64_t residency, uint64_t accumulation, int64_t now_ns) {
  constexpr uint64_t mask = 0xffffffff;  // both wrap at 32 bits
  if (accumulation_) {
    const auto counted = as_real((accumulation - *accumulation_) & mask);
    const auto throttled = as_real((residency - *residency_) & mask);
    const auto passed = as_real(now_ns - last_ns_);
    if (counted > 0) total_ns_ += passed * std::min(throttled / counted, 1.0);
  }
  residency_ = residency, accumulation_ = accumulation, last_ns_ = now_ns;
  return total_ns_;
}

SysfsReader::SysfsReader(const SysfsGpu& gpu, bool counts_energy, std::vector<Channel>& channels)
    : gpu_(gpu),
      channels_(&channels),
      first_channel_(channels.size()),
      metrics_(gpu.folder / "gpu_metrics") {
  if (const auto metrics = read_metrics(metrics_)) open_metrics(*metrics, counts_energy);
  open_files();
  channels_ = nullptr;
}

int32_t SysfsReader::add_channel(std::string signal, run::ReadingKind kind, std::string sensor,
                                 Polling polling) {
  Channel channel;
  if (is_power(signal) && gpu_.shares_package) channel.about.scope = run::Scope::package;
  channel.about.signal = std::move(signal);
  channel.about.device = gpu_.device.index;
  channel.about.kind = kind;
  channel.about.sensor = std::move(sensor);
  channel.polling = polling;
  channels_->push_back(std::move(channel));
  return static_cast<int32_t>(channels_->size()) - 1;
}

bool SysfsReader::has(std::string_view signal) const {
  return std::any_of(channels_->begin() + static_cast<std::ptrdiff_t>(first_channel_),
                     channels_->end(),
                     [&](const Channel& channel) { return channel.about.signal == signal; });
}

void SysfsReader::open_metrics(const GpuMetrics& metrics, bool counts_energy) {
  const std::string sensor = fmt::format("amdgpu gpu_metrics 1.{}", metrics.content);
  const auto add = [&](const char* signal, run::ReadingKind kind) {
    return add_channel(signal, kind, sensor, Polling::every_tick);
  };
  for (const GaugeWanted& wanted : gauges_wanted) {
    const bool elsewhere = gpu_.device.power_counted_on && is_power(wanted.signal);
    if (metrics.*wanted.value && !elsewhere)
      gauges_.push_back({add(wanted.signal, wanted.kind), wanted.value});
  }
  const auto count = [&](const char* signal, std::optional<uint64_t> GpuMetrics::*value,
                         double unit) {
    if (metrics.*value)
      counts_.push_back({add(signal, run::ReadingKind::counter), value,
                         Counter({.unit = unit, .most_per_s = plausible_rate(signal) / unit})});
  };
  if (counts_energy && !gpu_.device.power_counted_on)
    count("energy_j", &GpuMetrics::energy, energy_unit_j);
  count("scale_up_rx_bytes", &GpuMetrics::xgmi_read_kb, xgmi_unit_b);
  count("scale_up_tx_bytes", &GpuMetrics::xgmi_written_kb, xgmi_unit_b);
  const auto share = [&](const char* reason,
                         std::vector<std::optional<uint64_t> GpuMetrics::*> values) {
    const std::size_t size = values.size();
    if (metrics.accumulation && metrics.*values.front())
      shares_.push_back({add(reason, run::ReadingKind::counter), std::move(values),
                         std::vector<Residency>(size)});
  };
  share("throttle_ns_sw_power_cap", {&GpuMetrics::power_limit});
  share("throttle_ns_sw_thermal_slowdown", {&GpuMetrics::prochot});
  share("throttle_ns_hw_thermal_slowdown",
        {&GpuMetrics::socket_hot, &GpuMetrics::regulator_hot, &GpuMetrics::memory_hot});
  if (!metrics.throttle_bits) return;
  reasons_ = add("throttle_reasons", run::ReadingKind::bits);
  constexpr double idle = 0.05;
  if (metrics.utilization.value_or(1) < idle) always_set_ = *metrics.throttle_bits;
}

void SysfsReader::open_number(const char* signal, const Path& file, double unit, Polling polling,
                              run::ReadingKind kind) {
  if (has(signal) || (gpu_.device.power_counted_on && is_power(signal))) return;
  Number number{
      .channel = 0, .file = OpenFile(file), .unit = unit, .range = plausible_range(signal)};
  const auto value = number.file.number();
  if (!value || !number.range.holds(*value * unit)) return;
  number.channel = add_channel(signal, kind, "amdgpu " + file.filename().string(), polling);
  numbers_.push_back(std::move(number));
}

void SysfsReader::open_files() {
  using run::ReadingKind;
  const Path& hwmon = gpu_.hwmon;
  if (!has("power_instant_w") && !has("power_average_w")) {
    open_number("power_instant_w", hwmon / "power1_input", 1e-6, Polling::every_tick);
    open_number("power_average_w", hwmon / "power1_average", 1e-6, Polling::every_tick,
                ReadingKind::average);
  }
  open_number("die_c", labelled_input(hwmon, "temp", "edge"), 1e-3, Polling::every_tick);
  open_number("junction_c", labelled_input(hwmon, "temp", "junction"), 1e-3, Polling::every_tick);
  open_number("memory_c", labelled_input(hwmon, "temp", "mem"), 1e-3, Polling::every_tick);
  open_number("sm_clock_mhz", labelled_input(hwmon, "freq", "sclk"), 1e-6, Polling::every_tick);
  open_number("memory_clock_mhz", labelled_input(hwmon, "freq", "mclk"), 1e-6, Polling::every_tick);
  open_number("utilization", gpu_.folder / "gpu_busy_percent", 1e-2, Polling::every_tick,
              ReadingKind::average);
  open_number("memory_utilization", gpu_.folder / "mem_busy_percent", 1e-2, Polling::every_tick,
              ReadingKind::average);
  open_number("memory_used_b", gpu_.folder / "mem_info_vram_used", 1, Polling::slow);
  open_number("power_limit_w", hwmon / "power1_cap", 1e-6, Polling::slow);
  open_number("fan_share", hwmon / "pwm1", 1.0 / 255, Polling::slow);
}

/// The driver takes a new snapshot when the last one is over a millisecond old. The same firmware
/// time is the same snapshot, and keeps its stamp.
int64_t SysfsReader::stamp_of(const GpuMetrics& metrics, int64_t now) {
  if (!metrics.firmware_time || metrics.firmware_time != firmware_time_) stamp_ns_ = now;
  firmware_time_ = metrics.firmware_time;
  return stamp_ns_;
}

void SysfsReader::take(const GpuMetrics& metrics, int64_t stamp, std::vector<Reading>& readings) {
  for (const Gauge& gauge : gauges_)
    if (metrics.*gauge.value) readings.push_back({gauge.channel, stamp, *(metrics.*gauge.value)});
  for (Count& count : counts_)
    if (metrics.*count.value)
      readings.push_back(
          {count.channel, stamp, count.counter.update(*(metrics.*count.value), stamp)});
  take_shares(metrics, stamp, readings);
  if (reasons_ && metrics.throttle_bits)
    readings.push_back(
        {*reasons_, stamp, as_real(reasons_of(*metrics.throttle_bits & ~always_set_))});
}

void SysfsReader::take_shares(const GpuMetrics& metrics, int64_t stamp,
                              std::vector<Reading>& readings) {
  for (Share& share : shares_) {
    double longest_ns = 0;
    for (std::size_t i = 0; i < share.values.size(); ++i)
      if (metrics.*share.values[i] && metrics.accumulation)
        longest_ns = std::max(
            longest_ns,
            share.residencies[i].update(*(metrics.*share.values[i]), *metrics.accumulation, stamp));
    if (metrics.accumulation) readings.push_back({share.channel, stamp, longest_ns});
  }
}

void SysfsReader::read(bool slow, const std::vector<Channel>& channels,
                       std::vector<Reading>& readings) {
  bool failed = false;
  if (!gauges_.empty()) {
    const auto metrics = read_metrics(metrics_);
    failed = !metrics;
    if (metrics) take(*metrics, stamp_of(*metrics, monotonic_now_ns()), readings);
  }
  for (const Number& number : numbers_) {
    if (channels.at(as_size(number.channel)).polling == Polling::slow && !slow) continue;
    const auto value = number.file.number();
    failed = failed || !value;
    if (value && number.range.holds(*value * number.unit))
      readings.push_back({number.channel, monotonic_now_ns(), *value * number.unit});
  }
  constexpr int failures_to_say = 10;
  failures_ = failed ? failures_ + 1 : 0;
  if (failures_ == failures_to_say)
    troubles_.push_back(fmt::format("GPU {} ({}) cannot be read any more; its series have a gap",
                                    gpu_.device.local, gpu_.device.pci));
}

}  // namespace triplepoint::telemetry::amd
