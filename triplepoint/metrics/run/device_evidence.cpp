// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/device_evidence.h"

#include <algorithm>

#include "triplepoint/base/statistics.h"

#include "triplepoint/run/throttle_reasons.h"

namespace triplepoint::metrics {
namespace {

using run::Cause;
using run::Evidence;
using Kind = Evidence::Kind;

// Relative, unless said otherwise.
constexpr double least_clock_loss = 0.005;  // of a late rank's; below, it explains nothing
constexpr double lower_limit = 0.05;
constexpr double clear_share = 0.05;    // of time; samples and idle moments are less
constexpr double below_power = 0.1;     // of the limit and of what the peers draw
constexpr double clearly_hotter_k = 8;  // K

/// 0 where it is not known.
double value_of(const Evidence* evidence) {
  return evidence == nullptr ? 0 : evidence->value;
}
/// By which it is more than the peers'.
double excess_of(const Evidence* evidence) {
  return evidence == nullptr ? 0 : evidence->value - evidence->peers;
}

Cause cause_of_clock(const std::vector<Evidence>& all) {
  if (!has_lower_clock(all)) return Cause::unknown;
  const Evidence* limit = find(all, Kind::power_limit);
  const Evidence* power = find(all, Kind::power);
  const Evidence* held = find(all, Kind::power_brake);
  const double brake = excess_of(held);
  const bool is_any_slowdown = held != nullptr && held->name == any_hardware_slowdown;
  const double heat = excess_of(find(all, Kind::heat)), cap = value_of(find(all, Kind::power_cap));
  const bool is_lower = limit != nullptr && limit->value < (1 - lower_limit) * limit->peers;
  if (brake > clear_share && brake >= heat && !is_any_slowdown) return Cause::power_brake;
  if (heat > clear_share && !(is_lower && cap > heat)) return Cause::heat;
  if (brake > clear_share) return is_hotter(all) ? Cause::heat : Cause::unknown;
  const bool is_locked = excess_of(find(all, Kind::clock_lock)) > clear_share;
  if (is_locked && cap <= clear_share) return Cause::clock_lock;
  if (is_lower) return Cause::power_limit;
  if (is_locked) return Cause::clock_lock;
  if (cap <= clear_share) return Cause::unknown;
  if (limit == nullptr || power == nullptr) return Cause::power_cap;
  if (power->value < (1 - below_power) * std::min(limit->value, power->peers))
    return Cause::power_delivery;
  return is_hotter(all) ? Cause::unknown : Cause::board;
}

}  // namespace

const Evidence* find(const std::vector<Evidence>& all, Kind kind) {
  return find_in(all, kind, &Evidence::kind);
}

bool has_lower_clock(const std::vector<Evidence>& all) {
  const Evidence* clock = find(all, Kind::clock);
  return clock != nullptr && clock->value <= (1 - least_clock_loss) * clock->peers;
}

bool is_hotter(const std::vector<Evidence>& all) {
  return excess_of(find(all, Kind::temperature)) > clearly_hotter_k;
}

Cause cause_of(const std::vector<Evidence>& all) {
  if (all.empty()) return Cause::unknown;
  const Kind slow = all.front().kind;
  if (slow == Kind::scale_up || slow == Kind::scale_out) return Cause::links;
  if (slow == Kind::host) return Cause::host;
  if (const Evidence* gaps = find(all, Kind::gaps); gaps != nullptr) {
    const auto explains = [&](Kind kind) { return 2 * value_of(find(all, kind)) > gaps->value; };
    if (explains(Kind::first_seen)) return Cause::unknown;
    return explains(Kind::data_loader) ? Cause::data_loader : Cause::host;
  }
  return cause_of_clock(all);
}

std::optional<double> power_limit_w(const run::Run& run, size_t device,
                                    std::optional<run::Extent> window) {
  if (run.manifest.origin != run::Origin::simulated) {
    const run::Series* series = run::find_series(run, "power_limit_w", run.devices[device].index);
    if (series == nullptr || series->times.empty()) return std::nullopt;
    const run::Extent extent =
        window.value_or(run::Extent{series->times.front(), series->times.back()});
    const run::SeriesStatistics all = run::statistics(*series, extent.begin, extent.end);
    return all.count > 0 ? std::optional(all.time_weighted_mean) : std::nullopt;
  }
  if (!run.manifest.job) return std::nullopt;
  const spec::Job& job = *run.manifest.job;
  const std::vector<Watts>& own = job.environment.device_power_limits;
  double limit = (device < own.size() ? own[device] : job.power_limit()) / unit::W;
  const Seconds end = run.steps.empty() ? Seconds() : run.steps.back().end - Instant();
  for (const spec::Fault& fault : job.environment.faults) {
    const auto index = static_cast<int64_t>(device);
    const bool hit = fault.gpu ? *fault.gpu == index
                               : fault.node.value_or(-1) == index / job.cluster.gpus_per_node;
    const bool is_on = fault.begin <= end && (!fault.end || *fault.end >= end);
    if (fault.kind == spec::FaultKind::power && hit && is_on) limit *= fault.share;
  }
  return limit;
}

std::optional<double> locked_share(const run::Run& run, size_t device,
                                   std::optional<run::Extent> window) {
  constexpr uint32_t applications_clocks = 2;  // nvmlClocksEventReasonApplicationsClocksSetting
  if (run.manifest.origin == run::Origin::simulated) {
    if (!run.manifest.job) return std::nullopt;
    const std::vector<Hertz>& locks = run.manifest.job->environment.device_clock_limits;
    if (device >= locks.size()) return std::nullopt;
    return locks[device] < run.manifest.job->cluster.gpu.max_clock ? 1 : 0;
  }
  const run::Series* bits = run::find_series(run, "throttle_reasons", run.devices[device].index);
  if (bits == nullptr || bits->times.empty()) return std::nullopt;
  const run::Extent extent = window.value_or(run::Extent{bits->times.front(), bits->times.back()});
  return run::share_of_time(*bits, applications_clocks, extent.begin, extent.end);
}

DeviceEvidence::DeviceEvidence(const run::Run& run, std::vector<run::DeviceSummary> known,
                               std::optional<run::Extent> window) {
  for (size_t d = 0; d < run.devices.size(); ++d)
    states_.push_back({.mean = d < known.size() ? std::move(known[d]) : run::DeviceSummary(),
                       .power_limit_w = power_limit_w(run, d, window),
                       .locked = locked_share(run, d, window)});
}

std::vector<Evidence> DeviceEvidence::of(const std::vector<size_t>& slow,
                                         const std::vector<size_t>& peers) const {
  using Value = std::optional<double>;
  std::vector<Evidence> all;
  const auto add = [&](Kind kind, const auto& value_of) {
    const auto middle = [&](const std::vector<size_t>& devices) -> Value {
      std::vector<double> values;
      for (const size_t d : devices)
        if (const Value value = value_of(states_[d])) values.push_back(*value);
      return values.empty() ? Value() : median(std::move(values));
    };
    const Value mine = middle(slow), theirs = middle(peers);
    if (mine && theirs) all.push_back({kind, *mine, *theirs});
  };
  // Of these reasons the longest, of equal ones the first; those that never held are in no list.
  const auto share_of = [](const State& state, const char* reason) {
    return value_at(state.mean.throttle, reason).value_or(0.0);
  };
  const auto add_reasons = [&](Kind kind, std::initializer_list<const char*> reasons) {
    add(kind, [&](const State& state) -> Value {
      return most_of(reasons, [&](const char* reason) { return share_of(state, reason); });
    });
    if (all.empty() || all.back().kind != kind || slow.empty()) return;
    const std::string_view longest = *std::ranges::max_element(
        reasons, {}, [&](const char* reason) { return share_of(states_[slow.front()], reason); });
    if (longest == any_hardware_slowdown || longest == hardware_heat) all.back().name = longest;
  };
  add(Kind::clock, [](const State& state) { return state.mean.sm_clock_mean_mhz; });
  add(Kind::power_limit, [](const State& state) { return state.power_limit_w; });
  add(Kind::power, [](const State& state) { return state.mean.power_mean_w; });
  add(Kind::temperature, [](const State& state) { return state.mean.die_mean_c; });
  add_reasons(Kind::power_cap, {"software_power_cap"});
  add_reasons(Kind::power_brake, {"hardware_power_brake", "hardware_slowdown"});
  add_reasons(Kind::heat, {"hardware_thermal", "software_thermal"});
  add(Kind::clock_lock, [](const State& state) { return state.locked; });
  std::erase_if(all, [](const Evidence& item) {
    return item.kind >= Kind::power_cap && item.value <= 0 && item.peers <= 0;
  });
  return all;
}

}  // namespace triplepoint::metrics
