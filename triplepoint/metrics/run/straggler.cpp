// SPDX-License-Identifier: Apache-2.0
// Who holds the others up, and why?
//
//   lateness of a rank = longest waiting of any rank - its own waiting;  share_of_waits = lateness
//   / sum of lateness
//
// The rank that waits least is the one the others wait for. Traces do not separate waiting from
// transfer; where no span does, the seconds inside communication kernels stand for it. The cause is
// what makes the rank busier than the mean rank by most seconds: the work of its stage at the clock
// of the others, its kernels beyond that (at a lower clock, if it has one), or gaps in which it
// waits for its host. First come those whom the run names as its pace setters. Listed are
// ranks with at least half again an even share; differences below 0.1 % of the step are noise.

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "triplepoint/base/statistics.h"

#include "triplepoint/metrics/run/view.h"

namespace triplepoint::metrics {
namespace {

constexpr size_t most_listed = 8;
constexpr double listed_over_even_share = 1.5;
constexpr double noise_share_of_step = 1e-3;
constexpr double clock_difference = 0.005;  // relative; below, the clock is no explanation

class StragglerCandidates {
 public:
  StragglerCandidates(const View& view, const Metrics& answer) : view_(view), answer_(answer) {
    const auto count = static_cast<double>(view.ranks.size());
    for (int32_t rank : view.ranks) {
      waiting_ += kernels(rank).waiting;
      gaps_ += gaps(rank) / count;
    }
    find_clocks();
    for (int32_t rank : view.ranks)
      equal_work_ += equal_work(rank) / count;
  }

  Seconds waits(int32_t rank) const {
    return waiting_ > Seconds() ? kernels(rank).waiting : kernels(rank).communication();
  }

  std::string cause(int32_t rank) const {
    const Seconds by_stage = equal_work(rank) - equal_work_;
    const Seconds by_rank = work(kernels(rank)) - work(answer_.kernels) - by_stage;
    const Seconds by_host = gaps(rank) - gaps_;
    const Seconds most = std::max({by_stage, by_rank, by_host});
    if (most <= noise_share_of_step * view_.duration()) return "unknown";
    if (most == by_stage) return more_work;
    return most == by_host ? "slower host" : slow_kernels(rank);
  }

 private:
  const KernelSeconds& kernels(int32_t rank) const {
    return view_.kernels[static_cast<size_t>(rank)];
  }
  static Seconds work(const KernelSeconds& kernels) {
    return kernels.compute + kernels.memory + kernels.other;
  }
  Seconds gaps(int32_t rank) const {
    return view_.occupancy[static_cast<size_t>(rank)].time(DeviceActivity::in_pass,
                                                           DeviceActivity::on_device) /
           view_.num_steps();
  }
  int32_t stage_number(int32_t rank) const {
    return view_.stage_of_rank[static_cast<size_t>(rank)];
  }

  /// Work of the rank's stage if it ran at the mean clock of all ranks' stages.
  Seconds equal_work(int32_t rank) const {
    const Stage* stage = stage_of(rank);
    if (stage == nullptr) return work(answer_.kernels);
    const auto clock = clocks_.find(stage->stage);
    const double ratio = clock != clocks_.end() && clock_ > 0 ? clock->second / clock_ : 1;
    return work(stage->kernels) + (ratio - 1) * stage->kernels.compute;
  }

  /// By stage, of its devices: the mean, but the lowest where one rank stands for several, which
  /// keep step with the slowest. Nothing if one is unknown.
  void find_clocks() {
    struct Clocks {
      double sum = 0, lowest = 1e9, devices = 0, shown = 0;
    };
    std::map<int32_t, Clocks> stages;
    for (size_t i = 0; i < view_.run.devices.size(); ++i) {
      const int32_t rank = view_.run.devices[i].rank.value_or(-1);
      if (rank < 0 || static_cast<size_t>(rank) >= view_.stage_of_rank.size()) continue;
      if (!view_.devices[i].sm_clock_mean_mhz) return;
      Clocks& stage = stages[stage_number(rank)];
      stage.lowest = std::min(stage.lowest, *view_.devices[i].sm_clock_mean_mhz);
      stage.sum += *view_.devices[i].sm_clock_mean_mhz;
      ++stage.devices;
    }
    for (int32_t rank : view_.ranks)
      ++stages[stage_number(rank)].shown;
    for (const auto& [number, stage] : stages) {
      if (stage.devices == 0) return clocks_.clear();
      clocks_[number] = stage.shown < stage.devices ? stage.lowest : stage.sum / stage.devices;
    }
    clock_ = 0;
    for (int32_t rank : view_.ranks)
      clock_ += clocks_[stage_number(rank)] / static_cast<double>(view_.ranks.size());
  }

  const Stage* stage_of(int32_t rank) const {
    const int32_t number = stage_number(rank);
    const auto found = std::find_if(answer_.stages.begin(), answer_.stages.end(),
                                    [&](const Stage& stage) { return stage.stage == number; });
    return found == answer_.stages.end() ? nullptr : &*found;
  }

  const run::DeviceSummary* device_of(int32_t rank) const {
    for (size_t i = 0; i < view_.run.devices.size(); ++i)
      if (view_.run.devices[i].rank == rank) return &view_.devices[i];
    return nullptr;
  }

  std::string slow_kernels(int32_t rank) const {
    const run::DeviceSummary* device = device_of(rank);
    if (device == nullptr || !device->sm_clock_mean_mhz || !answer_.sm_clock_mean_mhz ||
        *device->sm_clock_mean_mhz > *answer_.sm_clock_mean_mhz * (1 - clock_difference))
      return "slower kernels";
    const auto& reasons = device->throttle;
    const auto longest =
        std::max_element(reasons.begin(), reasons.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    if (longest == reasons.end() || longest->second <= 0) return "lower clock";
    return fmt::format("lower clock ({})", longest->first);
  }

  const View& view_;
  const Metrics& answer_;
  Seconds waiting_, gaps_, equal_work_;  // gaps and work: means
  std::map<int32_t, double> clocks_;     // MHz, by stage
  double clock_ = 0;                     // MHz, mean over ranks; 0: unknown
};

}  // namespace

void answer_straggler(const View& view, Metrics& answer) {
  if (view.ranks.size() < 2) return;
  const StragglerCandidates suspects(view, answer);
  Seconds longest, all;
  for (int32_t rank : view.ranks)
    longest = std::max(longest, suspects.waits(rank));
  for (int32_t rank : view.ranks)
    all += longest - suspects.waits(rank);
  const auto count = static_cast<double>(view.ranks.size());
  if (all / count <= noise_share_of_step * (view.duration() / view.num_steps())) return;
  for (int32_t rank : view.ranks) {
    const double share = (longest - suspects.waits(rank)) / all;
    if (share < listed_over_even_share / count) continue;
    answer.stragglers.push_back({.rank = rank,
                                 .stage = view.stage_of_rank[static_cast<size_t>(rank)],
                                 .share_of_waits = share});
  }
  std::stable_sort(
      answer.stragglers.begin(), answer.stragglers.end(),
      [](const auto& a, const auto& b) { return a.share_of_waits > b.share_of_waits; });
  answer.stragglers.resize(std::min(answer.stragglers.size(), most_listed));
  for (Straggler& straggler : answer.stragglers)
    straggler.cause = suspects.cause(straggler.rank);
}

// Who slows all others?
//
// A simulated run says it itself: outliers, and what the step would take without them. Of a
// recording only clocks are known, and a bound: a step cannot become shorter than by the share of
// the clock that the slowest GPU lacks. Named is who costs at least 1 % of the step; boards of one
// type differ by less than that.

namespace {

constexpr double min_cost = 0.01;    // of the step
constexpr double min_excess = 0.05;  // of a recorded clock below its peers'
constexpr double min_deviations = 4;
constexpr double clearly_hotter_c = 8;
constexpr size_t fewest_peers = 3, most_named = 8;

std::string_view limit_of(const run::DeviceSummary& slow) {
  const auto share = [&](const char* reason) {
    const auto found = slow.throttle.find(reason);
    return found == slow.throttle.end() ? 0.0 : found->second;
  };
  const double heat = std::max({share("software_thermal"), share("hardware_thermal")});
  const double power = std::max({share("software_power_cap"), share("hardware_power_brake")});
  if (heat > 0.05 && heat >= power) return "heat";
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
  setter.limit = limit_of(slowest);
  const double usual_c = dies.empty() ? 1e9 : median(dies);
  if (slowest.die_mean_c && *slowest.die_mean_c > usual_c + clearly_hotter_c)
    setter.detail = fmt::format("die at {:.0f} °C against {:.0f} °C", *slowest.die_mean_c, usual_c);
  return {setter};
}

/// Stragglers that are pace setters, or stand for one of their tensor group, come before the
/// others, which cost less.
void put_first(std::vector<Straggler>& stragglers, const View& view,
               const std::vector<run::PaceSetter>& setters) {
  const auto shown = [&](int32_t rank) {
    const auto after = std::upper_bound(view.ranks.begin(), view.ranks.end(), rank);
    return after == view.ranks.begin() ? rank : *(after - 1);
  };
  std::stable_partition(stragglers.begin(), stragglers.end(), [&](const Straggler& straggler) {
    for (const run::PaceSetter& setter : setters)
      for (const int32_t who : setter.who)
        for (const run::Device& device : view.run.devices)
          if (device.rank && who == (setter.of_nodes ? device.node : device.index) &&
              shown(*device.rank) == straggler.rank)
            return true;
    return false;
  });
}

}  // namespace

void answer_pace(const View& view, Metrics& answer) {
  if (!answer.step_time) return;
  const bool simulated = view.run.manifest.origin == run::Origin::simulated;
  answer.pace_setters = simulated ? view.run.pace_setters : by_clocks(view, *answer.step_time);
  std::erase_if(answer.pace_setters, [&](const run::PaceSetter& setter) {
    return setter.cost < min_cost * *answer.step_time;
  });
  put_first(answer.stragglers, view, answer.pace_setters);
}

}  // namespace triplepoint::metrics
