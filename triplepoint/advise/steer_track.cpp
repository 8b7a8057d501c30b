// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_track.h"

#include <algorithm>

namespace triplepoint::advise {

std::optional<SteerReadings> Track::advance(Seconds duration) {
  const Seconds begin = now();
  const run::Run window = world_.advance(duration);
  count_steps(window);
  count_energy(window, begin);
  totals_.time += duration;
  auto seen = readings_of(window, job());
  add_point(window, seen);
  return seen;
}

void Track::pause(Seconds duration, Watts power) {
  world_.pause(duration);
  totals_.time += duration;
  totals_.energy += power * duration;
  step_begin_ = now();
}

SteerTotals Track::finished() const {
  SteerTotals all = totals_;
  if (last_step_ > Seconds()) all.steps += std::min(1.0, (now() - step_begin_) / last_step_);
  return all;
}

void Track::count_steps(const run::Run& window) {
  for (const run::StepRecord& step : window.steps) {
    totals_.tokens_per_step = step.tokens;
    last_step_ = step.end - step.begin;
    step_begin_ = step.end - Instant();
  }
  totals_.steps += static_cast<double>(window.steps.size());
}

/// power_w is the mean since the stamp before.
void Track::count_energy(const run::Run& window, Seconds begin) {
  for (const run::Series& series : window.series) {
    if (series.signal == "die_c")
      for (const double degrees : series.values)
        totals_.hottest = std::max(totals_.hottest, Celsius(degrees));
    if (series.signal != "power_w") continue;
    Instant last = instant_at(begin);
    for (std::size_t i = 0; i < series.times.size(); ++i) {
      totals_.energy += series.values[i] * unit::W * (series.times[i] - last);
      last = series.times[i];
    }
  }
}

void Track::add_point(const run::Run& window, const std::optional<SteerReadings>& seen) {
  SteerPoint point;
  point.time = now();
  if (seen) point.step_time_s = seen->step_time / unit::s;
  double clocks = 0, lowest = 1e9, gpus = 0;
  for (const run::Series& series : window.series) {
    if (series.values.empty()) continue;
    const double last = series.values.back();
    if (series.signal == "power_w") point.power_w += last;
    if (series.signal == "die_c") point.hottest_c = std::max(point.hottest_c, last);
    if (series.signal != "sm_clock_mhz") continue;
    clocks += last;
    lowest = std::min(lowest, last);
    gpus += 1;
  }
  if (gpus > 0) {
    point.lowest_clock_mhz = lowest;
    point.mean_clock_mhz = clocks / gpus;
  }
  points_.push_back(point);
}

Watts idle_power(const spec::Job& job) {
  const Watts each = job.cluster.gpu.power ? job.cluster.gpu.power->idle : Watts();
  return static_cast<double>(job.world_size()) * each;
}

}  // namespace triplepoint::advise
