// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {

/// What things cost and how often they break; defaults stand in data/economics.toml with their
/// sources.
struct BillRates {
  double price_per_kwh = 0;       // money, electricity at the meter
  double price_per_gpu_hour = 0;  // money, machine and building without electricity
  std::string currency;           // "USD"
  double pue = 1;                 // power usage effectiveness: facility power over IT power
  double grams_co2_per_kwh = 0;   // of the grid
  Seconds device_mtbf;            // of one device: mean time between two job-ending failures
  Seconds checkpoint_write;       // time to write a checkpoint; the job is paused
  Seconds restart;                // from a failure to the first step again
  Seconds checkpoint_interval;    // zero: the best one
  friend bool operator==(const BillRates&, const BillRates&) = default;
};
Result<BillRates> load_bill_rates(const spec::Library&);

/// A training run to be paid for.
struct BillInput {
  double tokens = 0, tokens_per_step = 0;
  Seconds step_time;
  double devices = 0;
  Watts power;  // of all that the scope counts; of a site before its PUE
  EnergyScope scope = EnergyScope::site;
};

struct Bill {
  double steps = 0;    // a whole number
  Seconds productive;  // steps alone
  Seconds total;       // with checkpoints, lost work and restarts
  double goodput = 1;  // productive / total
  Seconds job_mtbf, checkpoint_interval;
  double failures = 0;  // expected
  Joules energy;        // of the scope
  EnergyScope scope = EnergyScope::site;
  double electricity = 0, machines = 0;  // money
  double tonnes_co2 = 0;
  double money() const { return electricity + machines; }
};

/// Days, energy, cost and CO2 of training a number of tokens.
///
///   productive = ceil(tokens / tokens_per_step) * step              steps are whole
///   M     = device_mtbf / devices                                  failures hit any device
///   tau   = sqrt(2 d M) (1 + sqrt(d / (2 M)) / 3 + d / (18 M)) - d     for d < 2 M, else M
///   total = productive / tau * M e^(R / M) (e^((tau + d) / M) - 1)
///   energy = total * power * pue of a site;  CO2 = energy * grid;  money = kWh + GPU-hours
///
/// d: checkpoint_write; R: restart; tau: work between two checkpoints. Without failures
/// (device_mtbf zero) total = productive.
/// Holds for failures that come at random and at a constant rate; a restart may fail as well.
/// Source: Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
/// FGCS 22 (2006), equations 20 and 37; Young, CACM 17 (1974), is its first term.
Bill bill_of(const BillInput&, const BillRates&);

/// Young's and Daly's interval for a checkpoint that takes so long.
Seconds best_checkpoint_interval(Seconds write, Seconds job_mtbf);

/// "1.23 M USD", "61,234 USD".
std::string money_text(double money, const std::string& currency);

/// "412 days, 8,630 MWh, 3.1 M USD, 3,200 t CO2", and what failures take.
std::string bill_text(const Bill&, const BillRates&);
Json bill_json(const Bill&, const BillRates&);

}  // namespace triplepoint::metrics
