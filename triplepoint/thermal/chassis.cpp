// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/thermal/chassis.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "triplepoint/base/expect.h"

namespace triplepoint::thermal {
namespace {

size_t at(int64_t index) {
  return static_cast<size_t>(index);
}

/// W/K that the coolant takes up at this flow.
double coolant_capacity_rate(const spec::Chassis& chassis, double flow_share) {
  const double full = chassis.cooling == spec::Cooling::air
                          ? air_heat_capacity_j_per_m3_k * chassis.volume_flow_m3_s
                          : chassis.coolant_heat_capacity_w_per_k;
  TPT_EXPECT(full > 0 && flow_share > 0);
  return full * flow_share;
}

double upstream_share(const spec::Seat& seat, int64_t other) {
  return at(other) < seat.upstream_heating.size() ? seat.upstream_heating[at(other)] : 0;
}

/// How the air at each seat depends on the sinks: T_air = inlet + warmed + mixing T_last with
/// (1 + B G) T_air = inlet + offset + B G T_last;  B = upstream_heating / W, G = sink conductances.
struct Air {
  std::vector<double> warmed;  // K over the inlet while every sink is at the inlet's temperature
  Matrix mixing;               // row seat: share of each sink's temperature
};

Air solve_air(const spec::Chassis& chassis, const std::vector<double>& conductance,
              double capacity) {
  const auto seats = static_cast<int64_t>(chassis.seats.size());
  Matrix coupling = identity(seats), right(seats, seats + 1);
  for (int64_t i = 0; i < seats; ++i) {
    const spec::Seat& seat = chassis.seats[at(i)];
    for (int64_t j = 0; j < seats; ++j) {
      const double picked_up = upstream_share(seat, j) * conductance[at(j)] / capacity;
      coupling(i, j) += picked_up;
      right(i, j) = picked_up;
    }
    right(i, seats) = seat.inlet_offset / unit::K + chassis.fixed_heat / unit::W / capacity;
  }
  const Matrix solved = solve(coupling, right);
  Air air{.warmed = std::vector<double>(at(seats)), .mixing = Matrix(seats, seats)};
  for (int64_t i = 0; i < seats; ++i) {
    air.warmed[at(i)] = solved(i, seats);
    for (int64_t j = 0; j < seats; ++j)
      air.mixing(i, j) = solved(i, j);
  }
  return air;
}

}  // namespace

struct ChassisModel::Impl {
  int64_t seats = 0, nodes = 0;  // nodes per seat
  spec::ThermalLadder ladder;
  std::vector<double> board;        // factor of all resistances, per seat
  std::vector<double> conductance;  // of each sink, W/K
  Air air;
  Matrix rates;              // A of dT/dt = A T + ..., per second
  Matrix gain;               // steady rise of every node per watt of every seat
  std::vector<double> warm;  // steady rise of every node over the inlet without power
  mutable std::mutex lock;   // of `kept`
  mutable std::map<double, Propagator> kept;

  int64_t size() const { return seats * nodes; }
  int64_t last_of(int64_t seat) const { return seat * nodes + nodes - 1; }
  double capacity(int64_t node) const {
    return ladder.capacities[at(node % nodes)].in_base_units();
  }

  void join(int64_t one, int64_t other, double conductance_w_per_k);
  void add_ladders();
  void add_lids(int dies_per_package);
  void add_sinks();
  void solve_steady();
  void fill_steady(const Watts* power, double inlet, double* out) const;
  double coolant(const State&, int64_t seat, double inlet) const;
};

void ChassisModel::Impl::join(int64_t one, int64_t other, double conductance_w_per_k) {
  rates(one, one) -= conductance_w_per_k / capacity(one);
  rates(one, other) += conductance_w_per_k / capacity(one);
  rates(other, other) -= conductance_w_per_k / capacity(other);
  rates(other, one) += conductance_w_per_k / capacity(other);
}

void ChassisModel::Impl::add_ladders() {
  for (int64_t seat = 0; seat < seats; ++seat)
    for (int64_t node = 0; node + 1 < nodes; ++node)
      join(seat * nodes + node, seat * nodes + node + 1,
           1 / (board[at(seat)] * ladder.resistances[at(node)].in_base_units()));
}

void ChassisModel::Impl::add_lids(int dies_per_package) {
  if (!ladder.lateral_resistance) return;
  const int64_t lid = std::min<int64_t>(1, nodes - 1);
  for (int64_t seat = 0; seat + 1 < seats; ++seat)
    if ((seat + 1) % dies_per_package != 0)
      join(seat * nodes + lid, (seat + 1) * nodes + lid,
           1 / ladder.lateral_resistance->in_base_units());
}

void ChassisModel::Impl::add_sinks() {
  for (int64_t seat = 0; seat < seats; ++seat) {
    const int64_t sink = last_of(seat);
    const double rate = conductance[at(seat)] / capacity(sink);
    rates(sink, sink) -= rate;
    for (int64_t other = 0; other < seats; ++other)
      rates(sink, last_of(other)) += rate * air.mixing(seat, other);
  }
}

void ChassisModel::Impl::solve_steady() {
  Matrix forcing(size(),
                 seats + 1);  // minus what drives the network: one watt per seat, and the warm air
  for (int64_t seat = 0; seat < seats; ++seat) {
    forcing(seat * nodes, seat) = -1 / capacity(0);
    forcing(last_of(seat), seats) =
        -conductance[at(seat)] * air.warmed[at(seat)] / capacity(last_of(seat));
  }
  const Matrix answer = solve(rates, forcing);
  gain = Matrix(size(), seats);
  std::copy_n(answer.column(0), size() * seats, gain.column(0));
  warm.assign(answer.column(seats), answer.column(seats) + size());
}

void ChassisModel::Impl::fill_steady(const Watts* power, double inlet, double* out) const {
  for (int64_t i = 0; i < size(); ++i)
    out[i] = inlet + warm[at(i)];
  for (int64_t seat = 0; seat < seats; ++seat) {
    const double watts = power[seat] / unit::W;
    const double* rise = gain.column(seat);
    for (int64_t i = 0; i < size(); ++i)
      out[i] += rise[i] * watts;
  }
}

double ChassisModel::Impl::coolant(const State& state, int64_t seat, double inlet) const {
  double degrees = inlet + air.warmed[at(seat)];
  for (int64_t other = 0; other < seats; ++other)
    degrees += air.mixing(seat, other) * (state[at(last_of(other))] - inlet);
  return degrees;
}

ChassisModel::ChassisModel(const spec::Chassis& chassis, const spec::ThermalLadder& ladder,
                           int dies_per_package, double flow_share,
                           std::span<const double> board_resistance)
    : impl_(std::make_unique<Impl>()) {
  TPT_EXPECT(!ladder.capacities.empty() && ladder.capacities.size() == ladder.resistances.size());
  TPT_EXPECT(!chassis.seats.empty() && dies_per_package > 0);
  TPT_EXPECT(board_resistance.empty() || board_resistance.size() == chassis.seats.size());
  impl_->seats = static_cast<int64_t>(chassis.seats.size());
  impl_->nodes = static_cast<int64_t>(ladder.capacities.size());
  impl_->ladder = ladder;
  const double sink =
      ladder.resistances.back().in_base_units() / std::pow(flow_share, chassis.sink_flow_exponent);
  for (size_t seat = 0; seat < chassis.seats.size(); ++seat) {
    impl_->board.push_back(board_resistance.empty() ? 1 : board_resistance[seat]);
    impl_->conductance.push_back(
        1 / (sink * chassis.seats[seat].resistance_factor * impl_->board.back()));
  }
  impl_->air = solve_air(chassis, impl_->conductance, coolant_capacity_rate(chassis, flow_share));
  impl_->rates = Matrix(impl_->size(), impl_->size());
  impl_->add_ladders();
  impl_->add_lids(dies_per_package);
  impl_->add_sinks();
  impl_->solve_steady();
}

ChassisModel::~ChassisModel() = default;
ChassisModel::ChassisModel(ChassisModel&&) noexcept = default;
ChassisModel& ChassisModel::operator=(ChassisModel&&) noexcept = default;

int64_t ChassisModel::seats() const {
  return impl_->seats;
}
int64_t ChassisModel::nodes_per_seat() const {
  return impl_->nodes;
}

ChassisModel::State ChassisModel::uniform(Celsius everywhere) const {
  return State(at(impl_->size()), everywhere.degrees());
}

ChassisModel::State ChassisModel::steady(std::span<const Watts> power, Celsius inlet) const {
  TPT_EXPECT(static_cast<int64_t>(power.size()) == impl_->seats);
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
    const std::lock_guard<std::mutex> guard(impl_->lock);
    auto found = impl_->kept.find(key);
    if (found == impl_->kept.end()) found = impl_->kept.emplace(key, prepare(duration)).first;
    propagator = &found->second;  // nodes of a map stay where they are
  }
  advance(state, power, inlet, *propagator);
}

void ChassisModel::advance_many(const Propagator& propagator, std::span<double> states,
                                std::span<const Watts> power,
                                std::span<const Celsius> inlet) const {
  const auto size = at(impl_->size()), seats = at(impl_->seats);
  TPT_EXPECT(states.size() == inlet.size() * size && power.size() == inlet.size() * seats);
  TPT_EXPECT(propagator.decay_.rows() == impl_->size());
  std::vector<double> distance(size);
  for (size_t chassis = 0; chassis < inlet.size(); ++chassis) {
    double* state = states.data() + chassis * size;
    distance.assign(state, state + size);
    impl_->fill_steady(power.data() + chassis * seats, inlet[chassis].degrees(), state);
    for (size_t i = 0; i < size; ++i)
      distance[i] -= state[i];
    multiply_add(propagator.decay_, distance.data(), state);
  }
}

Celsius ChassisModel::die(const State& state, int64_t seat) const {
  return Celsius(state[at(seat * impl_->nodes)]);
}

Celsius ChassisModel::memory(const State& state, int64_t seat, Watts memory_power) const {
  const int64_t lid = std::min<int64_t>(1, impl_->nodes - 1);
  return Celsius(state[at(seat * impl_->nodes + lid)]) +
         impl_->ladder.memory_resistance * memory_power;
}

Celsius ChassisModel::coolant(const State& state, int64_t seat, Celsius inlet) const {
  return Celsius(impl_->coolant(state, seat, inlet.degrees()));
}

Joules ChassisModel::stored(const State& state, Celsius reference) const {
  double joules = 0;
  for (int64_t i = 0; i < impl_->size(); ++i)
    joules += impl_->capacity(i) * (state[at(i)] - reference.degrees());
  return joules * unit::J;
}

Watts ChassisModel::carried_off(const State& state, Celsius inlet) const {
  double watts = 0;
  for (int64_t seat = 0; seat < impl_->seats; ++seat)
    watts += impl_->conductance[at(seat)] *
             (state[at(impl_->last_of(seat))] - impl_->coolant(state, seat, inlet.degrees()));
  return watts * unit::W;
}

Kelvins ChassisModel::periodic_peak_rise(int64_t seat,
                                         std::span<const PowerStretch> pattern) const {
  spec::ThermalLadder own = impl_->ladder;
  for (KelvinsPerWatt& resistance : own.resistances)
    resistance *= impl_->board[at(seat)];
  own.resistances.back() = KelvinsPerWatt(1 / impl_->conductance[at(seat)]);
  return thermal::periodic_peak_rise(modes_of(own), pattern);
}

}  // namespace triplepoint::thermal
