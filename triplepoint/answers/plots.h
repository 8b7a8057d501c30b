// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

namespace triplepoint::answers {

/// One line of a plot. Absent: not known at that moment.
struct Curve {
  enum class Is { single, mean, lowest, highest };  // of one device, or of all of them
  std::string name;
  Is is = Is::single;
  std::vector<std::optional<double>> values;
};
/// A signal of the devices over time.
struct Plot {
  std::string id, unit;       // "power_w", "power (W)"
  std::vector<double> times;  // s since the run's epoch
  std::vector<Curve> curves;
};

/// Power, temperature, clock and throttling over time; of a run without GPUs, power of the CPUs,
/// their load, and memory in use.
///
/// Up to eight devices get a curve each. More are drawn as the mean of all and the band between the
/// lowest and the highest; at most `points` moments, each the mean (or extreme) of what lies
/// between. `device`: of this one alone.
std::vector<Plot> plots_of(const run::Run& run, std::size_t points = 1200,
                           std::optional<int32_t> device = {});

/// Mean of the devices at each moment.
std::vector<std::optional<double>> mean_curve(const Plot&);
/// Lowest and highest value of any device; absent without values.
struct Extremes {
  double lowest = 0, highest = 0;
};
std::optional<Extremes> extremes_of(const Plot&);

/// For the script of a page: an array of plots, each with the id of its element, its unit, its
/// times and its curves.
Json plots_json(const std::vector<Plot>&);

}  // namespace triplepoint::answers
