// SPDX-License-Identifier: Apache-2.0
// Who holds the others up, and why?
//
//   lateness of a rank = longest waiting of any rank - its own waiting;  share_of_waits = lateness
//   / sum of lateness
//
// The rank that waits least is the one the others wait for. Traces do not separate waiting from
// transfer; where no span does, the seconds inside communication kernels stand for it. The cause is
// what makes the rank busier than the mean rank by most seconds: the work of its stage, its own
// kernels (at a lower clock, if it has one), or gaps in which it waits for its host. Listed are
// ranks with at least half again an even share; differences below 0.1 % of the step are noise.
#include <algorithm>

#include <fmt/format.h>

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
    for (int32_t rank : view.ranks) {
      waiting_ += kernels(rank).waiting;
      gaps_ += gaps(rank);
    }
    gaps_ = gaps_ / static_cast<double>(view.ranks.size());
  }

  Seconds waits(int32_t rank) const {
    return waiting_ > Seconds() ? kernels(rank).waiting : kernels(rank).communication();
  }

  std::string cause(int32_t rank) const {
    const Seconds mean = work(answer_.kernels);
    const Stage* stage = stage_of(rank);
    const Seconds of_stage = stage != nullptr ? work(stage->kernels) : mean;
    const Seconds by_stage = of_stage - mean;
    const Seconds by_rank = work(kernels(rank)) - of_stage;
    const Seconds by_host = gaps(rank) - gaps_;
    const Seconds most = std::max({by_stage, by_rank, by_host});
    if (most <= noise_share_of_step * view_.duration()) return "unknown";
    if (most == by_stage) return "stage has more work";
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
  const Stage* stage_of(int32_t rank) const {
    const int32_t number = view_.stage_of_rank[static_cast<size_t>(rank)];
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
  Seconds waiting_, gaps_;
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

}  // namespace triplepoint::metrics
