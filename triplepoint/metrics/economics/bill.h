// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::metrics {

/// GPUs that get slow and do not fail, and what is done about it. Nothing is assumed of them: rates
/// are the operator's.
struct SlowGpus {
  Seconds every;                    // of one GPU: mean time until it gets slow; zero: none do
  double factor = 1;                // steps of a job with a slow GPU over those without
  Seconds screen;                   // a test that finds them; the job is paused
  std::optional<Seconds> interval;  // between tests; absent: the best
  double at_start = 0;              // share of GPUs that are slow before the job begins
  friend bool operator==(const SlowGpus&, const SlowGpus&) = default;
};

/// What slow GPUs cost a job, with tests every `interval`:
///
///   M     = every / devices                        the job gets a slow one
///   q     = 1 - e^(-T / M)                         a test finds one
///   loss  = 1 - (T - (1 - 1 / factor) (T - M q)) / (T + screen + q restart)
///   T     = sqrt(2 screen M / (1 - 1 / factor))    the best interval, unless given
///   found = devices at_start + total / (T + screen + q restart) q
///   spares = found + 1.645 sqrt(found)             enough in 95 of 100 jobs, if none is mended
///
/// T - M q is the mean time between the slowdown and the test that finds it, in any interval. GPUs
/// that are slow at the start are found by a test before the first step; without it the job would
/// be slow with `chance_at_start` = 1 - (1 - at_start)^devices.
/// Holds for GPUs that get slow at random and one by one: not for a bad delivery or a warm room. A
/// job with two slow GPUs is as slow as with one; a test finds all.
/// Source: J. Young, CACM 17 (1974), whose checkpoints are tests here.
struct Screening {
  Seconds job_interval, interval;  // M, T
  double loss = 0, chance_at_start = 0, found = 0;
  int64_t spares = 0;
};

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
  SlowGpus slow;                  // none unless given
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
  std::optional<Screening> screening;
  Joules energy;  // of the scope
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
/// (device_mtbf zero) total = productive. With slow GPUs, the steps take 1 / (1 - loss) as long in
/// each of these formulas (Screening).
/// Holds for failures that come at random and at a constant rate; a restart may fail as well.
/// Source: Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
/// FGCS 22 (2006), equations 20 and 37; Young, CACM 17 (1974), is its first term.
Bill bill_of(const BillInput&, const BillRates&);

/// Young's and Daly's interval for a checkpoint that takes so long.
Seconds best_checkpoint_interval(Seconds write, Seconds job_mtbf);

/// "1.23 M USD", "61,234 USD".
std::string money_text(double money, const std::string& currency);

/// "412.0 days", "16.2 h", "55 min".
std::string duration_text(Seconds);

/// "412 days, 8,630 MWh, 3.1 M USD, 3,200 t CO2", and what failures take.
std::string bill_text(const Bill&, const BillRates&);
Json bill_json(const Bill&, const BillRates&);

}  // namespace triplepoint::metrics
