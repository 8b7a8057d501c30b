// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace triplepoint::report {

/// Two clusters over a quantity that is varied, each with its best plan at every value.
struct CrossoverFigure {
  std::string title, x_name, y_name;
  std::string base, against;  // names of the curves
  struct Spot {
    double x = 0;
    std::string value;  // as the axis writes it
    std::optional<double> base, against;
    std::string base_plan, against_plan;  // said when pointed at
    bool labelled = true;                 // on the axis
  };
  std::vector<Spot> spots;  // ascending
  struct Band {
    double low = 0, high = 0;
  };
  std::vector<Band> crossovers;  // shaded
};

/// A drawing that stands alone, with a logarithmic horizontal axis.
std::string crossover_svg(const CrossoverFigure& figure);

}  // namespace triplepoint::report
