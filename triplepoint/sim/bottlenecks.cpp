// SPDX-License-Identifier: Apache-2.0
// What slows a step: an outlier among its peers, and what the step would take without it.
//
// An outlier alone costs nothing if it is in a stage that waits anyway. So the
// step is simulated once more with the outliers at the median of their peers, and what it gains is
// their cost. One more schedule per kind, and only where there are outliers.
#include <algorithm>
#include <cmath>
#include <utility>

#include "triplepoint/base/statistics.h"

#include "triplepoint/sim/record.h"

namespace triplepoint::sim {
namespace {

using run::Bottleneck;
using run::Evidence;

constexpr double min_excess = 0.04;     // of a device's phases, relative
constexpr double min_deviations = 4;    // robust standard deviations
constexpr double min_link_loss = 0.05;  // share of bandwidth
constexpr double min_host_excess = 0.15;
constexpr double min_cost = 0.002;     // of the step
constexpr size_t fewest_in_stage = 4;  // peers of one stage, else of all
constexpr size_t most_named = 8;

/// Clock steps below the maximum, mean over the repetitions of a device's phases.
double mean_steps(const StepModel& model, const CoupledStep& step, size_t device) {
  const auto& uses = model.uses[model.place_of(device).stage];
  double sum = 0, count = 0;
  for (size_t u = 0; u < uses.size(); ++u) {
    const auto times = as_real(uses[u].count);
    sum += times * step.clocks.devices[device][u].steps_down();
    count += times;
  }
  return count > 0 ? sum / count : 0;
}

class BottleneckFinder {
 public:
  BottleneckFinder(StepModel& model, const CoupledStep& step)
      : model_(model),
        step_(step),
        per_node_(as_size(model.job.cluster.gpus_per_node)),
        nodes_(as_size(model.job.cluster.num_nodes)) {}

  std::vector<Bottleneck> find() {
    if (model_.has_power() && model_.num_devices() > 1) find_slow_clocks();
    find_slow_links();
    find_slow_hosts();
    std::ranges::stable_sort(found_,
                             [](const auto& a, const auto& b) { return *a.cost > *b.cost; });
    return std::move(found_);
  }

 private:
  // ---- clocks

  /// Median clock steps of each stage, or of all where it has few devices.
  void find_peers() {
    std::vector<double> all;
    std::vector<std::vector<double>> of_stage(model_.uses.size());
    for (size_t d = 0; d < model_.num_devices(); ++d) {
      all.push_back(mean_steps(model_, step_, d));
      of_stage[model_.place_of(d).stage].push_back(all.back());
    }
    everyone_ = median(std::move(all));
    for (std::vector<double>& stage : of_stage)
      peers_.push_back(stage.size() >= fewest_in_stage ? median(std::move(stage)) : everyone_);
  }

  double peers_of(size_t device) const { return peers_[model_.place_of(device).stage]; }

  Seconds duration_at(size_t device, size_t use, double steps) {
    const size_t stage = model_.place_of(device).stage;
    const LockstepGroup& group = model_.group_of(device);
    PhaseTable& table = model_.table(group, model_.uses[stage][use]);
    const auto index = static_cast<int64_t>(
        std::clamp(std::round(steps), 0.0, std::floor(model_.most_steps_down())));
    return table.at(index, group.host_factor).duration;
  }

  /// Time in phases over that at the clock of others.
  double excess(size_t device, double steps) {
    const auto& uses = model_.uses[model_.place_of(device).stage];
    Seconds own, like_others;
    for (size_t u = 0; u < uses.size(); ++u) {
      const auto count = as_real(uses[u].count);
      own += count * step_.clocks.devices[device][u].duration;
      like_others += count * duration_at(device, u, steps);
    }
    return like_others > Seconds() ? own / like_others - 1 : 0;
  }

  std::vector<int32_t> outliers(const std::vector<double>& values) const {
    const double middle = median(values);
    const double least = middle + std::max(min_excess, min_deviations * robust_deviation(values));
    std::vector<int32_t> slow = worst_first(
        values.size(), [&](size_t i) { return values[i]; }, least);
    // Many of them are two populations, not a few culprits among healthy ones.
    if (2 * slow.size() >= values.size() && values.size() > 2) slow.clear();
    return slow;
  }

  void find_slow_clocks() {
    find_peers();
    if (nodes_ > 1) add_slow_nodes();
    std::vector<double> excesses(model_.num_devices());
    for (size_t d = 0; d < excesses.size(); ++d)
      excesses[d] = is_of_slow_node(d) ? 0 : excess(d, peers_of(d));
    add_clock(outliers(excesses), false);
  }

  void add_slow_nodes() {
    std::vector<double> of_node(nodes_);
    for (size_t n = 0; n < nodes_; ++n) {
      std::vector<double> devices;
      for (size_t d = n * per_node_; d < (n + 1) * per_node_; ++d)
        devices.push_back(excess(d, everyone_));
      of_node[n] = median(devices);
    }
    // With two nodes the median lies between them: the faster one is the peer.
    if (nodes_ == 2) {
      const double gap = of_node[0] - of_node[1];
      if (std::abs(gap) > 2 * min_excess) slow_nodes_ = {gap > 0 ? 0 : 1};
    } else {
      slow_nodes_ = outliers(of_node);
    }
    if (!add_clock(slow_nodes_, true)) slow_nodes_.clear();
  }

  bool is_of_slow_node(size_t device) const {
    return std::ranges::find(slow_nodes_, static_cast<int32_t>(device / per_node_)) !=
           slow_nodes_.end();
  }

  std::vector<size_t> devices_of(const std::vector<int32_t>& who, bool of_nodes) const {
    std::vector<size_t> devices;
    for (const int32_t number : who) {
      const auto first = as_size(number) * (of_nodes ? per_node_ : 1);
      for (size_t d = first; d < first + (of_nodes ? per_node_ : 1); ++d)
        devices.push_back(d);
    }
    return devices;
  }

  bool add_clock(const std::vector<int32_t>& slow, bool of_nodes) {
    if (slow.empty()) return false;
    const std::vector<size_t> devices = devices_of(slow, of_nodes);
    const double others = of_nodes ? steps_of_others(devices) : 0;
    ClockState clocks = step_.clocks;
    for (const size_t d : devices)
      for (size_t u = 0; u < clocks.devices[d].size(); ++u) {
        DevicePhase& phase = clocks.devices[d][u];
        phase.duration =
            std::min(phase.duration, duration_at(d, u, of_nodes ? others : peers_of(d)));
      }
    const Seconds cost = step_.timeline.step_time - simulate_step(model_, clocks).step_time;
    if (cost < min_cost * step_.timeline.step_time) return false;
    const std::vector<size_t> slowest = devices_of({slow.front()}, of_nodes);
    const std::vector<size_t> healthy = others_of(devices, of_nodes ? ~size_t{0} : slowest[0]);
    Bottleneck found{
        .of = of_nodes ? Bottleneck::Of::node : Bottleneck::Of::gpu,
        .who = slow,
        .evidence = {{Evidence::Kind::clock, clocks_of(slowest).front(), middle_clock(healthy)}},
        .cost = cost};
    name_node(found);
    add(std::move(found));
    return true;
  }

  /// Whether a fault or a limit is this GPU's alone.
  bool has_own_setting(int32_t device) const {
    const spec::Environment& room = model_.job.environment;
    const auto d = as_size(device);
    return (d < room.device_power_limits.size() &&
            room.device_power_limits[d] < model_.job.power_limit()) ||
           (d < room.device_clock_limits.size() && room.device_clock_limits[d] > Hertz()) ||
           std::ranges::any_of(room.faults,
                               [&](const spec::Fault& fault) { return fault.gpu == device; });
  }

  /// Several GPUs of one node among several have the node's fans, inlet or brake in common, unless
  /// one of them has a setting that only it has.
  void name_node(Bottleneck& found) const {
    if (found.of == Bottleneck::Of::node || nodes_ == 1 || found.who.size() < 2) return;
    if (std::ranges::any_of(found.who, [&](int32_t d) { return has_own_setting(d); })) return;
    const auto node_of = [&](int32_t device) { return as_size(device) / per_node_; };
    const size_t node = node_of(found.who.front());
    if (!std::ranges::all_of(found.who, [&](int32_t d) { return node_of(d) == node; })) return;
    found.of = Bottleneck::Of::node;
    found.who = {static_cast<int32_t>(node)};
  }

  double steps_of_others(const std::vector<size_t>& devices) const {
    std::vector<double> steps;
    for (const size_t d : others_of(devices, ~size_t{0}))
      steps.push_back(mean_steps(model_, step_, d));
    return steps.empty() ? everyone_ : median(steps);
  }

  /// Devices that are none of `devices`; of the stage of `like` where it has enough.
  std::vector<size_t> others_of(const std::vector<size_t>& devices, size_t like) const {
    std::vector<char> out(model_.num_devices(), 0);
    for (const size_t d : devices)
      out[d] = 1;
    std::vector<size_t> all, of_stage;
    for (size_t d = 0; d < out.size(); ++d) {
      if (out[d] != 0) continue;
      all.push_back(d);
      if (like < out.size() && model_.place_of(d).stage == model_.place_of(like).stage)
        of_stage.push_back(d);
    }
    return of_stage.size() + 1 >= fewest_in_stage ? of_stage : all;
  }

  /// MHz, the slowest first: it sets the pace.
  std::vector<double> clocks_of(const std::vector<size_t>& devices) const {
    const double max_mhz = *model_.job.cluster.gpu.max_clock / unit::MHz;
    std::vector<double> clocks;
    for (const size_t d : devices)
      clocks.push_back(step_.accounted.devices[d].mean_clock_ratio * max_mhz);
    std::ranges::sort(clocks);
    return clocks;
  }
  double middle_clock(const std::vector<size_t>& devices) const {
    return devices.empty() ? 0 : median(clocks_of(devices));
  }

  // ---- links and hosts

  /// The step under other conditions, at the same temperatures and ceilings of heat.
  Seconds step_under(const Conditions& conditions) {
    const Conditions kept = model_.conditions();
    model_.set_conditions(conditions);
    CoupledStep step = step_at(model_, step_.dies);
    update_step(model_, step_.dies, step_.clocks.heat_ceiling, step);
    model_.set_conditions(kept);
    return step.timeline.step_time;
  }

  void find_slow_links() {
    add_links(Evidence::Kind::scale_up, false, &Conditions::scale_up_share);
    if (nodes_ > 1) add_links(Evidence::Kind::scale_out, true, &Conditions::scale_out_share);
  }

  void add_links(Evidence::Kind kind, bool of_nodes, std::vector<double> Conditions::*field) {
    const std::vector<double>& shares = model_.conditions().*field;
    const double peers =
        shares.size() > 2 ? upper_median(shares) : *std::ranges::max_element(shares);
    const std::vector<int32_t> slow = worst_first(
        shares.size(), [&](size_t i) { return -shares[i]; }, (min_link_loss - 1) * peers);
    Conditions healed = model_.conditions();
    for (const int32_t i : slow)
      (healed.*field)[as_size(i)] = peers;
    add_healed({.of = of_nodes ? Bottleneck::Of::node : Bottleneck::Of::gpu, .who = slow}, kind,
               shares, peers, healed);
  }

  void find_slow_hosts() {
    std::vector<double> factors(nodes_);
    for (size_t n = 0; n < nodes_; ++n)
      factors[n] = model_.conditions().host_factor[n] * model_.hardware.host_factor[n];
    // Few nodes have no median to speak of; a mean host is the type's.
    const double peers = nodes_ > 2 ? median(factors) : 1;
    const double spread = min_deviations * model_.job.cluster.host.speed_spread;
    const std::vector<int32_t> slow = worst_first(
        nodes_, [&](size_t n) { return factors[n]; },
        peers * (1 + std::max(min_host_excess, spread)));
    Conditions healed = model_.conditions();
    for (const int32_t n : slow)
      healed.host_factor[as_size(n)] = peers / model_.hardware.host_factor[as_size(n)];
    add_healed({.of = Bottleneck::Of::node, .who = slow}, Evidence::Kind::host, factors, peers,
               healed);
  }

  /// Those of whom it is more than `limit`, most first.
  static std::vector<int32_t> worst_first(size_t count, const auto& amount, double limit) {
    std::vector<int32_t> slow;
    for (size_t i = 0; i < count; ++i)
      if (amount(i) > limit) slow.push_back(static_cast<int32_t>(i));
    std::ranges::stable_sort(
        slow, [&](int32_t a, int32_t b) { return amount(as_size(a)) > amount(as_size(b)); });
    return slow;
  }

  void add_healed(Bottleneck found, Evidence::Kind kind, const std::vector<double>& values,
                  double peers, const Conditions& healed) {
    if (found.who.empty()) return;
    found.evidence = {{kind, values[as_size(found.who.front())], peers}};
    found.cost = step_.timeline.step_time - step_under(healed);
    if (*found.cost >= min_cost * step_.timeline.step_time) add(std::move(found));
  }

  void add(Bottleneck found) {
    found.who.resize(std::min(found.who.size(), most_named));
    found_.push_back(std::move(found));
  }

  StepModel& model_;
  const CoupledStep& step_;
  size_t per_node_, nodes_;
  double everyone_ = 0;        // clock steps, median of all devices
  std::vector<double> peers_;  // [stage]
  std::vector<int32_t> slow_nodes_;
  std::vector<Bottleneck> found_;
};

}  // namespace

std::vector<run::Bottleneck> find_bottlenecks(StepModel& model, const CoupledStep& step) {
  return BottleneckFinder(model, step).find();
}

}  // namespace triplepoint::sim
