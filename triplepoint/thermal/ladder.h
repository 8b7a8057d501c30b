// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/spec/gpu.h"

namespace triplepoint::thermal {

/// One exponential of a step response.
struct Mode {
  KelvinsPerWatt resistance;
  Seconds time_constant;
};

/// The step response of a ladder's die over its coolant, as a sum of exponentials (Foster's form).
///
///   T_die(t) - T_coolant = P sum_k R_k (1 - exp(-t / tau_k)),   sum_k R_k = sum of resistances
///
/// Slowest first.
/// Holds at constant coolant temperature, so not across minutes in which neighbours warm up.
/// Source: eigenvalues of C^-1/2 G C^-1/2, which is symmetric (V. Szekely, structure functions).
std::vector<Mode> modes_of(const spec::ThermalLadder&);

/// Constant power over some time.
struct PowerStretch {
  Seconds duration;
  Watts power;
};

/// How far the die's hottest moment lies above its mean while a power pattern repeats for ever.
///
/// Exact at the ends of stretches; a maximum inside one (a fast mode rising while a slow one falls)
/// is missed by less than a stretch's own rise. Its mean power does not enter.
Kelvins periodic_peak_rise(std::span<const Mode>, std::span<const PowerStretch>);

}  // namespace triplepoint::thermal
