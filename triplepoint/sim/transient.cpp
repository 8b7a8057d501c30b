// SPDX-License-Identifier: Apache-2.0
// Time passes in windows of constant mean power.
//
// A step takes seconds and a die moves over seconds to minutes, so a step is not simulated action
// by action here: its mean power and its length at the present clocks stand for all steps of a
// window. Heat advances exactly over the window (thermal/chassis.h), then the governors read their
// dies and the step is chosen again. Windows grow from 1 to 10 s while dies move slowly and shrink
// when they do not, which is what makes hours of a run cheap. They end at multiples of their length
// and where faults change, so that advancing in parts gives the same windows, hence the same bits,
// as advancing at once. Progress within a step is a fraction: steps go on through windows at the
// pace of the clocks they meet.
//
// The approximation: power is constant within a window, so leakage and clocks lag behind the die by
// up to a window. move_to_shorten bounds how far a die moves meanwhile, and with it the error.
// Ripple within a step is not in it; record_detail() adds it for one step.
//
// State between windows: node temperatures and fans (ClusterHeat), thermal ceilings, the step of
// this moment, progress within the running step, and how long training stands still. The step is
// lazy: it is simulated again only when a window needs it and something changed (fresh_,
// has_step_).
#include "triplepoint/sim/transient.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "triplepoint/base/result.h"

#include "triplepoint/power/power.h"
#include "triplepoint/sim/record.h"
#include "triplepoint/sim/steady_state.h"
#include "triplepoint/sim/step_profile.h"

namespace triplepoint::sim {
namespace {

// Dies move with time constants of a second and more beside a fast pole that follows power at once.
// Once they move slowly, longer windows see the same.
constexpr std::array window_lengths = {1.0, 2.0, 5.0, 10.0};  // s
constexpr Kelvins move_to_shorten = 0.25 * unit::K, move_to_lengthen = 0.08 * unit::K;
constexpr double ceiling_to_shorten = 1, ceiling_to_lengthen = 0.25;  // clock steps
constexpr Seconds no_deadline = std::numeric_limits<double>::infinity() * unit::s;

/// The same training, whatever the room and the limits.
bool trains_alike(const spec::Job& a, const spec::Job& b) {
  return a.task == b.task && a.model == b.model && a.cluster == b.cluster && a.stack == b.stack &&
         a.plan == b.plan;
}

/// Series of a device, in the order in which values are appended.
std::vector<const char*> signals_of(const spec::Job& job) {
  std::vector<const char*> signals = {"power_w", "die_c", "sm_clock_mhz", "throttled_share"};
  if (job.cluster.num_gpus() > static_cast<int64_t>(most_profiled_devices)) return signals;
  signals.push_back("utilization");
  if (job.cluster.gpu.thermal->memory_idle) signals.push_back("memory_c");
  return signals;
}

/// Of a node: what it breathes in, and what it has drawn since the beginning, kept as power.
constexpr std::array signals_of_nodes = {"inlet_c", "node_energy_j"};

/// Steps in which a signal is kept.
double steps_per_unit(std::string_view signal) {
  return signal == "throttled_share" || signal == "utilization" ? 1e6 : 1e3;
}

/// Readings of all devices, then of all nodes, window by window. They become series at the end: to
/// lengthen a hundred thousand series in turn takes longer than to simulate the window. They are
/// kept in whole steps and in blocks of neighbouring series, which end one after the other: half a
/// double's memory, and never beside all series.
struct Readings {
  static constexpr size_t series_of_block = 4096;
  run::Times times;
  std::vector<std::vector<int32_t>> blocks;  // [series / series_of_block][window, series]
  size_t next = 0;                           // series, in this window

  void begin_window(Instant now) { times.push_back(now), next = 0; }
  void add(double value, double steps) {
    const size_t block = next++ / series_of_block;
    if (block == blocks.size()) blocks.emplace_back();
    blocks[block].push_back(static_cast<int32_t>(std::lround(value * steps)));
  }
};

run::Series empty_series(const char* signal, size_t device, bool of_node) {
  return {.signal = signal, .device = static_cast<int32_t>(device), .of_node = of_node};
}

/// Of mean powers of windows what was drawn at their ends, with `joules` before the first.
void add_up_energy(run::Series& power, Seconds begin, double& joules) {
  const double before = joules;
  for (size_t i = 0; i < power.values.size(); ++i) {
    const Instant since = i > 0 ? power.times[i - 1] : instant_at(begin);
    joules += power.values[i] * ((power.times[i] - since) / unit::s);
    power.values[i] = rounded_reading(joules);
  }
  if (begin > Seconds()) return;
  std::vector<Instant>& times = power.times.own();
  times.insert(times.begin(), instant_at(begin));
  power.values.insert(power.values.begin(), before);
}

void write_series(run::Run& run, const std::vector<const char*>& signals, Readings& readings,
                  Seconds begin, std::vector<double>& node_joules) {
  for (size_t d = 0; d < run.devices.size(); ++d)
    for (const char* signal : signals)
      run.series.push_back(empty_series(signal, d, false));
  for (size_t node = 0; node < node_joules.size(); ++node)
    for (const char* signal : signals_of_nodes)
      run.series.push_back(empty_series(signal, node, true));
  for (size_t b = 0, first = 0; b < readings.blocks.size(); ++b) {
    const std::vector<int32_t> block = std::exchange(readings.blocks[b], {});
    const size_t width = block.size() / readings.times.size();
    for (size_t i = 0; i < width; ++i) {
      run::Series& series = run.series[first + i];
      const double steps = steps_per_unit(series.signal);
      series.times = readings.times;
      series.values.reserve(readings.times.size());
      for (size_t at = i; at < block.size(); at += width)
        series.values.push_back(block[at] / steps);
      if (series.signal == "node_energy_j")
        add_up_energy(series, begin, node_joules[as_size(series.device)]);
    }
    first += width;
  }
}

/// How long the next window may be, from what the last one moved.
class WindowLength {
 public:
  Seconds now() const { return window_lengths[index_] * unit::s; }
  void restart() { index_ = 0; }
  void adapt(Kelvins die_move, double ceiling_move) {
    if (die_move > move_to_shorten || ceiling_move > ceiling_to_shorten)
      index_ = index_ > 0 ? index_ - 1 : 0;
    else if (die_move < move_to_lengthen && ceiling_move < ceiling_to_lengthen)
      index_ = std::min(index_ + 1, window_lengths.size() - 1);
  }

 private:
  size_t index_ = 0;
};

/// What a step's clocks are chosen under.
struct StepState {
  Conditions conditions;
  std::vector<Celsius> dies;
  std::vector<double> heat_ceiling;
};

/// On the way from the first to the second, by `share`.
StepState state_between(const StepState& first, const StepState& second, double share) {
  StepState mixed{between(first.conditions, second.conditions, share), first.dies,
                  first.heat_ceiling};
  for (size_t d = 0; d < mixed.dies.size(); ++d)
    mixed.dies[d] = first.dies[d] + share * (second.dies[d] - first.dies[d]);
  for (size_t d = 0; d < mixed.heat_ceiling.size(); ++d)
    mixed.heat_ceiling[d] += share * (second.heat_ceiling[d] - first.heat_ceiling[d]);
  return mixed;
}

/// The states in which a step went fastest and slowest, and how long it would take in each.
struct StepExtremes {
  using State = std::shared_ptr<const StepState>;
  Seconds fast, slow;
  State at_best, at_worst;

  void add(Seconds step_time, const State& state) {
    if (!at_best || step_time < fast) fast = step_time, at_best = state;
    if (!at_worst || step_time > slow) slow = step_time, at_worst = state;
  }
};

/// Peaks of a run over time are those of all of it, not of its last step.
void keep_peaks(run::Run& run) {
  const auto raise = [](std::optional<double>& peak, double value) {
    peak = std::max(peak.value_or(value), value);
  };
  for (const run::Series& series : run.series) {
    if (series.of_node || series.values.empty()) continue;
    const double highest = *std::ranges::max_element(series.values);
    run::DeviceSummary& summary = run.summaries[as_size(series.device)];
    if (series.signal == "die_c") raise(summary.die_peak_c, highest);
    if (series.signal != "power_w") continue;
    raise(summary.power_peak_w, highest);
    if (run.numbers.power_peak_w) raise(run.numbers.power_peak_w, highest);
  }
}

}  // namespace

class TransientSimulation::State {
 public:
  explicit State(std::unique_ptr<StepModel> model)
      : model_(std::move(model)),
        heat_(make_heat(model_->job, model_->hardware)),
        node_joules_(as_size(model_->job.cluster.num_nodes), 0.0),
        heat_ceiling_(as_size(model_->job.cluster.num_gpus()), 0.0) {
    TPT_EXPECT(model_->graph.memory.fits());
    meet_changes();
  }
  State(const State&);
  State& operator=(const State&) = delete;
  State(State&&) = delete;
  State& operator=(State&&) = delete;
  ~State() = default;

  const spec::Job& job() const { return model_->job; }
  Seconds now() const { return now_; }
  Watts node_power(int64_t node, Watts devices) const {
    const double flow = heat_ ? heat_->flow_share(node) : 1;
    return power::node_power(job().cluster, job().chassis(), devices, flow, 1).total();
  }
  void solve_steady_state();
  void pause(Seconds duration);
  void change(const spec::Job&);
  run::Run advance(const Horizon&);
  void record_detail(run::Run&, const Horizon&);

 private:
  enum class Activity { training, standing };
  struct Recorded {
    run::Run& run;
    const Horizon& horizon;
    Seconds until;  // infinite: the horizon counts steps
    Readings readings = {};
  };

  void meet_changes();
  void refresh_step();
  void take_state_of_last_step(Seconds length);
  void look_at_heat(Seconds window, const std::vector<Celsius>& before);
  void shut_down_past_limit(const std::vector<Celsius>& dies);
  std::vector<Celsius> dies() const { return heat_ ? heat_->dies() : std::vector<Celsius>(); }
  Seconds window_end(Seconds until) const;
  Seconds to_end_of_steps(const Recorded&) const;
  std::vector<Watts> idle_powers() const;
  Activity activity() const;
  void pass(Activity, Seconds end, Recorded*);
  void train(Seconds window, Recorded*);
  void end_step(Seconds end, Recorded*);
  std::vector<Celsius> memories(Activity) const;
  void read(Activity, const std::vector<Watts>& power, Readings&) const;

  std::unique_ptr<StepModel> model_;
  std::optional<ClusterHeat> heat_;
  std::vector<double> node_joules_;   // drawn in all recorded windows
  std::vector<double> heat_ceiling_;  // per device: see clock::next_heat_ceiling
  CoupledStep step_;                  // of this moment, if fresh_
  bool has_step_ = false;             // step_ was simulated under these links and hosts
  bool fresh_ = false;                // and at these temperatures and limits
  WindowLength window_;
  Seconds now_, step_begin_, standing_until_;
  double progress_ = 0;              // of the running step
  int64_t steps_to_redo_ = 0;        // lost with a node
  std::optional<Seconds> loss_met_;  // when
  StepExtremes running_, last_;      // of the running step, of the one that ended last
  std::optional<run::Shutdown> shutdown_;
};

TransientSimulation::State::State(const State& other)
    : model_(std::make_unique<StepModel>(other.model_->job, other.model_->graph)),
      heat_(other.heat_),
      node_joules_(other.node_joules_),
      heat_ceiling_(other.heat_ceiling_),
      step_(other.step_),
      has_step_(other.has_step_),
      fresh_(other.fresh_),
      window_(other.window_),
      now_(other.now_),
      step_begin_(other.step_begin_),
      standing_until_(other.standing_until_),
      progress_(other.progress_),
      steps_to_redo_(other.steps_to_redo_),
      loss_met_(other.loss_met_),
      running_(other.running_),
      last_(other.last_),
      shutdown_(other.shutdown_) {
  // step_ belongs to the conditions of this moment; a new model has those that last. The model is
  // made again rather than copied, because its parts point at each other.
  model_->set_conditions(other.model_->conditions());
}

void TransientSimulation::State::change(const spec::Job& job) {
  if (job == model_->job) return;
  TPT_EXPECT(job.cluster.num_gpus() == model_->job.cluster.num_gpus());
  if (!trains_alike(job, model_->job)) {  // the running step is lost, its successor is another
    progress_ = 0;
    step_begin_ = now_;
  }
  auto next = std::make_unique<StepModel>(job);
  TPT_EXPECT(next->graph.memory.fits());
  std::optional<ClusterHeat> heat = make_heat(next->job, next->hardware);
  // Another plan or other limits do not exchange boards and sinks, so their temperatures go on.
  if (heat) heat->take_over(*heat_);
  heat_ = std::move(heat);
  model_ = std::move(next);
  has_step_ = fresh_ = false;
  meet_changes();
}

/// Faults and limits of this moment.
void TransientSimulation::State::meet_changes() {
  const Conditions conditions = conditions_at(model_->job, now_);
  const bool same = conditions == model_->conditions();
  if (model_->set_conditions(conditions)) has_step_ = false;
  if (heat_) heat_->set_conditions(conditions);
  if (!same) {
    has_step_ = false;  // limits that moved leave no choice of a clock as it was
    window_.restart();
  }
  fresh_ = false;
  const std::optional<Loss> loss = loss_at(model_->job, now_);
  // The same moment is met twice when change() is called at it; a loss counts once.
  if (!loss || loss_met_ == now_) return;
  loss_met_ = now_;
  window_.restart();
  refresh_step();
  const Seconds step_time = step_.timeline.step_time;
  // Whole steps since the last checkpoint have to be trained again: they take time and heat, and
  // count as no progress (end_step). The running step is lost in any case.
  steps_to_redo_ += static_cast<int64_t>(loss->uncovered / step_time);
  standing_until_ = std::max(standing_until_, now_ + loss->restart);
  progress_ = 0;
}

void TransientSimulation::State::refresh_step() {
  if (fresh_) return;
  if (!has_step_) step_ = step_at(*model_, dies());
  update_step(*model_, dies(), heat_ceiling_, step_);
  has_step_ = fresh_ = true;
}

/// A state that lasts, in which a step takes as long as the last one did, which may have met
/// several: one time base for power, energy and timeline.
void TransientSimulation::State::take_state_of_last_step(Seconds length) {
  constexpr int halvings = 12;
  constexpr double alike = 0.01;
  if (!last_.at_best) return;
  const StepState &best = *last_.at_best, &worst = *last_.at_worst;
  if (best.conditions == worst.conditions && best.conditions == model_->conditions()) {
    refresh_step();
    if (abs(step_.timeline.step_time - length) <= alike * length) return;
  }
  const auto step_time_at = [&](double share) {
    const StepState state = state_between(best, worst, share);
    model_->set_conditions(state.conditions);
    step_ = step_at(*model_, state.dies);
    update_step(*model_, state.dies, state.heat_ceiling, step_);
    has_step_ = fresh_ = true;
    return step_.timeline.step_time;
  };
  double low = 0, high = 1;
  for (int i = 0; last_.fast < last_.slow && i < halvings; ++i) {
    const double middle = 0.5 * (low + high);
    (step_time_at(middle) < length ? low : high) = middle;
  }
  step_time_at(low);
}

/// Controllers of all devices look at their dies; a device past its shutdown temperature is off.
void TransientSimulation::State::look_at_heat(Seconds window, const std::vector<Celsius>& before) {
  const spec::Gpu& gpu = model_->job.cluster.gpu;
  const std::vector<Celsius> dies = this->dies();
  Kelvins die_move;
  double ceiling_move = 0;
  for (size_t d = 0; d < dies.size(); ++d) {
    die_move = std::max(die_move, abs(dies[d] - before[d]));
    // The highest clock among the phases: the controller acts on the device, and its ceiling starts
    // to bind at the fastest phase.
    double present = model_->most_steps_down(), capped = present;
    if (has_step_)
      for (const DevicePhase& phase : step_.clocks.devices[d]) {
        present = std::min(present, phase.steps_down());
        capped = std::min(capped, as_real(phase.capped_index));
      }
    double next = clock::next_heat_ceiling(*gpu.governor, *gpu.max_clock, heat_ceiling_[d],
                                           has_step_ ? present : 0, dies[d]);
    // A ceiling that is no lower than what power allows anyway has no effect. Kept, it would start
    // the next overheating from an old value instead of the present clock.
    if (has_step_ && next <= capped) next = 0;  // it binds nowhere
    ceiling_move = std::max(ceiling_move, std::abs(next - heat_ceiling_[d]));
    heat_ceiling_[d] = next;
  }
  // A window may have been cut short by a fault or the end. Its move counts as that of a whole one,
  // or dies would seem to move little and the next windows grow.
  window_.adapt(die_move * (unit::s / window) * (window_.now() / unit::s), ceiling_move);
  shut_down_past_limit(dies);
}

/// The device is off for good, and the job is over.
void TransientSimulation::State::shut_down_past_limit(const std::vector<Celsius>& dies) {
  const auto shutdown = find_shutdown(model_->job.cluster.gpu, dies);
  if (!shutdown || shutdown_) return;
  shutdown_ = shutdown;
  shutdown_->time = now_;
  standing_until_ = no_deadline;
  window_.restart();
}

void TransientSimulation::State::solve_steady_state() {
  step_ = heat_ ? sim::solve_steady_state(*model_, *heat_) : step_at(*model_, {});
  heat_ceiling_ = step_.clocks.heat_ceiling;
  has_step_ = fresh_ = true;
  shut_down_past_limit(step_.dies);
}

Seconds TransientSimulation::State::window_end(Seconds until) const {
  const Seconds length = window_.now();
  // Absolute multiples, not now + length: the ends do not depend on where an advance() began.
  const Seconds tick = (std::floor(now_ / length) + 1) * length;
  const Seconds change = next_change(model_->job, now_).value_or(no_deadline);
  return std::min({tick, change, until});
}

TransientSimulation::State::Activity TransientSimulation::State::activity() const {
  return now_ < standing_until_ ? Activity::standing : Activity::training;
}

/// Training is paused: no kernel, the lowest clock. A device that has shut down draws nothing.
std::vector<Watts> TransientSimulation::State::idle_powers() const {
  const spec::Gpu& gpu = model_->job.cluster.gpu;
  const double lowest = gpu.governor->min_clock / *gpu.max_clock;
  spec::GpuLoad nothing;
  nothing.duration = 1 * unit::s;
  const std::vector<Celsius> dies = heat_->dies();
  std::vector<Watts> powers;
  powers.reserve(dies.size());
  for (size_t d = 0; d < dies.size(); ++d)
    powers.push_back(
        power::gpu_power(*gpu.power, nothing, lowest, dies[d], model_->hardware.boards[d]));
  if (shutdown_) powers[as_size(shutdown_->device)] = Watts();
  return powers;
}

void TransientSimulation::State::end_step(Seconds end, Recorded* recorded) {
  progress_ = 0;
  last_ = std::exchange(running_, {});
  const Seconds begin = std::exchange(step_begin_, end);
  if (steps_to_redo_ > 0) {
    --steps_to_redo_;
    return;
  }
  if (!recorded) return;
  recorded->run.steps.push_back({.begin = instant_at(begin),
                                 .end = instant_at(end),
                                 .samples = model_->graph.records_per_step,
                                 .tokens = model_->graph.tokens_per_step});
}

/// At constant clocks steps follow each other; the last one goes on behind the window.
void TransientSimulation::State::train(Seconds window, Recorded* recorded) {
  const Seconds step_time = step_.timeline.step_time;
  // A step that ends with the window belongs to it; rounding must not move it to the next one, or
  // the number of steps in a span would depend on how it was divided.
  const Seconds rounding = 1e-12 * (step_time + now_);  // of moments, whose digits are finite
  Seconds at, left = (1 - progress_) * step_time;
  const auto state =
      std::make_shared<const StepState>(StepState{model_->conditions(), step_.dies, heat_ceiling_});
  running_.add(step_time, state);
  while (at + left <= window + rounding) {
    at += left;
    end_step(now_ + at, recorded);
    left = step_time;
    if (at + rounding < window) running_.add(step_time, state);
  }
  progress_ += std::max(Seconds(), window - at) / step_time;
}

void TransientSimulation::State::pass(Activity activity, Seconds end, Recorded* recorded) {
  const Seconds window = end - now_;
  const std::vector<Celsius> before = dies();
  std::vector<Watts> powers;
  if (activity == Activity::training) {
    refresh_step();
    powers = mean_powers(step_.accounted.devices);
    train(window, recorded);
  } else {
    if (heat_) powers = idle_powers();
    // Time that stands still belongs to no step: one that goes on afterwards is recorded with the
    // length of its two parts, one that was lost begins anew.
    step_begin_ = progress_ > 0 ? step_begin_ + window : end;
  }
  if (heat_) heat_->advance(powers, window);
  now_ = end;
  if (recorded) read(activity, powers, recorded->readings);
  look_at_heat(window, before);
  fresh_ = false;
  if (!model_->job.environment.faults.empty()) meet_changes();
}

void TransientSimulation::State::pause(Seconds duration) {
  const Seconds until = now_ + duration;
  window_.restart();
  while (now_ < until)
    pass(Activity::standing, window_end(until), nullptr);
  window_.restart();
}

/// HBM at its rest above the lids of this moment: see docs/models/thermal.md.
std::vector<Celsius> TransientSimulation::State::memories(Activity activity) const {
  const auto& idle = model_->job.cluster.gpu.thermal->memory_idle;
  if (!idle) return {};
  std::vector<Watts> powers = activity == Activity::training
                                  ? *memory_powers(*model_, step_)
                                  : std::vector<Watts>(model_->num_devices(), *idle);
  if (shutdown_) powers[as_size(shutdown_->device)] = Watts();
  return heat_->memories(powers);
}

/// A series tells the window behind its stamp, and the temperatures at it.
void TransientSimulation::State::read(Activity activity, const std::vector<Watts>& power,
                                      Readings& readings) const {
  if (!heat_) return;
  readings.begin_window(instant_at(now_));
  const spec::Gpu& gpu = model_->job.cluster.gpu;
  const std::vector<Celsius> dies = this->dies();
  std::vector<double> steps =
      mapped(signals_of(model_->job), [&](const char* signal) { return steps_per_unit(signal); });
  const bool all = dies.size() <= most_profiled_devices;  // as in signals_of()
  const std::vector<Celsius> memories = all ? this->memories(activity) : std::vector<Celsius>();
  for (size_t d = 0; d < dies.size(); ++d) {
    double mhz = gpu.governor->min_clock / unit::MHz, throttled = 0, in_use = 0;
    if (activity == Activity::training) {
      const DeviceStep& device = step_.accounted.devices[d];
      const auto [pipeline, stage] = model_->place_of(d);
      mhz = device.mean_clock_ratio * (*gpu.max_clock / unit::MHz);
      throttled = (device.throttled_power + device.throttled_thermal) / step_.timeline.step_time;
      if (all) in_use = mean_utilization(device, step_.accounted.groups[pipeline][stage]);
    }
    const double values[] = {power[d] / unit::W,
                             dies[d].degrees(),
                             mhz,
                             throttled,
                             in_use,
                             memories.empty() ? 0 : memories[d].degrees()};
    for (size_t s = 0; s < steps.size(); ++s)
      readings.add(values[s], steps[s]);
  }
  const auto per_node = as_size(model_->job.cluster.gpus_per_node);
  for (int64_t node = 0; node < heat_->num_nodes(); ++node) {
    const std::span devices = std::span(power).subspan(as_size(node) * per_node, per_node);
    readings.add(heat_->inlet(node).degrees(), steps_per_unit("inlet_c"));
    readings.add(node_power(node, sum_of(devices)) / unit::W, steps_per_unit("node_energy_j"));
  }
}

/// When the last of the steps asked for ends, at the present clocks.
Seconds TransientSimulation::State::to_end_of_steps(const Recorded& recorded) const {
  if (!recorded.horizon.steps || !fresh_) return no_deadline;
  const int64_t open = *recorded.horizon.steps - static_cast<int64_t>(recorded.run.steps.size());
  const double steps = as_real(open + steps_to_redo_) - progress_;
  return now_ + steps * step_.timeline.step_time;
}

run::Run TransientSimulation::State::advance(const Horizon& horizon) {
  run::Run run = start_run(model_->job, model_->graph);
  const Seconds begin = now_;
  Recorded recorded{run, horizon, horizon.duration ? now_ + *horizon.duration : no_deadline};
  // A job that died ends no steps: where only they are counted, it is over.
  const auto goes_on = [&] {
    if (!horizon.steps) return true;
    return static_cast<int64_t>(run.steps.size()) < *horizon.steps &&
           (!shutdown_ || horizon.duration);
  };
  while (now_ < recorded.until && goes_on()) {
    const Activity doing = activity();
    if (doing == Activity::training) refresh_step();
    pass(doing, window_end(std::min(recorded.until, to_end_of_steps(recorded))), &recorded);
  }
  if (heat_) write_series(run, signals_of(model_->job), recorded.readings, begin, node_joules_);
  if (shutdown_) {  // no step goes on that could be described
    run::record_shutdown(run, *shutdown_, *model_->job.cluster.gpu.governor->shutdown_temperature);
    run.summaries.resize(run.devices.size());
  } else {
    refresh_step();
    record_summaries(run, *model_, step_);
  }
  keep_peaks(run);
  return run;
}

void TransientSimulation::State::record_detail(run::Run& run, const Horizon& horizon) {
  if (run.steps.empty() && !shutdown_) run.summaries.clear();  // no step's
  if (run.steps.empty() || shutdown_) return;
  std::vector<run::StepRecord> steps = std::move(run.steps);
  const Seconds length = steps.back().end - steps.back().begin;
  take_state_of_last_step(length);
  refresh_step();
  set_phase_powers(*model_, step_.dies, step_.clocks);
  const Instant begin = steps.back().begin;
  // Without the devices' series: the run has them already, over all of its time, as means over
  // windows. What nodes draw along a step is in this step alone. The step that record_step() adds
  // is dropped because the run has all steps.
  record_step(run, *model_, step_, heat_, begin,
              {.timeline = horizon.timeline,
               .causes = horizon.causes,
               .series = horizon.timeline ? StepSeries::nodes : StepSeries::none});
  run.steps = std::move(steps);
  keep_peaks(run);
  // A lasting step may be a little longer or shorter than the last one: clocks move in steps.
  const double share = length / step_.timeline.step_time;
  for (run::DeviceSummary& device : run.summaries) {
    if (device.energy_j) *device.energy_j *= share;
    for (const auto& [purpose, joules] : device.energy_ledger_j)
      device.energy_ledger_j[purpose] = share * joules;
  }
  has_step_ = false;
  meet_changes();
}

TransientSimulation::TransientSimulation(const spec::Job& job)
    : TransientSimulation(std::make_unique<StepModel>(job)) {}
TransientSimulation::TransientSimulation(std::unique_ptr<StepModel> model)
    : state_(std::make_unique<State>(std::move(model))) {}
TransientSimulation::TransientSimulation(const TransientSimulation& other)
    : state_(std::make_unique<State>(*other.state_)) {}
TransientSimulation& TransientSimulation::operator=(const TransientSimulation& other) {
  if (this != &other) state_ = std::make_unique<State>(*other.state_);
  return *this;
}
TransientSimulation::TransientSimulation(TransientSimulation&&) noexcept = default;
TransientSimulation& TransientSimulation::operator=(TransientSimulation&&) noexcept = default;
TransientSimulation::~TransientSimulation() = default;

const spec::Job& TransientSimulation::job() const {
  return state_->job();
}
Seconds TransientSimulation::now() const {
  return state_->now();
}
Watts TransientSimulation::node_power(int64_t node, Watts devices) const {
  return state_->node_power(node, devices);
}
void TransientSimulation::solve_steady_state() {
  state_->solve_steady_state();
}
run::Run TransientSimulation::advance(Seconds duration) {
  return state_->advance({.duration = duration, .timeline = false});
}
run::Run TransientSimulation::advance(const Horizon& horizon) {
  return state_->advance(horizon);
}
void TransientSimulation::record_detail(run::Run& run, const Horizon& horizon) {
  state_->record_detail(run, horizon);
}
void TransientSimulation::pause(Seconds duration) {
  state_->pause(duration);
}
void TransientSimulation::change(const spec::Job& job) {
  state_->change(job);
}

}  // namespace triplepoint::sim
