// SPDX-License-Identifier: Apache-2.0
// How hot, and which slots of the chassis are the hot ones?
//
// Slots are split into hot and cool by two-means: of all splits of the slots in order of their mean
// temperature, the one with the least sum of squares around the two means. hot_over_cool compares
// the groups' means over devices, hottest_over_coolest the hottest and the coolest device, all in
// degrees Celsius as the paper does.

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "triplepoint/metrics/run/view.h"

namespace triplepoint::metrics {
namespace {

using run::DeviceSummary;

struct SlotMean {
  double degrees = 0;
  int32_t slot = 0;
};

struct Mean {
  double sum = 0, count = 0;
  void add(double value) {
    sum += value;
    count += 1;
  }
  double value() const { return sum / count; }
};

/// Slots, coolest first.
std::vector<SlotMean> slot_means(const View& view) {
  std::map<int32_t, Mean> slots;
  for (size_t i = 0; i < view.run.devices.size(); ++i)
    if (view.devices[i].die_mean_c)
      slots[view.run.devices[i].slot].add(*view.devices[i].die_mean_c);
  std::vector<SlotMean> means;
  means.reserve(slots.size());
  for (const auto& [slot, mean] : slots)
    means.push_back({mean.value(), slot});
  std::ranges::stable_sort(means, [](SlotMean a, SlotMean b) { return a.degrees < b.degrees; });
  return means;
}

/// How many of the coolest slots form the cool group. The least sum of squares within the groups is
/// the greatest between them: n1 n2 (mean1 - mean2)^2.
size_t split(const std::vector<SlotMean>& slots) {
  double all = 0, cool = 0, best = -1;
  for (const SlotMean& slot : slots)
    all += slot.degrees;
  size_t best_size = 1;
  const auto total = as_real(slots.size());
  for (size_t size = 1; size < slots.size(); ++size) {
    cool += slots[size - 1].degrees;
    const auto n = as_real(size);
    const double gap = (all - cool) / (total - n) - cool / n;
    const double between = n * (total - n) * gap * gap;
    if (between > best) {
      best = between;
      best_size = size;
    }
  }
  return best_size;
}

void answer_hot_and_cool(const View& view, Metrics& answer) {
  const std::vector<SlotMean> slots = slot_means(view);
  if (slots.size() < 2) return;
  const std::vector<int32_t> cool_slots =
      numbered(split(slots), [&](size_t i) { return slots[i].slot; });
  Mean hot, cool;
  for (size_t i = 0; i < view.run.devices.size(); ++i) {
    if (!view.devices[i].die_mean_c) continue;
    const bool is_cool = holds(cool_slots, view.run.devices[i].slot);
    (is_cool ? cool : hot).add(*view.devices[i].die_mean_c);
  }
  for (size_t i = cool_slots.size(); i < slots.size(); ++i)
    answer.hot_slots.push_back(slots[i].slot);
  std::ranges::sort(answer.hot_slots);
  answer.hot_mean_c = hot.value();
  answer.cool_mean_c = cool.value();
  if (cool.value() > 0) answer.hot_over_cool = hot.value() / cool.value();
}

double standard_deviation(const std::vector<double>& values) {
  Mean mean, square;
  for (const double value : values)
    mean.add(value);
  for (const double value : values)
    square.add((value - mean.value()) * (value - mean.value()));
  return std::sqrt(square.value());
}

/// Of a value for each device, not-a-number where it does not know.
Spread spread_of(const View& view, const std::vector<double>& values_of_devices) {
  std::map<int32_t, std::vector<double>> nodes;
  for (size_t i = 0; i < values_of_devices.size(); ++i)
    if (std::isfinite(values_of_devices[i]))
      nodes[view.run.devices[i].node].push_back(values_of_devices[i]);
  Spread spread;
  Mean within;
  std::vector<double> means;
  for (const auto& [node, values] : nodes) {
    if (values.size() > 1) within.add(standard_deviation(values));
    Mean mean;
    for (const double value : values)
      mean.add(value);
    means.push_back(mean.value());
  }
  if (within.count > 0) spread.within_nodes = within.value();
  if (means.size() > 1) spread.between_nodes = standard_deviation(means);
  return spread;
}

Spread spread_of(const View& view, std::optional<double> DeviceSummary::*field) {
  std::vector<double> values = list_of(view.devices, field);
  values.resize(std::min(values.size(), view.run.devices.size()));
  return spread_of(view, values);
}

std::optional<double> mean_of_known(const std::vector<double>& values) {
  Mean mean;
  for (const double value : values)
    if (std::isfinite(value)) mean.add(value);
  return mean.count > 0 ? std::optional(mean.value()) : std::nullopt;
}

/// What only series tell: temperature and power of memory, and utilization.
void answer_memory_and_utilization(const View& view, Metrics& answer) {
  const DeviceStatistics memory = statistics_of_devices(view, "memory_c");
  answer.memory_per_gpu_c = memory.means;
  answer.memory_mean_c = mean_of_known(memory.means);
  answer.memory_spread_c = spread_of(view, memory.means);
  for (const double peak : memory.maxima)
    if (std::isfinite(peak))
      answer.memory_peak_c = std::max(answer.memory_peak_c.value_or(peak), peak);
  answer.memory_power_per_gpu_w = statistics_of_devices(view, "memory_power_w").means;
  answer.utilization_per_gpu = statistics_of_devices(view, "utilization").means;
  answer.utilization = mean_of_known(answer.utilization_per_gpu);
  answer.utilization_spread = spread_of(view, answer.utilization_per_gpu);
}

/// Neighbours of a node share a package, as many as the job's GPU says.
std::optional<double> package_difference(const View& view) {
  const int32_t dies =
      view.run.manifest.job ? view.run.manifest.job->cluster.gpu.dies_per_package : 1;
  if (dies < 2) return std::nullopt;
  std::map<std::pair<int32_t, int32_t>, std::vector<double>> packages;
  for (size_t i = 0; i < view.run.devices.size(); ++i)
    if (view.devices[i].die_mean_c)
      packages[{view.run.devices[i].node, view.run.devices[i].slot / dies}].push_back(
          *view.devices[i].die_mean_c);
  Mean difference;
  for (const auto& [package, degrees] : packages) {
    const auto [low, high] = std::minmax_element(degrees.begin(), degrees.end());
    if (degrees.size() > 1) difference.add(*high - *low);
  }
  if (difference.count == 0) return std::nullopt;
  return difference.value();
}

constexpr double same_clock = 1e-3;  // relative: closer clocks of a node count as equal

std::map<std::string, std::vector<double>> shares_of_devices(
    const std::vector<DeviceSummary>& devices) {
  std::map<std::string, std::vector<double>> shares;
  for (size_t i = 0; i < devices.size(); ++i)
    for (const auto& [reason, share] : devices[i].throttle) {
      if (!(share > 0)) continue;
      auto& of_reason = shares[std::string(reason)];
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

}  // namespace

void answer_temperature(const View& view, Metrics& answer) {
  answer_memory_and_utilization(view, answer);
  answer.power_spread_w = spread_of(view, &DeviceSummary::power_mean_w);
  answer.temperature_spread_c = spread_of(view, &DeviceSummary::die_mean_c);
  answer.clock_spread_mhz = spread_of(view, &DeviceSummary::sm_clock_mean_mhz);
  answer.package_difference_c = package_difference(view);
  answer.temperature_mean_c = mean_of(view.devices, &DeviceSummary::die_mean_c);
  answer.temperature_peak_c = maximum_of(view.devices, &DeviceSummary::die_peak_c);
  answer.temperature_per_gpu_c = list_of(view.devices, &DeviceSummary::die_mean_c);
  answer.temperature_peak_per_gpu_c = list_of(view.devices, &DeviceSummary::die_peak_c);
  if (!answer.temperature_mean_c) return;
  double coolest = *answer.temperature_mean_c;
  for (const DeviceSummary& device : view.devices)
    coolest = std::min(coolest, device.die_mean_c.value_or(coolest));
  if (coolest > 0)
    answer.hottest_over_coolest = *maximum_of(view.devices, &DeviceSummary::die_mean_c) / coolest;
  answer_hot_and_cool(view, answer);
}

// What do the clocks do, what keeps them down for how long, and do hot slots set the pace?

void answer_throttle(const View& view, Metrics& answer) {
  answer.sm_clock_mean_mhz = mean_of(view.devices, &DeviceSummary::sm_clock_mean_mhz);
  answer.sm_clock_per_gpu_mhz = list_of(view.devices, &DeviceSummary::sm_clock_mean_mhz);
  answer.sm_clock_min_per_gpu_mhz = list_of(view.devices, &DeviceSummary::sm_clock_min_mhz);
  answer.throttle = mean_by_name(view.devices, &DeviceSummary::throttle);
  answer.throttle_per_gpu = shares_of_devices(view.devices);
  answer.throttled_per_gpu = throttled_of_devices(view);
  answer.clock_in_passes_mhz = view.run.numbers.clock_in_passes_mhz;
  answer.clock_lost_to_power_mhz = view.run.numbers.clock_lost_to_power_mhz;
  answer.clock_lost_to_temperature_mhz = view.run.numbers.clock_lost_to_temperature_mhz;
  if (const auto seconds = view.run.numbers.step_without_heat_s)
    answer.step_without_heat = *seconds * unit::s;
  compare_slots(view, answer);
}

std::optional<double> throttled_share(const Metrics& m) {
  return mean_of_known(m.throttled_per_gpu);
}

std::optional<double> throttled_share(const Metrics& m, std::string_view reason) {
  const auto found = m.throttle.find(std::string(reason));
  if (found != m.throttle.end()) return found->second;
  return throttled_share(m) ? std::optional(0.0) : std::nullopt;
}

}  // namespace triplepoint::metrics
