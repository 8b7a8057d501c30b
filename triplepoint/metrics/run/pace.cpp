// SPDX-License-Identifier: Apache-2.0
// Who slows all others?
//
// A simulated run says it itself: outliers, and what the step would take without them. Of a
// recording only clocks are known, and a bound: a step cannot become shorter than by the share of
// the clock that the slowest GPU lacks. Named is who costs at least 1 % of the step; boards of one
// type differ by less than that.
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/statistics.h"

#include "triplepoint/metrics/run/view.h"

namespace triplepoint::metrics {
namespace {

constexpr double min_cost = 0.01;    // of the step
constexpr double min_excess = 0.05;  // of a recorded clock below its peers'
constexpr double min_deviations = 4;
constexpr double clearly_hotter_c = 8;
constexpr size_t fewest_peers = 3, most_named = 8;

std::string_view limit_of(const run::DeviceSummary& slow, double usual_c) {
  const auto share = [&](const char* reason) {
    const auto found = slow.throttle.find(reason);
    return found == slow.throttle.end() ? 0.0 : found->second;
  };
  const double heat = std::max({share("software_thermal"), share("hardware_thermal")});
  const double power = std::max({share("software_power_cap"), share("hardware_power_brake")});
  if (heat > 0.05 && heat >= power) return "heat";
  if (slow.die_mean_c && *slow.die_mean_c > usual_c + clearly_hotter_c) return "heat";
  if (power > 0.05) return "power_limit";
  if (share("application_clocks") > 0.05) return "clock_lock";
  return "";  // nothing that was recorded tells
}

/// From the clocks that sensors have read.
std::vector<run::PaceSetter> by_clocks(const View& view, Seconds step) {
  std::vector<double> clocks, dies;
  std::vector<int32_t> of;
  for (size_t i = 0; i < view.devices.size(); ++i) {
    if (!view.devices[i].sm_clock_mean_mhz) continue;
    clocks.push_back(*view.devices[i].sm_clock_mean_mhz);
    of.push_back(static_cast<int32_t>(i));
    if (view.devices[i].die_mean_c) dies.push_back(*view.devices[i].die_mean_c);
  }
  if (clocks.size() <= fewest_peers) return {};
  const double usual = median(clocks);
  const double least = std::max(min_excess * usual, min_deviations * robust_deviation(clocks));
  run::PaceSetter setter{.peers = usual, .at_most = true};
  std::vector<std::pair<double, int32_t>> slow;
  for (size_t i = 0; i < clocks.size(); ++i)
    if (usual - clocks[i] > least) slow.emplace_back(clocks[i], of[i]);
  if (slow.empty() || 2 * slow.size() >= clocks.size()) return {};
  std::sort(slow.begin(), slow.end());
  slow.resize(std::min(slow.size(), most_named));
  for (const auto& [clock, device] : slow)
    setter.who.push_back(device);
  setter.value = slow.front().first;
  setter.cost = (1 - setter.value / usual) * step;
  const run::DeviceSummary& slowest = view.devices[static_cast<size_t>(setter.who.front())];
  const double usual_c = dies.empty() ? 1e9 : median(dies);
  setter.limit = limit_of(slowest, usual_c);
  if (setter.limit == "heat" && slowest.die_mean_c && !dies.empty())
    setter.detail = fmt::format("die at {:.0f} °C against {:.0f} °C", *slowest.die_mean_c, usual_c);
  return {setter};
}

}  // namespace

void answer_pace(const View& view, Metrics& answer) {
  if (!answer.step_time) return;
  const bool simulated = view.run.manifest.origin == run::Origin::simulated;
  answer.pace_setters = simulated ? view.run.pace_setters : by_clocks(view, *answer.step_time);
  std::erase_if(answer.pace_setters, [&](const run::PaceSetter& setter) {
    return setter.cost < min_cost * *answer.step_time;
  });
}

}  // namespace triplepoint::metrics
