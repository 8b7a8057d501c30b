// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/bursts.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "triplepoint/base/statistics.h"

#include "triplepoint/metrics/run/view.h"

namespace triplepoint::metrics {
namespace {

using run::Series;

constexpr double level_quantile = 0.9, low_quantile = 0.05, high_quantile = 0.95;
constexpr size_t fewest_temperatures = 3, fewest_powers = 10;

/// The readings of a series inside a window, and for how long each holds there.
struct Readings {
  std::vector<double> values;
  std::vector<Seconds> lengths;
  std::vector<Instant> times;
};

Readings readings_in(const Series& series, run::Extent window) {
  Readings readings;
  for (size_t i = 0; i < series.times.size(); ++i) {
    const Instant from = std::max(series.times[i], window.begin);
    const Instant until =
        i + 1 < series.times.size() ? std::min(series.times[i + 1], window.end) : window.end;
    if (until <= from) continue;
    readings.values.push_back(series.values[i]);
    readings.lengths.push_back(until - from);
    readings.times.push_back(from);
  }
  return readings;
}

Seconds total_length(const std::vector<Seconds>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), Seconds());
}

/// The spans of one GPU as they come.
class CoolDownSpans {
 public:
  explicit CoolDownSpans(double level) : level_(level) {}

  void add(double degrees, Seconds length) {
    const double fall = level_ - degrees;
    found_.largest_fall_k = std::max(found_.largest_fall_k, fall);
    if (cools_ && fall <= cool_down_depth_k / 2) end();
    if (fall >= cool_down_depth_k) cools_ = true;
    if (cools_) length_ += length;
  }
  void end() {
    if (cools_ && length_ >= shortest_cool_down) {
      ++found_.count;
      found_.time += length_;
    }
    cools_ = false;
    length_ = Seconds();
  }
  const DeviceCoolDowns& found() const { return found_; }

 private:
  double level_;
  bool cools_ = false;
  Seconds length_;
  DeviceCoolDowns found_{};
};

}  // namespace

std::optional<DeviceCoolDowns> find_cool_downs(const Series& die_c, run::Extent window,
                                               Course course) {
  const Readings readings = readings_in(die_c, window);
  const size_t count = readings.values.size();
  if (count < fewest_temperatures) return std::nullopt;
  if (total_length(readings.lengths) / as_real(count) > shortest_cool_down) return std::nullopt;
  Seconds watched;  // without gaps, in which nothing is known
  for (const Seconds length : readings.lengths)
    if (length <= shortest_cool_down) watched += length;
  if (watched <= Seconds()) return std::nullopt;
  const double level = lower_quantile(readings.values, level_quantile);
  const auto at_level =
      std::ranges::find_if(readings.values, [&](double degrees) { return degrees >= level; });
  const auto first = as_size(at_level - readings.values.begin());
  CoolDownSpans spans(level);
  // What comes before is warm-up, or in a step that repeats follows its end.
  for (size_t i = first; i < count + (course == Course::periodic ? first : 0); ++i) {
    const Seconds length = readings.lengths[i % count];
    const bool is_gap = length > shortest_cool_down;
    spans.add(readings.values[i % count], is_gap ? Seconds() : length);
    if (is_gap) spans.end();
  }
  spans.end();
  DeviceCoolDowns found = spans.found();
  found.share_of_time = found.time / watched;
  return found;
}

std::optional<DeviceBursts> measure_bursts(const Series& power, run::Extent window,
                                           std::optional<double> limit_w) {
  const Readings readings = readings_in(power, window);
  const std::vector<double>& watts = readings.values;
  if (watts.size() < fewest_powers) return std::nullopt;
  DeviceBursts bursts;
  bursts.swing_w = lower_quantile(watts, high_quantile) - lower_quantile(watts, low_quantile);
  for (size_t from = 0, to = 0; from < watts.size(); ++from) {
    while (to < watts.size() && readings.times[to] - readings.times[from] < ramp_time)
      ++to;
    if (to == watts.size()) break;
    const double slope =
        (watts[to] - watts[from]) / ((readings.times[to] - readings.times[from]) / unit::s);
    bursts.ramp_up_w_per_s = std::max(bursts.ramp_up_w_per_s, slope);
    bursts.ramp_down_w_per_s = std::max(bursts.ramp_down_w_per_s, -slope);
  }
  if (!limit_w) return bursts;
  Seconds close;
  for (size_t i = 0; i < watts.size(); ++i)
    if (watts[i] >= duty_level * *limit_w) close += readings.lengths[i];
  bursts.duty = close / total_length(readings.lengths);
  return bursts;
}

namespace {

/// Simulated series tell what happens within a step only where they are those of a steady step: a
/// transient has means over windows of time.
std::optional<Course> course_of(const run::Run& run) {
  if (run.manifest.origin != run::Origin::simulated) return Course::once;
  if (run.manifest.fidelity == run::Fidelity::transient) return std::nullopt;
  return Course::periodic;
}

/// What the driver says of the device's limit, else what the job says.
std::optional<double> limit_of(const run::Run& run, const Series* limits, size_t device) {
  if (limits != nullptr && !limits->values.empty() && limits->values.back() > 0)
    return limits->values.back();
  const std::optional<spec::Job>& job = run.manifest.job;
  if (!job || (!job->cluster.gpu.tdp && !job->environment.power_limit)) return std::nullopt;
  const std::vector<Watts>& each = job->environment.device_power_limits;
  return (device < each.size() ? each[device] : job->power_limit()) / unit::W;
}

/// The mean over the devices that know, and a value for each.
class OverDevices {
 public:
  void add(std::optional<double> value) {
    values_.push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));
    if (!value) return;
    sum_ += *value;
    count_ += 1;
  }
  std::optional<double> mean() const {
    return count_ > 0 ? std::optional(sum_ / count_) : std::nullopt;
  }
  std::vector<double> values() const { return count_ > 0 ? values_ : std::vector<double>(); }

 private:
  std::vector<double> values_;
  double sum_ = 0, count_ = 0;
};

run::Extent window_for(const View& view, const Series& series) {
  return view.window.value_or(run::Extent{series.times.front(), series.times.back()});
}

void answer_cool_downs(const View& view, const run::SeriesIndex& index, Course course,
                       CoolDowns& answer) {
  OverDevices counts, shares;
  double count = 0;
  Seconds time;
  for (const run::Device& device : view.run.devices) {
    const Series* series = index.find("die_c", device.index);
    const auto found = series != nullptr && !series->times.empty()
                           ? find_cool_downs(*series, window_for(view, *series), course)
                           : std::nullopt;
    shares.add(found ? std::optional(found->share_of_time) : std::nullopt);
    if (!found) continue;
    counts.add(as_real(found->count) / view.num_steps());
    count += as_real(found->count);
    time += found->time;
    answer.largest_fall_k = std::max(answer.largest_fall_k.value_or(0), found->largest_fall_k);
  }
  answer.count = counts.mean();
  answer.share_of_time = shares.mean();
  answer.share_per_gpu = shares.values();
  if (count > 0) answer.mean_length = time / count;
}

const Series* power_of(const run::SeriesIndex& index, int32_t device) {
  for (const char* signal : {"power_instant_w", "power_average_w", "power_w"})
    if (const Series* series = index.find(signal, device);
        series != nullptr && !series->times.empty())
      return series;
  return nullptr;
}

void answer_power(const View& view, const run::SeriesIndex& index, Bursts& answer) {
  OverDevices swings, rises, falls, duties;
  for (size_t i = 0; i < view.run.devices.size(); ++i) {
    const int32_t device = view.run.devices[i].index;
    const Series* series = power_of(index, device);
    std::optional<DeviceBursts> bursts;
    if (series != nullptr)
      bursts = measure_bursts(*series, window_for(view, *series),
                              limit_of(view.run, index.find("power_limit_w", device), i));
    swings.add(bursts ? std::optional(bursts->swing_w) : std::nullopt);
    if (!bursts) continue;
    rises.add(bursts->ramp_up_w_per_s);
    falls.add(bursts->ramp_down_w_per_s);
    duties.add(bursts->duty);
  }
  answer.swing_w = swings.mean();
  answer.swing_per_gpu_w = swings.values();
  answer.ramp_up_w_per_s = rises.mean();
  answer.ramp_down_w_per_s = falls.mean();
  answer.duty = duties.mean();
}

}  // namespace

void answer_bursts(const View& view, Metrics& answer) {
  answer.bursts.microbatch_swing_w = view.run.numbers.microbatch_swing_w;
  const std::optional<Course> course = course_of(view.run);
  if (!course || view.run.series.empty()) return;
  const run::SeriesIndex index(view.run);
  answer_cool_downs(view, index, *course, answer.cool_downs);
  answer_power(view, index, answer.bursts);
}

}  // namespace triplepoint::metrics
