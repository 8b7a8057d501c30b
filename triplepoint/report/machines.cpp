// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/machines.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/report/bar_chart.h"
#include "triplepoint/report/keys.h"
#include "triplepoint/report/pairs.h"

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

struct Duel {
  const StudyRow *winner = nullptr, *loser = nullptr;
  double ratio = 0;
};

/// First against last of the contest in which they lie furthest apart.
Duel clearest(const std::vector<Contest>& contests, const Basis& basis) {
  Duel clearest;
  for (const Contest& contest : contests)
    for (const StudyRow* a : contest.entries)
      for (const StudyRow* b : contest.entries) {
        const double ratio = basis.value(*a) / basis.value(*b);
        if (ratio > clearest.ratio) clearest = {a, b, ratio};
      }
  return clearest;
}

std::string title_of(const Basis& basis, const std::vector<Contest>& contests) {
  const Duel duel = clearest(contests, basis);
  if (duel.winner == nullptr) return basis.name;
  return fmt::format("{}: {} trains {} {} as fast as {}", basis.name, machine_title(*duel.winner),
                     model_title(*duel.winner), significant(duel.ratio) + " times",
                     machine_title(*duel.loser));
}

Figure figure_of(const Basis& basis, const std::vector<Contest>& contests) {
  BarChart chart;
  chart.title = title_of(basis, contests);
  chart.unit = basis.unit;
  DataTable table{{"model", "machines", "fastest job", basis.unit}, {}};
  for (const Contest& contest : contests) {
    for (const StudyRow* row : contest.entries) {
      const double value = basis.value(*row);
      Bar bar;
      bar.job = row->name;
      bar.label = contest.model + ", " + machine_title(*row);
      bar.begins_group = row == contest.entries.front();
      const auto entry = static_cast<std::size_t>(row == contest.entries.front() ? 0 : 1);
      if (std::isfinite(value)) {
        bar.parts = {{value, fmt::format("s{}", entry), ""}};
        bar.text = significant(value);
        bar.hint = fmt::format("{}: {} {}", full_label(*row), significant(value), basis.unit);
      } else {
        bar.status = "not known";
      }
      chart.bars.push_back(std::move(bar));
      table.add({contest.model, machine_title(*row), full_label(*row), significant(value, 4)},
                row->name);
    }
  }
  return {"machines-" + basis.id, chart.title, "", bar_chart_svg(chart), std::move(table)};
}

}  // namespace

std::vector<Contest> contests_of(const std::vector<Group>& groups) {
  std::vector<Contest> contests;
  for (const Group& group : groups) {
    const StudyRow* fastest = highest(group.that_ran(), "tokens_per_s");
    if (fastest == nullptr || !fastest->has_job) continue;
    const std::string model = model_title(*fastest);
    auto contest = std::find_if(contests.begin(), contests.end(),
                                [&](const Contest& c) { return c.model == model; });
    if (contest == contests.end()) contest = contests.insert(contests.end(), {model, {}});
    contest->entries.push_back(fastest);
  }
  std::erase_if(contests, [](const Contest& contest) { return contest.entries.size() < 2; });
  return contests;
}

std::vector<Basis> bases() {
  return {{"equal-gpus", "At equal GPUs", "tokens/s per GPU", per_gpu},
          {"equal-memory", "At equal memory", "tokens/s per TiB of GPU memory", per_tib},
          {"equal-watts", "At equal watts", "tokens/s per kW of GPU power", per_kilowatt}};
}

std::vector<Figure> machine_figures(const std::vector<Group>& groups) {
  const std::vector<Contest> contests = contests_of(groups);
  std::vector<Figure> figures;
  if (contests.empty()) return figures;
  for (const Basis& basis : bases())
    figures.push_back(figure_of(basis, contests));
  return figures;
}

}  // namespace triplepoint::report
