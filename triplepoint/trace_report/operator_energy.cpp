// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace_report/operator_energy.h"

#include <algorithm>
#include <cmath>
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

constexpr size_t most_rows = 12;     // more than that, a sensor's samples seldom tell apart
constexpr double clearly_other = 2;  // standard deviations

using Labels = std::vector<std::string>;
using Key = std::pair<int32_t, std::string>;  // rank and label
using Costs = std::map<Key, metrics::PhaseCost>;

Costs costs_of(const run::Timeline& timeline, const run::Run& recording, const Labels& labels) {
  Costs costs;
  const auto phases = metrics::phases_by_owner(timeline, labels);
  for (metrics::PhaseCost& cost : metrics::cost_of_phases(phases, recording))
    costs.emplace(std::pair(cost.rank, cost.label), std::move(cost));
  return costs;
}

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

/// The power of an operator, by its own phase or that of its kind.
struct Power {
  const metrics::PhaseCost* from = nullptr;  // null: not known
  bool is_own = false;
};
Power power_of(const metrics::PhaseCost& own, const metrics::PhaseCost* kind) {
  const bool kind_known = kind != nullptr && kind->power_mean_w;
  if (!own.power_mean_w) return {kind_known ? kind : nullptr, false};
  if (!kind_known) return {&own, true};
  const double apart = std::abs(*own.power_mean_w - *kind->power_mean_w);
  const bool is_own = apart > clearly_other * own.power_uncertainty_w.value_or(INFINITY);
  return {is_own ? &own : kind, is_own};
}

/// What the kernels of a rank's label draw together.
struct Drawn {
  Power power;
  int64_t time = 0;  // ns, exclusive
  double watts() const { return *power.from->power_mean_w; }
};

std::map<Key, int64_t> kernel_times(const run::Timeline& timeline, const Labels& labels) {
  std::map<Key, int64_t> times;
  for (size_t i = 0; i < timeline.spans.size(); ++i)
    if (is_counted(timeline, timeline.spans[i]))
      times[{timeline.spans[i].rank, labels[i]}] += metrics::nanoseconds_of(timeline.spans[i]);
  return times;
}

EnergyRate rate_of(const Drawn& drawn, int64_t kernel_time) {
  EnergyRate rate{.is_own = drawn.power.is_own};
  if (drawn.power.from == nullptr) return rate;
  const double exclusive = 1e-9 * as_real(drawn.time) / as_real(kernel_time);
  rate.energy = drawn.watts() * exclusive;
  rate.uncertainty = drawn.power.from->power_uncertainty_w.value_or(0) * exclusive;
  return rate;
}

}  // namespace

OperatorEnergy energy_of_operators(const run::Timeline& timeline, const run::Run& recording,
                                   const std::vector<KernelOwner>& of_span) {
  OperatorEnergy result;
  const std::set<int32_t> rows = longest_rows(timeline, of_span);
  Labels kinds, owners;
  std::map<std::string, std::string> kind_of_owner = {{"idle", "idle"}};
  for (const KernelOwner& owner : of_span) {
    kinds.push_back(owner.kind);
    owners.push_back(rows.contains(owner.row) ? fmt::format("row {}", owner.row) : owner.kind);
    kind_of_owner.emplace(owners.back(), owner.kind);
  }
  const Costs of_kind = costs_of(timeline, recording, kinds);
  const Costs of_owner = costs_of(timeline, recording, owners);
  std::map<Key, Drawn> drawn;
  for (const auto& [key, cost] : of_owner) {
    const std::string& kind = kind_of_owner.at(key.second);
    const auto found = of_kind.find({key.first, kind});
    Drawn of{power_of(cost, found == of_kind.end() ? nullptr : &found->second), cost.time};
    of.power.is_own = of.power.is_own && key.second != kind;
    if (of.power.from != nullptr) result.kinds_j[kind] += 1e-9 * of.watts() * as_real(of.time);
    if (of.power.from == nullptr && result.missing.empty()) result.missing = cost.missing;
    drawn.emplace(key, of);
  }
  const std::map<Key, int64_t> times = kernel_times(timeline, owners);
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    EnergyRate& rate = result.of_span.emplace_back();
    const Key key(timeline.spans[i].rank, owners[i]);
    if (!is_counted(timeline, timeline.spans[i])) continue;
    const auto found = drawn.find(key);
    rate = found == drawn.end() ? EnergyRate{.energy = 0} : rate_of(found->second, times.at(key));
  }
  return result;
}

}  // namespace triplepoint::trace_report
