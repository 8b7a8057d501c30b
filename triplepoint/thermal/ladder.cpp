// SPDX-License-Identifier: Apache-2.0
// Temperature swings within a training step, by the modes of a slot's ladder.
//
// C dT/dt = -G T is symmetric after scaling by C^-1/2, so its modes are real and orthogonal, and
// the die's step response is a sum of exponentials (Foster). For a power pattern that repeats, each
// mode has a closed form, so the periodic state needs no simulation until transients have died
// away.
#include "triplepoint/thermal/ladder.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/result.h"

#include "triplepoint/thermal/dense.h"

namespace triplepoint::thermal {
namespace {

/// C^-1/2 G C^-1/2 of the ladder with its far end held: symmetric, with the same rates as C^-1 G.
Matrix symmetric_rates(const spec::ThermalLadder& ladder) {
  const auto size = static_cast<int64_t>(ladder.capacities.size());
  Matrix rates(size, size);
  for (int64_t i = 0; i < size; ++i) {
    const double c = ladder.capacities[as_size(i)].in_base_units();
    const double g = 1 / ladder.resistances[as_size(i)].in_base_units();
    rates(i, i) += g / c;
    if (i + 1 == size) break;
    const double next = ladder.capacities[as_size(i + 1)].in_base_units();
    rates(i + 1, i + 1) += g / next;
    rates(i, i + 1) = rates(i + 1, i) = -g / std::sqrt(c * next);
  }
  return rates;
}

/// What one repetition leaves in a mode that was empty, over what it keeps of what was there.
double repeating_start(const Mode& mode, std::span<const PowerStretch> pattern, Watts mean) {
  double level = 0, kept = 1;
  for (const PowerStretch& stretch : pattern) {
    const double decay = std::exp(-(stretch.duration / mode.time_constant));
    const double target = (mode.resistance * (stretch.power - mean)) / unit::K;
    level = target + (level - target) * decay;
    kept *= decay;
  }
  // The periodic state reproduces itself: x = kept x + level.
  return level / (1 - kept);
}

}  // namespace

std::vector<Mode> modes_of(const spec::ThermalLadder& ladder) {
  TPT_EXPECT(!ladder.capacities.empty() && ladder.capacities.size() == ladder.resistances.size());
  const SymmetricModes modes = symmetric_modes(symmetric_rates(ladder));
  std::vector<Mode> result;
  for (int64_t k = 0; k < modes.vectors.columns(); ++k) {
    const double rate = modes.values[as_size(k)];
    // How strongly heat at the die drives the mode, times how strongly the mode shows at the die.
    const double share = modes.vectors(0, k) * modes.vectors(0, k);
    result.push_back({.resistance = share / (rate / unit::s * ladder.capacities[0]),
                      .time_constant = 1 / (rate / unit::s)});
  }
  std::ranges::sort(result, std::greater(), &Mode::time_constant);
  return result;
}

Kelvins periodic_peak_rise(std::span<const Mode> modes, std::span<const PowerStretch> pattern) {
  Seconds period;
  Joules energy;
  for (const PowerStretch& stretch : pattern) {
    period += stretch.duration;
    energy += stretch.power * stretch.duration;
  }
  if (period <= Seconds()) return Kelvins();
  const Watts mean = energy / period;
  std::vector<double> rise =
      mapped(modes, [&](const Mode& mode) { return repeating_start(mode, pattern, mean); });
  double peak = 0;
  for (const PowerStretch& stretch : pattern) {
    double die = 0;
    for (size_t k = 0; k < modes.size(); ++k) {
      const double target = (modes[k].resistance * (stretch.power - mean)) / unit::K;
      rise[k] =
          target + (rise[k] - target) * std::exp(-(stretch.duration / modes[k].time_constant));
      die += rise[k];
    }
    peak = std::max(peak, die);
  }
  return peak * unit::K;
}

}  // namespace triplepoint::thermal
