// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/machine_text.h"

#include <array>
#include <cmath>

#include "triplepoint/base/text.h"

namespace triplepoint::tui {
namespace {

using telemetry::GpuView;
using telemetry::Snapshot;

constexpr const char* absent = "n/a";
constexpr double near_limit = 0.97;  // of the power limit: the cap is at work or about to be

std::string with_prefix(double value, std::string_view unit) {
  constexpr std::array<const char*, 5> prefixes = {"", "k", "M", "G", "T"};
  std::size_t step = 0;
  while (std::abs(value) >= 999.5 && step + 1 < prefixes.size()) {
    value /= 1000;
    ++step;
  }
  return fmt::format("{:.{}f} {}{}", value, step == 0 || value >= 99.5 ? 0 : 1, prefixes[step],
                     unit);
}

}  // namespace

std::string watts_text(const std::optional<double>& watts) {
  return watts ? with_prefix(*watts, "W") : absent;
}

std::string memory_text(const std::optional<double>& used_b, const std::optional<double>& all_b) {
  const auto gb = [](double bytes) {
    return fmt::format("{:.{}f}", bytes * 1e-9, bytes < 9.95e9 ? 1 : 0);
  };
  if (!used_b) return all_b ? fmt::format("?/{} GB", gb(*all_b)) : absent;
  return all_b ? fmt::format("{}/{} GB", gb(*used_b), gb(*all_b)) : gb(*used_b) + " GB";
}

std::string rate_text(const std::optional<double>& bytes_per_s) {
  return bytes_per_s ? with_prefix(*bytes_per_s, "B/s") : absent;
}

namespace {

std::string celsius_text(const std::optional<double>& celsius) {
  return celsius ? fmt::format("{:.0f} C", *celsius) : absent;
}

std::string percent_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.0f}%", *share * 100) : absent;
}

std::string clock_text(const std::optional<double>& mhz) {
  return mhz ? fmt::format("{:.0f}", *mhz) : absent;
}

/// Both directions together: what people compare with a link's speed stands in `snapshot` apart.
std::string both_text(const std::optional<double>& tx, const std::optional<double>& rx) {
  if (!tx && !rx) return absent;
  return rate_text(tx.value_or(0) + rx.value_or(0));
}

std::string power_text(const GpuView& gpu) {
  if (gpu.power_counted_on) return fmt::format("on {}", *gpu.power_counted_on);
  std::string text = watts_text(gpu.power_w);
  if (gpu.power_is_average) text += " avg";
  return gpu.power_scope.empty() ? text : text + " (" + gpu.power_scope + ")";
}

std::vector<std::string> node_pieces(const Snapshot& snapshot) {
  const telemetry::NodeView node = view_node(snapshot);
  std::vector<std::string> pieces;
  const auto add = [&](const char* what, bool known, const std::string& text) {
    if (known) pieces.push_back(fmt::format("{} {}", what, text));
  };
  add("CPU", node.cpu_busy.has_value(), percent_text(node.cpu_busy));
  add("at", node.cpu_c.has_value(), celsius_text(node.cpu_c));
  add("memory", node.memory_used_b.has_value(), memory_text(node.memory_used_b, node.memory_b));
  add("GPUs", node.gpu_power_w.has_value(), watts_text(node.gpu_power_w));
  add("CPUs", node.cpu_power_w.has_value(), watts_text(node.cpu_power_w));
  add("DRAM", node.dram_power_w.has_value(), watts_text(node.dram_power_w));
  add("node", node.power_w.has_value(), watts_text(node.power_w));
  add("inlet", node.inlet_c.has_value(), celsius_text(node.inlet_c));
  add("InfiniBand", node.scale_out_tx_bps.has_value() || node.scale_out_rx_bps.has_value(),
      both_text(node.scale_out_tx_bps, node.scale_out_rx_bps));
  add("Ethernet", node.ethernet_tx_bps.has_value() || node.ethernet_rx_bps.has_value(),
      both_text(node.ethernet_tx_bps, node.ethernet_rx_bps));
  return pieces;
}

Style temperature_style(const GpuView& gpu) {
  if (!gpu.temperature_c || !gpu.slowdown_c) return Style::plain;
  const double margin = *gpu.slowdown_c - *gpu.temperature_c;
  return margin < 3 ? Style::bad : margin < 10 ? Style::warning : Style::plain;
}

Style power_style(const GpuView& gpu) {
  const bool near =
      gpu.power_w && gpu.power_limit_w && *gpu.power_w > near_limit * *gpu.power_limit_w;
  return near ? Style::warning : Style::plain;
}

Style throttle_style(const GpuView& gpu) {
  if (!gpu.answers) return Style::bad;
  if (gpu.cause().empty()) return Style::dim;
  return gpu.throttle.empty() || gpu.throttle_share() > 0.1 ? Style::bad : Style::warning;
}

DataTable gpu_table(const Snapshot& snapshot) {
  DataTable table = text_table({{"gpu", Align::right},
                                {"model", Align::left},
                                {"power", Align::right},
                                {"limit", Align::right, 1},
                                {"temp", Align::right},
                                {"memory", Align::right, 3},
                                {"SM MHz", Align::right},
                                {"util", Align::right, 2},
                                {"memory used", Align::right, 2},
                                {"NVLink/xGMI", Align::right, 1},
                                {"PCIe", Align::right, 1},
                                {"slowed by", Align::right}});
  for (std::size_t i = 0; i < snapshot.devices.size(); ++i) {
    const GpuView gpu = view_gpu(snapshot, static_cast<int32_t>(i));
    const std::string cause = gpu.answers ? gpu.cause() : "does not answer";
    table.add({fmt::format("{}", gpu.index),
               gpu.name,
               {power_text(gpu), power_style(gpu)},
               watts_text(gpu.power_limit_w),
               {celsius_text(gpu.temperature_c), temperature_style(gpu)},
               celsius_text(gpu.memory_c),
               clock_text(gpu.sm_clock_mhz),
               percent_text(gpu.utilization),
               memory_text(gpu.memory_used_b, gpu.memory_b),
               both_text(gpu.scale_up_tx_bps, gpu.scale_up_rx_bps),
               both_text(gpu.pcie_tx_bps, gpu.pcie_rx_bps),
               {cause.empty() ? "-" : cause, throttle_style(gpu)}});
  }
  return table;
}

}  // namespace

std::string snapshot_table(const Snapshot& snapshot, const Console& console) {
  std::string text = console.styled(snapshot.node.host, Style::bold);
  if (!snapshot.node.cpu.empty()) text += "  " + snapshot.node.cpu;
  if (!snapshot.node.nvidia_driver.empty()) text += "  driver " + snapshot.node.nvidia_driver;
  text += "\n";
  text += snapshot.devices.empty() ? "no GPU that a driver here knows\n"
                                   : table_text(gpu_table(snapshot), console);
  text += fmt::format("{}\n", fmt::join(node_pieces(snapshot), ", "));
  for (const std::string& trouble : snapshot.troubles)
    text += console.styled(trouble, Style::warning) + "\n";
  if (!snapshot.gaps.empty())
    text += fmt::format("{} things cannot be measured here: triplepoint doctor\n",
                        snapshot.gaps.size());
  return text;
}

}  // namespace triplepoint::tui
