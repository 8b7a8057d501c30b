// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/findings/study_document.h"
#include "triplepoint/report/study.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::report {
namespace {

using Rows = std::vector<const StudyRow*>;

constexpr double least_gain = 0.01;
constexpr std::string_view default_stack_key = "default_stack_speed.";
constexpr std::string_view speed = "tokens_per_s", energy = "joules_per_token";

std::string change_anchor(const Group& group) {
  return "change-" + group.id;
}

double gain_of(const Pair& pair) {
  return ratio_at(pair, speed).value_or(0) - 1;
}

/// "67 % more tokens/s, 38 % less GPU energy a token, 2.1 °C cooler at its peak."
void add_gain_between(Finding& text, const StudyRow& from, const StudyRow& to) {
  text.say("{}", change_of(to, from, speed, {" the speed", " more tokens/s", " fewer tokens/s"}));
  if (const auto joules = ratio_at(to, from, energy)) {
    const Phrase scope = words(energy_scope_of(to) + " energy a token");
    if (*joules <= 0.995)
      text.say(", {} less {}", less_of(to, from, energy), scope);
    else if (*joules >= 1.005)
      text.say(", {} more {}", more_of(to, from, energy), scope);
    else
      text.say(", the same {}", scope);
  }
  const auto before = number_at(from, "temperature_c.peak"),
             after = number_at(to, "temperature_c.peak");
  if (before && after && *after > *before + 0.5)
    text.say(", {} hotter at its peak", difference_of(to, from, "temperature_c.peak", "°C"));
  if (before && after && *after < *before - 0.5)
    text.say(", {} cooler at its peak", difference_of(from, to, "temperature_c.peak", "°C"));
}

/// Seconds of a step with other software and all else as it is; nothing where the job does not fit
/// or run there. Every page of a study asks again, so each job is simulated once.
std::optional<Seconds> step_with(const spec::Stack& stack, spec::Job job) {
  static std::mutex guard;
  static std::map<std::string, std::optional<Seconds>> known;
  job.stack = stack;
  const std::scoped_lock lock(guard);
  const auto [step, is_new] = known.try_emplace(spec::write_job(job));
  if (is_new && !spec::has_errors(spec::diagnose(job)))
    step->second = sim::find_steady_step_time(job);
  return step->second;
}

/// Speed after a change over that before it, under the default software; nothing where the study's
/// is that software.
struct DefaultStack {
  std::optional<double> ratio;
  const StudyRow* fails = nullptr;  // does not fit or run there
};
DefaultStack with_default_stack(const StudyRow& from, const StudyRow& to) {
  const Result<spec::Library> library = spec::require_library();
  if (!from.has_job || !to.has_job || spec::is_inference(to.job.task) ||
      to.origin != run::Origin::simulated || !library || to.job.stack.name == spec::default_stack ||
      to.job.cluster.shared_cores > 0)
    return {};
  const Result<spec::Stack> stack = spec::load_stack(*library, spec::default_stack);
  if (!stack) return {};
  const auto before = step_with(*stack, from.job), after = step_with(*stack, to.job);
  if (!before || !after) return {{}, before ? &to : &from};
  return {*before / *after};
}

std::string change_key(const StudyRow& from, const StudyRow& to) {
  return identifier(from.name + " to " + to.name);
}

void add_change(Finding& text, const Pair& pair) {
  const StudyRow &from = *pair.from, &to = *pair.to;
  switch (pair.setting) {
    case PlanSetting::layout:
      text.say("Lay out as {} instead of {}", named(to), named(from, layout_with_options(from)));
      break;
    case PlanSetting::microbatch:
      text.say("Take {} instead of {} with {}", named(to, microbatch_name(to)),
               named(from, microbatch_name(from)), named(to, layout_with_options(to)));
      break;
    case PlanSetting::recompute:
      text.say(to.job.plan.recompute == spec::Recompute::none        ? "Recompute nothing in {}"
               : to.job.plan.recompute == spec::Recompute::selective ? "Recompute selectively in {}"
                                                                     : "Recompute in {}",
               named(from));
      break;
    case PlanSetting::overlap:
      text.say(overlaps(to) ? "Overlap communication with computing in {}" : "Do not overlap in {}",
               named(from));
      break;
    case PlanSetting::placement:
      text.say("Place the ranks on the GPUs of a node as {} does", named(to, to.name));
      break;
    case PlanSetting::sends:
      text.say("Send between stages as {} does", named(to, to.name));
      break;
  }
  text.say(": ");
  add_gain_between(text, from, to);
  text.say(".");
}

Recommendation recommend(const Group& group, const Pair& pair) {
  Finding text(change_anchor(group));
  add_change(text, pair);
  const bool is_compared = add_default_stack(text, *pair.from, *pair.to);
  return {pair.from, pair.to, pair.setting, gain_of(pair), std::move(text), is_compared};
}

/// From the layout that the study names first; with that one best already, nothing.
std::optional<Pair> layout_change(const std::vector<Pair>& pairs, const StudyRow& fastest,
                                  const std::string& first_layout) {
  for (const Pair& pair : pairs)
    if (pair.setting == PlanSetting::layout && pair.to == &fastest &&
        layout_label(*pair.from) == first_layout && ratio_at(pair, speed))
      return pair;
  return std::nullopt;
}

/// A job that one might run: the user's own, which a study names first, or one at least half as
/// fast as the fastest.
bool is_worth_changing(const Group& group, const StudyRow& from, const StudyRow& fastest) {
  constexpr double least_share = 0.5;
  return &from == group.rows.front() || ratio_at(from, fastest, speed).value_or(0) >= least_share;
}

/// Whether the fastest job has the setting to which a pair would turn another one.
bool fastest_has_it(const Pair& pair, const StudyRow& fastest) {
  const spec::Plan &to = pair.to->job.plan, &best = fastest.job.plan;
  if (pair.to == &fastest) return false;
  if (pair.setting == PlanSetting::recompute) return to.recompute == best.recompute;
  if (pair.setting == PlanSetting::microbatch) return to.micro_batch_size == best.micro_batch_size;
  return pair.setting == PlanSetting::overlap && overlaps(*pair.to) == overlaps(fastest);
}

/// The setting turned to the fastest job's setting; otherwise where it gains most.
std::optional<Pair> setting_change(const Group& group, const std::vector<Pair>& pairs,
                                   PlanSetting setting, const StudyRow& fastest) {
  std::vector<Pair> of_setting;
  std::ranges::copy_if(pairs, std::back_inserter(of_setting), [&](const Pair& pair) {
    return pair.setting == setting && pair.from->metrics && pair.to->metrics &&
           is_worth_changing(group, *pair.from, fastest) && !fastest_has_it(pair, fastest);
  });
  std::vector<Pair> to_fastest = of_setting;
  std::erase_if(to_fastest, [&](const Pair& pair) { return pair.to != &fastest; });
  const auto gain = [](const Pair& pair) { return ratio_at(pair, speed); };
  const auto at_best = strongest(to_fastest, gain);
  return at_best && gain_of(*at_best) >= least_gain ? at_best : strongest(of_setting, gain);
}

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

bool add_default_stack(Finding& text, const StudyRow& from, const StudyRow& to) {
  const DefaultStack there = with_default_stack(from, to);
  const std::string with = fmt::format(" With stack {} ", spec::default_stack);
  if (there.fails != nullptr) text.say(with + "{} does not fit or run.", named(*there.fails));
  if (!there.ratio) return there.fails != nullptr;
  const double gain = *there.ratio - 1, here = ratio_at(to, from, speed).value_or(1) - 1;
  if (std::abs(gain) >= least_gain && gain / here >= 0.5 && gain / here <= 1.5) return true;
  text.say(with + (gain < 0 ? "the same change costs {} of the speed."
                            : "the same change gains {} of the speed."),
           figure({gain < 0 ? Evidence::Form::less : Evidence::Form::more,
                   {{"", std::string(default_stack_key) + change_key(from, to)}},
                   {},
                   std::abs(gain),
                   percent(std::abs(gain))}));
  return true;
}

Finding what_limits(const StudyRow& row) {
  Finding text(anchor_of("kernels", row));
  if (const run::Bottleneck* fault = effect_of_fault(row)) {
    std::string sentence = metrics::bottleneck_sentence(*fault, row.metrics->step_time, row.gpus);
    sentence.pop_back();  // its full stop
    return std::move(text.say("{}", named(row, sentence)));
  }
  std::vector<Share> shares = shares_of_step(row);
  constexpr std::string_view cap = "throttle.software_power_cap";
  if (shares.empty() && number_at(row, cap).value_or(0) >= 0.5)
    return std::move(text.say("the power cap, {} of the time", percentage(row, cap)));
  if (shares.empty()) return std::move(text.say("not known"));
  std::ranges::stable_sort(shares, std::greater(), &Share::value);
  const Share most = shares.front();
  for (const Share& share : shares) {
    if (share.key != most.key && share.value < least_named_share) break;
    text.say(
        share.key == most.key ? "{}, {}" : ", then {}, {}", words(share.words),
        share.whole.empty() ? percentage(row, share.key) : share_of(row, share.key, share.whole));
    if (share.key == most.key) text.say(" of the step");
  }
  const auto lost = number_at(row, "sm_clock_mhz.lost_to_power");
  if (has_fault(row)) return std::move(text.say("; with its fault"));
  if (heat_share(row) >= clear_heat_share) {
    text.say("; heat takes {} of it",
             difference_of(row, row, "step_time_s", "s", "step_without_heat_s"));
    if (const auto gpu = gpu_slowed_by_heat(row)) text.say(", by {}", gpu_name(row, *gpu));
    return text;
  }
  if (most.key == "kernel_time_s.compute" && lost && *lost >= 20)
    text.say("; the power cap takes {}", number(row, "sm_clock_mhz.lost_to_power", "MHz"));
  return text;
}

std::vector<Recommendation> recommendations_for(const Group& group) {
  std::vector<Recommendation> all;
  Rows ran = group.that_ran();
  std::erase_if(ran, [](const StudyRow* row) { return is_tight(*row); });
  const StudyRow* fastest = highest(ran, speed);
  if (fastest == nullptr || !fastest->has_job) return all;
  std::vector<Pair> pairs = pairs_of(group);
  std::erase_if(pairs, [](const Pair& pair) { return is_tight(*pair.to); });
  if (const auto pair = layout_change(pairs, *fastest, layout_label(*group.rows.front())))
    all.push_back(recommend(group, *pair));
  for (PlanSetting setting : {PlanSetting::microbatch, PlanSetting::recompute, PlanSetting::overlap,
                              PlanSetting::placement})
    if (const auto pair = setting_change(group, pairs, setting, *fastest))
      all.push_back(recommend(group, *pair));
  std::erase_if(all, [](const Recommendation& r) { return r.gain < least_gain; });
  // What leads to the best job comes before what helps elsewhere.
  std::ranges::stable_sort(all, [&](const Recommendation& a, const Recommendation& b) {
    const bool a_leads = a.to == fastest, b_leads = b.to == fastest;
    return a_leads != b_leads ? a_leads : a.gain > b.gain;
  });
  return all;
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
      highest(ran, speed),         thriftiest_of(ran),          highest(ran, "temperature_c.peak"),
      Finding("throughput-" + id), Finding("energy-" + id),     Finding("kernels-" + id),
      Finding("change-" + id),     Finding("temperature-" + id)};
  if (answers.fastest != nullptr) {
    answers.fastest_text.say("{}: {}{}", named(*answers.fastest, short_label(*answers.fastest)),
                             number(*answers.fastest, speed, "tokens/s", 4),
                             words(is_tight(*answers.fastest) ? ", memory is tight" : ""));
    answers.limit_text = what_limits(*answers.fastest);
  }
  if (answers.thriftiest != nullptr)
    answers.energy_text.say("{}: {}", named(*answers.thriftiest, short_label(*answers.thriftiest)),
                            number(*answers.thriftiest, energy, "J/token"));
  if (answers.hottest != nullptr)
    answers.heat_text.say("{} in {}", number(*answers.hottest, "temperature_c.peak", "°C"),
                          named(*answers.hottest));
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
  return mapped<Json>(terms, [&](const Term& term) -> Json {
    return {{"job", term.job.empty() ? Json() : Json(term.job)}, {"key", term.key}};
  });
}

const char* form_name(Evidence::Form form) {
  return word_for<Evidence::Form::difference>({"value", "more", "less", "difference"}, form);
}

Json sentence_json(const Finding& finding) {
  Json json = {{"text", finding.text()}, {"chart", finding.anchor()}};
  json["numbers"] = Json::array();
  for (const Evidence& evidence : finding.evidence())
    json["numbers"].push_back({{"printed", evidence.printed},
                               {"value", evidence.value},
                               {"form", form_name(evidence.form)},
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
