// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/machines.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/report/charts/bar_chart.h"
#include "triplepoint/report/findings/keys.h"
#include "triplepoint/report/findings/pairs.h"

namespace triplepoint::report {
namespace {

double or_nan(const std::optional<double>& value) {
  return value.value_or(std::nan(""));
}

constexpr double gib_per_tib = 1024;
constexpr double joules_per_kilojoule = 1000;

double per_gpu(const StudyRow& row) {
  return or_nan(number_at(row, "tokens_per_s_per_gpu"));
}
/// Of the memory that jobs may use, as the driver reports it.
double per_tib(const StudyRow& row) {
  return or_nan(number_at(row, "tokens_per_s")) /
         (or_nan(number_at(row, "configuration.num_gpus")) *
          or_nan(number_at(row, "memory_gib.limit")) / gib_per_tib);
}
double per_kilowatt(const StudyRow& row) {
  return joules_per_kilojoule / or_nan(number_at(row, "joules_per_token"));
}

struct PairwiseComparison {
  const StudyRow *winner = nullptr, *loser = nullptr;
  double ratio = 0;
};

/// First against last of the comparison with the largest difference.
PairwiseComparison clearest(const std::vector<MachineComparison>& comparisons, const Basis& basis) {
  PairwiseComparison clearest;
  for (const MachineComparison& comparison : comparisons)
    for (const StudyRow* a : comparison.entries)
      for (const StudyRow* b : comparison.entries) {
        const double ratio = basis.value(*a) / basis.value(*b);
        if (ratio > clearest.ratio) clearest = {a, b, ratio};
      }
  return clearest;
}

std::string title_of(const Basis& basis, const std::vector<MachineComparison>& comparisons) {
  const PairwiseComparison pair = clearest(comparisons, basis);
  if (pair.winner == nullptr) return basis.name;
  // The ratio is of what the chart shows; whole machines may compare the other way round.
  return fmt::format("{}: {} against {}, {} has {} times the {}", basis.name,
                     machine_title(*pair.winner), machine_title(*pair.loser),
                     model_title(*pair.winner), significant(pair.ratio), basis.unit);
}

Figure figure_of(const Basis& basis, const std::vector<MachineComparison>& comparisons) {
  BarChart chart;
  chart.title = title_of(basis, comparisons);
  chart.unit = basis.unit;
  DataTable table{{"model", "machines", "fastest job", basis.unit}, {}};
  for (const MachineComparison& comparison : comparisons) {
    for (const StudyRow* row : comparison.entries) {
      const double value = basis.value(*row);
      Bar bar;
      bar.job = row->name;
      bar.label = comparison.model + ", " + machine_title(*row);
      bar.begins_group = row == comparison.entries.front();
      const auto entry = static_cast<std::size_t>(row == comparison.entries.front() ? 0 : 1);
      if (std::isfinite(value)) {
        bar.parts = {{value, fmt::format("s{}", entry), ""}};
        bar.text = significant(value);
        bar.hint = fmt::format("{}: {} {}", full_label(*row), significant(value), basis.unit);
      } else {
        bar.status = "not known";
      }
      chart.bars.push_back(std::move(bar));
      table.add({comparison.model, machine_title(*row), full_label(*row), significant(value, 4)},
                row->name);
    }
  }
  return {"machines-" + basis.id, chart.title, "", bar_chart_svg(chart), std::move(table)};
}

}  // namespace

std::vector<MachineComparison> machine_comparisons(const std::vector<Group>& groups) {
  std::vector<MachineComparison> comparisons;
  for (const Group& group : groups) {
    const StudyRow* fastest = highest(group.that_ran(), "tokens_per_s");
    if (fastest == nullptr || !fastest->has_job) continue;
    const std::string model = model_title(*fastest);
    auto comparison = std::find_if(comparisons.begin(), comparisons.end(),
                                   [&](const MachineComparison& c) { return c.model == model; });
    if (comparison == comparisons.end())
      comparison = comparisons.insert(comparisons.end(), {model, {}});
    comparison->entries.push_back(fastest);
  }
  std::erase_if(comparisons,
                [](const MachineComparison& comparison) { return comparison.entries.size() < 2; });
  return comparisons;
}

std::vector<Basis> bases() {
  return {{"equal-gpus", "At equal GPUs", "tokens/s per GPU", per_gpu},
          {"equal-memory", "At equal memory", "tokens/s per TiB of GPU memory", per_tib},
          {"equal-watts", "At equal watts", "tokens/s per kW of GPU power", per_kilowatt}};
}

std::vector<Figure> machine_figures(const std::vector<Group>& groups) {
  const std::vector<MachineComparison> comparisons = machine_comparisons(groups);
  std::vector<Figure> figures;
  if (comparisons.empty()) return figures;
  for (const Basis& basis : bases())
    figures.push_back(figure_of(basis, comparisons));
  return figures;
}

}  // namespace triplepoint::report
