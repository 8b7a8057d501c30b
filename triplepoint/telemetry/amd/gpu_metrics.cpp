// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/amd/gpu_metrics.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "triplepoint/telemetry/plausible.h"

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
constexpr std::array<Layout, 7> layouts = {{
  // content size edge hot mem  hbm  avgP curP gfx mem energy gclk n uclk thr   acc  pcie  xrd   xwr   fw
  {1,   96,  4,    6,  8,   88,  22,  none, 16, 18,  24,  54, 1, 58,  none, none, 74, none, none, none},
  {2,  104,  4,    6,  8,   88,  22,  none, 16, 18,  24,  54, 1, 58,  none, none, 74, none, none,  96},
  {3,  120,  4,    6,  8,   88,  22,  none, 16, 18,  24,  54, 1, 58,  112,  none, 74, none, none,  96},
  {4,  288, none,  4,  6, none, none, 10,   12, 14,  24, 240, 8, 280, none, none, 48,  104,  168, 232},
  {5,  360, none,  4,  6, none, none, 10,   12, 14,  88, 312, 8, 352, none, none, 112, 176,  240, 304},
  {6, 1664, none,  4,  6, none, none, 10,   12, 14,  16, 264, 8, 304, none, 32,   60,  128,  192, 256},
  {7, 2208, none,  4,  6, none, none, 10,   12, 14,  24, 296, 8, 336, none, 40,   68,  136,  200, 288},
}};
// clang-format on

/// Reads numbers at offsets that may not exist; sentinels are none.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}

  template <class Number>
  std::optional<uint64_t> raw(int offset) const {
    Number number{};
    if (offset == none || static_cast<std::size_t>(offset) + sizeof number > bytes_.size())
      return std::nullopt;
    std::memcpy(&number, bytes_.data() + offset, sizeof number);
    if (is_sentinel(number, 8 * sizeof number)) return std::nullopt;
    return number;
  }
  std::optional<double> gauge(int offset, std::string_view signal, double unit = 1) const {
    const auto number = raw<uint16_t>(offset);
    if (!number) return std::nullopt;
    const double value = static_cast<double>(*number) * unit;
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
    return error(fmt::format("gpu_metrics has {} bytes (its head has 4)", bytes.size()));
  std::memcpy(&head, bytes.data(), sizeof head);
  const auto* const layout = std::find_if(layouts.begin(), layouts.end(), [&](const Layout& one) {
    return head.format == 1 && head.content == one.content;
  });
  if (layout == layouts.end())
    return error(fmt::format("gpu_metrics is version {}.{} (1.1 to 1.7 are known)", head.format,
                             head.content));
  if (head.size != layout->size || bytes.size() < head.size)
    return error(fmt::format("gpu_metrics 1.{} says {} bytes and has {} (that version has {})",
                             head.content, head.size, bytes.size(), layout->size));
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

}  // namespace triplepoint::telemetry::amd
