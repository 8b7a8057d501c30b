// SPDX-License-Identifier: Apache-2.0
// Few large GPUs or many smaller ones?
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/findings/findings.h"

namespace triplepoint::report {
namespace {

using Rows = std::vector<const StudyRow*>;
using Keys = std::vector<std::string>;

constexpr double clear_difference = 1.03;
constexpr const char *speed = "tokens_per_s", *energy = "joules_per_token";

/// What one gets for equal means: numbers of results.json over others. Each machine stands as the
/// job that is best at it.
struct Basis {
  std::string id, name, unit;
  Keys above, below;
  double scale = 1;  // to the unit
  bool by_energy = false;
};

std::vector<Basis> bases() {
  constexpr double gib_per_tib = 1024, joules_per_kilojoule = 1000;
  return {{"equal-gpus", "At equal GPUs", "tokens/s per GPU", {"tokens_per_s_per_gpu"}, {}},
          {"equal-memory",
           "At equal memory",
           "tokens/s per TiB of GPU memory",
           {speed},
           {"configuration.num_gpus", "memory_gib.limit"},
           gib_per_tib},
          {"equal-watts",
           "At equal watts",
           "tokens/s per kW of GPU power",
           {},
           {energy},
           joules_per_kilojoule,
           true}};
}

/// Not-a-number if not known.
double value_of(const Basis& basis, const StudyRow& row) {
  const auto number = [&](const std::string& key) {
    return number_at(row, key).value_or(std::nan(""));
  };
  double value = basis.scale;
  for (const std::string& key : basis.above)
    value *= number(key);
  for (const std::string& key : basis.below)
    value /= number(key);
  return value;
}

const StudyRow* chosen(const Basis& basis, const Rows& ran) {
  const StudyRow* least = basis.by_energy ? lowest(ran, energy) : nullptr;
  return least != nullptr ? least : highest(ran, speed);
}

/// One model on two or more kinds of machines, each as the chosen job there.
std::vector<Rows> comparisons_of(const Groups& groups, const Basis& basis) {
  std::vector<Rows> all;
  for (const Group& group : groups) {
    const StudyRow* row = chosen(basis, group.that_ran());
    if (row == nullptr || !row->has_job) continue;
    const auto same = std::ranges::find_if(
        all, [&](const Rows& rows) { return model_title(*rows.front()) == model_title(*row); });
    if (same == all.end())
      all.push_back({row});
    else
      same->push_back(row);
  }
  std::erase_if(all, [](const Rows& rows) { return rows.size() < 2; });
  return all;
}

/// The environment without a cooling or an inlet that is written but is the machine's own.
spec::Environment set_by_user(spec::Job job) {
  const Celsius inlet = job.chassis().inlet;
  job.environment.ambient.reset();
  if (job.chassis().inlet != inlet) job.environment.ambient = inlet;
  if (job.environment.cooling == job.cluster.chassis.cooling) job.environment.cooling.reset();
  return job.environment;
}

/// The same limits, faults and software, and both with the cooling and inlet they are sold with, or
/// with the same: what is left to tell the two apart is the machine.
bool equal_conditions(const spec::Job& a, const spec::Job& b) {
  const spec::Environment room = set_by_user(a);
  spec::Environment other = set_by_user(b);
  if (a.chassis().cooling == b.chassis().cooling) other.cooling = room.cooling;
  if (a.chassis().inlet == b.chassis().inlet) other.ambient = room.ambient;
  other.seed = room.seed;
  return room == other && a.stack == b.stack && a.records == b.records;
}

struct MachinePair {
  const StudyRow *winner = nullptr, *loser = nullptr;
  double ratio = 0;
};

/// Of all pairs of kinds of GPUs that run one model under equal conditions, the one with the
/// largest ratio.
MachinePair clearest(const std::vector<Rows>& comparisons, const Basis& basis) {
  MachinePair clearest;
  for (const Rows& rows : comparisons)
    for (const StudyRow* a : rows)
      for (const StudyRow* b : rows) {
        if (a->job.cluster.gpu.name == b->job.cluster.gpu.name) continue;
        if (!equal_conditions(a->job, b->job)) continue;
        const double ratio = value_of(basis, *a) / value_of(basis, *b);
        if (ratio > clearest.ratio) clearest = {a, b, ratio};
      }
  return clearest;
}

/// The numbers of a quotient of two values of a basis.
std::vector<Term> terms_of(const StudyRow& one, const Keys& keys, const StudyRow& other,
                           const Keys& inverse) {
  std::vector<Term> terms;
  for (const std::string& key : keys)
    terms.push_back({one.name, key});
  for (const std::string& key : inverse)
    terms.push_back({other.name, key});
  return terms;
}

std::string title_of(const Basis& basis, const std::vector<Rows>& comparisons) {
  const MachinePair pair = clearest(comparisons, basis);
  if (pair.winner == nullptr) return basis.name;
  // The ratio is of what the chart shows; whole machines may compare the other way round.
  return fmt::format("{}: {} against {}, {} has {} times the {}", basis.name,
                     machine_title(*pair.winner), machine_title(*pair.loser),
                     model_title(*pair.winner), significant(pair.ratio), basis.unit);
}

Figure figure_of(const Basis& basis, const std::vector<Rows>& comparisons) {
  BarChart chart;
  chart.title = title_of(basis, comparisons);
  chart.unit = basis.unit;
  DataTable table{
      {"model", "machines", basis.by_energy ? "job with least energy" : "fastest job", basis.unit},
      {}};
  for (const Rows& rows : comparisons)
    for (const StudyRow* row : rows) {
      const double value = value_of(basis, *row);
      Bar bar{.label = model_title(*row) + ", " + machine_title(*row),
              .parts = {},
              .begins_group = row == rows.front(),
              .job = row->name};
      if (std::isfinite(value)) {
        bar.parts = {{value, bar.begins_group ? "s0" : "s1", ""}};
        bar.text = significant(value);
        bar.hint = fmt::format("{}: {} {}", full_label(*row), significant(value), basis.unit);
      } else {
        bar.status = "not known";
      }
      chart.bars.push_back(std::move(bar));
      table.add({model_title(*row), machine_title(*row), full_label(*row), significant(value, 4)},
                row->name);
    }
  return {"machines-" + basis.id, chart.title, "", bar_chart_svg(chart), std::move(table)};
}

/// The job that stands for the machine of the row.
const StudyRow* of_machine(const std::vector<Rows>& comparisons, const StudyRow& row) {
  for (const Rows& rows : comparisons)
    for (const StudyRow* other : rows)
      if (group_title(*other) == group_title(row)) return other;
  return nullptr;
}

}  // namespace

std::optional<Finding> about_machines(const Groups& groups) {
  const std::vector<Basis> all = bases();
  const MachinePair pair = clearest(comparisons_of(groups, all.front()), all.front());
  if (pair.ratio < clear_difference) return std::nullopt;
  Finding finding("machines-equal-gpus");
  finding.say("Scale up or out: against ").name(*pair.loser, machine_title(*pair.loser));
  finding.say(", ").group(*pair.winner).say(" has ");
  for (const Basis& basis : all) {
    const std::vector<Rows> comparisons = comparisons_of(groups, basis);
    const StudyRow *winner = of_machine(comparisons, *pair.winner),
                   *loser = of_machine(comparisons, *pair.loser);
    const double ratio = value_of(basis, *winner) / value_of(basis, *loser);
    if (!std::isfinite(ratio)) continue;
    const std::string times = " the " + basis.unit, more = " more " + basis.unit,
                      less = " fewer " + basis.unit;
    if (&basis != &all.front()) finding.say(", ");
    finding.ratio(terms_of(*winner, basis.above, *loser, basis.below),
                  terms_of(*loser, basis.above, *winner, basis.below), ratio, {times, more, less});
  }
  return std::move(finding.say("."));
}

std::vector<Figure> machine_figures(const Groups& groups) {
  std::vector<Figure> figures;
  for (const Basis& basis : bases())
    if (const std::vector<Rows> comparisons = comparisons_of(groups, basis); !comparisons.empty())
      figures.push_back(figure_of(basis, comparisons));
  return figures;
}

}  // namespace triplepoint::report
