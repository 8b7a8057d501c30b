// SPDX-License-Identifier: Apache-2.0
// What the network between the nodes decides, the NICs being equal.

// Few large GPUs or many smaller ones?

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "triplepoint/base/text.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

constexpr double min_reported_ratio = 1.01;

/// The same job on two fabrics.
struct Change {
  const StudyRow *faster = nullptr, *slower = nullptr;
  double ratio = 1;
};

bool same_job(const spec::Job& a, const spec::Job& b) {
  return a.model.name == b.model.name && a.task == b.task && a.plan == b.plan;
}

bool same_nodes(const spec::Cluster& a, const spec::Cluster& b) {
  return a.gpu == b.gpu && a.num_nodes == b.num_nodes && a.gpus_per_node == b.gpus_per_node &&
         a.scale_up == b.scale_up && a.scale_out.nics_per_node == b.scale_out.nics_per_node &&
         a.scale_out.nic_bandwidth == b.scale_out.nic_bandwidth;
}

bool differ_in_kind(const spec::ScaleOut& a, const spec::ScaleOut& b) {
  return a.kind != b.kind && a.oversubscription == b.oversubscription;
}

bool differ_in_taper(const spec::ScaleOut& a, const spec::ScaleOut& b) {
  return a.kind == b.kind && a.oversubscription != b.oversubscription;
}

/// Every job on two fabrics that differ as asked, the faster one first.
std::vector<Change> changes_of(const Groups& groups,
                               bool (*differ)(const spec::ScaleOut&, const spec::ScaleOut&)) {
  std::vector<Change> changes;
  const std::vector<const StudyRow*> rows = all_that_ran(groups);
  for (const StudyRow* a : rows)
    for (const StudyRow* b : rows) {
      if (a == b || !a->has_job || !b->has_job) continue;
      if (!same_job(a->job, b->job) || !same_nodes(a->job.cluster, b->job.cluster)) continue;
      if (!differ(a->job.cluster.scale_out, b->job.cluster.scale_out)) continue;
      const auto ratio = ratio_at(*a, *b, "tokens_per_s");
      if (ratio && *ratio >= 1) changes.push_back({a, b, *ratio});
    }
  return changes;
}

const Change* largest(const std::vector<Change>& changes) {
  const Change* most = nullptr;
  for (const Change& change : changes)
    if (most == nullptr || change.ratio > most->ratio) most = &change;
  return most;
}

/// Of the job that minds least, where it minds most.
const Change* least_affected(const std::vector<Change>& changes) {
  const Change* least = nullptr;
  for (const Change& one : changes) {
    bool is_worst_of_its_job = true;
    for (const Change& other : changes)
      is_worst_of_its_job = is_worst_of_its_job && !(same_job(one.faster->job, other.faster->job) &&
                                                     one.faster->job.cluster.num_nodes ==
                                                         other.faster->job.cluster.num_nodes &&
                                                     other.ratio > one.ratio);
    if (is_worst_of_its_job && (least == nullptr || one.ratio < least->ratio)) least = &one;
  }
  return least;
}

void add_least_affected(Finding& finding, const Change& change) {
  finding.say("; the smallest effect is on {}: {} over {}.", group_and_name(*change.faster),
              more_of(*change.faster, *change.slower, "tokens_per_s"),
              named(*change.slower, machine_title(*change.slower)));
}

MaybeFinding about_changes(const std::vector<Change>& changes, const char* anchor,
                           std::string_view opening) {
  const Change* most = largest(changes);
  if (most == nullptr || most->ratio < min_reported_ratio) return std::nullopt;
  Finding finding(anchor);
  finding.say("{}{} is {} faster than on {}", words(opening), group_and_name(*most->faster),
              more_of(*most->faster, *most->slower, "tokens_per_s"),
              named(*most->slower, machine_title(*most->slower)));
  const Change* least = least_affected(changes);
  if (least == nullptr || same_job(least->faster->job, most->faster->job))
    finding.say(".");
  else
    add_least_affected(finding, *least);
  return finding;
}

}  // namespace

MaybeFinding about_fabrics(const Groups& groups) {
  return about_changes(changes_of(groups, differ_in_kind), "machines-equal-gpus",
                       "The kind of fabric, with the same NICs: ");
}

MaybeFinding about_oversubscription(const Groups& groups) {
  return about_changes(changes_of(groups, differ_in_taper), "machines-equal-gpus",
                       "Saving on uplinks: ");
}

namespace {

constexpr double clear_difference = 1.03;

struct PairwiseComparison {
  const StudyRow *winner = nullptr, *loser = nullptr;
};

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

/// More of the same GPUs is no other machine.
bool differ_in_size(const StudyRow& a, const StudyRow& b) {
  return a.job.cluster.gpu.name == b.job.cluster.gpu.name &&
         a.job.world_size() != b.job.world_size();
}

/// The two kinds of GPUs that lie furthest apart for one model under equal conditions: `high` wins
/// if more is better.
std::optional<PairwiseComparison> clearest_pair(const Groups& groups, std::string_view key,
                                                bool high, ChooseJob choose) {
  std::optional<PairwiseComparison> best;
  double best_ratio = clear_difference;
  for (const MachineComparison& comparison : machine_comparisons(groups, choose))
    for (const StudyRow* a : comparison.entries)
      for (const StudyRow* b : comparison.entries) {
        if (a->job.cluster.gpu.name == b->job.cluster.gpu.name) continue;
        if (!equal_conditions(a->job, b->job)) continue;
        const auto ratio = high ? ratio_at(*a, *b, key) : ratio_at(*b, *a, key);
        if (ratio && *ratio > best_ratio) best = PairwiseComparison{a, b}, best_ratio = *ratio;
      }
  return best;
}

constexpr RatioWords of_tokens = {" as many", " more", " fewer"};

/// Tokens per second and byte of memory, the winner's over the loser's.
std::optional<Phrase> memory_ratio(const StudyRow& winner, const StudyRow& loser) {
  const auto speed = ratio_at(winner, loser, "tokens_per_s"),
             gpus = ratio_at(loser, winner, "configuration.num_gpus"),
             memory = ratio_at(loser, winner, "memory_gib.limit");
  if (!speed || !gpus || !memory) return std::nullopt;
  return ratio_of({{winner.name, "tokens_per_s"},
                   {loser.name, "configuration.num_gpus"},
                   {loser.name, "memory_gib.limit"}},
                  {{loser.name, "tokens_per_s"},
                   {winner.name, "configuration.num_gpus"},
                   {winner.name, "memory_gib.limit"}},
                  *speed * *gpus * *memory, of_tokens);
}

Phrase step_change(const StudyRow& row, const StudyRow& base) {
  return change_of(row, base, "step_time_s", {" as long", " longer", " less time"});
}

/// Where it changes by half a per cent or more. Of one job's steps, fans and hosts with it.
void add_node_energy(Finding& finding, const StudyRow& row, const StudyRow& base) {
  constexpr std::string_view key = "node_energy_j";
  const double ratio = ratio_at(row, base, key).value_or(1);
  if (ratio >= 1.005) finding.say(" and {} more node energy", more_of(row, base, key));
  if (ratio <= 0.995) finding.say(" and {} less node energy", less_of(row, base, key));
}

/// Whether the condition changes what one would choose: the fastest job of a model.
void add_choice(Finding& finding, const std::vector<const StudyRow*>& rows) {
  std::map<std::string, std::map<std::string, const StudyRow*>> fastest;  // of model, by condition
  std::map<std::string, std::set<std::string>> plans;
  for (const StudyRow* row : rows) {
    const std::string model = answers::group_label(row->job) + answers::task_label(row->job);
    const StudyRow*& best = fastest[model][row->condition];
    if (best == nullptr || ratio_at(*row, *best, "tokens_per_s").value_or(0) > 1) best = row;
    plans[model].insert(short_label(*row));
  }
  bool has_choice = false;
  for (const auto& [model, by_condition] : fastest) {
    if (plans[model].size() < 2) continue;
    has_choice = true;
    const StudyRow& one = *by_condition.begin()->second;
    for (const auto& [condition, other] : by_condition)
      if (short_label(*other) != short_label(one)) {
        finding.say("; it changes the choice: of {}, {} is fastest with {}, {} with {}",
                    group_name(one), named(one), named(one, one.condition), named(*other),
                    named(*other, condition));
        return;
      }
  }
  if (has_choice) finding.say("; the fastest job of each model stays the same");
}

}  // namespace

MaybeFinding about_conditions(const Groups& groups) {
  struct Effects {
    const StudyRow* base;
    std::vector<const StudyRow*> rows;  // of each other condition, in the order of the study
    double largest = 0;                 // change of the step, logarithm
  };
  std::vector<Effects> jobs;
  const std::vector<const StudyRow*> rows = all_that_ran(groups);
  for (const StudyRow* base : rows) {
    if (base->condition != rows.front()->condition) continue;
    Effects job{base, {}};
    for (const StudyRow* row : rows) {
      const auto ratio = ratio_at(*row, *base, "step_time_s");
      if (row->condition == base->condition || !ratio || !same_job(base->job, row->job) ||
          base->job.stack != row->job.stack ||
          base->job.cluster.gpu.name != row->job.cluster.gpu.name ||
          base->job.world_size() != row->job.world_size())
        continue;
      job.rows.push_back(row);
      job.largest = std::max(job.largest, std::abs(std::log(*ratio)));
    }
    if (!job.rows.empty()) jobs.push_back(std::move(job));
  }
  if (jobs.empty()) return std::nullopt;
  // Of those that run under most of the conditions.
  const auto widest = std::ranges::max(jobs, {}, [](const Effects& e) { return e.rows.size(); });
  std::erase_if(jobs, [&](const Effects& e) { return e.rows.size() < widest.rows.size(); });
  const auto [least, most] = std::ranges::minmax_element(jobs, {}, &Effects::largest);
  const auto name = [&](const StudyRow& row) { return model_title(row) + ", " + full_label(row); };
  Finding finding("machines-equal-gpus");
  finding.say("Against {}, {}{}", named(*most->base, most->base->condition),
              named(*most->base, name(*most->base)),
              words(jobs.size() > 1 ? ", the job that changes most, takes " : " takes "));
  for (const StudyRow* row : most->rows) {
    finding.say(row != most->rows.front() ? ", {}" : "{}", step_change(*row, *most->base));
    add_node_energy(finding, *row, *most->base);
    finding.say(" with {}", named(*row, row->condition));
  }
  if (least->base != most->base && least->largest < 0.5 * most->largest) {
    const StudyRow* row = *std::ranges::max_element(least->rows, {}, [&](const StudyRow* each) {
      return std::abs(std::log(*ratio_at(*each, *least->base, "step_time_s")));
    });
    finding.say("; {} at most {} ({})", named(*least->base, name(*least->base)),
                step_change(*row, *least->base), named(*row, row->condition));
  }
  add_choice(finding, rows);
  return std::move(finding.say("."));
}

/// The same job on fewest and on most GPUs: what is left of each GPU's speed, of the job that loses
/// most and of the one that loses least.
MaybeFinding about_scaling(const Groups& groups) {
  constexpr std::string_view speed = "tokens_per_s_per_gpu";
  std::map<std::string, std::pair<const StudyRow*, const StudyRow*>> ends;  // by job
  for (const StudyRow* row : all_that_ran(groups)) {
    if (!number_at(*row, speed)) continue;
    auto& [least, most] = ends[model_title(*row) + short_label(*row) + row->condition];
    if (least == nullptr || row->job.world_size() < least->job.world_size()) least = row;
    if (most == nullptr || row->job.world_size() > most->job.world_size()) most = row;
  }
  std::erase_if(ends, [](const auto& end) {
    const auto& [least, most] = end.second;
    return least == most || least->job.cluster.gpu.name != most->job.cluster.gpu.name;
  });
  if (ends.empty()) return std::nullopt;
  const auto [worst, best] = std::ranges::minmax_element(ends, {}, [&](const auto& end) {
    return ratio_at(*end.second.second, *end.second.first, speed).value_or(1);
  });
  const auto add = [&](Finding& finding, const StudyRow& few, const StudyRow& many) {
    const double kept = *ratio_at(many, few, speed);
    finding.say("{} keeps {} of each GPU's speed on {}", group_and_name(many),
                figure({Evidence::Form::value,
                        {{many.name, std::string(speed)}},
                        {{few.name, std::string(speed)}},
                        kept,
                        percent(kept)}),
                named(few, machine_title(few)));
  };
  Finding finding("machines-equal-gpus");
  add(finding, *worst->second.first, *worst->second.second);
  if (worst != best) {
    finding.say(", the most that any job loses; ");
    add(finding, *best->second.first, *best->second.second);
  }
  return std::move(finding.say("."));
}

MaybeFinding about_machines(const Groups& groups) {
  const auto pair = clearest_pair(groups, "tokens_per_s_per_gpu", true, fastest_job);
  if (!pair) return std::nullopt;
  const auto& [winner, loser] = *pair;
  Finding finding("machines-equal-gpus");
  finding.say("Scale up or out: GPU for GPU, {}{}{}{}", group_name(*winner),
              words(verb_of(*winner)),
              change_of(*winner, *loser, "tokens_per_s_per_gpu",
                        {" the tokens/s of ", " more tokens/s than ", ""}),
              named(*loser, machine_title(*loser)));
  if (const auto memory = memory_ratio(*winner, *loser))
    finding.say(", for equal memory {}", *memory);
  if (ratio_at(*winner, *loser, "tokens_per_s"))
    finding.say(", and for the whole machines {}",
                change_of(*winner, *loser, "tokens_per_s", of_tokens));
  finding.say(".");
  return finding;
}

MaybeFinding about_machines_per_watt(const Groups& groups) {
  const auto pair = clearest_pair(groups, "joules_per_token", false, least_energy_job);
  if (!pair) return std::nullopt;
  const auto& [winner, loser] = *pair;
  Finding finding("machines-equal-watts");
  finding.say("Energy of a token: {} as {} takes {} less {} energy than {} as {}.",
              group_name(*winner), named(*winner), less_of(*winner, *loser, "joules_per_token"),
              words(energy_scope_of(*winner)), named(*loser, machine_title(*loser)), named(*loser));
  return finding;
}

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

struct MachinePair {
  const StudyRow *winner = nullptr, *loser = nullptr;
  double ratio = 0;
};

/// Of all pairs of machines, or of sizes of one, that run one model under equal conditions, the one
/// with the largest ratio.
MachinePair clearest(const std::vector<MachineComparison>& comparisons, const Basis& basis,
                     bool of_sizes) {
  MachinePair clearest;
  for (const MachineComparison& comparison : comparisons)
    for (const StudyRow* a : comparison.entries)
      for (const StudyRow* b : comparison.entries) {
        if (a == b || !equal_conditions(a->job, b->job)) continue;
        if (differ_in_size(*a, *b) != of_sizes) continue;
        const double ratio = basis.value(*a) / basis.value(*b);
        if (ratio > clearest.ratio) clearest = {a, b, ratio};
      }
  return clearest;
}

std::string title_of(const Basis& basis, const std::vector<MachineComparison>& comparisons) {
  MachinePair pair = clearest(comparisons, basis, false);
  const bool of_sizes = pair.winner == nullptr;
  if (of_sizes) pair = clearest(comparisons, basis, true);
  if (pair.winner == nullptr) return basis.name;
  // The ratio is of what the chart shows; whole machines may compare the other way round.
  return fmt::format("{}{}: {} against {}, {} has {} times the {}", basis.name,
                     of_sizes ? ", by size" : "", machine_title(*pair.winner),
                     machine_title(*pair.loser), model_title(*pair.winner), significant(pair.ratio),
                     basis.unit);
}

Drawing figure_of(const Basis& basis, const std::vector<MachineComparison>& comparisons) {
  BarChart chart;
  chart.title = title_of(basis, comparisons);
  chart.unit = basis.unit;
  DataTable table = titled_table({"model", "machines", basis.job, basis.unit});
  for (const MachineComparison& comparison : comparisons) {
    for (const StudyRow* row : comparison.entries) {
      const double value = basis.value(*row);
      Bar bar;
      bar.job = row->name;
      bar.label = comparison.model + ", " + machine_title(*row);
      bar.begins_group = row == comparison.entries.front();
      const auto entry = as_size(row == comparison.entries.front() ? 0 : 1);
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

const StudyRow* fastest_job(const std::vector<const StudyRow*>& rows) {
  return highest(rows, "tokens_per_s");
}

const StudyRow* least_energy_job(const std::vector<const StudyRow*>& rows) {
  const StudyRow* least = lowest(rows, "joules_per_token");
  return least != nullptr ? least : fastest_job(rows);
}

std::vector<MachineComparison> machine_comparisons(const std::vector<Group>& groups,
                                                   ChooseJob choose) {
  std::vector<MachineComparison> comparisons;
  for (const Group& group : groups) {
    const StudyRow* chosen = choose(group.that_ran());
    if (chosen == nullptr || !chosen->has_job) continue;
    const std::string model = model_title(*chosen);
    auto comparison = std::ranges::find(comparisons, model, &MachineComparison::model);
    if (comparison == comparisons.end())
      comparison = comparisons.insert(comparisons.end(), {model, {}});
    comparison->entries.push_back(chosen);
  }
  std::erase_if(comparisons,
                [](const MachineComparison& comparison) { return comparison.entries.size() < 2; });
  return comparisons;
}

std::vector<Basis> bases() {
  return {{"equal-gpus", "At equal GPUs", "tokens/s per GPU", "fastest job", fastest_job, per_gpu},
          {"equal-memory", "At equal memory", "tokens/s per TiB of GPU memory", "fastest job",
           fastest_job, per_tib},
          {"equal-watts", "At equal watts", "tokens/s per kW of GPU power", "job with least energy",
           least_energy_job, per_kilowatt}};
}

std::vector<Drawing> machine_figures(const std::vector<Group>& groups) {
  std::vector<Drawing> figures;
  for (const Basis& basis : bases()) {
    const auto comparisons = machine_comparisons(groups, basis.choose);
    if (!comparisons.empty()) figures.push_back(figure_of(basis, comparisons));
  }
  return figures;
}

}  // namespace triplepoint::report
