// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/plots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/run/throttle_reasons.h"

namespace triplepoint::report {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::size_t curves_apart = 8;  // more cannot be told apart

/// Of the names, the first that the run has: a simulated run knows true means, a sensor its own
/// view of them.
struct Signal {
  const char* id;
  const char* unit;
  std::vector<const char*> names;
};

const std::vector<Signal>& signals() {
  static const std::vector<Signal> all = {
      {"power_w", "power (W)", {"power_w", "power_instant_w", "power_average_w"}},
      {"die_c", "die (°C)", {"die_c", "junction_c"}},
      {"sm_clock_mhz", "SM clock (MHz)", {"sm_clock_mhz"}},
      {"throttled", "throttled (% of time)", {"throttle_reasons", "throttled_share"}},
      {"memory_c", "memory (°C)", {"memory_c"}}};
  return all;
}

/// What is drawn of a series' value.
double drawn_value(const run::Series& series, double value) {
  if (series.signal == "throttled_share") return 100 * value;
  if (series.signal != "throttle_reasons") return value;
  return (static_cast<uint32_t>(value) & run::any_throttle_reason) != 0 ? 100 : 0;
}

std::vector<const run::Series*> series_of(const run::Run& run, const Signal& signal) {
  std::vector<const run::Series*> found;
  for (const char* name : signal.names) {
    for (const run::Series& series : run.series)
      if (series.signal == name && !series.of_node && !series.times.empty())
        found.push_back(&series);
    if (!found.empty()) break;
  }
  return found;
}

/// Share of time with any reason, of a stretch between two stamps, at its begin: what was polled,
/// at least the longest reason and at most all one after the other, as throttled_per_gpu counts it.
/// Reasons count by the driver's residency counters, which miss nothing between two readings, and
/// by their bit where they have none.
run::Series counted_throttling(const run::Run& run, const run::Series& stamps) {
  const run::Series* bits = run::find_series(run, "throttle_reasons", stamps.device);
  const auto polled = [&](uint32_t reasons, Instant begin, Instant end) {
    return bits == nullptr ? 0 : run::share_of_time(*bits, reasons, begin, end).value_or(0);
  };
  std::vector<std::pair<uint32_t, const run::Series*>> reasons;  // bit and counter
  for (const run::ThrottleReason& reason : run::throttle_reasons)
    reasons.emplace_back(reason.bit, run::find_series(run, reason.counter, stamps.device));
  run::Series shares{.signal = "throttled_share", .device = stamps.device};
  for (std::size_t i = 0; i + 1 < stamps.times.size(); ++i) {
    const Instant begin = stamps.times[i], end = stamps.times[i + 1];
    double longest = 0, sum = 0;
    for (const auto& [bit, counter] : reasons) {
      const double share = counter == nullptr
                               ? polled(bit, begin, end)
                               : run::counter_difference(*counter, begin, end).value_or(0) * 1e-9 /
                                     ((end - begin) / unit::s);
      longest = std::max(longest, share);
      sum += share;
    }
    shares.times.push_back(begin);
    shares.values.push_back(
        run::any_reason_share(polled(run::any_throttle_reason, begin, end), longest, sum));
  }
  return shares;
}

/// Of every GPU that has residency counters: a page's chart then agrees with its headline.
std::vector<run::Series> counted_throttling(const run::Run& run) {
  std::map<int32_t, const run::Series*> stamps;  // by device: those of the longest counter
  for (const run::Series& series : run.series) {
    if (!series.signal.starts_with("throttle_ns_") || series.of_node || series.times.size() < 2)
      continue;
    const run::Series*& longest = stamps[series.device];
    if (longest == nullptr || series.times.size() > longest->times.size()) longest = &series;
  }
  std::vector<run::Series> all;
  for (const auto& [device, series] : stamps)
    all.push_back(counted_throttling(run, *series));
  return all;
}

/// Throttling by counters, and of GPUs without by polled bits.
std::vector<const run::Series*> with_counted(std::vector<const run::Series*> polled,
                                             const std::vector<run::Series>& counted) {
  std::erase_if(polled, [&](const run::Series* series) {
    return std::ranges::any_of(
        counted, [&](const run::Series& other) { return other.device == series->device; });
  });
  for (const run::Series& series : counted)
    polled.push_back(&series);
  std::ranges::sort(polled, {}, [](const run::Series* series) { return series->device; });
  return polled;
}

/// Equal stretches of time, from the first to the last stamp of all series.
struct Buckets {
  double begin = 0, width = 1;
  std::size_t count = 1;
  std::size_t of(Instant time) const {
    const double place = ((time - Instant()) / unit::s - begin) / width;
    return std::min(count - 1, static_cast<std::size_t>(std::max(0.0, place)));
  }
  double time(std::size_t i) const { return begin + width * (static_cast<double>(i) + 0.5); }
};

Buckets buckets_of(const std::vector<const run::Series*>& all, std::size_t points) {
  double first = infinity, last = -infinity;
  std::size_t most = 1;
  for (const run::Series* series : all) {
    first = std::min(first, (series->times.front() - Instant()) / unit::s);
    last = std::max(last, (series->times.back() - Instant()) / unit::s);
    most = std::max(most, series->times.size());
  }
  const std::size_t count = std::min(points, most);
  return {first, std::max(last - first, 1e-9) / static_cast<double>(count), count};
}

/// Mean, lowest and highest of what was seen in each bucket. A value holds until the next one of
/// its series, so buckets between two stamps are not empty; before the first and after the last
/// stamp nothing is known.
struct Curve {
  std::vector<double> sum, low, high;
  std::vector<int64_t> count;
  explicit Curve(std::size_t size)
      : sum(size), low(size, infinity), high(size, -infinity), count(size) {}
  void add(const run::Series& series, const Buckets& buckets) {
    std::size_t next = buckets.of(series.times.front());
    double held = drawn_value(series, series.values.front());
    for (std::size_t i = 0; i < series.times.size(); ++i) {
      const std::size_t at = buckets.of(series.times[i]);
      for (; next < at; ++next)
        see(next, held);
      held = drawn_value(series, series.values[i]);
      see(at, held);
      next = std::max(next, at + 1);
    }
  }

 private:
  void see(std::size_t at, double value) {
    if (!std::isfinite(value)) return;
    sum[at] += value;
    low[at] = std::min(low[at], value);
    high[at] = std::max(high[at], value);
    ++count[at];
  }
};

/// Enough digits for a plot, few for the file.
double rounded(double value) {
  return std::round(value * 10) / 10;
}

template <class Value>
Json values_of(const Curve& curve, const Value& value) {
  Json values = Json::array();
  for (std::size_t i = 0; i < curve.count.size(); ++i)
    values.push_back(curve.count[i] == 0 ? Json() : Json(rounded(value(i))));
  return values;
}

Json curve_json(std::string name, const char* style, Json values) {
  return {{"name", std::move(name)}, {"style", style}, {"values", std::move(values)}};
}

Json band(const std::vector<const run::Series*>& all, const Buckets& buckets) {
  Curve curve(buckets.count);
  for (const run::Series* series : all)
    curve.add(*series, buckets);
  return {curve_json("highest GPU", "high",
                     values_of(curve, [&](std::size_t i) { return curve.high[i]; })),
          curve_json("lowest GPU", "low",
                     values_of(curve, [&](std::size_t i) { return curve.low[i]; })),
          curve_json("mean", "mean", values_of(curve, [&](std::size_t i) {
                       return curve.sum[i] / static_cast<double>(curve.count[i]);
                     }))};
}

Json separate(const std::vector<const run::Series*>& all, const Buckets& buckets) {
  Json curves = Json::array();
  for (const run::Series* series : all) {
    Curve curve(buckets.count);
    curve.add(*series, buckets);
    curves.push_back(curve_json(fmt::format("GPU {}", series->device), "single",
                                values_of(curve, [&](std::size_t i) {
                                  return curve.sum[i] / static_cast<double>(curve.count[i]);
                                })));
  }
  return curves;
}

}  // namespace

Json plots_of(const run::Run& run, std::size_t points) {
  Json plots = Json::array();
  const std::vector<run::Series> counted = counted_throttling(run);
  for (const Signal& signal : signals()) {
    std::vector<const run::Series*> all = series_of(run, signal);
    if (std::string_view(signal.id) == "throttled") all = with_counted(std::move(all), counted);
    if (all.empty()) continue;
    const Buckets buckets = buckets_of(all, points);
    Json times = Json::array();
    for (std::size_t i = 0; i < buckets.count; ++i)
      times.push_back(std::round(buckets.time(i) * 1e6) / 1e6);
    plots.push_back(
        {{"target", fmt::format("plot-{}", signal.id)},
         {"unit", signal.unit},
         {"times", std::move(times)},
         {"curves", all.size() <= curves_apart ? separate(all, buckets) : band(all, buckets)}});
  }
  return plots;
}

}  // namespace triplepoint::report
