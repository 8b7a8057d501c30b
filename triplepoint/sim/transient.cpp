// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/transient.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "triplepoint/sim/record.h"
#include "triplepoint/sim/settle.h"

namespace triplepoint::sim {
namespace {

// Dies move with time constants of a second and more beside a fast pole that follows power at once;
// a longer step is played at the clocks of several windows.
constexpr Seconds longest_window = 1 * unit::s;

class Transient {
 public:
  Transient(run::Run& run, StepModel& model, ClusterHeat heat, const Horizon& horizon)
      : run_(run), model_(model), heat_(std::move(heat)), horizon_(horizon) {}

  void play() {
    start_series();
    step_ = step_at(model_, heat_.dies(), nullptr);
    while (!done())
      play_window();
    const Instant begin = steps_.empty() ? Instant() : steps_.back().begin;
    CoupledStep last = step_at(model_, heat_.dies(), &step_);
    record_step(run_, model_, last, std::move(heat_), begin,
                {.duration = {}, .steps = {}, .timeline = false});
    if (horizon_.timeline) record_timeline(run_.timeline, model_, last, begin);
    run_.steps = std::move(steps_);
  }

 private:
  bool done() const {
    if (horizon_.duration && now_ >= *horizon_.duration) return true;
    return horizon_.steps && static_cast<int64_t>(steps_.size()) >= *horizon_.steps;
  }

  /// At constant clocks a step goes on at 1 / step_time; a window ends with the step or before.
  void play_window() {
    const Seconds step_time = step_.played.step_time;
    const Seconds to_step_end = (1 - progress_) * step_time;
    Seconds window = std::min(longest_window, to_step_end);
    if (horizon_.duration) window = std::min(window, *horizon_.duration - now_);
    heat_.advance(mean_powers(step_.devices), window);
    now_ += window;
    progress_ += window / step_time;
    if (window == to_step_end) end_step();
    step_ = step_at(model_, heat_.dies(), &step_);
    append_series();
  }

  void end_step() {
    progress_ = 0;
    steps_.push_back({.begin = step_begin_,
                      .end = instant_at(now_),
                      .samples = model_.job.plan.global_batch_size,
                      .tokens = model_.graph.tokens_per_step});
    step_begin_ = instant_at(now_);
  }

  void start_series() {
    for (size_t d = 0; d < run_.devices.size(); ++d)
      for (const char* signal : {"power_w", "die_c", "sm_clock_mhz", "throttled_share"})
        run_.series.push_back({.signal = signal,
                               .device = static_cast<int32_t>(d),
                               .of_node = false,
                               .times = {},
                               .values = {}});
  }

  void append_series() {
    const double max_mhz = *model_.job.cluster.gpu.max_clock / unit::MHz;
    for (size_t d = 0; d < run_.devices.size(); ++d) {
      const DeviceStep& device = step_.devices[d];
      const double values[] = {
          device.mean_power / unit::W, step_.dies[d].degrees(), device.mean_clock_ratio * max_mhz,
          (device.throttled_power + device.throttled_thermal) / step_.played.step_time};
      for (size_t s = 0; s < std::size(values); ++s) {
        run::Series& series = run_.series[d * std::size(values) + s];
        series.times.push_back(instant_at(now_));
        series.values.push_back(values[s]);
      }
    }
  }

  run::Run& run_;
  StepModel& model_;
  ClusterHeat heat_;
  const Horizon& horizon_;
  CoupledStep step_;
  std::vector<run::StepRecord> steps_;
  Instant step_begin_;
  Seconds now_;
  double progress_ = 0;
};

}  // namespace

void play_transient(run::Run& run, StepModel& model, ClusterHeat heat, const Horizon& horizon) {
  Transient(run, model, std::move(heat), horizon).play();
}

}  // namespace triplepoint::sim
