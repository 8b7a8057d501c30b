// SPDX-License-Identifier: Apache-2.0
// What to change in the jobs of a study.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/report/findings/study_document.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::report {
namespace {

constexpr double least_gain = 0.01;
constexpr std::string_view speed = "tokens_per_s";

std::string change_anchor(const Group& group) {
  return "change-" + group.id;
}

double gain_of(const Pair& pair) {
  return ratio_at(*pair.to, *pair.from, speed).value_or(0) - 1;
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
  switch (pair.factor) {
    case Factor::layout:
      text.say("Lay out as ").name(to).say(" instead of ").name(from, layout_with_options(from));
      break;
    case Factor::microbatch:
      text.say("Take ").name(to, level_of(to, pair.factor)).say(" instead of ");
      text.name(from, level_of(from, pair.factor)).say(" with ").name(to, layout_with_options(to));
      break;
    case Factor::recompute:
      text.say(to.job.plan.recompute == spec::Recompute::none        ? "Recompute nothing in "
               : to.job.plan.recompute == spec::Recompute::selective ? "Recompute selectively in "
                                                                     : "Recompute in ")
          .name(from);
      break;
    case Factor::overlap:
      text.say(overlaps(to) ? "Overlap communication with computing in " : "Do not overlap in ")
          .name(from);
      break;
    default:
      text.say("Place ranks and layers as ").name(to, to.name).say(" does");
  }
  text.say(": ").change(to, from, speed, of_tokens);
  add_energy_change(text, from, to);
  add_heat_change(text, from, to);
  text.say(".");
}

Recommendation recommend(const Group& group, const Pair& pair) {
  Finding text(change_anchor(group));
  add_change(text, pair);
  const bool is_compared = add_default_stack(text, *pair.from, *pair.to);
  return {pair.from, pair.to, pair.factor, gain_of(pair), std::move(text), is_compared};
}

/// From the layout that the study names first; with that one best already, nothing.
std::optional<Pair> layout_change(const std::vector<Pair>& pairs, const StudyRow& fastest,
                                  const std::string& first_layout) {
  for (const Pair& pair : pairs)
    if (pair.factor == Factor::layout && pair.to == &fastest &&
        layout_label(*pair.from) == first_layout && ratio_at(*pair.to, *pair.from, speed))
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
  if (pair.factor == Factor::recompute) return to.recompute == best.recompute;
  if (pair.factor == Factor::microbatch) return to.micro_batch_size == best.micro_batch_size;
  return pair.factor == Factor::overlap && overlaps(*pair.to) == overlaps(fastest);
}

/// The setting turned to the fastest job's setting; otherwise where it gains most.
std::optional<Pair> setting_change(const Group& group, std::vector<Pair> pairs, Factor factor,
                                   const StudyRow& fastest) {
  std::erase_if(pairs, [&](const Pair& pair) {
    return pair.factor != factor || !pair.from->metrics || !pair.to->metrics ||
           !ratio_at(*pair.to, *pair.from, speed) ||
           !is_worth_changing(group, *pair.from, fastest) || fastest_has_it(pair, fastest);
  });
  const auto rank = [&](const Pair& pair) {
    const bool leads = pair.to == &fastest && gain_of(pair) >= least_gain;
    return std::pair(leads, gain_of(pair));
  };
  const auto best = std::ranges::max_element(pairs, {}, rank);
  return best == pairs.end() ? std::nullopt : std::optional(*best);
}

}  // namespace

bool add_default_stack(Finding& text, const StudyRow& from, const StudyRow& to) {
  const DefaultStack there = with_default_stack(from, to);
  const std::string with = fmt::format(" With stack {} ", spec::default_stack);
  if (there.fails != nullptr) text.say(with).name(*there.fails).say(" does not fit or run.");
  if (!there.ratio) return there.fails != nullptr;
  const double gain = *there.ratio - 1, here = ratio_at(to, from, speed).value_or(1) - 1;
  if (std::abs(gain) >= least_gain && gain / here >= 0.5 && gain / here <= 1.5) return true;
  text.say(with + (gain < 0 ? "the same change costs " : "the same change gains "))
      .add({gain < 0 ? Evidence::Form::less : Evidence::Form::more,
            {{"", std::string(default_stack_key) + change_key(from, to)}},
            {},
            std::abs(gain),
            percent(std::abs(gain))})
      .say(" of the speed.");
  return true;
}

std::vector<Recommendation> recommendations_for(const Group& group) {
  std::vector<Recommendation> all;
  std::vector<const StudyRow*> ran = group.that_ran();
  std::erase_if(ran, [](const StudyRow* row) { return is_tight(*row); });
  const StudyRow* fastest = highest(ran, speed);
  if (fastest == nullptr || !fastest->has_job) return all;
  std::vector<Pair> pairs = pairs_of(group);
  std::erase_if(pairs, [](const Pair& pair) { return is_tight(*pair.to); });
  if (const auto pair = layout_change(pairs, *fastest, layout_label(*group.rows.front())))
    all.push_back(recommend(group, *pair));
  for (Factor factor : {Factor::microbatch, Factor::recompute, Factor::overlap, Factor::placement})
    if (const auto pair = setting_change(group, pairs, factor, *fastest))
      all.push_back(recommend(group, *pair));
  std::erase_if(all, [](const Recommendation& r) { return r.gain < least_gain; });
  // What leads to the best job comes before what helps elsewhere.
  std::stable_sort(all.begin(), all.end(), [&](const Recommendation& a, const Recommendation& b) {
    const bool a_leads = a.to == fastest, b_leads = b.to == fastest;
    return a_leads != b_leads ? a_leads : a.gain > b.gain;
  });
  return all;
}

}  // namespace triplepoint::report
