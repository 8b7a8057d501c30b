// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/findings/study_document.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

using Rows = std::vector<const StudyRow*>;

constexpr std::string_view speed = "tokens_per_s", energy = "joules_per_token";

struct Share {
  std::string_view key, whole;
  const char* words;
  double value = 0;
};

std::vector<Share> shares_of_step(const StudyRow& row) {
  std::vector<Share> shares = {
      {"bubble_fraction", "", "the pipeline's bubble", 0},
      {"exposed_communication_s", "step_time_s", "communication that nothing hides", 0},
      {"kernel_time_s.memory", "step_time_s", "norms and elementwise kernels", 0},
      {"launch_gaps_s", "step_time_s", "late launches of the host", 0},
      {"kernel_time_s.compute", "step_time_s", "matrix products and attention", 0}};
  for (Share& share : shares) {
    const auto part = number_at(row, share.key);
    const auto whole = share.whole.empty() ? std::optional<double>(1) : number_at(row, share.whole);
    share.value = part && whole && *whole > 0 ? *part / *whole : 0;
  }
  std::erase_if(shares, [](const Share& share) { return !(share.value > 0); });
  return shares;
}

constexpr double clear_heat_share = 0.03;  // of the step
constexpr double least_named_share = 0.1;  // what limits beside the largest

double heat_share(const StudyRow& row) {
  const auto step = number_at(row, "step_time_s"), cold = number_at(row, "step_without_heat_s");
  return step && cold && *step > 0 ? 1 - *cold / *step : 0;
}

/// Who slows the others in a job with a planted fault.
const run::Bottleneck* effect_of_fault(const StudyRow& row) {
  const bool any = has_fault(row) && row.metrics && !row.metrics->bottlenecks.empty();
  return any ? &row.metrics->bottlenecks.front() : nullptr;
}

}  // namespace

Finding what_limits(const StudyRow& row) {
  Finding text(anchor_of("kernels", row));
  if (const run::Bottleneck* fault = effect_of_fault(row)) {
    std::string words = metrics::bottleneck_sentence(*fault, row.metrics->step_time);
    words.pop_back();  // its full stop
    return std::move(text.name(row, words));
  }
  std::vector<Share> shares = shares_of_step(row);
  constexpr std::string_view cap = "throttle.software_power_cap";
  if (shares.empty() && number_at(row, cap).value_or(0) >= 0.5)
    return std::move(text.say("the power cap, ").share(row, cap).say(" of the time"));
  if (shares.empty()) return std::move(text.say("not known"));
  std::ranges::stable_sort(shares, std::greater(), &Share::value);
  const Share most = shares.front();
  for (const Share& share : shares) {
    if (share.key != most.key && share.value < least_named_share) break;
    text.say(share.key == most.key ? "" : ", then ").say(share.words).say(", ");
    if (share.whole.empty())
      text.share(row, share.key);
    else
      text.share_of(row, share.key, share.whole);
    if (share.key == most.key) text.say(" of the step");
  }
  const auto lost = number_at(row, "sm_clock_mhz.lost_to_power");
  if (has_fault(row)) return std::move(text.say("; with its fault"));
  if (heat_share(row) >= clear_heat_share) {
    text.say("; heat takes ")
        .difference(row, "step_time_s", row, "step_without_heat_s", "s")
        .say(" of it");
    if (const auto gpu = gpu_slowed_by_heat(row)) text.say(", by ").gpu(row, *gpu);
    return text;
  }
  if (most.key == "kernel_time_s.compute" && lost && *lost >= 20)
    text.say("; the power cap takes ").number(row, "sm_clock_mhz.lost_to_power", "MHz");
  return text;
}

const StudyRow* thriftiest_of(const std::vector<const StudyRow*>& ran) {
  const StudyRow *fastest = highest(ran, speed), *thriftiest = lowest(ran, energy);
  // Another job for a difference that no meter shows would only confuse.
  constexpr double same_energy = 1.005;
  const bool same = fastest != nullptr && thriftiest != nullptr &&
                    ratio_at(*fastest, *thriftiest, energy).value_or(2) <= same_energy;
  return same ? fastest : thriftiest;
}

Answers answers_for(const Group& group) {
  const Rows ran = group.that_ran();
  const std::string& id = group.id;
  Answers answers{
      highest(ran, speed),         thriftiest_of(ran),      highest(ran, "temperature_c.peak"),
      Finding("throughput-" + id), Finding("energy-" + id), Finding("kernels-" + id),
      Finding("change-" + id)};
  if (answers.fastest != nullptr) {
    answers.fastest_text.name(*answers.fastest, short_label(*answers.fastest))
        .say(": ")
        .number(*answers.fastest, speed, "tokens/s", 4)
        .say(is_tight(*answers.fastest) ? ", memory is tight" : "");
    answers.limit_text = what_limits(*answers.fastest);
  }
  if (answers.thriftiest != nullptr)
    answers.energy_text.name(*answers.thriftiest, short_label(*answers.thriftiest))
        .say(": ")
        .number(*answers.thriftiest, energy, "J/token");
  if (answers.fastest == nullptr) return answers;
  if (const run::Bottleneck* fault = effect_of_fault(*answers.fastest)) {
    answers.change_text.say(metrics::bottleneck_advice(*fault));
    return answers;
  }
  const std::vector<Recommendation> changes = recommendations_for(group);
  if (changes.empty()) return answers;
  answers.change_text = changes.front().text;
  answers.is_compared = changes.front().is_compared;
  return answers;
}

namespace {

Json terms_json(const std::vector<Term>& terms) {
  Json list = Json::array();
  for (const Term& term : terms)
    list.push_back({{"job", term.job.empty() ? Json() : Json(term.job)}, {"key", term.key}});
  return list;
}

const char* name_of(Evidence::Form form) {
  switch (form) {
    case Evidence::Form::value:
      return "value";
    case Evidence::Form::more:
      return "more";
    case Evidence::Form::less:
      return "less";
    case Evidence::Form::difference:
      return "difference";
  }
  return "";
}

Json sentence_json(const Finding& finding) {
  Json json = {{"text", finding.text()}, {"chart", finding.anchor()}};
  json["numbers"] = Json::array();
  for (const Evidence& evidence : finding.evidence())
    json["numbers"].push_back({{"printed", evidence.printed},
                               {"value", evidence.value},
                               {"form", name_of(evidence.form)},
                               {"above", terms_json(evidence.above)},
                               {"below", terms_json(evidence.below)}});
  return json;
}

Json name_or_null(const StudyRow* row) {
  return row != nullptr ? Json(row->name) : Json();
}

/// The ratios of speed that the sentence has.
void note_default_stack(const Finding& finding, Json& speeds) {
  for (const Evidence& evidence : finding.evidence())
    if (const std::string& key = evidence.above.front().key; key.starts_with(default_stack_key))
      speeds[key.substr(default_stack_key.size())] =
          1 + (evidence.form == Evidence::Form::less ? -evidence.value : evidence.value);
}

Json group_json(const Group& group, Json& default_stack_speed) {
  const Answers answers = answers_for(group);
  Json json = {{"id", group.id},
               {"title", group.title},
               {"fastest", name_or_null(answers.fastest)},
               {"least_energy", name_or_null(answers.thriftiest)},
               {"hottest", name_or_null(answers.hottest)},
               {"limit", sentence_json(answers.limit_text)}};
  json["jobs"] = Json::array();
  for (const StudyRow* row : group.rows)
    json["jobs"].push_back(row->name);
  json["recommendations"] = Json::array();
  for (const Recommendation& change : recommendations_for(group)) {
    Json entry = sentence_json(change.text);
    entry["from"] = change.from->name;
    entry["to"] = change.to->name;
    entry["gain"] = change.gain;
    note_default_stack(change.text, default_stack_speed);
    json["recommendations"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

Json conclusions_json(const Study& study) {
  const Summary summary = summary_of(study);
  Json json = {{"summary",
                {{"jobs", summary.jobs},
                 {"valid", summary.ok + summary.oom},
                 {"ok", summary.ok},
                 {"oom", summary.oom},
                 {"invalid", summary.invalid}}}};
  json["findings"] = Json::array();
  json["default_stack_speed"] = Json::object();
  for (const Finding& finding : find_findings(study)) {
    json["findings"].push_back(sentence_json(finding));
    note_default_stack(finding, json["default_stack_speed"]);
  }
  json["groups"] = Json::array();
  for (const Group& group : groups_of(study))
    json["groups"].push_back(group_json(group, json["default_stack_speed"]));
  return json;
}

}  // namespace triplepoint::report
