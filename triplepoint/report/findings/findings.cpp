// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/findings.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"

namespace triplepoint::report {
namespace {

using Form = Evidence::Form;

std::string product_of(const std::vector<Term>& terms) {
  std::string text;
  for (const Term& term : terms) {
    if (!text.empty()) text += " x ";
    text += term.job.empty() ? term.key : term.key + " of " + term.job;
  }
  return text;
}

std::string with_unit(std::string number, std::string_view unit) {
  if (unit.empty()) return number;
  return number + " " + std::string(unit);
}

}  // namespace

std::string formula_of(const Evidence& evidence) {
  const std::string above = product_of(evidence.above), below = product_of(evidence.below);
  std::string quotient = below.empty() ? above : above + " / " + below;
  switch (evidence.form) {
    case Form::value:
      return quotient;
    case Form::more:
      return quotient + " - 1";
    case Form::less:
      return "1 - " + quotient;
    case Form::difference:
      return above + " - " + below;
  }
  return quotient;
}

Finding& Finding::say(std::string_view words) {
  text_ += words;
  html_ += escape(words);
  return *this;
}

Finding& Finding::name(const StudyRow& row, std::string_view as) {
  text_ += as;
  const std::string label = escape(as), job = escape(row.name);
  html_ += row.page.empty() ? fmt::format("<span data-job=\"{}\">{}</span>", job, label)
                            : fmt::format("<a class=\"run\" href=\"{}\" data-job=\"{}\">{}</a>",
                                          escape(row.page), job, label);
  names_.push_back({std::string(as), row.name});
  return *this;
}

Finding& Finding::name(const StudyRow& row) {
  return name(row, full_label(row));
}

Finding& Finding::group(const StudyRow& row) {
  const std::string title = group_title(row);
  text_ += title;
  html_ += escape(title);
  names_.push_back({title, row.name});
  return *this;
}

Finding& Finding::group_and_name(const StudyRow& row) {
  return group(row).say(", ").name(row);
}

Finding& Finding::gpu(const StudyRow& row, int32_t index) {
  return name(row, "GPU " + run::device_number(row.gpus, as_size(index)));
}

Finding& Finding::add(Evidence evidence) {
  text_ += evidence.printed;
  html_ += fmt::format("<data value=\"{}\" title=\"{}\">{}</data>", evidence.value,
                       escape(formula_of(evidence)), escape(evidence.printed));
  evidence_.push_back(std::move(evidence));
  return *this;
}

Finding& Finding::number(const StudyRow& row, std::string_view key, std::string_view unit,
                         int digits) {
  const double value = known_number(row, key);
  return add({Form::value,
              {{row.name, std::string(key)}},
              {},
              value,
              with_unit(significant(value, digits), unit)});
}

Finding& Finding::instead(const StudyRow& row, std::string_view key, const StudyRow& other,
                          std::string_view other_key, std::string_view unit) {
  constexpr int most_digits = 5;
  const double value = known_number(row, key), before = known_number(other, other_key);
  for (int digits = 3; digits <= most_digits; ++digits)
    if (significant(value, digits) != significant(before, digits))
      return number(row, key, "", digits)
          .say(" instead of ")
          .number(other, other_key, unit, digits);
  return say("the same ").number(row, key, unit);
}

Finding& Finding::share(const StudyRow& row, std::string_view key) {
  const double value = known_number(row, key);
  return add({Form::value, {{row.name, std::string(key)}}, {}, value, percent(value)});
}

Finding& Finding::compare(Form form, Term above, Term below, double value) {
  const std::string printed = form == Form::value ? significant(value) + " times" : percent(value);
  return add({form, {std::move(above)}, {std::move(below)}, value, printed});
}

Finding& Finding::times(const StudyRow& row, const StudyRow& over, std::string_view key) {
  const std::string name(key);
  return compare(Form::value, {row.name, name}, {over.name, name},
                 known_number(row, key) / known_number(over, key));
}

Finding& Finding::more(const StudyRow& row, const StudyRow& over, std::string_view key) {
  const std::string name(key);
  return compare(Form::more, {row.name, name}, {over.name, name},
                 known_number(row, key) / known_number(over, key) - 1);
}

Finding& Finding::less(const StudyRow& row, const StudyRow& over, std::string_view key) {
  const std::string name(key);
  return compare(Form::less, {row.name, name}, {over.name, name},
                 1 - known_number(row, key) / known_number(over, key));
}

Finding& Finding::difference(const StudyRow& row, const StudyRow& from, std::string_view key,
                             std::string_view unit) {
  const double value = known_number(row, key) - known_number(from, key);
  const std::string name(key);
  return add({Form::difference,
              {{row.name, name}},
              {{from.name, name}},
              value,
              with_unit(significant(value, 2), unit)});
}

Finding& Finding::share_of(const StudyRow& row, std::string_view key, std::string_view whole) {
  const double value = known_number(row, key) / known_number(row, whole);
  return add({Form::value,
              {{row.name, std::string(key)}},
              {{row.name, std::string(whole)}},
              value,
              percent(value)});
}

Finding& Finding::minus(const StudyRow& row, std::string_view key, std::string_view other,
                        std::string_view unit) {
  const double value = known_number(row, key) - known_number(row, other);
  return add({Form::difference,
              {{row.name, std::string(key)}},
              {{row.name, std::string(other)}},
              value,
              with_unit(significant(value, 2), unit)});
}

Finding& Finding::less_than(const StudyRow& row, std::string_view key, std::string_view other) {
  return compare(Form::less, {row.name, std::string(key)}, {row.name, std::string(other)},
                 1 - known_number(row, key) / known_number(row, other));
}

namespace {

using Rows = std::vector<const StudyRow*>;

constexpr double min_reported_ratio = 1.01;  // times as much: below, both read the same
constexpr double min_decisive_ratio = 1.2;   // beyond the error of a prediction
constexpr double min_communication_share = 0.3;

double communication_share(const StudyRow& row) {
  const metrics::Metrics& m = *row.metrics;
  return m.exposed_communication && m.step_time ? *m.exposed_communication / *m.step_time : 0;
}

Evidence count_of(const char* key, std::size_t count) {
  return {Evidence::Form::value,
          {{"", std::string("summary.") + key}},
          {},
          as_real(count),
          whole(static_cast<int64_t>(count))};
}

double memory_share(const StudyRow& row) {
  return known_number(row, "memory_gib.total") / known_number(row, "memory_gib.limit");
}

const StudyRow* tightest_that_ran(const Study& study) {
  const StudyRow* tightest = nullptr;
  for (const StudyRow& row : study.rows) {
    if (row.verdict != Verdict::ok || !number_at(row, "memory_gib.total") ||
        !number_at(row, "memory_gib.limit"))
      continue;
    if (tightest == nullptr || memory_share(row) > memory_share(*tightest)) tightest = &row;
  }
  return tightest;
}

}  // namespace

std::vector<const StudyRow*> all_that_ran(const Groups& groups) {
  Rows all;
  for (const Group& group : groups) {
    const Rows ran = group.that_ran();
    all.insert(all.end(), ran.begin(), ran.end());
  }
  return all;
}

std::string_view verb_of(const StudyRow& row) {
  if (row.job.task == spec::Task::prefill) return " reads ";
  return row.job.task == spec::Task::decode ? " generates " : " trains ";
}

/// Of each group the layouts, each at its best, whose speeds differ most; full sharding has its own
/// sentence.
MaybeFinding about_speed(const Groups& groups) {
  std::optional<Pair> pair;
  double most = min_decisive_ratio;
  for (const Group& group : groups) {
    std::map<std::string, const StudyRow*> best;  // by layout
    for (const StudyRow* row : group.that_ran()) {
      if (row->job.plan.sharding == spec::Sharding::parameters) continue;
      const StudyRow*& known = best[layout_label(*row)];
      if (known == nullptr || ratio_at(*row, *known, "tokens_per_s").value_or(0) > 1) known = row;
    }
    for (const auto& [layout, from] : best)
      for (const auto& [other, to] : best)
        if (const auto ratio = ratio_at(*to, *from, "tokens_per_s"); ratio && *ratio > most)
          pair = Pair{from, to, PlanSetting::layout}, most = *ratio;
  }
  if (!pair) return std::nullopt;
  Finding finding(anchor_of("throughput", *pair->to));
  finding.say("Layout decides speed: ")
      .group(*pair->to)
      .say(" as ")
      .name(*pair->to)
      .say(verb_of(*pair->to))
      .number(*pair->to, "tokens_per_s", "tokens/s")
      .say(", ")
      .times(*pair->to, *pair->from, "tokens_per_s")
      .say(" what ")
      .name(*pair->from)
      .say(" reaches, each layout at its best.");
  add_default_stack(finding, *pair->from, *pair->to);
  return finding;
}

/// Where the fastest job is not the one with the least energy, or that it is everywhere.
MaybeFinding about_energy(const Groups& groups) {
  const StudyRow *fastest = nullptr, *thriftiest = nullptr;
  double best_saving = -1;
  for (const Group& group : groups) {
    if (pairs_of(group).empty()) continue;  // nothing to choose
    const Rows ran = group.that_ran();
    const StudyRow *fast = highest(ran, "tokens_per_s"), *thrifty = lowest(ran, "joules_per_token");
    if (fast == nullptr || thrifty == nullptr) continue;
    const auto saving = ratio_at(*fast, *thrifty, "joules_per_token");
    if (saving && *saving > best_saving)
      best_saving = *saving, fastest = fast, thriftiest = thrifty;
  }
  if (fastest == nullptr) return std::nullopt;
  Finding finding(anchor_of("energy", *fastest));
  if (best_saving < min_reported_ratio) {
    finding.say("Speed and " + energy_scope_of(*fastest) +
                " energy agree: no slower job saves energy noticeably.");
    return finding;
  }
  finding
      .say("The fastest job does not use the least " + energy_scope_of(*fastest) + " energy: for ")
      .group(*fastest)
      .say(", ")
      .name(*thriftiest)
      .say(" takes ")
      .less(*thriftiest, *fastest, "joules_per_token")
      .say(" less energy a token than the fastest, ")
      .name(*fastest)
      .say(", at ")
      .less(*thriftiest, *fastest, "tokens_per_s")
      .say(" fewer tokens/s.");
  return finding;
}

MaybeFinding about_communication(const Groups& groups) {
  const StudyRow* worst = nullptr;
  for (const StudyRow* row : all_that_ran(groups))
    if (worst == nullptr || communication_share(*row) > communication_share(*worst)) worst = row;
  if (worst == nullptr || communication_share(*worst) < min_communication_share)
    return std::nullopt;
  Finding finding(anchor_of("kernels", *worst));
  finding.say("Most exposed communication, by its share of the step: in ")
      .group_and_name(*worst)
      .say(", ")
      .number(*worst, "exposed_communication_s", "s")
      .say(" of the ")
      .number(*worst, "step_time_s", "s")
      .say(" of a step are communication that nothing hides.");
  return finding;
}

MaybeFinding about_memory(const Study& study) {
  const StudyRow* tightest = tightest_that_ran(study);
  if (tightest == nullptr) return std::nullopt;
  const Summary summary = summary_of(study);
  Finding finding(anchor_of("memory", *tightest));
  if (summary.oom == 0) {
    finding.say("Every valid job fits in memory");
  } else {
    finding.say("Memory rules out ")
        .add(count_of("oom", summary.oom))
        .say(" of ")
        .add(count_of("valid", summary.ok + summary.oom))
        .say(" valid jobs");
  }
  finding.say("; the tightest that fits, ")
      .group_and_name(*tightest)
      .say(", fills ")
      .number(*tightest, "memory_gib.total", "")
      .say(" of ")
      .number(*tightest, "memory_gib.limit", "GiB")
      .say(is_tight(*tightest) ? "; triplepoint plan would keep more free." : ".");
  return finding;
}

namespace {

using Look = MaybeFinding (*)(const Groups&);

/// Of how many of its jobs.
bool is_most(const Study& study, bool (*holds)(const StudyRow&)) {
  return 2 * std::ranges::count_if(study.rows, holds) >= std::ssize(study.rows);
}

/// Kinds of GPUs, and sizes of clusters of one kind.
std::size_t kinds_of_gpus(const Study& study) {
  std::set<std::string> kinds;
  for (const StudyRow& row : study.rows)
    kinds.insert(row.job.cluster.gpu.name);
  return kinds.size();
}
std::size_t sizes_of_clusters(const Study& study) {
  std::set<int64_t> sizes;
  for (const StudyRow& row : study.rows)
    sizes.insert(row.job.world_size());
  return sizes.size();
}

/// What the study was made to vary, by what tells its jobs apart: settings that at least half of
/// its jobs have, rooms and limits, machines, sizes.
std::vector<Look> questions_of(const Study& study) {
  std::vector<Look> asked;
  if (is_most(study, [](const StudyRow& row) { return !row.job.plan.device_order.empty(); }))
    asked = {about_placement, about_rank_order};
  if (is_most(study, [](const StudyRow& row) { return row.job.plan.sends.has_value(); }))
    asked.push_back(about_sends);
  if (std::ranges::any_of(study.rows, [](const StudyRow& row) { return !row.condition.empty(); }))
    asked.push_back(about_conditions);
  if (kinds_of_gpus(study) > 1)
    asked.push_back(about_machines);
  else if (sizes_of_clusters(study) > 2)
    asked.push_back(about_scaling);
  if (is_most(study, [](const StudyRow& row) {
        return row.job.task == spec::Task::pretrain && row.job.plan.micro_batch_size > 1;
      }))
    asked.push_back(about_faster_microbatches);
  return asked;
}

}  // namespace

std::vector<Finding> find_findings(const Study& study) {
  const Groups groups = groups_of(study);
  std::vector<Finding> findings;
  const auto asked = questions_of(study);
  for (auto look : asked)
    if (auto finding = look(groups)) findings.push_back(std::move(*finding));
  for (auto look : {about_decode_microbatches,
                    about_token_latency,
                    about_prompt_latency,
                    about_decode_energy,
                    about_fine_tuning,
                    about_speed,
                    about_energy,
                    about_slots,
                    about_placement,
                    about_rank_order,
                    about_throttling,
                    about_lost_clocks,
                    about_faster_microbatches,
                    about_slower_microbatches,
                    about_peaks_of_microbatches,
                    about_experts,
                    about_recompute,
                    about_what_recompute_unlocks,
                    about_overlap,
                    about_overlap_in_vain,
                    about_full_sharding,
                    about_sends,
                    about_scaling,
                    about_machines,
                    about_machines_per_watt,
                    about_fabrics,
                    about_oversubscription,
                    about_communication}) {
    if (std::ranges::find(asked, look) != asked.end()) continue;
    if (auto finding = look(groups)) findings.push_back(std::move(*finding));
  }
  if (auto finding = about_memory(study)) findings.push_back(std::move(*finding));
  return findings;
}

}  // namespace triplepoint::report
