// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {

/// Constants of the wear models and the reference; data/lifetime.toml has them with their sources.
struct LifetimeModel {
  Celsius reference_die;
  double reference_power_share = 1;  // of the power limit
  Kelvins reference_cycle;
  double reference_cycles_per_day = 1;
  double electromigration_exponent = 1, electromigration_energy_ev = 0;
  double oxide_exponent = 0, oxide_exponent_per_kelvin = 0;
  double oxide_energy_ev = 0, oxide_energy_ev_kelvin = 0, oxide_energy_ev_per_kelvin = 0;
  double cycling_exponent = 1;
  Kelvins cycling_elastic;
};
Result<LifetimeModel> load_lifetime_model(const spec::Library&);

/// What a die is put through.
struct DieStress {
  Celsius die;
  double power_share = 0;    // of the limit it is compared with
  double voltage_ratio = 1;  // over the voltage at the highest clock
};

/// How fast a GPU wears, over one at the reference: failure rates, so that they add.
///
///   electromigration  (J / J0)^n exp(Ea/k (1/T0 - 1/T)),           J / J0 = (P / P0) / (V / V0)
///   oxide             V^(a + b T) exp(-(X + Y/T + Z T) / kT), over the same at T0, V0
///   cycling           sum over cycles ((dT - e) / (dT0 - e))^q, over the reference cycles per day
///   total             the mean of those that are known
///
/// P0: reference_power_share of the limit; V0: the voltage at the highest clock; e: the elastic
/// range, smaller cycles count nothing. Cycles are counted by the rainflow rules of ASTM E1049 on
/// the die's temperature. The mean says that at the reference every mechanism fails equally often,
/// as RAMP assumes at qualification: the true shares are not published, so only ratios of wear are
/// meaningful, not years. Holds while the constants do: they are those of older processes
/// (data/lifetime.toml). Sources: Black 1969; Srinivasan et al., ISCA 2004 (RAMP); JEDEC JEP122.
struct LifetimeUse {
  double electromigration = 0, oxide = 0;
  std::optional<double> cycling;  // where the run shows minutes of temperature
  double total() const;
};
double electromigration_use(const LifetimeModel&, const DieStress&);
double oxide_use(const LifetimeModel&, const DieStress&);

/// Heights of the closed cycles and half cycles of a series of temperatures.
struct ThermalCycle {
  Kelvins height;
  double count = 1;  // 1/2 for what does not close
};
std::vector<ThermalCycle> rainflow(std::span<const double> degrees);
double cycling_use(const LifetimeModel&, std::span<const ThermalCycle>, Seconds duration);

/// Wear of each device of a run while it runs, and of the whole.
struct RunLifetimeUse {
  std::vector<std::optional<LifetimeUse>> devices;  // in the run's order; absent: not known
  double mean = 0, highest = 0, lowest = 0;         // of the totals
  int32_t worst_device = 0;
  // Hours at the reference that the run's GPUs lose for a million tokens: the price in hardware
  // beside the price in joules.
  std::optional<double> gpu_hours_per_million_tokens;
  std::string reference;  // what 1 means, in a sentence
};
/// Nothing where the run's GPU, power or temperature is not known. Clock and voltage come from the
/// job's GPU; without a job the voltage counts as that of the highest clock.
std::optional<RunLifetimeUse> lifetime_use_of(const run::Run&, const Metrics&,
                                              const LifetimeModel&);

Json lifetime_use_json(const RunLifetimeUse&);

}  // namespace triplepoint::metrics
