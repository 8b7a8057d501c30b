// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/phase_windows.h"

// What a sensor's window holds depends on the length of kernels and layers: of short layers their
// mean, of long ones a product alone. So a phase is a row of loads in the order of its ops, and the
// window slides over it.

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

namespace triplepoint::sim {
namespace {

/// Leakage adds the same to every load of a device, so a typical die at the reference temperature
/// gives the right order of loads.
Joules typical_energy(const spec::PowerCoefficients& power, const spec::GpuLoad& load,
                      const power::ClockPoint& clock, double dynamic) {
  return power::energy_of(power, load, clock, power.reference_temperature,
                          {.dynamic_energy = dynamic, .leakage = 1})
      .total();
}

spec::GpuLoad kernel_load(const OpEstimate& estimate, double clock_ratio) {
  spec::GpuLoad load;
  add_work(load, estimate);
  add_time(load, estimate, estimate.at(clock_ratio));
  load.duration = estimate.at(clock_ratio);
  return load;
}

/// One repetition of a group: kernels and exposed collectives in order, then what the host or the
/// hidden collectives last longer. Hidden collectives run evenly over all of it.
void append_repetition(Row& row, const GroupEstimate& group, const GroupPoint& point,
                       double clock_ratio, double host_factor) {
  const size_t first = row.size();
  const Seconds length = group.length(point, host_factor);
  spec::GpuLoad hidden, rest;
  rest.duration = length;
  for (const OpEstimate& estimate : group.ops) {
    if (estimate.hidden) {
      add_work(hidden, estimate);
      add_time(hidden, estimate, point.hidden_stretch * estimate.at(clock_ratio));
      continue;
    }
    Seconds time = estimate.at(clock_ratio);
    if (estimate.op->is_matrix_work()) time *= point.compute_stretch;
    if (time <= Seconds()) continue;
    spec::GpuLoad load;
    add_work(load, estimate);
    add_time(load, estimate, time);
    load.duration = time;
    rest.duration -= time;
    row.push_back(load);
  }
  if (rest.duration > Seconds()) row.push_back(rest);
  for (size_t i = first; i < row.size(); ++i) {
    const Seconds time = row[i].duration;
    row[i] += time / length * hidden;
    row[i].communicating = std::min(time, row[i].communicating);
    row[i].communicating_scale_out = std::min(row[i].communicating, row[i].communicating_scale_out);
  }
}

/// Energy of a row from its begin up to times that never fall.
class EnergyUntil {
 public:
  EnergyUntil(const Row& row, std::span<const Joules> energies) : row_(row), energies_(energies) {}

  Joules at(Seconds time) {
    for (; next_ < row_.size() && begin_ + row_[next_].duration <= time; ++next_) {
      begin_ += row_[next_].duration;
      before_ += energies_[next_];
    }
    if (next_ == row_.size()) return before_;
    return before_ + (time - begin_) / row_[next_].duration * energies_[next_];
  }

 private:
  const Row& row_;
  std::span<const Joules> energies_;
  size_t next_ = 0;  // the load that holds the last time
  Seconds begin_;    // of that load
  Joules before_;
};

/// Where a window of this length over a row holds the most energy: it begins where a load begins,
/// or ends where one ends.
Seconds hungriest_begin(const Row& row, std::span<const Joules> energies, Seconds window) {
  const Seconds length = length_of(row);
  // Both kinds of windows move forwards only.
  struct Ends {
    EnergyUntil begin, end;
  };
  std::array<Ends, 2> ends = {Ends{{row, energies}, {row, energies}},
                              Ends{{row, energies}, {row, energies}}};
  Seconds best, edge;
  Joules most = EnergyUntil(row, energies).at(window);
  for (size_t i = 0; i <= row.size(); ++i) {
    for (size_t kind = 0; kind < ends.size(); ++kind) {
      const Seconds begin = kind == 0 ? edge : edge - window;
      if (begin < Seconds() || begin + window > length) continue;
      const Joules energy = ends[kind].end.at(begin + window) - ends[kind].begin.at(begin);
      if (energy > most) most = energy, best = begin;
    }
    if (i < row.size()) edge += row[i].duration;
  }
  return best;
}

}  // namespace

BoardRange range_of(const HardwareVariation& hardware) {
  BoardRange range{hardware.boards.front().dynamic_energy, hardware.boards.front().dynamic_energy};
  for (const power::BoardFactors& board : hardware.boards) {
    range.least = std::min(range.least, board.dynamic_energy);
    range.most = std::max(range.most, board.dynamic_energy);
  }
  return range;
}

Seconds length_of(const Row& row) {
  Seconds length;
  for (const spec::GpuLoad& load : row)
    length += load.duration;
  return length;
}

spec::GpuLoad part_of(const Row& row, Seconds from, Seconds length) {
  spec::GpuLoad part;
  Seconds begin;
  for (const spec::GpuLoad& load : row) {
    const Seconds end = begin + load.duration;
    const Seconds inside = std::min(end, from + length) - std::max(begin, from);
    if (inside > Seconds()) part += inside / load.duration * load;
    begin = end;
  }
  return part;
}

Row row_of(PhaseTable& table, int64_t clock_index, double host_factor, Seconds window) {
  Row row;
  const std::vector<GroupPoint>& points = table.groups_at(clock_index);
  const std::vector<GroupEstimate>& groups = table.groups();
  for (size_t g = 0; g < points.size(); ++g) {
    const auto beside = [&](size_t i) { return groups[i].name == groups[g].name; };
    size_t first = 0;
    while (!beside(first))
      ++first;
    if (first < g) continue;
    Seconds length;
    int64_t repeat = 0;
    for (size_t i = g; i < points.size(); ++i)
      if (beside(i)) {
        length += groups[i].length(points[i], host_factor);
        repeat = std::max(repeat, groups[i].repeat);
      }
    if (length <= Seconds()) continue;
    const auto told = static_cast<int64_t>(std::min(1e6, std::ceil(window / length))) + 1;
    for (int64_t k = 0; k < std::min(repeat, told); ++k)
      for (size_t i = g; i < points.size(); ++i)
        if (beside(i) && k < groups[i].repeat)
          append_repetition(row, groups[i], points[i], table.ratio(clock_index), host_factor);
  }
  return row;
}

std::vector<RepeatedRow> repeated_rows(PhaseTable& table, int64_t clock_index, double host_factor) {
  std::vector<RepeatedRow> rows;
  const std::vector<GroupPoint>& points = table.groups_at(clock_index);
  for (size_t g = 0; g < points.size(); ++g) {
    const GroupEstimate& group = table.groups()[g];
    if (group.length(points[g], host_factor) <= Seconds()) continue;
    RepeatedRow repeated{.row = {}, .repeat = static_cast<double>(group.repeat)};
    append_repetition(repeated.row, group, points[g], table.ratio(clock_index), host_factor);
    rows.push_back(std::move(repeated));
  }
  return rows;
}

std::vector<spec::GpuLoad> hungriest_windows(const spec::PowerCoefficients& power, const Row& row,
                                             const BoardRange& range, double clock_ratio,
                                             Seconds window) {
  const power::ClockPoint clock = power::clock_point(power, clock_ratio);
  std::vector<spec::GpuLoad> windows;
  for (const double dynamic : {range.least, range.most}) {
    std::vector<Joules> energies;
    for (const spec::GpuLoad& load : row)
      energies.push_back(typical_energy(power, load, clock, dynamic));
    windows.push_back(part_of(row, hungriest_begin(row, energies, window), window));
  }
  return windows;
}

std::vector<spec::GpuLoad> hungriest_kernels(const spec::PowerCoefficients& power,
                                             PhaseTable& table, const BoardRange& range,
                                             int64_t clock_index) {
  // Each kernel alone, and with the collectives that hide behind its group.
  std::vector<spec::GpuLoad> all;
  const double clock_ratio = table.ratio(clock_index);
  const std::vector<GroupPoint>& points = table.groups_at(clock_index);
  for (size_t g = 0; g < points.size(); ++g) {
    append_repetition(all, table.groups()[g], points[g], clock_ratio, 0);
    for (const OpEstimate& estimate : table.groups()[g].ops)
      if (estimate.at(clock_ratio) > Seconds()) all.push_back(kernel_load(estimate, clock_ratio));
  }
  const power::ClockPoint clock = power::clock_point(power, clock_ratio);
  const auto power_on = [&](const spec::GpuLoad& load, double dynamic) {
    return typical_energy(power, load, clock, dynamic) / load.duration;
  };
  std::vector<spec::GpuLoad> kept;
  for (const spec::GpuLoad& load : all) {
    // Strictly below, with a margin: of equal loads all stay, and none is dropped by another that
    // is dropped by it.
    constexpr double margin = 1 - 1e-9;
    const bool beaten = std::ranges::any_of(all, [&](const spec::GpuLoad& other) {
      return power_on(load, range.least) < margin * power_on(other, range.least) &&
             power_on(load, range.most) < margin * power_on(other, range.most);
    });
    if (!beaten) kept.push_back(load);
  }
  return kept;
}

}  // namespace triplepoint::sim
