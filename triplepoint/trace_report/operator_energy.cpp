// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace_report/operator_energy.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/statistics.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/metrics/trace/phase_cost.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::trace_report {
namespace {

constexpr size_t most_rows = 24;  // with a phase each

bool is_counted(const run::Timeline& timeline, const run::Span& span) {
  return metrics::is_kernel(metrics::type_of(timeline, span).kind);
}

/// Numbers of the rows with the most kernel time.
std::set<int32_t> longest_rows(const run::Timeline& timeline,
                               const std::vector<KernelOwner>& of_span) {
  std::map<int32_t, int64_t> times;
  for (size_t i = 0; i < of_span.size(); ++i)
    if (of_span[i].row >= 0) times[of_span[i].row] += metrics::nanoseconds_of(timeline.spans[i]);
  std::vector<std::pair<int64_t, int32_t>> longest;
  for (const auto& [row, time] : times)
    longest.emplace_back(time, row);
  std::ranges::sort(longest, std::greater());
  std::set<int32_t> rows;
  for (size_t i = 0; i < std::min(longest.size(), most_rows); ++i)
    rows.insert(longest[i].second);
  return rows;
}

using Key = std::pair<int32_t, std::string>;  // rank and label of a phase

std::map<Key, int64_t> kernel_times(const run::Timeline& timeline,
                                    const std::vector<std::string>& labels) {
  std::map<Key, int64_t> times;
  for (size_t i = 0; i < timeline.spans.size(); ++i)
    if (is_counted(timeline, timeline.spans[i]))
      times[{timeline.spans[i].rank, labels[i]}] += metrics::nanoseconds_of(timeline.spans[i]);
  return times;
}

EnergyRate rate_of(const metrics::PhaseCost& cost, int64_t kernel_time) {
  EnergyRate rate{.is_own = cost.method != "kind"};
  if (!cost.energy_j || kernel_time == 0) return rate;
  rate.energy = *cost.energy_j / as_real(kernel_time);
  rate.uncertainty = cost.energy_uncertainty_j.value_or(0) / as_real(kernel_time);
  return rate;
}

}  // namespace

OperatorEnergy energy_of_operators(const run::Timeline& timeline, const run::Run& recording,
                                   const std::vector<KernelOwner>& of_span) {
  const std::set<int32_t> rows = longest_rows(timeline, of_span);
  std::vector<std::string> labels;
  std::map<std::string, std::string> kinds = {{"idle", ""}};  // of labels
  for (const KernelOwner& owner : of_span) {
    labels.push_back(rows.contains(owner.row) ? fmt::format("row {}", owner.row) : owner.kind);
    kinds.emplace(labels.back(), owner.kind);
  }
  std::vector<metrics::Phase> phases = metrics::phases_by_owner(timeline, labels);
  for (metrics::Phase& phase : phases)
    phase.kind = kinds.at(phase.label);

  OperatorEnergy result;
  std::map<Key, EnergyRate> rates;
  std::set<int32_t> known;  // ranks
  const std::map<Key, int64_t> times = kernel_times(timeline, labels);
  for (const metrics::PhaseCost& cost : metrics::cost_of_phases(phases, recording)) {
    const std::string& kind = kinds.at(cost.label);
    result.time += cost.time, result.sampled += cost.sampled;
    if (cost.energy_j) result.kinds_j[kind.empty() ? cost.label : kind] += *cost.energy_j;
    if (cost.energy_j) known.insert(cost.rank);
    if (!cost.energy_j) result.missing.emplace(cost.rank, cost.missing);
    const Key key(cost.rank, cost.label);
    EnergyRate rate = rate_of(cost, value_at(times, key).value_or(0));
    rate.phase = static_cast<int32_t>(rates.size());
    rates.emplace(key, rate);
  }
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    const run::Span& span = timeline.spans[i];
    EnergyRate& rate = result.of_span.emplace_back();
    if (!is_counted(timeline, span)) continue;
    const auto found = rates.find({span.rank, labels[i]});
    if (found != rates.end())
      rate = found->second;
    else if (known.contains(span.rank))
      rate.energy = 0;  // hidden behind other kernels
  }
  return result;
}

}  // namespace triplepoint::trace_report
