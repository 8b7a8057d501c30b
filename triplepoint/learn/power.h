// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::learn {

/// ln(factor) of what a GPU takes for operations and bytes, and of what it draws without them.
inline constexpr std::array<std::string_view, 2> power_names = {"energy", "idle"};
inline constexpr std::array<std::string_view, 2> power_meanings = {
    "energy of an operation and of a byte", "power of a GPU that waits or has nothing to do"};
using PowerFactors = std::array<double, power_names.size()>;

/// Standard deviations of a place on which no power was measured, and of one measurement.
struct PowerPriors {
  double energy = 0, idle = 0, noise = 0;
  friend bool operator==(const PowerPriors&, const PowerPriors&) = default;
};

struct LearnedPower {
  PowerFactors mean{}, spread{};
  int64_t runs = 0;  // that taught it
  friend bool operator==(const LearnedPower&, const LearnedPower&) = default;
};

/// The job on GPUs that differ so. Jobs on what has no power model stay as they are.
spec::Job with_power(spec::Job, const PowerFactors&);

/// A job whose GPUs' mean power over steps was measured.
struct PowerRun {
  const spec::Job* job = nullptr;
  double watts = 0;  // of a GPU
};

/// Gauss-Newton, ln(measured / predicted power) linear in ln(factors) around where they are:
///
///   e_i = s_i x + noise,   x ~ (0, prior^2),   s_i: slopes by differences
///
/// At a power limit power says little (s is small), so that x stays at its prior; the clock says
/// it by the time of a step. Nothing where no run can be predicted.
std::optional<LearnedPower> learn_power(const PowerPriors&, const std::vector<PowerRun>&,
                                        int threads);

}  // namespace triplepoint::learn
