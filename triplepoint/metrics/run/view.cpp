// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/view.h"

#include <algorithm>
#include <limits>

#include "triplepoint/base/result.h"

namespace triplepoint::metrics {
namespace {

std::optional<run::Extent> window_of(const run::Run& run,
                                     const std::vector<run::StepRecord>& steps) {
  if (steps.empty()) return run::extent(run.timeline);
  run::Extent window{steps.front().begin, steps.front().end};
  for (const run::StepRecord& step : steps) {
    window.begin = std::min(window.begin, step.begin);
    window.end = std::max(window.end, step.end);
  }
  return window;
}

/// Whether spans begin outside of the window: warm-up, evaluation, the next step.
bool shows_more(const run::Timeline& timeline, const run::Extent& window) {
  const auto outside = [&](const auto& item) {
    return item.begin < window.begin || item.begin >= window.end;
  };
  return std::ranges::any_of(timeline.spans, outside) ||
         std::ranges::any_of(timeline.instances, outside);
}

/// A timeline may show one rank of several alike; the plan knows the stage of all of them.
void find_ranks_and_stages(View& view) {
  const run::Timeline& timeline = view.timeline();
  std::vector<bool> seen(as_size(timeline.num_ranks), false);
  view.stage_of_rank.assign(seen.size(), -1);
  const auto note = [&](const auto& item) {
    const auto rank = as_size(item.rank);
    seen[rank] = true;
    if (item.stage >= 0) view.stage_of_rank[rank] = item.stage;
  };
  std::ranges::for_each(timeline.spans, note);
  std::ranges::for_each(timeline.instances, note);
  for (size_t rank = 0; rank < seen.size(); ++rank)
    if (seen[rank]) view.ranks.push_back(static_cast<int32_t>(rank));
  if (!view.run.manifest.job) return;
  const std::vector<int32_t> planned = stages_of_ranks(*view.run.manifest.job);
  if (planned.size() > view.stage_of_rank.size()) view.stage_of_rank.resize(planned.size(), -1);
  for (size_t rank = 0; rank < planned.size(); ++rank)
    if (view.stage_of_rank[rank] < 0) view.stage_of_rank[rank] = planned[rank];
}

Pipeline pipeline_of(const View& view) {
  if (view.run.manifest.job)
    return view.run.manifest.job->plan.pipeline_parallel_size == 1 ? Pipeline::one_stage
                                                                   : Pipeline::stages;
  const auto any = [&](auto is) {
    return std::ranges::any_of(view.ranks,
                               [&](int32_t rank) { return is(view.stage_of_rank[as_size(rank)]); });
  };
  if (any([](int32_t stage) { return stage > 0; })) return Pipeline::stages;
  const bool all_known = !view.ranks.empty() && !any([](int32_t stage) { return stage < 0; });
  return all_known ? Pipeline::one_stage : Pipeline::unknown;
}

}  // namespace

View look_at(const run::Run& run) {
  TPT_EXPECT(!run::find_fault(run.timeline));
  View view{.run = run, .steps = run::detailed_steps(run)};
  view.window = window_of(run, view.steps);
  if (view.window && shows_more(run.timeline, *view.window))
    view.clipped = run::clip(run.timeline, view.window->begin, view.window->end);
  find_ranks_and_stages(view);
  view.pipeline = pipeline_of(view);
  view.kernels = kernel_seconds_of_ranks(view.timeline());
  for (KernelSeconds& kernels : view.kernels)
    kernels *= 1 / view.num_steps();
  view.occupancy = occupancy_of_ranks(view.timeline());
  view.devices = read_devices(run, view.window, view.num_steps(), run.summaries);
  return view;
}

std::optional<double> mean_of(const std::vector<run::DeviceSummary>& devices,
                              std::optional<double> run::DeviceSummary::*field) {
  double sum = 0, count = 0;
  for (const run::DeviceSummary& device : devices) {
    if (!(device.*field)) continue;
    sum += *(device.*field);
    count += 1;
  }
  if (count == 0) return std::nullopt;
  return sum / count;
}

std::optional<double> maximum_of(const std::vector<run::DeviceSummary>& devices,
                                 std::optional<double> run::DeviceSummary::*field) {
  std::optional<double> maximum;
  for (const run::DeviceSummary& device : devices)
    if (device.*field) maximum = std::max(maximum.value_or(*(device.*field)), *(device.*field));
  return maximum;
}

std::optional<double> total_of(const std::vector<run::DeviceSummary>& devices,
                               std::optional<double> run::DeviceSummary::*field) {
  if (devices.empty()) return std::nullopt;
  double sum = 0;
  for (const run::DeviceSummary& device : devices) {
    if (!(device.*field)) return std::nullopt;
    sum += *(device.*field);
  }
  return sum;
}

std::vector<double> list_of(const std::vector<run::DeviceSummary>& devices,
                            std::optional<double> run::DeviceSummary::*field) {
  if (!maximum_of(devices, field)) return {};
  return mapped(devices, [&](const run::DeviceSummary& device) {
    return (device.*field).value_or(std::numeric_limits<double>::quiet_NaN());
  });
}

std::map<std::string, double> mean_by_name(const std::vector<run::DeviceSummary>& devices,
                                           run::NamedValues run::DeviceSummary::*field) {
  std::map<std::string, double> mean;
  for (const run::DeviceSummary& device : devices)
    for (const auto& [name, value] : device.*field)
      mean[std::string(name)] += value / as_real(devices.size());
  return mean;
}

Metrics measure(const run::Run& run) {
  const View view = look_at(run);
  Metrics answer;
  answer_speed(view, answer);
  answer_kernels(view, answer);
  answer_overlap(view, answer);
  answer_bubble(view, answer);
  answer_links(view, answer);
  answer_energy(view, answer);
  answer_temperature(view, answer);
  answer_bursts(view, answer);
  answer_throttle(view, answer);
  answer_bottlenecks(view, answer);
  return answer;
}

}  // namespace triplepoint::metrics
