// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/run_sparklines.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/json.h"
#include "triplepoint/base/number_text.h"

#include "triplepoint/report/charts/plots.h"
#include "triplepoint/tui/sparkline.h"
#include "triplepoint/tui/table_text.h"

namespace triplepoint::tui {
namespace {

using Values = std::vector<std::optional<double>>;

/// Mean over devices at each moment of a plot.
Values mean_curve(const Json& plot) {
  Values mean(plot["times"].size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    int64_t count = 0;
    for (const Json& curve : plot["curves"]) {
      const bool counts = curve["style"] == "mean" || curve["style"] == "single";
      if (!counts || curve["values"][i].is_null()) continue;
      sum += curve["values"][i].get<double>();
      ++count;
    }
    if (count > 0) mean[i] = sum / static_cast<double>(count);
  }
  return mean;
}

/// Lowest and highest of all devices.
std::pair<double, double> extremes(const Json& plot) {
  Values all;
  for (const Json& curve : plot["curves"])
    for (const Json& value : curve["values"])
      all.push_back(value.is_null() ? std::nullopt : std::optional(value.get<double>()));
  return range_of(all).value_or(std::pair(0.0, 0.0));
}

}  // namespace

std::string run_sparklines(const Console& console, const run::Run& run) {
  constexpr std::size_t taken = 66;  // by name and numbers
  const std::size_t width = console.abilities().width.value_or(100);
  const std::size_t points = std::clamp<std::size_t>(width > taken ? width - taken : 0, 12, 60);
  const Json plots = report::plots_of(run, points);
  DataTable table = text_table({{"mean of the devices over time", Align::left},
                                {"", Align::left},
                                {"begin"},
                                {"end"},
                                {"lowest"},
                                {"highest"}});
  bool any = false;
  for (const Json& plot : plots) {
    const Values mean = mean_curve(plot);
    if (mean.size() < 4 || !mean.front() || !mean.back()) continue;
    const auto [low, high] = extremes(plot);
    table.add({plot["unit"].get<std::string>(), sparkline(mean, console.abilities().unicode),
               significant(mean.front(), 4), significant(mean.back(), 4), significant(low, 4),
               significant(high, 4)});
    any = true;
  }
  return any ? table_text(table, console) : "";
}

}  // namespace triplepoint::tui
