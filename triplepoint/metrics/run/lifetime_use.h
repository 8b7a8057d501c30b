// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"

#include "triplepoint/spec/gpu.h"

namespace triplepoint::metrics {

/// What a die is put through.
struct DieStress {
  Celsius die;
  double power_share = 0;    // of the limit it is compared with
  double voltage_ratio = 1;  // over the voltage at the highest clock
};

/// How fast a GPU wears, over one at the reference: failure rates, so that they add.
///
///   use = (electromigration + oxide) / 2
///
///   electromigration  (J / J0)^n exp(Ea/k (1/T0 - 1/T)),           J / J0 = (P / P0) / (V / V0)
///   oxide             V^(a - b T) exp(-(X - Y/T - Z T) / kT), over the same at T0, V0
///
/// P0: reference_power_share of the limit; V0: the voltage at the highest clock. The mean says that
/// at the reference both mechanisms fail equally often, as RAMP assumes at qualification: the true
/// shares are not published, so only ratios of wear are meaningful, not years. Holds while the
/// constants do: they are those of older processes (data/calibrations/all/lifetime.toml).
/// Sources: Black 1969; Srinivasan et al., ISCA 2004 (RAMP); JEDEC JEP122.
double lifetime_use(const spec::LifetimeCoefficients&, const DieStress&);

}  // namespace triplepoint::metrics
