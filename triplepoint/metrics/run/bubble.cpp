// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triplepoint/metrics/run/view.h"

// What do the pipeline stages do, each as the mean of its ranks?

// How much communication hides behind computation, and how much does not?
//
//   exposed    = time with a collective transferring and no other kernel on that GPU, and what a
//                rank waits for slower transfers of other stages (below)
//   waiting    = time with a collective that waits for a late peer, and no other kernel, and what
//                a rank waits for slower work of other stages
//   overlapped = time with a collective and another kernel running
//   idle       = time of the step without any kernel; launch gaps: the part of it inside passes
// Per rank, mean over ranks, one step. Exact: unions of intervals in whole nanoseconds.
// Source: Holistic Trace Analysis, "temporal breakdown" and "communication computation overlap".

// What share of the step does the schedule leave a rank without work?
//
//   without work = 1 - (time in passes, in kernels, in communication) / step, of a rank
//   bubble_fraction = the least of these over the ranks;   waiting = what a rank has beyond it
//
// The rank with least sets the pace: it waits for the schedule alone. The others wait for it as
// well, because its stage has more layers, its device is slower or its links are: that is no
// bubble. As much of it as the pace-setter's own transfers are longer is communication. A pipeline
// kernel that spins for its peer has no work either: the wait inside send/recv, inside the
// all-reduce over the model group at the end of the step (gradient norm), and inside that of a tied
// embedding. Waiting in the collectives of the tensor, context, expert and data
// groups is for late peers in any case. Gaps between the kernels of a pass are the host's, see
// launch_gaps. So the bubble of 1F1B is its closed form (p-1)/(m+p-1) as long as nothing else
// happens in the step. A timeline without passes cannot tell launch gaps from bubbles; there, all
// idle time counts. With one stage there is no schedule to wait for: the bubble is zero, idle time
// is the host's, and waiting in a collective over the model is for late peers. Where no pipeline is
// known the fraction is not, and idle time counts with the gaps.
//
// Computing, copying, exposed communication, waiting, bubble and gaps are disjoint and add up to
// the step (StepParts).

namespace triplepoint::metrics {
namespace {

using run::DeviceSummary;

KernelSeconds mean_kernels(const View& view, const std::vector<int32_t>& ranks) {
  KernelSeconds mean = sum_of(ranks, [&](int32_t rank) { return view.kernels[as_size(rank)]; });
  mean *= 1 / as_real(ranks.size());
  return mean;
}

/// Summaries of the devices whose ranks belong to the stage, shown in the timeline or not.
std::vector<DeviceSummary> devices_of(const View& view, int32_t stage) {
  std::vector<DeviceSummary> devices;
  for (size_t i = 0; i < view.run.devices.size() && i < view.devices.size(); ++i) {
    const int32_t rank = view.run.devices[i].rank.value_or(-1);
    if (rank < 0 || as_size(rank) >= view.stage_of_rank.size()) continue;
    if (view.stage_of_rank[as_size(rank)] == stage) devices.push_back(view.devices[i]);
  }
  return devices;
}

double share_without_work(const View& view, int32_t rank) {
  if (view.pipeline != Pipeline::stages || view.duration() <= Seconds()) return 0;
  const Seconds at_work = view.occupancy[as_size(rank)].time_with_any(
      DeviceActivity::computing | DeviceActivity::copying | DeviceActivity::exchanging |
      DeviceActivity::in_pass);
  return std::max(0.0, 1 - at_work / view.duration());
}

/// The rank with most work sets the pace: what it lacks is the bubble.
struct BusiestRank {
  double bubble = 1;
  Seconds transfers;  // of that rank, that nothing hides
};

Seconds exposed_transfers(const Occupancy& doing) {
  using A = DeviceActivity;
  return doing.time(A::exchanging, A::computing | A::copying | A::awaiting);
}

BusiestRank busiest_rank_of(const View& view) {
  BusiestRank busiest;
  for (const int32_t rank : view.ranks)
    if (const double idle = share_without_work(view, rank); idle < busiest.bubble)
      busiest = {idle, exposed_transfers(view.occupancy[as_size(rank)])};
  return busiest;
}

StepParts parts_of(const View& view, int32_t rank, const BusiestRank& busiest) {
  using A = DeviceActivity;
  const Occupancy& doing = view.occupancy[as_size(rank)];
  constexpr unsigned busy = A::computing | A::copying;
  StepParts parts;
  parts.computing = doing.time(A::computing);
  parts.copying = doing.time(A::copying, A::computing);
  parts.exposed_communication = exposed_transfers(doing);
  parts.waiting = doing.time(A::awaiting, busy);
  // Without a pipeline, what ties stages together waits for peers as any other collective does.
  if (view.pipeline != Pipeline::stages)
    parts.waiting += doing.time(A::communicating, busy | A::exchanging | A::awaiting);
  parts.bubble = busiest.bubble * view.duration();
  const Seconds beyond =
      std::max(Seconds(), share_without_work(view, rank) * view.duration() - parts.bubble);
  const Seconds transfers =
      std::clamp(busiest.transfers - parts.exposed_communication, Seconds(), beyond);
  parts.exposed_communication += transfers;
  parts.waiting += beyond - transfers;
  parts.gaps = std::max(Seconds(), view.duration() - parts.total());
  return parts;
}

void add_share(StepParts& sum, const StepParts& of_rank, double share) {
  for (auto part : {&StepParts::computing, &StepParts::copying, &StepParts::exposed_communication,
                    &StepParts::waiting, &StepParts::bubble, &StepParts::gaps})
    sum.*part += share * (of_rank.*part);
}

Stage describe(const View& view, int32_t number, const std::vector<int32_t>& ranks) {
  const std::vector<DeviceSummary> devices = devices_of(view, number);
  return {.stage = number,
          .kernels = mean_kernels(view, ranks),
          .power_mean_w = mean_of(devices, &DeviceSummary::power_mean_w),
          .die_mean_c = mean_of(devices, &DeviceSummary::die_mean_c),
          .sm_clock_mean_mhz = mean_of(devices, &DeviceSummary::sm_clock_mean_mhz)};
}

}  // namespace

void answer_kernels(const View& view, Metrics& answer) {
  if (view.ranks.empty()) return;
  answer.kernels = mean_kernels(view, view.ranks);
  std::map<int32_t, std::vector<int32_t>> stages;
  for (int32_t rank : view.ranks)
    if (const int32_t stage = view.stage_of_rank[as_size(rank)]; stage >= 0)
      stages[stage].push_back(rank);
  for (const auto& [stage, ranks] : stages)
    answer.stages.push_back(describe(view, stage, ranks));
}

void answer_overlap(const View& view, Metrics& answer) {
  // Marked collectives alone do not tell when kernels run, and so not when none does.
  const bool has_kernels = std::ranges::any_of(view.kernels, [](const KernelSeconds& kernels) {
    return kernels.total() > kernels.communication();
  });
  if (view.ranks.empty() || !has_kernels) return;
  Seconds overlapped, idle, gaps;
  StepParts sum;
  const double parts = as_real(view.ranks.size()) * view.num_steps();
  const BusiestRank busiest = busiest_rank_of(view);
  for (int32_t rank : view.ranks) {
    const Occupancy& doing = view.occupancy[as_size(rank)];
    add_share(sum, parts_of(view, rank, busiest), 1 / parts);
    overlapped += doing.time(DeviceActivity::communicating | DeviceActivity::computing);
    const Seconds busy = doing.time_with_any(DeviceActivity::on_device);
    idle += std::max(Seconds(), view.duration() - busy);
    gaps += doing.time(DeviceActivity::in_pass, DeviceActivity::on_device);
  }
  answer.parts = sum;
  answer.exposed_communication = sum.exposed_communication;
  answer.overlapped_communication = overlapped / parts;
  answer.idle = idle / parts;
  answer.launch_gaps = gaps / parts;
}

std::vector<RankParts> step_parts_of_ranks(const run::Run& run) {
  const View view = look_at(run);
  const BusiestRank busiest = busiest_rank_of(view);
  std::vector<RankParts> ranks;
  for (int32_t rank : view.ranks) {
    ranks.push_back({.rank = rank});
    add_share(ranks.back().parts, parts_of(view, rank, busiest), 1 / view.num_steps());
  }
  return ranks;
}

void answer_bubble(const View& view, Metrics& answer) {
  if (view.ranks.empty() || view.pipeline == Pipeline::unknown) return;
  answer.bubble_fraction = busiest_rank_of(view).bubble;
}

}  // namespace triplepoint::metrics
