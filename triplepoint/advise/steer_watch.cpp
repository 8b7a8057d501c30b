// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_watch.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/statistics.h"

namespace triplepoint::advise {
namespace {

using spec::Fault;
using spec::FaultKind;

constexpr double clear_share = 0.05;  // of time
constexpr double least_rise_k = 2, least_path = 1.15, least_power = 0.96, least_clock = 0.97;

/// Of two digits, as one would write it.
Fault fault_of(FaultKind kind, std::optional<int64_t> Fault::*place, std::size_t number,
               double share) {
  Fault fault;
  fault.kind = kind;
  fault.*place = static_cast<int64_t>(number);
  fault.share = std::round(100 * share) / 100;
  return fault;
}

}  // namespace

std::vector<Fault> explain(const spec::Job& job, const SteerReadings& baseline,
                           const SteerReadings& now) {
  const double inlet = job.chassis().inlet.degrees(), limit = job.power_limit() / unit::W;
  const auto per_node = static_cast<std::size_t>(job.cluster.gpus_per_node);
  const auto path = [&](std::size_t d) {
    return std::max(1e-3, baseline.die_c[d] - inlet) / std::max(1.0, baseline.power_w[d]);
  };
  std::vector<Fault> faults;
  for (std::size_t first = 0; first < now.die_c.size(); first += per_node) {
    // A braked device works far from where its thermal path was seen, and says nothing of the air.
    const auto grew = [&](const std::vector<double>& then, const std::vector<double>& before,
                          std::size_t d) {
      return d < then.size() && then[d] > clear_share + (d < before.size() ? before[d] : 0);
    };
    const auto is_braked = [&](std::size_t d) { return grew(now.braked, baseline.braked, d); };
    std::vector<double> air, shares;
    for (std::size_t d = first; d < first + per_node; ++d)
      if (!is_braked(d)) air.push_back(now.die_c[d] - path(d) * now.power_w[d] - inlet);
    const double rise = air.empty() ? 0 : median(air);
    if (rise > least_rise_k) {
      faults.push_back(fault_of(FaultKind::inlet, &Fault::node, first / per_node, 1));
      faults.back().rise = std::round(10 * rise) / 10 * unit::K;
    }
    std::vector<Fault> held;
    for (std::size_t d = first; d < first + per_node; ++d) {
      const double above_air = now.die_c[d] - inlet - std::max(0.0, rise);
      const double longer = above_air / (path(d) * std::max(1.0, now.power_w[d]));
      if (longer > least_path && !is_braked(d))
        faults.push_back(fault_of(FaultKind::heat_path, &Fault::gpu, d, longer));
      const bool is_held = now.clock[d] < least_clock * baseline.clock[d] &&
                           now.power_w[d] < least_power * baseline.power_w[d] &&
                           !grew(now.hot, baseline.hot, d);
      if (!is_held && !is_braked(d)) continue;
      shares.push_back(now.power_w[d] / limit);
      held.push_back(fault_of(FaultKind::power, &Fault::gpu, d, shares.back()));
    }
    if (held.size() == per_node)
      held = {fault_of(FaultKind::power, &Fault::node, first / per_node, median(shares))};
    faults.insert(faults.end(), held.begin(), held.end());
  }
  return faults;
}

std::optional<Alarm> Watcher::look(const run::Run& run, run::Extent window) {
  const std::optional<SteerReadings> seen = readings_of(run, job_, window);
  if (!seen) return std::nullopt;
  if (!baseline_) baseline_ = before_ = seen;
  const std::string words = change_words(*before_, *seen);
  if (words.empty()) return std::nullopt;
  before_ = seen;
  return Alarm{window.end - Instant(), words, explain(job_, *baseline_, *seen)};
}

}  // namespace triplepoint::advise
