// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/findings.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "triplepoint/base/text.h"

#include "triplepoint/report/findings/factors.h"

namespace triplepoint::report {
namespace {

constexpr RatioWords of_tokens_per_gpu = {" the tokens/s per GPU", " more tokens/s per GPU",
                                          " fewer tokens/s per GPU"};
constexpr double least_effect = 0.01;  // on speed; below, both read the same

/// The chart that shows the factor.
std::string chart_of(const Series& series) {
  switch (series.factor) {
    case Factor::condition:
    case Factor::size:
      return "machines-equal-gpus";
    case Factor::placement:
      return anchor_of("heat-temperature", series.base());
    default:
      return anchor_of("throughput", series.base());
  }
}

bool is_setting(Factor factor) {
  return factor != Factor::condition && factor != Factor::size && factor != Factor::task;
}

const char* preposition(Factor factor) {
  return factor == Factor::size                               ? " on "
         : factor == Factor::layout || factor == Factor::task ? " as "
                                                              : " with ";
}

/// The others of a series, or of many the slowest and the fastest.
std::vector<const StudyRow*> levels_shown(const Series& series) {
  constexpr std::size_t most = 4;
  std::vector<const StudyRow*> rows(series.rows.begin() + 1, series.rows.end());
  if (rows.size() <= most) return rows;
  const auto [low, high] = std::ranges::minmax_element(
      rows, {}, [&](const StudyRow* row) { return series.speed(*row); });
  std::vector<const StudyRow*> ends = {*low, *high};
  if (low > high) std::swap(ends.front(), ends.back());
  return ends;
}

/// "12 % more tokens/s", what else changes in the extreme one, "with inlet 45 °C". Of rooms and
/// limits the nodes' energy each time, for fans are what they change.
void add_level(Finding& finding, const Series& series, const StudyRow& row, bool is_extreme) {
  const StudyRow& base = series.base();
  finding.change(row, base, speed_key(series.factor),
                 series.factor == Factor::size ? of_tokens_per_gpu : of_tokens);
  if (series.factor == Factor::condition && ratio_at(row, base, "node_energy_j"))
    add_energy_change(finding, base, row, "node_energy_j");
  else if (is_extreme)
    add_energy_change(finding, base, row);
  if (is_extreme) add_heat_change(finding, base, row);
  finding.say(preposition(series.factor)).name(row, level_of(row, series.factor));
}

/// The part of the step that changes with it by half as much or more: only then it is a reason.
void add_reason(Finding& finding, const StudyRow& from, const StudyRow& to) {
  constexpr std::pair<std::string_view, std::string_view> parts[] = {
      {"step_parts_s.computing", "computing"},
      {"step_parts_s.exposed_communication", "communication that nothing hides"},
      {"step_parts_s.waiting", "waiting for late peers"},
      {"step_parts_s.bubble", "the pipeline's bubble"},
      {"step_parts_s.gaps", "gaps between kernels"}};
  const auto before = number_at(from, "step_time_s"), after = number_at(to, "step_time_s");
  if (!before || !after || *before == *after ||
      from.job.plan.global_batch_size != to.job.plan.global_batch_size)
    return;
  for (const auto& [key, words] : parts) {
    const auto a = number_at(from, key), b = number_at(to, key);
    if (!a || !b || (*b - *a) / (*after - *before) < 0.5) continue;
    finding.say("; ").say(words).say(" takes ").instead(to, from, key, "s").say(" a step");
    return;
  }
}

/// The series in which the change goes the other way, or else that which changes least.
const Series* counterexample(const std::vector<Series>& all, const Series& most) {
  const double sign = most.effect() > 0 ? 1 : -1;
  const auto effect = [&](const Series& series) { return sign * series.effect(); };
  const auto least = std::ranges::min_element(all, {}, effect);
  const auto mildest = std::ranges::min_element(
      all, {}, [](const Series& series) { return std::abs(series.effect()); });
  if (effect(*least) <= -0.5 * least_effect) return &*least;
  const bool differs = std::abs(mildest->effect()) < 0.5 * std::abs(most.effect());
  return differs && &*mildest != &most ? &*mildest : nullptr;
}

/// What a factor does: "Against inlet 25 °C, gpt3-175b, TP8-PP4, microbatch 1 has 12 % fewer
/// tokens/s, 3 % more GPU energy a token with inlet 45 °C."
std::optional<Finding> about(const Groups& groups, Factor factor, double least) {
  std::vector<Series> all = series_of(groups, factor);
  if (all.empty()) return std::nullopt;
  // Of those with most levels.
  const std::size_t widest = std::ranges::max(all, {}, [](const Series& series) {
                               return series.rows.size();
                             }).rows.size();
  std::erase_if(all, [&](const Series& series) { return series.rows.size() < widest; });
  const Series& most = *std::ranges::max_element(
      all, {}, [](const Series& series) { return std::abs(series.effect()); });
  if (std::abs(most.effect()) < least) return std::nullopt;
  const StudyRow &base = most.base(), &extreme = most.extreme();
  Finding finding(chart_of(most));
  finding.say("Against ").name(base, level_of(base, factor)).say(", ");
  finding.name(base, subject_of(most));
  finding.say(all.size() > 1 ? ", where it changes most, has " : " has ");
  for (const StudyRow* row : levels_shown(most)) {
    if (row != levels_shown(most).front()) finding.say(", ");
    add_level(finding, most, *row, row == &extreme);
  }
  if (is_setting(factor)) add_reason(finding, base, extreme);
  if (const Series* other = counterexample(all, most)) {
    finding.say("; ").name(other->base(), subject_of(*other)).say(" has ");
    if (other->effect() * most.effect() > 0) finding.say("at most ");
    add_level(finding, *other, other->extreme(), false);
    if (level_of(other->base(), factor) != level_of(base, factor))
      finding.say(" against ").name(other->base(), level_of(other->base(), factor));
  }
  finding.say(".");
  if (is_setting(factor)) add_default_stack(finding, base, extreme);
  return finding;
}

double memory_share(const StudyRow& row) {
  const auto total = number_at(row, "memory_gib.total"), limit = number_at(row, "memory_gib.limit");
  return row.verdict == Verdict::ok && total && limit ? *total / *limit : 0;
}

Evidence count_of(const char* key, std::size_t count) {
  return {Evidence::Form::value,
          {{"", std::string("summary.") + key}},
          {},
          static_cast<double>(count),
          whole(static_cast<int64_t>(count))};
}

std::optional<Finding> about_memory(const Study& study) {
  const auto tightest = std::ranges::max_element(study.rows, {}, memory_share);
  if (tightest == study.rows.end() || memory_share(*tightest) == 0) return std::nullopt;
  const Summary summary = summary_of(study);
  Finding finding(anchor_of("memory", *tightest));
  if (summary.oom == 0)
    finding.say("Every valid job fits in memory");
  else
    finding.say("Memory rules out ")
        .add(count_of("oom", summary.oom))
        .say(" of ")
        .add(count_of("valid", summary.ok + summary.oom))
        .say(" valid jobs");
  finding.say("; the tightest that fits, ").group_and_name(*tightest).say(", fills ");
  finding.number(*tightest, "memory_gib.total", "").say(" of ");
  finding.number(*tightest, "memory_gib.limit", "GiB");
  finding.say(is_tight(*tightest) ? "; triplepoint plan would keep more free." : ".");
  return finding;
}

// ---- what the study was made to vary

bool is_most(const Study& study, bool (*holds)(const StudyRow&)) {
  return 2 * std::ranges::count_if(study.rows, holds) >= std::ssize(study.rows);
}

template <class Value>
std::size_t values_of(const Study& study, Value (*value)(const StudyRow&)) {
  std::set<Value> values;
  for (const StudyRow& row : study.rows)
    values.insert(value(row));
  return values.size();
}

std::size_t kinds_of_gpus(const Study& study) {
  return values_of<std::string>(study,
                                [](const StudyRow& row) { return row.job.cluster.gpu.name; });
}

/// By what tells its jobs apart: settings that at least half of them have, rooms and limits, sizes,
/// tasks.
bool is_asked(const Study& study, Factor factor) {
  switch (factor) {
    case Factor::placement:
      return is_most(study, [](const StudyRow& row) { return !row.job.plan.device_order.empty(); });
    case Factor::sends:
      return is_most(study, [](const StudyRow& row) { return row.job.plan.sends.has_value(); });
    case Factor::condition:
      return std::ranges::any_of(study.rows,
                                 [](const StudyRow& row) { return !row.condition.empty(); });
    case Factor::size:
      return kinds_of_gpus(study) == 1 && values_of<int64_t>(study, [](const StudyRow& row) {
                                            return row.job.world_size();
                                          }) > 2;
    case Factor::task:
      return true;
    case Factor::microbatch:
      return is_most(study, [](const StudyRow& row) { return row.job.plan.micro_batch_size > 1; });
    default:
      return false;
  }
}

}  // namespace

std::vector<Finding> find_findings(const Study& study) {
  const Groups groups = groups_of(study);
  std::vector<Finding> findings;
  const auto add = [&](std::optional<Finding> finding) {
    if (finding) findings.push_back(std::move(*finding));
  };
  std::vector<Factor> rest;
  for (const Factor factor :
       {Factor::placement, Factor::sends, Factor::condition, Factor::size, Factor::task,
        Factor::layout, Factor::microbatch, Factor::recompute, Factor::overlap}) {
    if (factor == Factor::size && kinds_of_gpus(study) > 1) add(about_machines(groups));
    if (is_asked(study, factor))
      add(about(groups, factor, 0));
    else
      rest.push_back(factor);
  }
  for (const Factor factor : rest)
    add(about(groups, factor, least_effect));
  add(about_heat(groups));
  add(about_slots(groups));
  add(about_memory(study));
  return findings;
}

}  // namespace triplepoint::report
