// SPDX-License-Identifier: Apache-2.0
// Who makes the others wait, and why?
//
// Three kinds of runs, one list. A simulated run says what each slow device, link or host costs;
// spans of several ranks tell whose own delays the others waited for; of a recording without spans
// clocks are known, and a bound: a step cannot become shorter than by the share of the clock that
// the slowest GPU lacks. Why is a separate question, which sensors and settings answer for every
// device alike: those of one bottleneck that have different causes become several.
#include <algorithm>
#include <cmath>
#include <span>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/device_number.h"

#include "triplepoint/metrics/run/device_evidence.h"
#include "triplepoint/metrics/run/view.h"
#include "triplepoint/metrics/trace/late_ranks.h"

namespace triplepoint::metrics {
namespace {

using run::Bottleneck;
using run::Evidence;
using Kind = Evidence::Kind;

constexpr double least_cost = 0.01;  // of the step
constexpr double slow_clock = 0.05;  // relative, of a recorded clock; boards of a type differ less
constexpr double slow_clock_deviations = 4;  // robust standard deviations of the clocks
constexpr size_t fewest_clocks = 4;          // of which one can be an outlier
constexpr double held_share = 0.05;          // of time, beyond what the others are
constexpr double idle_utilization = 0.1;
constexpr size_t most_named = 8;

/// Slow clocks by cause.
class ClockCauses {
 public:
  explicit ClockCauses(const View& view)
      : view_(view), evidence_(view.run, view.devices, view.window) {}

  /// Devices that are neither slow nor peers: they do nothing.
  void leave_out(std::vector<size_t> idle) { idle_ = std::move(idle); }

  /// `found` is of clocks, with theirs as evidence.
  void divide(const Bottleneck& found, std::vector<Bottleneck>& into) const {
    const size_t first = into.size();
    std::vector<size_t> peers;
    for (size_t d = 0; d < view_.run.devices.size(); ++d)
      if (std::ranges::none_of(found.who, [&](int32_t who) { return is_of(d, found.of, who); }) &&
          !holds(idle_, d))
        peers.push_back(d);
    for (const int32_t who : found.who) {
      const size_t slowest = slowest_of(found.of, who);
      std::vector<Evidence> evidence = evidence_.of({slowest}, peers);
      std::erase_if(evidence, [&](const Evidence& e) {
        return e.kind == Kind::clock && who == found.who.front();
      });
      if (find(evidence, Kind::clock) == nullptr)
        evidence.insert(evidence.begin(), found.evidence.front());
      if (found.of == Bottleneck::Of::node)
        evidence.front().name = "GPU " + run::device_number(view_.run, slowest);
      run::Cause cause = cause_of(evidence);
      if (cause == run::Cause::unknown && is_hotter(evidence) &&
          is_of_hot_node(slowest, std::span(into).subspan(first)))
        cause = run::Cause::heat;
      const auto same = std::find_if(into.begin() + static_cast<std::ptrdiff_t>(first), into.end(),
                                     [&](const Bottleneck& other) { return other.cause == cause; });
      if (same != into.end()) {
        same->who.push_back(who);
        continue;
      }
      into.push_back(found);
      into.back().who = {who};
      into.back().evidence = std::move(evidence);
      into.back().cause = cause;
    }
    if (into.size() - first < 2) return;
    for (size_t i = first; i < into.size(); ++i)
      into[i].at_most = true;  // the cost is that of all together
  }

 private:
  bool is_of(size_t device, Bottleneck::Of of, int32_t who) const {
    const run::Device& d = view_.run.devices[device];
    return who == (of == Bottleneck::Of::node ? d.node : d.index);
  }

  /// Heat holds back several other GPUs of its node: they have the air in common.
  bool is_of_hot_node(size_t device, std::span<const Bottleneck> found) const {
    const auto& devices = view_.run.devices;
    int64_t others = 0;
    for (const Bottleneck& one : found)
      if (one.cause == run::Cause::heat && one.of == Bottleneck::Of::gpu)
        others += std::ranges::count_if(one.who, [&](int32_t who) {
          return std::ranges::any_of(devices, [&](const run::Device& d) {
            return d.index == who && d.node == devices[device].node;
          });
        });
    return others > 1;
  }

  /// Of a node the GPU that sets its pace.
  size_t slowest_of(Bottleneck::Of of, int32_t who) const {
    std::optional<size_t> slowest;
    const auto clock = [&](size_t d) {
      return view_.devices[d].sm_clock_mean_mhz.value_or(INFINITY);
    };
    for (size_t d = 0; d < view_.run.devices.size(); ++d)
      if (is_of(d, of, who) && (!slowest || clock(d) < clock(*slowest))) slowest = d;
    return slowest.value_or(0);
  }

  const View& view_;
  DeviceEvidence evidence_;
  std::vector<size_t> idle_;
};

/// For which share of time the hardware's own bits hold a device back, whatever its clock is.
std::vector<double> held_shares(const View& view) {
  std::vector<double> shares;
  for (size_t d = 0; d < view.run.devices.size(); ++d) {
    double held = locked_share(view.run, d, view.window).value_or(0);
    for (const auto& [reason, share] : view.devices[d].throttle)
      if (reason != "software_power_cap" && reason != "sync_boost") held = std::max(held, share);
    shares.push_back(held);
  }
  return shares;
}

/// Devices of which utilization says that they have nothing to do.
std::vector<size_t> idle_devices(const View& view) {
  const std::vector<double> utilization = statistics_of_devices(view, "utilization").means;
  std::vector<size_t> idle;
  for (size_t d = 0; d < utilization.size(); ++d)
    if (utilization[d] < idle_utilization) idle.push_back(d);
  return idle;
}

/// Clocks that lie outside of the others', as sensors have read them: those of GPUs that the
/// hardware holds back, however many, and outliers among the rest.
std::vector<Bottleneck> slow_clocks(const View& view, std::optional<Seconds> step) {
  const std::vector<double> held = held_shares(view);
  const double usually_held = held.empty() ? 0 : lower_median(held);
  const std::vector<size_t> idle = idle_devices(view);
  std::vector<std::pair<double, int32_t>> slow, rest;
  std::vector<double> values;
  for (size_t d = 0; d < view.run.devices.size(); ++d) {
    const auto clock = view.devices[d].sm_clock_mean_mhz;
    if (!clock || holds(idle, d)) continue;
    const bool is_held = held[d] > usually_held + held_share;
    (is_held ? slow : rest).emplace_back(*clock, view.run.devices[d].index);
    if (!is_held) values.push_back(*clock);
  }
  if (values.empty()) return {};
  const double usual = median(values);
  const double least =
      std::max(slow_clock * usual, slow_clock_deviations * robust_deviation(values));
  std::erase_if(slow, [&](const auto& one) { return usual - one.first <= slow_clock * usual; });
  std::erase_if(rest, [&](const auto& one) { return usual - one.first <= least; });
  // Many of them are two populations, not a few culprits among healthy ones.
  if (values.size() >= fewest_clocks && 2 * rest.size() < values.size())
    slow.insert(slow.end(), rest.begin(), rest.end());
  if (slow.empty()) return {};
  std::ranges::sort(slow);
  slow.resize(std::min(slow.size(), most_named));
  Bottleneck found{.evidence = {{Kind::clock, slow.front().first, usual}}, .at_most = true};
  for (const auto& [clock, device] : slow)
    found.who.push_back(device);
  std::vector<Bottleneck> all;
  ClockCauses causes(view);
  causes.leave_out(idle);
  causes.divide(found, all);
  for (Bottleneck& one : all) {
    const Evidence& clock = *find(one.evidence, Kind::clock);
    if (step) one.cost = (1 - clock.value / clock.peers) * *step;
  }
  return all;
}

/// Whether a fault is of those that slow the others.
bool hits(const spec::Fault& fault, const Bottleneck& found, int64_t per_node) {
  if (!fault.gpu && !fault.node) return true;
  const bool of_node = found.of == Bottleneck::Of::node;
  return std::ranges::any_of(found.who, [&](int64_t who) {
    if (fault.gpu && !of_node) return who == *fault.gpu;
    return (of_node ? who : who / per_node) == (fault.node ? *fault.node : *fault.gpu / per_node);
  });
}

std::vector<Bottleneck> simulated_bottlenecks(const View& view) {
  std::vector<Bottleneck> all;
  if (view.run.bottlenecks.empty()) return all;
  const ClockCauses causes(view);
  for (const Bottleneck& found : view.run.bottlenecks) {
    if (found.evidence.front().kind == Kind::clock) {
      causes.divide(found, all);
      continue;
    }
    all.push_back(found);
    all.back().cause = cause_of(found.evidence);
    if (!view.run.manifest.job || all.back().cause != run::Cause::links) continue;
    const spec::Job& job = *view.run.manifest.job;
    for (const spec::Fault& fault : job.environment.faults)
      if (fault.period && fault.kind == spec::FaultKind::link &&
          hits(fault, found, job.cluster.gpus_per_node))  // its share is of one step, by chance
        all.back().evidence.front().name = spec::to_text(fault);
  }
  return all;
}

}  // namespace

void answer_bottlenecks(const View& view, Metrics& answer) {
  if (view.run.manifest.origin == run::Origin::simulated)
    answer.bottlenecks = simulated_bottlenecks(view);
  else if (auto late = late_bottlenecks(view.run))
    answer.bottlenecks = *std::move(late);
  else
    answer.bottlenecks = slow_clocks(view, answer.step_time);
  std::erase_if(answer.bottlenecks, [&](const Bottleneck& one) {
    return one.cost && (!answer.step_time || *one.cost < least_cost * *answer.step_time);
  });
}

}  // namespace triplepoint::metrics
