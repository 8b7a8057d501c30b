// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

namespace triplepoint::metrics {

struct TimeInterval {
  int64_t begin = 0, end = 0;  // ns
  friend bool operator==(const TimeInterval&, const TimeInterval&) = default;
};

/// When one rank did what: disjoint intervals in order of time.
struct Phase {
  std::string label;
  int32_t rank = 0;
  std::vector<TimeInterval> intervals;
  std::string kind = "";  // phases of one kind draw about the same power; empty: of none
  int64_t time() const;
};

/// How a rank's time is divided.
enum class PhasesBy {
  activity,    // compute, communication, compute + communication, copy, idle: fills the time
  label,       // what runs (see label_of), joined by " + " where several do; idle: fills the time
  collective,  // each label of a collective, on its own: overlaps with the rest
  step         // from the begin of a step to its end
};
std::vector<Phase> phases_of(const run::Timeline&, PhasesBy);
/// By the label of the kernel whose time it is: fills the time, with "idle" between kernels. Where
/// several run, compute goes before collectives, these before copies, the earlier before the later
/// begin: what is hidden behind compute counts no time, as in the breakdown.
std::vector<Phase> phases_by_owner(const run::Timeline&,
                                   const std::vector<std::string>& label_of_span);

/// What one phase of one rank cost, as far as the sensors tell. Absent: not known.
struct PhaseCost {
  std::string label;
  int32_t rank = 0;
  int64_t time = 0, occurrences = 0;  // ns; intervals
  int64_t sampled = 0;                // ns of it that the power series covers
  std::optional<double> energy_j, energy_uncertainty_j;
  std::optional<double> power_mean_w, power_uncertainty_w, power_peak_w;
  std::optional<double> die_mean_c, die_peak_c, sm_clock_mean_mhz;
  std::map<std::string, double> throttle;  // reason -> share of the phase's time
  bool throttle_known = false;             // whether anything was recorded of it
  // "counter", "integrated", "folded", "kind" (folded, but mostly the power of its kind); empty
  // where the energy is not known
  std::string method;
  std::string missing;  // why the energy is not known
};

/// How the sensor sees: period from one value to the next, and the time before its stamp that a
/// value averages over. Absent: found from the series; of an instant reading, the one of 0 to 100
/// ms that fits the folded phases best, 0 unless another leaves a fifth less residual.
struct SensorView {
  std::optional<int64_t> window;  // ns
};

/// Joins phases with a run's series; both on the run's time line, ranks found by the run's devices.
///
///   counter     a phase of long intervals, and an energy_j series: differences of the counter
///   integrated  intervals of at least ten update periods: the power series between its stamps.
///               Uncertainty: at every border, the change to the neighbouring value over the part
///               of the period that the border cuts off; added up, as borders of one phase err
///               alike
///   folded      shorter ones, over many steps: every value y of the series is the mean of what
///               the device did in its window, y = sum over phases of share * power(phase) (an
///               instant reading has one phase); least squares over all values give the power of
///               each phase, as if the steps were laid over each other and sampled at all their
///               offsets. Uncertainty: one standard deviation from the residuals; above the highest
///               value, or with a power below zero by more, the phase is not told
///
/// Powers of a kind's phases are drawn together: each is the kind's, which is fitted, too, give or
/// take a fifth of the mean of all samples (chosen). What samples do not tell apart stays there,
/// and the uncertainty says so; energies of all phases add up to what was sampled.
///
/// A counter alone is differenced to the mean power between its values.
///
/// Folding assumes that a phase draws the same power each time. Source of the sensors' habits:
/// "Part-time power measurements", SC 2024 (arXiv 2312.02741).
std::vector<PhaseCost> cost_of_phases(const std::vector<Phase>&, const run::Run&,
                                      const SensorView& = {});

}  // namespace triplepoint::metrics
