// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/plots.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "triplepoint/base/json.h"

#include "triplepoint/run/device_number.h"
#include "triplepoint/run/throttle_reasons.h"

namespace triplepoint::answers {
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
  return mapped(stamps, [&](const auto& one) { return counted_throttling(run, *one.second); });
}

/// Throttling by counters, and of GPUs without by polled bits.
std::vector<const run::Series*> with_counted(std::vector<const run::Series*> polled,
                                             const std::vector<run::Series>& counted) {
  std::erase_if(polled, [&](const run::Series* series) {
    return holds(counted, series->device, &run::Series::device);
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
    return std::min(count - 1, as_size(std::max(0.0, place)));
  }
  double time(std::size_t i) const { return begin + width * (as_real(i) + 0.5); }
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
  return {first, std::max(last - first, 1e-9) / as_real(count), count};
}

/// Mean, lowest and highest of what was seen in each bucket. A value holds until the next one of
/// its series, so buckets between two stamps are not empty; before the first and after the last
/// stamp nothing is known.
struct Course {
  std::vector<double> sum, low, high;
  std::vector<int64_t> count;
  explicit Course(std::size_t size)
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

std::vector<std::optional<double>> values_of(const Course& course, const auto& value) {
  std::vector<std::optional<double>> values(course.count.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (course.count[i] > 0) values[i] = rounded(value(i));
  return values;
}

std::vector<std::optional<double>> means_of(const Course& course) {
  return values_of(course, [&](std::size_t i) { return course.sum[i] / as_real(course.count[i]); });
}

std::vector<Curve> band(const std::vector<const run::Series*>& all, const Buckets& buckets) {
  Course course(buckets.count);
  for (const run::Series* series : all)
    course.add(*series, buckets);
  return {{"highest GPU", Curve::Is::highest,
           values_of(course, [&](std::size_t i) { return course.high[i]; })},
          {"lowest GPU", Curve::Is::lowest,
           values_of(course, [&](std::size_t i) { return course.low[i]; })},
          {"mean", Curve::Is::mean, means_of(course)}};
}

/// Growth of counters per second between their stamps, over that of others.
run::Series rates_of(const run::Run& run, std::initializer_list<const char*> counters,
                     std::initializer_list<const char*> over, double scale, int32_t node) {
  run::Series rates{.device = node, .of_node = true};
  const run::Series* const stamps = run::find_series(run, *counters.begin(), node, true);
  if (stamps == nullptr) return rates;
  for (std::size_t i = 0; i + 1 < stamps->times.size(); ++i) {
    const Instant begin = stamps->times[i], end = stamps->times[i + 1];
    const auto growth = [&](std::initializer_list<const char*> of) {
      double sum = 0;
      for (const char* const counter : of)
        if (const run::Series* const series = run::find_series(run, counter, node, true))
          sum += run::counter_difference(*series, begin, end).value_or(0);
      return sum;
    };
    const double base = over.size() > 0 ? growth(over) : (end - begin) / unit::s;
    if (!(base > 0)) continue;
    rates.times.push_back(begin);
    rates.values.push_back(scale * growth(counters) / base);
  }
  return rates;
}

struct NodeSignal {
  const char *id, *unit;
  run::Series series;
};

/// What a node without GPUs shows.
std::vector<NodeSignal> node_signals(const run::Run& run, int32_t node) {
  std::vector<NodeSignal> all = {
      {"cpu_power_w", "CPU packages (W)", rates_of(run, {"cpu_energy_j"}, {}, 1, node)},
      {"cpu_busy", "CPU busy (%)",
       rates_of(run, {"cpu_user_s", "cpu_system_s"},
                {"cpu_user_s", "cpu_system_s", "cpu_idle_s", "cpu_wait_s"}, 100, node)}};
  for (const auto& [id, unit, scale] :
       {std::tuple("node_power_w", "node (W)", 1.0), std::tuple("cpu_c", "CPU (°C)", 1.0),
        std::tuple("memory_used_b", "memory in use (GB)", 1e-9)})
    if (const run::Series* const series = run::find_series(run, id, node, true)) {
      all.push_back({id, unit, *series});
      for (double& value : all.back().series.values)
        value *= scale;
    }
  std::erase_if(all, [](const NodeSignal& one) { return one.series.times.empty(); });
  return all;
}

std::vector<Plot> plots_of_nodes(const run::Run& run, std::size_t points) {
  std::vector<Plot> all;
  const auto nodes = std::max<std::size_t>(1, run.manifest.hosts.size());
  for (std::size_t node = 0; node < std::min(nodes, curves_apart); ++node)
    for (const NodeSignal& signal : node_signals(run, static_cast<int32_t>(node))) {
      const Buckets buckets = buckets_of({&signal.series}, points);
      Plot plot{nodes > 1 ? fmt::format("{}_{}", signal.id, node) : signal.id, signal.unit, {}, {}};
      for (std::size_t i = 0; i < buckets.count; ++i)
        plot.times.push_back(std::round(buckets.time(i) * 1e6) / 1e6);
      Course course(buckets.count);
      course.add(signal.series, buckets);
      plot.curves = {{fmt::format("node {}", node), Curve::Is::single, means_of(course)}};
      all.push_back(std::move(plot));
    }
  return all;
}

std::vector<Curve> separate(const run::Run& run, const std::vector<const run::Series*>& all,
                            const Buckets& buckets) {
  std::vector<Curve> curves;
  for (const run::Series* series : all) {
    Course course(buckets.count);
    course.add(*series, buckets);
    curves.push_back({"GPU " + run::device_number(run, as_size(series->device)), Curve::Is::single,
                      means_of(course)});
  }
  return curves;
}

const char* style_of(Curve::Is is) {
  return word_for<Curve::Is::highest>({"single", "mean", "low", "high"}, is);
}

Json curve_json(const Curve& curve) {
  Json values = Json::array();
  for (const std::optional<double>& value : curve.values)
    values.push_back(value ? Json(*value) : Json());
  return {{"name", curve.name}, {"style", style_of(curve.is)}, {"values", std::move(values)}};
}

}  // namespace

std::vector<Plot> plots_of(const run::Run& run, std::size_t points, std::optional<int32_t> device) {
  const bool has_gpus =
      std::ranges::any_of(run.series, [](const run::Series& series) { return !series.of_node; });
  if (run.devices.empty() && !has_gpus) return plots_of_nodes(run, points);
  std::vector<Plot> plots;
  const std::vector<run::Series> counted = counted_throttling(run);
  for (const Signal& signal : signals()) {
    std::vector<const run::Series*> all = series_of(run, signal);
    if (std::string_view(signal.id) == "throttled") all = with_counted(std::move(all), counted);
    if (device)
      std::erase_if(all, [&](const run::Series* series) { return series->device != *device; });
    if (all.empty()) continue;
    const Buckets buckets = buckets_of(all, points);
    Plot plot{signal.id, signal.unit, {}, {}};
    for (std::size_t i = 0; i < buckets.count; ++i)
      plot.times.push_back(std::round(buckets.time(i) * 1e6) / 1e6);
    plot.curves = all.size() <= curves_apart ? separate(run, all, buckets) : band(all, buckets);
    plots.push_back(std::move(plot));
  }
  return plots;
}

std::vector<std::optional<double>> mean_curve(const Plot& plot) {
  std::vector<std::optional<double>> mean(plot.times.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    int64_t count = 0;
    for (const Curve& curve : plot.curves) {
      const bool counts = curve.is == Curve::Is::mean || curve.is == Curve::Is::single;
      if (!counts || !curve.values[i]) continue;
      sum += *curve.values[i];
      ++count;
    }
    if (count > 0) mean[i] = sum / as_real(count);
  }
  return mean;
}

std::optional<Extremes> extremes_of(const Plot& plot) {
  std::optional<Extremes> extremes;
  for (const Curve& curve : plot.curves)
    for (const std::optional<double>& value : curve.values) {
      if (!value) continue;
      if (!extremes) extremes = {*value, *value};
      extremes->lowest = std::min(extremes->lowest, *value);
      extremes->highest = std::max(extremes->highest, *value);
    }
  return extremes;
}

Json plots_json(const std::vector<Plot>& plots) {
  return mapped<Json>(plots, [&](const Plot& plot) -> Json {
    return {{"target", fmt::format("plot-{}", plot.id)},
            {"unit", plot.unit},
            {"times", plot.times},
            {"curves", mapped(plot.curves, curve_json)}};
  });
}

}  // namespace triplepoint::answers
