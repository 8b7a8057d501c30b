// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/pareto.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/report/charts/scatter_chart.h"
#include "triplepoint/report/findings/keys.h"

namespace triplepoint::report {
namespace {

constexpr std::string_view speed = "tokens_per_s", energy = "joules_per_token",
                           heat = "temperature_c.peak";
constexpr double least_saving = 5e-3;
constexpr std::size_t most_labels = 3;  // more would lie over each other

std::vector<const StudyRow*> rows_with_both(const Group& group) {
  std::vector<const StudyRow*> rows = group.that_ran();
  std::erase_if(rows, [](const StudyRow* row) {
    return number_at(*row, speed).value_or(0) <= 0 || number_at(*row, energy).value_or(0) <= 0;
  });
  return rows;
}

bool is_in(const std::vector<const StudyRow*>& rows, const StudyRow* row) {
  return std::find(rows.begin(), rows.end(), row) != rows.end();
}

std::string title_of(const std::vector<const StudyRow*>& front) {
  const StudyRow &fast = *front.front(), &thrifty = *front.back();
  if (front.size() == 1) return "Speed against energy: " + full_label(fast) + " is best in both";
  return fmt::format(
      "Speed against energy: a choice of {}, from {} to {}, which saves {} energy for {} speed",
      front.size(), full_label(fast), full_label(thrifty),
      percent(1 - known_number(thrifty, energy) / known_number(fast, energy)),
      percent(1 - known_number(thrifty, speed) / known_number(fast, speed)));
}

}  // namespace

std::vector<const StudyRow*> pareto_front(const Group& group) {
  std::vector<const StudyRow*> rows = rows_with_both(group), front;
  std::stable_sort(rows.begin(), rows.end(), [](const StudyRow* a, const StudyRow* b) {
    if (known_number(*a, speed) != known_number(*b, speed))
      return known_number(*a, speed) > known_number(*b, speed);
    return known_number(*a, energy) < known_number(*b, energy);
  });
  for (const StudyRow* row : rows)
    if (front.empty() ||
        known_number(*row, energy) < (1 - least_saving) * known_number(*front.back(), energy))
      front.push_back(row);
  return front;
}

std::optional<Figure> pareto_figure(const Group& group) {
  const std::vector<const StudyRow*> rows = rows_with_both(group), front = pareto_front(group);
  if (rows.size() < 2) return std::nullopt;
  ScatterChart chart{title_of(front),
                     "energy (J/token)",
                     "throughput (tokens/s)",
                     "peak die temperature (°C)",
                     {}};
  DataTable table{{"job", "tokens/s", "J/token", "peak die temperature (°C)", "on the front"}, {}};
  for (const StudyRow* row : rows) {
    const bool on_front = is_in(front, row);
    const std::string x = significant(number_at(*row, energy)),
                      y = significant(number_at(*row, speed), 4);
    const auto hot = number_at(*row, heat);
    chart.points.push_back({known_number(*row, energy), known_number(*row, speed), hot, row->name,
                            fmt::format("{}: {} tokens/s at {} J/token, peak {} °C",
                                        full_label(*row), y, x, significant(hot)),
                            "", on_front});
    if (on_front && front.size() <= most_labels) chart.points.back().label = short_label(*row);
    table.add({full_label(*row), y, x, significant(hot), on_front ? "yes" : ""}, row->name);
  }
  return Figure{"pareto-" + group.id, chart.title,
                "Better is up and to the left. Ringed: no other job is faster without more energy, "
                "or saves half a per cent of it.",
                scatter_chart_svg(chart), std::move(table)};
}

}  // namespace triplepoint::report
