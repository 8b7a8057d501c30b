// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/charts/charts.h"

namespace triplepoint::report {

/// What is drawn of launches. Occupancies are means over time; blocks and warps add up.
struct LaunchMeasure {
  std::string_view id, quantity, name, unit;
  std::optional<double> metrics::Launches::*amount;
  std::string_view note;
  bool adds_up() const { return amount != &metrics::Launches::occupancy; }
};
const std::vector<LaunchMeasure>& launch_measures();

/// Classes of kernels in the order and the colours of kernel seconds.
struct LaunchClass {
  std::string_view label, name, style, ink;  // ink: the style's colour on white
};
const std::vector<LaunchClass>& launch_classes();

/// One job of a chart. `bar`: its label, and its status if it did not run.
struct LaunchRow {
  Bar bar;
  std::string full_label, style;  // style: of the bar of a mean
  const std::map<std::string, metrics::Launches>* launches = nullptr;  // null: it did not run
};

/// The job's number of a class, or of "total"; absent where the job does not know it.
std::optional<double> launch_number(const LaunchRow&, std::string_view label, const LaunchMeasure&);

/// A bar per job. Blocks and warps are stacks of classes; of occupancies the bar is the mean and
/// each class is a dot.
BarChart launch_chart(const LaunchMeasure&, const std::vector<LaunchRow>& rows);

/// The classes that a row knows.
std::vector<LaunchClass> classes_in(const std::vector<LaunchRow>& rows);

}  // namespace triplepoint::report
