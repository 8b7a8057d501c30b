// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/plan_outcome.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/run_figures.h"
#include "triplepoint/report/pages/answer_pages.h"
#include "triplepoint/search/plan_tables.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::flags {
namespace {

using search::Finalist;

metrics::Bill bill_of(const PlanOutcome& outcome, const Finalist& plan) {
  return outcome.bill.bill(outcome.asked.base, outcome.rates, plan.time * unit::s,
                           plan.power_mean * unit::W);
}

std::optional<metrics::Interval> step_time_interval(const PlanOutcome& outcome,
                                                    const Finalist& plan) {
  const spec::Job job = search::job_of(outcome.asked.base, plan);
  if (!outcome.learned) return outcome.intervals.step_time(job, plan.time);
  const double factor = outcome.learned->interval_factor(job, plan.time);
  return metrics::Interval{plan.time / factor, plan.time * factor};
}

/// Measured jobs that an interval rests on.
int64_t interval_rows(const PlanOutcome& outcome) {
  return outcome.learned ? static_cast<int64_t>(outcome.learned->runs()) : outcome.intervals.rows();
}

void put_interval(Json& json, const PlanOutcome& outcome, const Finalist& plan) {
  if (const auto interval = step_time_interval(outcome, plan)) {
    json["step_time_low_s"] = interval->low;
    json["step_time_high_s"] = interval->high;
  }
  json["probability_slower"] =
      outcome.intervals.probability_longer(plan.time, outcome.ranking.ranked[0].time);
}

std::vector<std::string> limits_in_words(const search::Limits& limits) {
  std::vector<std::string> words;
  if (limits.temperature)
    words.push_back(fmt::format("die at most {} °C", significant(limits.temperature->degrees())));
  const auto add = [&](const std::optional<Watts>& power, const char* what) {
    if (power)
      words.push_back(fmt::format("{} at most {} kW", what, significant(*power / unit::kW)));
  };
  add(limits.device_power, "peak of a GPU");
  add(limits.node_power, "a node");
  add(limits.total_power, "the cluster");
  if (limits.headroom > Bytes())
    words.push_back(fmt::format("{} GiB of memory free", significant(limits.headroom / unit::GiB)));
  return words;
}

}  // namespace

const std::string& defaults_of(const PlanOutcome& outcome) {
  return outcome.asked.base.notes.front();
}

std::vector<std::string> readings_of(const PlanOutcome& outcome) {
  const std::vector<std::string>& notes = outcome.asked.base.notes;
  return {notes.begin() + 1, notes.end()};
}

Json plan_json(const PlanOutcome& outcome, const std::optional<DataTable>& comparison) {
  Json json = {{"model", outcome.asked.base.model.name},
               {"cluster", outcome.asked.base.cluster.name},
               {"gpus", outcome.asked.base.world_size()},
               {"global_batch_size", outcome.asked.base.plan.global_batch_size},
               {"sequence_length", outcome.asked.base.model.sequence_length},
               {"defaults", defaults_of(outcome)},
               {"notes", readings_of(outcome)},
               {"objective", name_of(outcome.asked.objective.goal)},
               {"search", search::counts_json(outcome.ranking.counts)},
               {"interval_rows", interval_rows(outcome)},
               {"plans", Json::array()},
               {"refused", Json::array()}};
  if (outcome.asked.watch.stopped()) json["interrupted"] = true;
  // The plans of the table, and of the front where it is asked for.
  const auto& ranked = outcome.ranking.ranked;
  for (size_t i = 0; i < ranked.size(); ++i) {
    const Finalist& plan = ranked[i];
    if (i >= outcome.asked.top && !(outcome.asked.pareto && plan.on_front)) continue;
    Json one = search::finalist_json(outcome.asked.base, plan);
    put_interval(one, outcome, plan);
    if (outcome.bill.given())
      one["bill"] = metrics::bill_json(bill_of(outcome, plan), outcome.rates);
    json["plans"].push_back(std::move(one));
  }
  for (const Finalist& plan : outcome.ranking.refused)
    json["refused"].push_back(search::finalist_json(outcome.asked.base, plan));
  if (comparison) json["explain"] = table_json(*comparison);
  if (outcome.own) {
    json["own"] = search::finalist_json(outcome.asked.base, outcome.own->plan);
    json["own"]["missing_memory_bytes"] = outcome.own->missing / unit::B;
  }
  return json;
}

std::optional<search::OtherPlan> own_plan(const study::PlanQuestion& asked) {
  const spec::Plan& plan = asked.base.plan;
  const bool overlaps = plan.overlap_tensor || plan.overlap_gradient || plan.overlap_parameter ||
                        plan.overlap_pipeline || plan.overlap_expert;
  const bool is_told = overlaps || plan.model_parallel_size() > 1 ||
                       plan.expert_parallel_size > 1 || plan.micro_batch_size > 1 ||
                       plan.sharding == spec::Sharding::parameters ||
                       plan.recompute != spec::Recompute::none;
  if (!is_told || spec::has_errors(spec::diagnose(asked.base))) return std::nullopt;
  return search::judged_plan("your job", asked.base, asked.objective, asked.limits);
}

std::vector<std::string> plan_sentences(const PlanOutcome& outcome) {
  const auto& ranked = outcome.ranking.ranked;
  std::vector<std::string> sentences = {counts_text(outcome.ranking.counts)};
  if (outcome.own) sentences.push_back(search::own_text(*outcome.own, ranked[0]));
  if (const auto interval = step_time_interval(outcome, ranked[0]))
    sentences.push_back(fmt::format(
        "Plan 1 takes {} s a step; {} s (from {} measured jobs). Plans of one job share "
        "most of the error: P(slower) is the probability that a plan really is slower "
        "than plan 1, and a tie where that is open.",
        significant(ranked[0].time), answers::interval_text(*interval), interval_rows(outcome)));
  if (const auto& refused = outcome.ranking.refused; !refused.empty())
    sentences.push_back(
        fmt::format("{} simulated plan{} break{} a limit, the best of them {} ({}).",
                    refused.size(), refused.size() == 1 ? "" : "s", refused.size() == 1 ? "s" : "",
                    search::plan_text(refused.front()), refused.front().refused));
  if (const auto note =
          sim::unlimited_die_note(outcome.asked.base.cluster.gpu, Celsius(ranked[0].hottest)))
    sentences.push_back("Plan 1: " + *note + ".");
  if (const auto limit = ranked[0].power_limit)
    sentences.push_back(fmt::format(
        "Plan 1 needs a power limit of {:.0f} W on every GPU (nvidia-smi -pl, amd-smi set "
        "--power-cap); its job.toml has it, Megatron's and NeMo's files cannot.",
        *limit / unit::W));
  if (outcome.bill.given())
    sentences.push_back("Bill of the first: " +
                        metrics::bill_text(bill_of(outcome, ranked[0]), outcome.rates) + ".");
  return sentences;
}

Result<void> write_plan_page(const Path& file, const PlanOutcome& outcome,
                             const std::vector<std::string>& sentences) {
  const study::PlanQuestion& asked = outcome.asked;
  const spec::Job first = search::job_of(asked.base, outcome.ranking.ranked[0]);
  const report::PlanPageContent content{
      .base = asked.base,
      .ranking = outcome.ranking,
      .goal = asked.objective.goal,
      .best =
          search::ranking_table(asked.base, outcome.ranking.ranked, asked.top, outcome.intervals),
      .own = outcome.own,
      .others = search::neighbours_of(first, asked.objective, asked.limits),
      .limits = limits_in_words(asked.limits),
      .sentences = sentences};
  return write_file_atomically(file, report::plan_page(content));
}

}  // namespace triplepoint::flags
