// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/commands/plan_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/interrupt.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/number_text.h"

#include "triplepoint/cli/flags/job_flags.h"
#include "triplepoint/formats/export.h"
#include "triplepoint/metrics/economics/bill_text.h"
#include "triplepoint/report/job_name.h"
#include "triplepoint/search/plan_tables.h"
#include "triplepoint/tui/data_table_text.h"
#include "triplepoint/tui/run_text.h"
#include "triplepoint/tui/text_table.h"

namespace triplepoint::cli {
namespace {

using search::Finalist;

// Above this a second search, without the memory limit, would be felt.
constexpr int64_t most_plans_for_a_second_search = 1'500'000;

metrics::Bill bill_of(const PlanOutcome& outcome, const Finalist& plan) {
  return outcome.bill.bill(outcome.base, outcome.rates, plan.time * unit::s,
                           plan.power_mean * unit::W);
}

/// What the best plan would be if memory were no limit.
std::optional<std::string> memory_line(const PlanOutcome& outcome) {
  if (outcome.space.size() > most_plans_for_a_second_search) return std::nullopt;
  if (search::anyone(outcome.search.pool, interrupted())) return std::nullopt;
  search::Limits free;
  free.headroom = -1e6 * unit::GB;
  const auto best = std::min_element(
      outcome.ranking.ranked.begin(), outcome.ranking.ranked.end(),
      [](const Finalist& a, const Finalist& b) { return a.candidate.value < b.candidate.value; });
  search::SearchOptions options = outcome.search;
  options.keep = 1;
  options.known = best->candidate.value;  // what is no better need not be looked at
  const search::Found found = search::search(outcome.space, outcome.objective, free, options);
  if (found.best.empty() || found.best[0].value >= best->candidate.value) return std::nullopt;
  const search::Candidate& plan = found.best[0];
  return fmt::format("Memory costs {:.1f} %: without its limit {} would be best, with {} GiB.",
                     100 * (best->candidate.value / plan.value - 1),
                     search::plan_text(plan.plan, plan.layout),
                     significant(plan.memory / unit::GiB));
}

void print_front(tui::Console& console, const PlanOutcome& outcome) {
  std::vector<Finalist> front;
  for (const Finalist& plan : outcome.ranking.ranked)
    if (plan.on_front) front.push_back(plan);
  DataTable table = search::ranking_table(outcome.base, front, front.size(), outcome.intervals);
  table.title = "Nothing found is better in time, energy, peak power and peak temperature";
  console.print("\n" + tui::table_text(table, console));
}

std::optional<metrics::Interval> step_time_interval(const PlanOutcome& outcome,
                                                    const Finalist& plan) {
  spec::Job job = outcome.base;
  job.plan = plan.candidate.plan;
  return outcome.intervals.step_time(job, plan.time);
}

void put_interval(Json& json, const PlanOutcome& outcome, const Finalist& plan) {
  if (const auto interval = step_time_interval(outcome, plan)) {
    json["step_time_low_s"] = interval->low;
    json["step_time_high_s"] = interval->high;
  }
  json["probability_slower"] =
      outcome.intervals.probability_longer(plan.time, outcome.ranking.ranked[0].time);
}

}  // namespace

void print_plan(tui::Console& console, const PlanOutcome& outcome, const DataTable& table,
                bool front) {
  const auto& ranked = outcome.ranking.ranked;
  console.print(tui::table_text(table, console));
  const auto line = [&](const std::string& text) {
    console.print(tui::wrap(text, console.abilities().width.value_or(100), "  ") + "\n");
  };
  line(counts_text(outcome.ranking.counts));
  if (const auto interval = step_time_interval(outcome, ranked[0]))
    line(fmt::format(
        "Plan 1 takes {} s a step; {} s (from {} measured jobs). Plans of one job share "
        "most of the error: \"slower\" is the probability that a plan really is slower "
        "than plan 1, and a tie where that is open.",
        significant(ranked[0].time), tui::interval_text(*interval), outcome.intervals.rows()));
  for (const Finalist& plan : outcome.ranking.refused)
    line(fmt::format("Refused: {} ({}).",
                     search::plan_text(plan.candidate.plan, plan.candidate.layout), plan.refused));
  if (const auto memory = memory_line(outcome)) line(*memory);
  if (front) print_front(console, outcome);
  if (outcome.bill.given())
    line("Bill of the first: " + metrics::bill_text(bill_of(outcome, ranked[0]), outcome.rates) +
         ".");
}

Result<void> write_plans(tui::Console& console, const spec::Library& library,
                         const PlanOutcome& outcome, const Path& folder) {
  if (auto made = make_folder(folder); !made) return tl::unexpected(made.error());
  const size_t count = std::min(outcome.ranking.ranked.size(), outcome.top);
  for (size_t i = 0; i < count; ++i) {
    spec::Job job = outcome.base;
    job.plan = outcome.ranking.ranked[i].candidate.plan;
    job.name = report::default_name(job);
    const std::pair<std::string, std::string> files[] = {
        {"job.toml", spec::write_job(job, library)},
        {"megatron.sh", formats::export_megatron_args(job).text},
        {"nemo.yaml", formats::export_nemo_yaml(job).text}};
    for (const auto& [name, text] : files)
      TPT_TRY(write_file_atomically(folder / fmt::format("{}-{}", i + 1, name), text));
  }
  console.warn(fmt::format("{} plans as job.toml, megatron.sh and nemo.yaml in {}\n", count,
                           folder.string()));
  return {};
}

Json plan_json(const PlanOutcome& outcome, const std::optional<DataTable>& comparison) {
  Json json = {{"model", outcome.base.model.name},
               {"cluster", outcome.base.cluster.name},
               {"gpus", outcome.base.world_size()},
               {"global_batch_size", outcome.base.plan.global_batch_size},
               {"objective", name_of(outcome.objective.goal)},
               {"search", search::counts_json(outcome.ranking.counts)},
               {"interval_rows", outcome.intervals.rows()},
               {"plans", Json::array()},
               {"refused", Json::array()}};
  for (const Finalist& plan : outcome.ranking.ranked) {
    Json one = search::finalist_json(outcome.base, plan);
    put_interval(one, outcome, plan);
    if (outcome.bill.given())
      one["bill"] = metrics::bill_json(bill_of(outcome, plan), outcome.rates);
    json["plans"].push_back(std::move(one));
  }
  for (const Finalist& plan : outcome.ranking.refused)
    json["refused"].push_back(search::finalist_json(outcome.base, plan));
  if (comparison) json["explain"] = table_json(*comparison);
  return json;
}

}  // namespace triplepoint::cli
