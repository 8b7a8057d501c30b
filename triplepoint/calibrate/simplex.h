// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace triplepoint::calibrate {

/// One number that is looked for.
struct FitParameter {
  std::string name;
  double start, low, high;
};

struct Minimum {
  std::vector<double> at;
  double value;
};

/// Smallest value of a function in a box, from several starts. Downhill simplex (Nelder & Mead,
/// 1965) in coordinates that map each range to 0..1; outside of the box the nearest point inside
/// counts, with a penalty. Deterministic.
Minimum minimize(const std::vector<FitParameter>& parameters,
                 const std::function<double(const std::vector<double>&)>& f, int evaluations);

}  // namespace triplepoint::calibrate
