// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/thermal/chassis.h"

// The thermal network of a node (equations and symbols: chassis.h).
//
// Built in four steps. Air first: it has no heat capacity, so its temperatures are an algebraic
// system of the sinks' temperatures, solved once (Air) and substituted into the network. Then
// conductances between nodes enter the rate matrix A of dT/dt = A T + b, A being in 1/s. The steady
// state solves A once for a watt in each slot and once for warm air. Time goes by the matrix
// exponential, which is exact for constant power, so the length of a step is no matter of stability
// or accuracy.
//
// Sizes: a few dozen nodes, dense. Building costs two solutions, O(nodes^3); a window costs one
// matrix-vector product.

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "triplepoint/base/result.h"

namespace triplepoint::thermal {
namespace {

size_t at(int64_t index) {
  return as_size(index);
}

/// W/K that the coolant takes up at this flow.
double coolant_capacity_rate(const spec::Chassis& chassis, double flow_share) {
  const double full = chassis.cooling == spec::Cooling::air
                          ? air_heat_capacity_j_per_m3_k * chassis.volume_flow_m3_s
                          : chassis.coolant_heat_capacity_w_per_k;
  TPT_EXPECT(full > 0 && flow_share > 0);
  return full * flow_share;
}

double upstream_share(const spec::Slot& slot, int64_t other) {
  return at(other) < slot.upstream_heating.size() ? slot.upstream_heating[at(other)] : 0;
}

/// Upstream heating by a slot and by those beside it (neither warms the other), added up; the most
/// of all slots that they warm.
double stream_share(const spec::Chassis& chassis, int64_t one) {
  const auto slots = static_cast<int64_t>(chassis.slots.size());
  const auto warms = [&](int64_t by, int64_t warmed) {
    return upstream_share(chassis.slots[at(warmed)], by);
  };
  double most = 0;
  for (int64_t warmed = 0; warmed < slots; ++warmed) {
    double share = warms(one, warmed);
    for (int64_t other = 0; share > 0 && other < slots; ++other)
      if (other != one && warms(one, other) == 0 && warms(other, one) == 0)
        share += warms(other, warmed);
    most = std::max(most, share);
  }
  return most;
}

/// How the air at each slot depends on the sinks: T_air = inlet + warmed + mixing T_last with
/// (1 + B G) T_air = inlet + offset + B G T_last;  B = upstream_heating / W, G = sink conductances.
struct Air {
  std::vector<double> warmed;  // K over the inlet while every sink is at the inlet's temperature
  Matrix mixing;               // row slot: share of each sink's temperature
};

/// The system is implicit, because heat that a sink gives off depends on its own air, which
/// upstream heat has warmed, and in a cold plate half of what it gives off itself.
Air solve_air(const spec::Chassis& chassis, const std::vector<double>& conductance,
              double capacity) {
  const auto slots = static_cast<int64_t>(chassis.slots.size());
  Matrix coupling = identity(slots), right(slots, slots + 1);
  for (int64_t i = 0; i < slots; ++i) {
    const spec::Slot& slot = chassis.slots[at(i)];
    for (int64_t j = 0; j < slots; ++j) {
      const double picked_up = upstream_share(slot, j) * conductance[at(j)] / capacity;
      coupling(i, j) += picked_up;
      right(i, j) = picked_up;
    }
    right(i, slots) = slot.inlet_offset / unit::K + chassis.fixed_heat / unit::W / capacity;
  }
  const Matrix solved = solve(coupling, right);
  Air air{.warmed = std::vector<double>(at(slots)), .mixing = Matrix(slots, slots)};
  for (int64_t i = 0; i < slots; ++i) {
    air.warmed[at(i)] = solved(i, slots);
    for (int64_t j = 0; j < slots; ++j)
      air.mixing(i, j) = solved(i, j);
  }
  return air;
}

}  // namespace

struct ChassisModel::Impl {
  int64_t slots = 0, nodes = 0;  // nodes per slot
  spec::ThermalLadder ladder;
  std::vector<double> board;        // factor of all resistances, per slot
  std::vector<double> conductance;  // of each sink, W/K
  Air air;
  Matrix rates;              // A of dT/dt = A T + ..., per second
  Matrix gain;               // steady rise of every node per watt of every slot
  std::vector<double> warm;  // steady rise of every node over the inlet without power
  mutable std::mutex lock;   // of `kept`
  mutable std::map<double, Propagator> kept;

  int64_t size() const { return slots * nodes; }
  int64_t last_of(int64_t slot) const { return slot * nodes + nodes - 1; }
  double capacity(int64_t node) const {
    return ladder.capacities[at(node % nodes)].in_base_units();
  }

  void join(int64_t one, int64_t other, double conductance_w_per_k);
  void add_ladders();
  void add_lids(int dies_per_package);
  void add_sinks();
  void solve_steady();
  void fill_steady(const Watts* power, double inlet, double* out) const;
  double coolant(const State&, int64_t slot, double inlet) const;
};

/// One resistor: what leaves one node enters the other, each divided by its heat capacity.
void ChassisModel::Impl::join(int64_t one, int64_t other, double conductance_w_per_k) {
  rates(one, one) -= conductance_w_per_k / capacity(one);
  rates(one, other) += conductance_w_per_k / capacity(one);
  rates(other, other) -= conductance_w_per_k / capacity(other);
  rates(other, one) += conductance_w_per_k / capacity(other);
}

void ChassisModel::Impl::add_ladders() {
  for (int64_t slot = 0; slot < slots; ++slot)
    for (int64_t node = 0; node + 1 < nodes; ++node)
      join(slot * nodes + node, slot * nodes + node + 1,
           1 / (board[at(slot)] * ladder.resistances[at(node)].in_base_units()));
}

void ChassisModel::Impl::add_lids(int dies_per_package) {
  if (!ladder.lateral_resistance) return;
  const int64_t lid = std::min<int64_t>(1, nodes - 1);
  for (int64_t slot = 0; slot + 1 < slots; ++slot)
    // Neighbours of one package only.
    if ((slot + 1) % dies_per_package != 0)
      join(slot * nodes + lid, (slot + 1) * nodes + lid,
           1 / ladder.lateral_resistance->in_base_units());
}

void ChassisModel::Impl::add_sinks() {
  for (int64_t slot = 0; slot < slots; ++slot) {
    const int64_t sink = last_of(slot);
    const double rate = conductance[at(slot)] / capacity(sink);
    // q = G (T_last - T_air), and T_air is a mix of all sinks: couplings between slots enter here
    // alone.
    rates(sink, sink) -= rate;
    for (int64_t other = 0; other < slots; ++other)
      rates(sink, last_of(other)) += rate * air.mixing(slot, other);
  }
}

void ChassisModel::Impl::solve_steady() {
  Matrix forcing(size(),
                 slots + 1);  // minus what drives the network: one watt per slot, and the warm air
  for (int64_t slot = 0; slot < slots; ++slot) {
    forcing(slot * nodes, slot) = -1 / capacity(0);
    forcing(last_of(slot), slots) =
        -conductance[at(slot)] * air.warmed[at(slot)] / capacity(last_of(slot));
  }
  const Matrix answer = solve(rates, forcing);
  gain = Matrix(size(), slots);
  std::copy_n(answer.column(0), size() * slots, gain.column(0));
  warm.assign(answer.column(slots), answer.column(slots) + size());
}

void ChassisModel::Impl::fill_steady(const Watts* power, double inlet, double* out) const {
  for (int64_t i = 0; i < size(); ++i)
    out[i] = inlet + warm[at(i)];
  for (int64_t slot = 0; slot < slots; ++slot) {
    const double watts = power[slot] / unit::W;
    const double* rise = gain.column(slot);
    for (int64_t i = 0; i < size(); ++i)
      out[i] += rise[i] * watts;
  }
}

double ChassisModel::Impl::coolant(const State& state, int64_t slot, double inlet) const {
  double degrees = inlet + air.warmed[at(slot)];
  for (int64_t other = 0; other < slots; ++other)
    degrees += air.mixing(slot, other) * (state[at(last_of(other))] - inlet);
  return degrees;
}

StreamLimits::StreamLimits(const spec::Chassis& chassis, const spec::ThermalLadder& ladder)
    : floor_(chassis.fan_floor) {
  if (floor_ <= 0) return;
  const double capacity = coolant_capacity_rate(chassis, floor_);
  const double sink =
      ladder.resistances.back().in_base_units() / std::pow(floor_, chassis.sink_flow_exponent);
  for (size_t slot = 0; slot < chassis.slots.size(); ++slot) {
    const double least = stream_share(chassis, static_cast<int64_t>(slot)) / capacity;
    at_floor_.push_back(
        {least, std::max(1.0, least / (sink * chassis.slots[slot].resistance_factor))});
  }
}

double StreamLimits::least_resistance(size_t slot, double flow_share) const {
  if (flow_share >= floor_) return 0;
  const auto& [least, effectiveness] = at_floor_[slot];
  const double flow = flow_share / floor_;
  return least / (flow * (1 + (effectiveness - 1) * flow));
}

ChassisModel::ChassisModel(const spec::Chassis& chassis, const spec::ThermalLadder& ladder,
                           int dies_per_package, double flow_share,
                           std::span<const double> board_resistance)
    : impl_(std::make_unique<Impl>()) {
  TPT_EXPECT(!ladder.capacities.empty() && ladder.capacities.size() == ladder.resistances.size());
  TPT_EXPECT(!chassis.slots.empty() && dies_per_package > 0);
  TPT_EXPECT(board_resistance.empty() || board_resistance.size() == chassis.slots.size());
  impl_->slots = static_cast<int64_t>(chassis.slots.size());
  impl_->nodes = static_cast<int64_t>(ladder.capacities.size());
  impl_->ladder = ladder;
  const double sink =
      ladder.resistances.back().in_base_units() / std::pow(flow_share, chassis.sink_flow_exponent);
  const double capacity = coolant_capacity_rate(chassis, flow_share);
  const StreamLimits limits(chassis, ladder);
  for (size_t slot = 0; slot < chassis.slots.size(); ++slot) {
    impl_->board.push_back(board_resistance.empty() ? 1 : board_resistance[slot]);
    impl_->conductance.push_back(
        1 / std::max(sink * chassis.slots[slot].resistance_factor * impl_->board.back(),
                     limits.least_resistance(slot, flow_share)));
  }
  impl_->air = solve_air(chassis, impl_->conductance, capacity);
  impl_->rates = Matrix(impl_->size(), impl_->size());
  impl_->add_ladders();
  impl_->add_lids(dies_per_package);
  impl_->add_sinks();
  impl_->solve_steady();
}

ChassisModel::~ChassisModel() = default;
ChassisModel::ChassisModel(ChassisModel&&) noexcept = default;
ChassisModel& ChassisModel::operator=(ChassisModel&&) noexcept = default;

int64_t ChassisModel::slots() const {
  return impl_->slots;
}
int64_t ChassisModel::nodes_per_slot() const {
  return impl_->nodes;
}

ChassisModel::State ChassisModel::uniform(Celsius everywhere) const {
  return State(at(impl_->size()), everywhere.degrees());
}

ChassisModel::State ChassisModel::steady(std::span<const Watts> power, Celsius inlet) const {
  TPT_EXPECT(static_cast<int64_t>(power.size()) == impl_->slots);
  State state(at(impl_->size()));
  impl_->fill_steady(power.data(), inlet.degrees(), state.data());
  return state;
}

Propagator ChassisModel::prepare(Seconds duration) const {
  Propagator propagator;
  propagator.duration_ = duration;
  propagator.decay_ = exponential(impl_->rates, duration / unit::s);
  return propagator;
}

void Propagator::add_decayed(std::span<const double> distance, std::span<double> out) const {
  TPT_EXPECT(static_cast<int64_t>(distance.size()) == decay_.rows());
  TPT_EXPECT(distance.size() == out.size());
  multiply_add(decay_, distance.data(), out.data());
}

void ChassisModel::advance(State& state, std::span<const Watts> power, Celsius inlet,
                           const Propagator& propagator) const {
  advance_many(propagator, state, power, {&inlet, 1});
}

void ChassisModel::advance(State& state, std::span<const Watts> power, Celsius inlet,
                           Seconds duration) const {
  const double key = duration / unit::s;
  const Propagator* propagator = nullptr;
  {
    // Const to the caller, so several threads may ask: the table of propagators is the only shared
    // state.
    const std::lock_guard<std::mutex> guard(impl_->lock);
    // Nodes of a map stay where they are.
    propagator = &get_or_make(impl_->kept, key, [&] { return prepare(duration); });
  }
  advance(state, power, inlet, *propagator);
}

void ChassisModel::advance_many(const Propagator& propagator, std::span<double> states,
                                std::span<const Watts> power,
                                std::span<const Celsius> inlet) const {
  const auto size = at(impl_->size()), slots = at(impl_->slots);
  TPT_EXPECT(states.size() == inlet.size() * size && power.size() == inlet.size() * slots);
  TPT_EXPECT(propagator.decay_.rows() == impl_->size());
  std::vector<double> distance(size);
  for (size_t chassis = 0; chassis < inlet.size(); ++chassis) {
    // The steady state is written in place and the decayed distance added to it.
    double* state = states.data() + chassis * size;
    distance.assign(state, state + size);
    impl_->fill_steady(power.data() + chassis * slots, inlet[chassis].degrees(), state);
    for (size_t i = 0; i < size; ++i)
      distance[i] -= state[i];
    multiply_add(propagator.decay_, distance.data(), state);
  }
}

Celsius ChassisModel::die(const State& state, int64_t slot) const {
  return Celsius(state[at(slot * impl_->nodes)]);
}

Celsius ChassisModel::memory(const State& state, int64_t slot, Watts memory_power) const {
  const int64_t lid = std::min<int64_t>(1, impl_->nodes - 1);
  return Celsius(state[at(slot * impl_->nodes + lid)]) +
         impl_->ladder.memory_resistance * memory_power;
}

Celsius ChassisModel::coolant(const State& state, int64_t slot, Celsius inlet) const {
  return Celsius(impl_->coolant(state, slot, inlet.degrees()));
}

Joules ChassisModel::stored(const State& state, Celsius reference) const {
  double joules = 0;
  for (int64_t i = 0; i < impl_->size(); ++i)
    joules += impl_->capacity(i) * (state[at(i)] - reference.degrees());
  return joules * unit::J;
}

Watts ChassisModel::carried_off(const State& state, Celsius inlet) const {
  double watts = 0;
  for (int64_t slot = 0; slot < impl_->slots; ++slot)
    watts += impl_->conductance[at(slot)] *
             (state[at(impl_->last_of(slot))] - impl_->coolant(state, slot, inlet.degrees()));
  return watts * unit::W;
}

Kelvins ChassisModel::periodic_peak_rise(int64_t slot,
                                         std::span<const PowerStretch> pattern) const {
  spec::ThermalLadder own = impl_->ladder;
  for (KelvinsPerWatt& resistance : own.resistances)
    resistance *= impl_->board[at(slot)];
  // Air is taken as constant within a step, so neighbours do not enter.
  own.resistances.back() = KelvinsPerWatt(1 / impl_->conductance[at(slot)]);
  return thermal::periodic_peak_rise(modes_of(own), pattern);
}

// A proportional law on temperature rises: flow goes with what the hottest device has over the
// inlet, relative to what it may have. Fans move at their slew rate, within floor and full flow.

double next_flow_share(const spec::Chassis& chassis, double present, Celsius hottest,
                       Seconds duration) {
  // No flow brings a device to a target below the inlet.
  if (chassis.fan_target <= chassis.inlet)
    return std::min(1.0, present + chassis.fan_slew_per_s * (duration / unit::s));
  const double over = (hottest - chassis.inlet) / (chassis.fan_target - chassis.inlet);
  // A device's rise falls with flow^-exponent at most, so this asks for too little rather than too
  // much and closes in on the target without swinging. Where flow does not matter, nothing is asked
  // for.
  const double wanted = over > 0 ? present * over : 0;
  const double reach = chassis.fan_slew_per_s * (duration / unit::s);
  const double moved = std::clamp(wanted, present - reach, present + reach);
  return std::clamp(moved, std::min(chassis.fan_floor, 1.0), 1.0);
}

}  // namespace triplepoint::thermal
