// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/view.h"

#include <algorithm>

#include "triplepoint/run/throttle_reasons.h"

namespace triplepoint::telemetry {
namespace {

constexpr double shown_share = 0.005;  // below, a reason is noise
constexpr double most_bits = 9e15;  // a whole number in a double; larger values are not a bit set

/// The signals of one device or of the node.
class Signals {
 public:
  Signals(const Snapshot& snapshot, int32_t device, bool of_node)
      : snapshot_(snapshot), device_(device), of_node_(of_node) {}

  const LiveReading* reading(std::string_view signal) const {
    return find_reading(snapshot_, signal, device_, of_node_);
  }
  std::optional<double> value(std::string_view signal) const {
    const LiveReading* found = reading(signal);
    return found == nullptr ? std::nullopt : std::optional(found->value);
  }
  std::optional<double> rate(std::string_view signal) const {
    const LiveReading* found = reading(signal);
    return found == nullptr ? std::nullopt : found->rate;
  }
  std::optional<double> first_value(std::initializer_list<std::string_view> signals) const {
    for (const std::string_view signal : signals)
      if (const auto found = value(signal)) return found;
    return std::nullopt;
  }

 private:
  const Snapshot& snapshot_;
  int32_t device_;
  bool of_node_;
};

template <class T>
std::optional<double> in_unit_of(const std::optional<T>& value, T unit) {
  if (!value) return std::nullopt;
  return *value / unit;
}

std::optional<double> degrees_of(const std::optional<Celsius>& value) {
  if (!value) return std::nullopt;
  return value->degrees();
}

void fill_power(const Signals& signals, GpuView& view) {
  for (const char* signal : {"power_instant_w", "power_w", "power_average_w"}) {
    const LiveReading* found = signals.reading(signal);
    if (found == nullptr) continue;
    view.power_w = found->value;
    view.power_is_average = found->about.kind == run::ReadingKind::average;
    if (found->about.scope != run::Scope::gpu) view.power_scope = name_of(found->about.scope);
    break;
  }
  if (!view.power_w) view.power_w = signals.rate("energy_j");
  if (!view.power_w)
    if (const LiveReading* const module = signals.reading("module_power_w")) {
      view.power_w = module->value;
      view.power_scope = name_of(run::Scope::module);
    }
  if (const auto limit = signals.value("power_limit_w")) view.power_limit_w = limit;
}

void fill_throttle(const Snapshot& snapshot, int32_t device, GpuView& view) {
  for (const LiveReading& reading : snapshot.readings) {
    if (reading.about.of_node || reading.about.device != device || !reading.rate) continue;
    const std::string reason = reason_of_residency(reading.about.signal);
    if (!reason.empty()) view.throttle[reason] = std::clamp(*reading.rate * 1e-9, 0.0, 1.0);
  }
  run::leave_unexplained_slowdown(view.throttle);
}

/// The node's readings of one signal, added: sockets, adapters. Scopes that overlap are not.
std::optional<double> sum_of_rates(const Snapshot& snapshot, std::string_view signal) {
  std::optional<double> sum;
  std::optional<run::Scope> scope;
  for (const LiveReading& reading : snapshot.readings) {
    if (reading.about.signal != signal || !reading.about.of_node || !reading.rate) continue;
    if (scope && *scope != reading.about.scope) continue;
    scope = reading.about.scope;
    sum = sum.value_or(0) + *reading.rate;
  }
  return sum;
}

std::optional<double> sum_of_gpu_power(const Snapshot& snapshot) {
  std::optional<double> sum;
  for (std::size_t i = 0; i < snapshot.devices.size(); ++i) {
    if (snapshot.devices[i].facts.device.power_counted_on) continue;
    const GpuView gpu = view_gpu(snapshot, static_cast<int32_t>(i));
    // A module's power is that of its CPU, too, and each of its GPUs says it.
    if (gpu.power_w && gpu.power_scope != name_of(run::Scope::module))
      sum = sum.value_or(0) + *gpu.power_w;
  }
  return sum;
}

std::string short_reason(std::string_view reason) {
  if (reason == "software_power_cap") return "power cap";
  if (reason == "hardware_power_brake") return "power brake";
  if (reason == "software_thermal") return "heat";
  if (reason == "hardware_thermal") return "heat (hw)";
  if (reason == "hardware_slowdown") return "hw slowdown";
  if (reason == "sync_boost") return "sync boost";
  return std::string(reason);
}

}  // namespace

double GpuView::throttle_share() const {
  return most_of(throttle, [](const auto& of) { return of.second; });
}

std::string GpuView::cause() const {
  std::vector<std::pair<double, std::string>> shares;
  for (const auto& [reason, share] : throttle)
    if (share >= shown_share) shares.emplace_back(-share, reason);
  std::ranges::sort(shares);
  std::string text;
  for (const auto& [share, reason] : shares)
    text +=
        fmt::format("{}{} {:.0f}%", text.empty() ? "" : ", ", short_reason(reason), -share * 100);
  if (!text.empty() || !reasons) return text;
  for (const std::string& reason : held_back_by(*reasons))
    text += (text.empty() ? "" : ", ") + short_reason(reason);
  return text;
}

GpuView view_gpu(const Snapshot& snapshot, int32_t device) {
  const LiveDevice& live = snapshot.devices.at(as_size(device));
  const DeviceFacts& facts = live.facts;
  const Signals signals(snapshot, device, false);
  GpuView view{.index = facts.device.local,
               .name = facts.device.name,
               .answers = live.answers,
               .power_counted_on = facts.device.power_counted_on,
               .power_limit_w = in_unit_of(facts.power_limit, unit::W)};
  fill_power(signals, view);
  fill_throttle(snapshot, device, view);
  view.temperature_c = signals.first_value({"die_c", "junction_c", "edge_c"});
  view.memory_c = signals.value("memory_c");
  view.slowdown_c = degrees_of(facts.slowdown);
  view.sm_clock_mhz = signals.value("sm_clock_mhz");
  view.utilization = signals.value("utilization");
  view.memory_used_b = signals.value("memory_used_b");
  view.memory_b = in_unit_of(facts.memory, unit::B);
  view.scale_up_tx_bps = signals.rate("scale_up_tx_bytes");
  view.scale_up_rx_bps = signals.rate("scale_up_rx_bytes");
  view.pcie_tx_bps = signals.rate("pcie_tx_bytes");
  view.pcie_rx_bps = signals.rate("pcie_rx_bytes");
  const auto bits = signals.value("throttle_reasons");
  if (bits && *bits >= 0 && *bits < most_bits) view.reasons = static_cast<uint64_t>(*bits);
  return view;
}

NodeView view_node(const Snapshot& snapshot) {
  const Signals signals(snapshot, 0, true);
  NodeView view{.host = snapshot.node.host};
  view.power_w = signals.value("node_power_w");
  if (!view.power_w) view.power_w = signals.rate("node_energy_j");
  view.cpu_power_w = sum_of_rates(snapshot, "cpu_energy_j");
  view.dram_power_w = sum_of_rates(snapshot, "dram_energy_j");
  view.gpu_power_w = sum_of_gpu_power(snapshot);
  const auto user = signals.rate("cpu_user_s"), system = signals.rate("cpu_system_s");
  const auto idle = signals.rate("cpu_idle_s"), wait = signals.rate("cpu_wait_s");
  if (user && system && idle) {
    const double all = *user + *system + *idle + wait.value_or(0);
    if (all > 0) view.cpu_busy = std::clamp((*user + *system) / all, 0.0, 1.0);
  }
  view.cpu_c = signals.value("cpu_c");
  view.inlet_c = signals.value("inlet_c");
  view.memory_used_b = signals.value("memory_used_b");
  view.memory_b = in_unit_of(snapshot.node.memory, unit::B);
  view.scale_out_tx_bps = sum_of_rates(snapshot, "scale_out_tx_bytes");
  view.scale_out_rx_bps = sum_of_rates(snapshot, "scale_out_rx_bytes");
  view.ethernet_tx_bps = sum_of_rates(snapshot, "ethernet_tx_bytes");
  view.ethernet_rx_bps = sum_of_rates(snapshot, "ethernet_rx_bytes");
  return view;
}

}  // namespace triplepoint::telemetry
