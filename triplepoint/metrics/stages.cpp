// SPDX-License-Identifier: Apache-2.0
// What do the pipeline stages do, each as the mean of its ranks?
#include <algorithm>

#include "triplepoint/metrics/view.h"

namespace triplepoint::metrics {

namespace {

using run::DeviceSummary;

KernelSeconds mean_kernels(const View& view, const std::vector<int32_t>& ranks) {
  KernelSeconds mean;
  for (int32_t rank : ranks)
    mean += view.kernels[static_cast<size_t>(rank)];
  mean *= 1 / static_cast<double>(ranks.size());
  return mean;
}

/// Summaries of the devices whose ranks belong to the stage, shown in the timeline or not.
std::vector<DeviceSummary> devices_of(const View& view, int32_t stage) {
  std::vector<DeviceSummary> devices;
  for (size_t i = 0; i < view.run.devices.size() && i < view.devices.size(); ++i) {
    const int32_t rank = view.run.devices[i].rank.value_or(-1);
    if (rank < 0 || static_cast<size_t>(rank) >= view.stage_of_rank.size()) continue;
    if (view.stage_of_rank[static_cast<size_t>(rank)] == stage) devices.push_back(view.devices[i]);
  }
  return devices;
}

Stage describe(const View& view, int32_t number, const std::vector<int32_t>& ranks) {
  const std::vector<DeviceSummary> devices = devices_of(view, number);
  Stage stage{.stage = number,
              .kernels = mean_kernels(view, ranks),
              .power_mean_w = mean_of(devices, &DeviceSummary::power_mean_w),
              .die_mean_c = mean_of(devices, &DeviceSummary::die_mean_c),
              .sm_clock_mean_mhz = mean_of(devices, &DeviceSummary::sm_clock_mean_mhz)};
  for (int32_t rank : ranks)
    stage.bubble_fraction +=
        bubble_fraction(view.occupancy[static_cast<size_t>(rank)], view.duration()) /
        static_cast<double>(ranks.size());
  return stage;
}

}  // namespace

void answer_kernels(const View& view, Metrics& answer) {
  if (view.ranks.empty()) return;
  answer.kernels = mean_kernels(view, view.ranks);
  std::map<int32_t, std::vector<int32_t>> stages;
  for (int32_t rank : view.ranks)
    if (const int32_t stage = view.stage_of_rank[static_cast<size_t>(rank)]; stage >= 0)
      stages[stage].push_back(rank);
  for (const auto& [stage, ranks] : stages)
    answer.stages.push_back(describe(view, stage, ranks));
}

}  // namespace triplepoint::metrics
