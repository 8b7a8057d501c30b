// SPDX-License-Identifier: Apache-2.0
// What do the clocks do, what keeps them down for how long, and do hot slots set the pace?
#include <algorithm>
#include <charconv>

#include "triplepoint/metrics/run/view.h"

namespace triplepoint::metrics {

namespace {

using run::DeviceSummary;

constexpr double same_clock = 1e-3;  // relative: closer clocks of a node count as equal

std::map<std::string, std::vector<double>> shares_of_devices(
    const std::vector<DeviceSummary>& devices) {
  std::map<std::string, std::vector<double>> shares;
  for (size_t i = 0; i < devices.size(); ++i)
    for (const auto& [reason, share] : devices[i].throttle) {
      if (!(share > 0)) continue;
      auto& of_reason = shares[reason];
      of_reason.resize(devices.size(), 0.0);
      of_reason[i] = share;
    }
  return shares;
}

/// Slowest and fastest device of a node.
struct NodeClocks {
  double slowest = 0, fastest = 0;
  int32_t slot_of_slowest = 0;
};

std::map<int32_t, NodeClocks> clocks_of_nodes(const View& view) {
  std::map<int32_t, NodeClocks> nodes;
  for (size_t i = 0; i < view.run.devices.size(); ++i) {
    const auto clock = view.devices[i].sm_clock_mean_mhz;
    if (!clock) continue;
    const run::Device& device = view.run.devices[i];
    const auto at = nodes.try_emplace(device.node, NodeClocks{*clock, *clock, device.slot}).first;
    NodeClocks& node = at->second;
    node.fastest = std::max(node.fastest, *clock);
    if (*clock < node.slowest) node.slowest = *clock, node.slot_of_slowest = device.slot;
  }
  return nodes;
}

bool is_hot(const Metrics& answer, int32_t slot) {
  return std::binary_search(answer.hot_slots.begin(), answer.hot_slots.end(), slot);
}

void compare_slots(const View& view, Metrics& answer) {
  if (answer.hot_slots.empty() || !answer.sm_clock_mean_mhz) return;
  std::vector<DeviceSummary> hot, cool;
  for (size_t i = 0; i < view.run.devices.size(); ++i)
    (is_hot(answer, view.run.devices[i].slot) ? hot : cool).push_back(view.devices[i]);
  answer.hot_clock_mean_mhz = mean_of(hot, &DeviceSummary::sm_clock_mean_mhz);
  answer.cool_clock_mean_mhz = mean_of(cool, &DeviceSummary::sm_clock_mean_mhz);
  double differ = 0, by_hot = 0;
  for (const auto& [number, node] : clocks_of_nodes(view)) {
    if (node.slowest >= node.fastest * (1 - same_clock)) continue;
    differ += 1;
    by_hot += is_hot(answer, node.slot_of_slowest) ? 1 : 0;
  }
  if (differ > 0) answer.slowest_in_hot_slot = by_hot / differ;
}

std::optional<double> number_of_fact(const run::Run& run, const char* name) {
  const auto fact = run.manifest.facts.find(name);
  if (fact == run.manifest.facts.end()) return std::nullopt;
  double number = 0;
  const char* end = fact->second.data() + fact->second.size();
  const auto read = std::from_chars(fact->second.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

}  // namespace

void answer_throttle(const View& view, Metrics& answer) {
  answer.sm_clock_mean_mhz = mean_of(view.devices, &DeviceSummary::sm_clock_mean_mhz);
  answer.sm_clock_per_gpu_mhz = list_of(view.devices, &DeviceSummary::sm_clock_mean_mhz);
  answer.sm_clock_min_per_gpu_mhz = list_of(view.devices, &DeviceSummary::sm_clock_min_mhz);
  answer.throttle = mean_by_name(view.devices, &DeviceSummary::throttle);
  answer.throttle_per_gpu = shares_of_devices(view.devices);
  answer.clock_lost_to_power_mhz = number_of_fact(view.run, "clock_lost_to_power_mhz");
  answer.clock_lost_to_temperature_mhz = number_of_fact(view.run, "clock_lost_to_temperature_mhz");
  if (const auto seconds = number_of_fact(view.run, "step_without_heat_s"))
    answer.step_without_heat = *seconds * unit::s;
  compare_slots(view, answer);
}

}  // namespace triplepoint::metrics
