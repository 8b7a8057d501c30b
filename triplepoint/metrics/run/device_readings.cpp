// SPDX-License-Identifier: Apache-2.0
// Device readings from the series, if the summary is missing.
#include <algorithm>
#include <limits>
#include <string_view>

#include "triplepoint/run/run.h"
#include "triplepoint/run/throttle_reasons.h"

#include "triplepoint/metrics/run/view.h"

namespace triplepoint::metrics {

namespace {

using run::Series;
using Statistic = double run::SeriesStatistics::*;

/// The series of each device, by signal.
using Signals = std::map<std::string_view, const Series*>;
std::map<int32_t, Signals> by_device(const run::Run& run) {
  std::map<int32_t, Signals> devices;
  for (const Series& series : run.series)
    if (!series.of_node && !series.times.empty())
      devices[series.device].emplace(series.signal, &series);
  return devices;
}

/// Asks one device's series, over the window or, without steps and timeline, over all that is
/// there.
class Readings {
 public:
  Readings(const Signals& signals, std::optional<run::Extent> window)
      : signals_(signals), window_(window) {}

  /// Of the first signal that has values.
  std::optional<double> ask(std::initializer_list<std::string_view> signals,
                            Statistic statistic) const {
    for (std::string_view signal : signals) {
      const Series* series = find(signal);
      if (series == nullptr) continue;
      const run::Extent extent = extent_of(*series);
      const run::SeriesStatistics all = run::statistics(*series, extent.begin, extent.end);
      if (all.count > 0) return all.*statistic;
    }
    return std::nullopt;
  }

  /// Mean of power_w, whose values stand for the time before their stamps.
  std::optional<double> mean_power() const {
    const Series* series = find("power_w");
    if (series == nullptr) return std::nullopt;
    const run::Extent extent = extent_of(*series);
    double joules = 0, seconds = 0;
    for (size_t i = 1; i < series->times.size(); ++i) {
      const Instant from = std::max(series->times[i - 1], extent.begin);
      const Instant until = std::min(series->times[i], extent.end);
      if (until <= from) continue;
      joules += series->values[i] * ((until - from) / unit::s);
      seconds += (until - from) / unit::s;
    }
    if (seconds <= 0) return std::nullopt;
    return joules / seconds;
  }

  /// Growth of a counter, per second.
  std::optional<double> rate(std::string_view counter) const {
    const Series* series = find(counter);
    if (series == nullptr) return std::nullopt;
    run::Extent extent = extent_of(*series);
    extent.begin = std::max(extent.begin, series->times.front());
    extent.end = std::min(extent.end, series->times.back());
    if (extent.end <= extent.begin) return std::nullopt;
    const auto growth = run::counter_difference(*series, extent.begin, extent.end);
    return growth.value() / ((extent.end - extent.begin) / unit::s);
  }

  /// From residency counters where there are any: they see what falls between samples.
  run::NamedValues throttle() const {
    run::NamedValues shares;
    for (const run::ThrottleReason& reason : run::throttle_reasons) {
      auto share = rate(reason.counter);
      if (share) *share *= 1e-9;  // of a second
      if (const Series* bits = find("throttle_reasons"); bits != nullptr && !share) {
        const run::Extent extent = extent_of(*bits);
        share = run::share_of_time(*bits, reason.bit, extent.begin, extent.end);
      }
      if (share.value_or(0) > 0) shares[reason.name] = *share;
    }
    run::leave_unexplained_slowdown(shares);
    return shares;
  }

  bool knows_throttling() const {
    return find("throttle_reasons") != nullptr ||
           std::ranges::any_of(run::throttle_reasons, [&](const run::ThrottleReason& reason) {
             return find(reason.counter) != nullptr;
           });
  }
  /// Share of time in which a poll saw any reason.
  std::optional<double> any_reason() const {
    const Series* bits = find("throttle_reasons");
    if (bits == nullptr) return std::nullopt;
    const run::Extent extent = extent_of(*bits);
    return run::share_of_time(*bits, run::any_throttle_reason, extent.begin, extent.end);
  }

 private:
  const Series* find(std::string_view signal) const {
    return value_at(signals_, signal).value_or(nullptr);
  }
  run::Extent extent_of(const Series& series) const {
    return window_.value_or(run::Extent{series.times.front(), series.times.back()});
  }

  const Signals& signals_;
  std::optional<run::Extent> window_;
};

/// Asks only where there is a hole: long series cost time.
template <class Ask>
void fill(std::optional<double>& hole, Ask&& ask) {
  if (!hole) hole = ask();
}

void fill_power(run::DeviceSummary& device, const Readings& readings) {
  constexpr auto mean = &run::SeriesStatistics::time_weighted_mean;
  constexpr auto peak = &run::SeriesStatistics::maximum;
  fill(device.power_mean_w, [&] { return readings.rate("energy_j"); });
  fill(device.power_mean_w, [&] { return readings.mean_power(); });
  fill(device.power_mean_w, [&] {
    return readings.ask({"power_instant_w", "power_average_w"}, mean);
  });
  fill(device.power_peak_w, [&] {
    return readings.ask({"power_instant_w", "power_average_w", "power_w"}, peak);
  });
}

void fill_heat_and_clock(run::DeviceSummary& device, const Readings& readings) {
  constexpr auto mean = &run::SeriesStatistics::time_weighted_mean;
  // MI300 has no sensor at the edge of its dies.
  fill(device.die_mean_c, [&] { return readings.ask({"die_c", "junction_c"}, mean); });
  fill(device.die_peak_c, [&] {
    return readings.ask({"die_c", "junction_c"}, &run::SeriesStatistics::maximum);
  });
  fill(device.sm_clock_mean_mhz, [&] { return readings.ask({"sm_clock_mhz"}, mean); });
  fill(device.sm_clock_min_mhz,
       [&] { return readings.ask({"sm_clock_mhz"}, &run::SeriesStatistics::minimum); });
  if (device.throttle.empty()) device.throttle = readings.throttle();
}

/// Amounts of one step, from rates.
void fill_amounts(run::DeviceSummary& device, const Readings& readings, double step_seconds) {
  const auto amount = [&](std::optional<double> rate) -> std::optional<double> {
    if (!rate) return std::nullopt;
    return *rate * step_seconds;
  };
  fill(device.energy_j, [&] { return amount(device.power_mean_w); });
  fill(device.scale_up_bytes, [&] { return amount(readings.rate("scale_up_tx_bytes")); });
  fill(device.scale_out_bytes, [&] { return amount(readings.rate("scale_out_tx_bytes")); });
}

}  // namespace

std::vector<run::DeviceSummary> read_devices(const run::Run& run, std::optional<run::Extent> window,
                                             double num_steps,
                                             std::vector<run::DeviceSummary> devices) {
  devices.resize(std::max(run.devices.size(), devices.size()));
  if (run.series.empty()) return devices;
  const std::map<int32_t, Signals> signals = by_device(run);
  for (size_t i = 0; i < run.devices.size(); ++i) {
    const auto own = signals.find(run.devices[i].index);
    if (own == signals.end()) continue;
    const Readings readings(own->second, window);
    fill_power(devices[i], readings);
    fill_heat_and_clock(devices[i], readings);
    if (window && !run.steps.empty())
      fill_amounts(devices[i], readings, (window->end - window->begin) / unit::s / num_steps);
  }
  return devices;
}

std::vector<double> growth_per_step(const View& view, std::string_view counter) {
  const auto has_counter = [&](const Series& series) { return series.signal == counter; };
  if (!view.window || view.steps.empty() || std::ranges::none_of(view.run.series, has_counter))
    return {};
  const std::map<int32_t, Signals> signals = by_device(view.run);
  std::vector<double> growth(view.run.devices.size(), std::numeric_limits<double>::quiet_NaN());
  bool any = false;
  for (size_t i = 0; i < growth.size(); ++i) {
    const auto own = signals.find(view.run.devices[i].index);
    if (own == signals.end()) continue;
    const auto rate = Readings(own->second, view.window).rate(counter);
    if (!rate) continue;
    growth[i] = *rate * (view.duration() / unit::s) / view.num_steps();
    any = true;
  }
  return any ? growth : std::vector<double>();
}

std::vector<double> throttled_of_devices(const View& view) {
  // The simulator gives every moment one reason; a driver may give several.
  const bool one_at_a_time = view.run.manifest.origin == run::Origin::simulated;
  const std::map<int32_t, Signals> signals = by_device(view.run);
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> shares(view.run.devices.size(), unknown);
  bool any = false;
  for (size_t i = 0; i < shares.size(); ++i) {
    double sum = 0, longest = 0, hardware = 0;
    for (const auto& [reason, share] : view.devices[i].throttle) {
      sum += share;
      longest = std::max(longest, share);
      if (reason.starts_with("hardware_")) hardware += share;
    }
    // What no other bit of the hardware explains is not at the time of those.
    if (view.devices[i].throttle.contains("hardware_slowdown"))
      longest = std::max(longest, hardware);
    const auto own = signals.find(view.run.devices[i].index);
    const auto readings =
        own == signals.end() ? std::nullopt : std::optional(Readings(own->second, view.window));
    const auto& all = view.run.summaries;
    const bool known = one_at_a_time ? i < all.size() && all[i].sm_clock_mean_mhz
                                     : readings && readings->knows_throttling();
    if (view.devices[i].throttle.empty() && !known) continue;
    const auto polled = readings ? readings->any_reason() : std::nullopt;
    shares[i] = one_at_a_time ? std::min(1.0, sum) : run::any_reason_share(polled, longest, sum);
    any = true;
  }
  return any ? shares : std::vector<double>();
}

DeviceStatistics statistics_of_devices(const View& view, std::string_view signal) {
  const auto has_signal = [&](const Series& series) { return series.signal == signal; };
  if (std::ranges::none_of(view.run.series, has_signal)) return {};
  const run::SeriesIndex index(view.run);
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  DeviceStatistics statistics;
  bool any = false;
  for (const run::Device& device : view.run.devices) {
    const Series* series = index.find(signal, device.index);
    run::SeriesStatistics all;
    if (series != nullptr && !series->times.empty()) {
      const run::Extent window =
          view.window.value_or(run::Extent{series->times.front(), series->times.back()});
      all = run::statistics(*series, window.begin, window.end);
    }
    any = any || all.count > 0;
    statistics.means.push_back(all.count > 0 ? all.time_weighted_mean : unknown);
    statistics.maxima.push_back(all.count > 0 ? all.maximum : unknown);
  }
  return any ? statistics : DeviceStatistics();
}

}  // namespace triplepoint::metrics
