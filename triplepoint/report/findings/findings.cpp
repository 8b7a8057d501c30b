// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/findings.h"

#include <algorithm>
#include <map>
#include <set>

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

Term term_of(const StudyRow& row, std::string_view key) {
  return {row.name, std::string(key)};
}

Phrase figure_of(Form form, std::vector<Term> above, std::vector<Term> below, double value) {
  const std::string printed = form == Form::value ? significant(value) + " times" : percent(value);
  return figure({form, std::move(above), std::move(below), value, printed});
}

double ratio(const StudyRow& row, const StudyRow& over, std::string_view key) {
  return known_number(row, key) / known_number(over, key);
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

Phrase& Phrase::operator+=(const Phrase& more) {
  text += more.text;
  html += more.html;
  evidence.insert(evidence.end(), more.evidence.begin(), more.evidence.end());
  names.insert(names.end(), more.names.begin(), more.names.end());
  return *this;
}

Phrase words(std::string_view text) {
  return {std::string(text), escape(text), {}, {}};
}

Phrase named(const StudyRow& row, std::string_view as) {
  const std::string label = escape(as), job = escape(row.name);
  return {std::string(as),
          row.page.empty() ? fmt::format("<span data-job=\"{}\">{}</span>", job, label)
                           : fmt::format("<a class=\"run\" href=\"{}\" data-job=\"{}\">{}</a>",
                                         escape(row.page), job, label),
          {},
          {{std::string(as), row.name}}};
}

Phrase named(const StudyRow& row) {
  return named(row, full_label(row));
}

Phrase group_name(const StudyRow& row) {
  Phrase phrase = words(group_title(row));
  phrase.names = {{phrase.text, row.name}};
  return phrase;
}

Phrase group_and_name(const StudyRow& row) {
  return (group_name(row) += words(", ")) += named(row);
}

Phrase gpu_name(const StudyRow& row, int32_t index) {
  return named(row, "GPU " + run::device_number(row.gpus, as_size(index)));
}

Phrase figure(Evidence evidence) {
  return {evidence.printed,
          fmt::format("<data value=\"{}\" title=\"{}\">{}</data>", evidence.value,
                      escape(formula_of(evidence)), escape(evidence.printed)),
          {evidence},
          {}};
}

Phrase number(const StudyRow& row, std::string_view key, std::string_view unit, int digits) {
  const double value = known_number(row, key);
  return figure(
      {Form::value, {term_of(row, key)}, {}, value, with_unit(significant(value, digits), unit)});
}

Phrase instead(const StudyRow& row, const StudyRow& other, std::string_view key,
               std::string_view unit) {
  constexpr int most_digits = 5;
  const double value = known_number(row, key), before = known_number(other, key);
  for (int digits = 3; digits <= most_digits; ++digits)
    if (significant(value, digits) != significant(before, digits))
      return (number(row, key, "", digits) += words(" instead of ")) +=
             number(other, key, unit, digits);
  return words("the same ") += number(row, key, unit);
}

Phrase percentage(const StudyRow& row, std::string_view key) {
  const double value = known_number(row, key);
  return figure({Form::value, {term_of(row, key)}, {}, value, percent(value)});
}

Phrase times_of(const StudyRow& row, const StudyRow& over, std::string_view key) {
  return figure_of(Form::value, {term_of(row, key)}, {term_of(over, key)}, ratio(row, over, key));
}

Phrase more_of(const StudyRow& row, const StudyRow& over, std::string_view key) {
  return figure_of(Form::more, {term_of(row, key)}, {term_of(over, key)},
                   ratio(row, over, key) - 1);
}

Phrase less_of(const StudyRow& row, const StudyRow& over, std::string_view key) {
  return figure_of(Form::less, {term_of(row, key)}, {term_of(over, key)},
                   1 - ratio(row, over, key));
}

Phrase ratio_of(std::vector<Term> above, std::vector<Term> below, double value,
                const RatioWords& after) {
  const Form form = value >= 2 ? Form::value : value >= 1 ? Form::more : Form::less;
  const double shown = form == Form::value ? value : form == Form::more ? value - 1 : 1 - value;
  return figure_of(form, std::move(above), std::move(below), shown) +=
         words(form == Form::value  ? after.times
               : form == Form::more ? after.more
                                    : after.less);
}

Phrase change_of(const StudyRow& row, const StudyRow& over, std::string_view key,
                 const RatioWords& after) {
  return ratio_of({term_of(row, key)}, {term_of(over, key)}, ratio(row, over, key), after);
}

Phrase difference_of(const StudyRow& row, const StudyRow& from, std::string_view key,
                     std::string_view unit, std::string_view other) {
  if (other.empty()) other = key;
  const double value = known_number(row, key) - known_number(from, other);
  return figure({Form::difference,
                 {term_of(row, key)},
                 {term_of(from, other)},
                 value,
                 with_unit(significant(value, 2), unit)});
}

Phrase share_of(const StudyRow& row, std::string_view key, std::string_view whole) {
  const double value = known_number(row, key) / known_number(row, whole);
  return figure({Form::value, {term_of(row, key)}, {term_of(row, whole)}, value, percent(value)});
}

Phrase less_than(const StudyRow& row, std::string_view key, std::string_view other) {
  return figure_of(Form::less, {term_of(row, key)}, {term_of(row, other)},
                   1 - known_number(row, key) / known_number(row, other));
}

Finding& Finding::add_phrases(std::string_view pattern,
                              std::initializer_list<const Phrase*> phrases) {
  for (const Phrase* phrase : phrases) {
    const std::size_t place = pattern.find("{}");
    phrase_ += words(pattern.substr(0, place));
    phrase_ += *phrase;
    pattern.remove_prefix(place + 2);
  }
  phrase_ += words(pattern);
  return *this;
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
  finding.say("Layout decides speed: {} as {}{}{}, {} what {} reaches, each layout at its best.",
              group_name(*pair->to), named(*pair->to), words(verb_of(*pair->to)),
              number(*pair->to, "tokens_per_s", "tokens/s"),
              times_of(*pair->to, *pair->from, "tokens_per_s"), named(*pair->from));
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
    finding.say("Speed and {} energy agree: no slower job saves energy noticeably.",
                words(energy_scope_of(*fastest)));
    return finding;
  }
  finding.say(
      "The fastest job does not use the least {} energy: for {}, {} takes {} less energy a token "
      "than the fastest, {}, at {} fewer tokens/s.",
      words(energy_scope_of(*fastest)), group_name(*fastest), named(*thriftiest),
      less_of(*thriftiest, *fastest, "joules_per_token"), named(*fastest),
      less_of(*thriftiest, *fastest, "tokens_per_s"));
  return finding;
}

MaybeFinding about_communication(const Groups& groups) {
  const StudyRow* worst = nullptr;
  for (const StudyRow* row : all_that_ran(groups))
    if (worst == nullptr || communication_share(*row) > communication_share(*worst)) worst = row;
  if (worst == nullptr || communication_share(*worst) < min_communication_share)
    return std::nullopt;
  Finding finding(anchor_of("kernels", *worst));
  finding.say(
      "Most exposed communication, by its share of the step: in {}, {} of the {} of a step are "
      "communication that nothing hides.",
      group_and_name(*worst), number(*worst, "exposed_communication_s", "s"),
      number(*worst, "step_time_s", "s"));
  return finding;
}

MaybeFinding about_memory(const Study& study) {
  const StudyRow* tightest = tightest_that_ran(study);
  if (tightest == nullptr) return std::nullopt;
  const Summary summary = summary_of(study);
  Finding finding(anchor_of("memory", *tightest));
  if (summary.oom == 0)
    finding.say("Every valid job fits in memory");
  else
    finding.say("Memory rules out {} of {} valid jobs", figure(count_of("oom", summary.oom)),
                figure(count_of("valid", summary.ok + summary.oom)));
  finding.say("; the tightest that fits, {}, fills {} of {}{}", group_and_name(*tightest),
              number(*tightest, "memory_gib.total", ""),
              number(*tightest, "memory_gib.limit", "GiB"),
              words(is_tight(*tightest) ? "; triplepoint plan would keep more free." : "."));
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
    if (holds(asked, look)) continue;
    if (auto finding = look(groups)) findings.push_back(std::move(*finding));
  }
  if (auto finding = about_memory(study)) findings.push_back(std::move(*finding));
  return findings;
}

}  // namespace triplepoint::report
