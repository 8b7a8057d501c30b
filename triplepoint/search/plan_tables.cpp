// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/plan_tables.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

namespace triplepoint::search {
namespace {

using search::Finalist;
using search::Term;

std::string overlap_text(const spec::Plan& plan) {
  std::string text;
  const auto add = [&](bool on, const char* word) {
    if (on) text += (text.empty() ? "" : "+") + std::string(word);
  };
  add(plan.overlap_tensor, "tp");
  add(plan.overlap_gradient && plan.overlap_parameter, "dp");
  add(plan.overlap_gradient && !plan.overlap_parameter, "dp-grad");
  add(plan.overlap_parameter && !plan.overlap_gradient, "dp-param");
  add(plan.overlap_pipeline, "pp");
  add(plan.overlap_expert, "ep");
  return text;
}

std::string fsdp_text(const spec::Plan& plan) {
  std::string text = ", FSDP";
  if (plan.sharding_group_size > 0) text += fmt::format(" over {}", plan.sharding_group_size);
  if (!plan.reshard_after_forward) text += " (kept gathered)";
  return text;
}

std::string sharding_text(const spec::Plan& plan) {
  switch (plan.sharding) {
    case spec::Sharding::none:
      return "";
    case spec::Sharding::optimizer:
      return ", ZeRO-1";
    case spec::Sharding::gradients:
      return ", ZeRO-2";
    case spec::Sharding::parameters:
      return fsdp_text(plan);
  }
  return "";
}

std::string modules_text(const spec::Plan& plan) {
  if (plan.recompute_modules.empty()) return "selective";
  std::vector<std::string_view> names;
  for (const spec::RecomputeModule module : plan.recompute_modules)
    names.push_back(spec::enum_name(module));
  return fmt::format("{}", fmt::join(names, "+"));
}

std::string recompute_text(const spec::Plan& plan) {
  if (plan.recompute == spec::Recompute::none) return "";
  if (plan.recompute == spec::Recompute::selective) return ", recompute " + modules_text(plan);
  if (!plan.recompute_layers) return ", recompute full";
  return fmt::format(", recompute full ({} a chunk)", *plan.recompute_layers);
}

std::string why_not_first(const Finalist& plan, const Finalist& first, double slower) {
  if (metrics::is_tie(slower)) return "tie";
  const search::Loss loss = search::largest_loss(plan, first);
  const double share = loss.seconds / first.time;
  if (share < 5e-4) return "nearly equal";
  return fmt::format("{} +{:.1f} %", search::reason_of(loss.term), 100 * share);
}

double seconds(const Finalist& plan, size_t term) {
  return plan.terms[term];
}

}  // namespace

std::string plan_text(const spec::Plan& plan, const search::Layout& layout) {
  std::string text = fmt::format("TP{} PP{}", layout.tensor, layout.pipeline);
  if (layout.chunks > 1) text += fmt::format(" VPP{}", layout.chunks);
  if (layout.context > 1) text += fmt::format(" CP{}", layout.context);
  if (layout.expert > 1) text += fmt::format(" EP{}", layout.expert);
  if (layout.expert_tensor != layout.tensor) text += fmt::format(" ETP{}", layout.expert_tensor);
  text += fmt::format(" DP{}, mbs {}", layout.data, layout.micro);
  text += sharding_text(plan) + recompute_text(plan);
  if (plan.sequence_parallel) text += ", SP";
  if (plan.schedule == spec::Schedule::gpipe) text += ", GPipe";
  if (plan.schedule == spec::Schedule::zero_bubble) text += ", zero bubble";
  if (!plan.layers_per_stage.empty()) text += ", uneven";
  if (plan.rank_order != spec::RankOrder::tp_cp_ep_dp_pp)
    text += fmt::format(", ranks {}", spec::enum_name(plan.rank_order));
  const std::string overlap = overlap_text(plan);
  if (!overlap.empty()) text += ", overlap " + overlap;
  return text;
}

std::string plan_text(const Finalist& plan) {
  std::string text = plan_text(plan.candidate.plan, plan.candidate.layout);
  if (plan.power_limit) text += fmt::format(", {:.0f} W", *plan.power_limit / unit::W);
  return text;
}

/// Decimals of kJ that give the least energy two digits, where three do.
int energy_digits(const std::vector<Finalist>& ranked) {
  int digits = 0;
  for (const Finalist& plan : ranked)
    for (int more = 1; more <= 3; ++more)
      if (plan.energy / 1e3 < std::pow(10.0, 2 - more)) digits = std::max(digits, more);
  return digits;
}

DataTable ranking_table(const spec::Job& job, const std::vector<Finalist>& ranked, size_t top,
                        const metrics::PredictionIntervals& intervals) {
  DataTable table;
  table.name = "plans";
  table.title =
      fmt::format("Best plans for {} on {} x {}, batch {}", job.model.name, job.world_size(),
                  upper_case(job.cluster.gpu.name), job.plan.global_batch_size);
  table.columns = {
      {"place", "#"},
      {.key = "plan", .title = "plan", .whole = true},
      {"step_time_s", "step s", 1, 3},
      {.key = "probability_slower", .title = "P(slower) %", .scale = 0.01, .optional = 4},
      {.key = "tokens_per_second_per_gpu", .title = "tok/s/GPU", .optional = 6},
      {.key = "mfu", .title = "MFU %", .scale = 0.01, .digits = 1, .optional = 5},
      {.key = "memory_gib", .title = "GiB", .digits = 1, .optional = 3},
      {.key = "power_mean_w", .title = "mean W", .optional = 1},
      {.key = "power_peak_w", .title = "peak W", .optional = 7},
      {.key = "temperature_peak_c", .title = "peak °C", .digits = 1, .optional = 1},
      {.key = "energy_j",
       .title = "kJ/step",
       .scale = 1e3,
       .digits = energy_digits(ranked),
       .optional = 8},
      {.key = "front", .title = "front", .optional = 9},
      {.key = "why", .title = "why not first", .optional = 2}};
  const double gpus = static_cast<double>(job.world_size());
  for (size_t i = 0; i < std::min(top, ranked.size()); ++i) {
    const Finalist& plan = ranked[i];
    const double slower = intervals.probability_longer(plan.time, ranked[0].time);
    table.add({static_cast<int64_t>(i + 1), plan_text(plan), plan.time,
               i == 0 ? DataCell(std::string()) : DataCell(slower), plan.tokens_per_second / gpus,
               plan.mfu, plan.candidate.memory / unit::GiB, plan.power_mean, plan.power_peak,
               plan.hottest, plan.energy, std::string(plan.on_front ? "*" : ""),
               i == 0 ? std::string() : why_not_first(plan, ranked[0], slower)});
  }
  return table;
}

DataTable comparison_table(const Finalist& a, const Finalist& b) {
  DataTable table;
  table.name = "explain";
  table.title = fmt::format("A: {} - B: {}", plan_text(a), plan_text(b));
  table.columns = {{"term", "seconds of a step"},
                   {"a_s", "A", 1, 3},
                   {"b_s", "B", 1, 3},
                   {"difference_s", "B - A", 1, 3},
                   {"difference_of_step", "of A's step %", 0.01, 2}};
  std::vector<size_t> order(search::term_count);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto difference = [&](size_t term) { return seconds(b, term) - seconds(a, term); };
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    return std::abs(difference(x)) > std::abs(difference(y));
  });
  const auto add = [&](std::string name, double of_a, double of_b) {
    table.add({std::move(name), of_a, of_b, of_b - of_a, (of_b - of_a) / a.time});
  };
  for (const size_t term : order)
    add(std::string(name_of(static_cast<Term>(term))), seconds(a, term), seconds(b, term));
  add("step", a.time, b.time);
  return table;
}

Json finalist_json(const spec::Job& job, const Finalist& plan) {
  Json terms;
  for (size_t t = 0; t < search::term_count; ++t)
    terms[std::string(name_of(static_cast<Term>(t)))] = plan.terms[t];
  const search::Layout& layout = plan.candidate.layout;
  const spec::Plan& choice = plan.candidate.plan;
  Json json = {
      {"plan", plan_text(plan)},
      {"index", plan.candidate.index},
      {"tp", layout.tensor},
      {"pp", layout.pipeline},
      {"vpp", layout.chunks},
      {"cp", layout.context},
      {"ep", layout.expert},
      {"etp", layout.expert_tensor},
      {"dp", layout.data},
      {"mbs", layout.micro},
      {"sequence_parallel", choice.sequence_parallel},
      {"sharding", spec::enum_name(choice.sharding)},
      {"recompute", spec::enum_name(choice.recompute)},
      {"schedule", spec::enum_name(choice.schedule)},
      {"layers_per_stage", choice.layers_per_stage},
      {"overlap", overlap_text(choice)},
      {"step_time_s", plan.time},
      {"schedule_step_time_s", plan.candidate.step.time},
      {"tokens_per_second", plan.tokens_per_second},
      {"tokens_per_second_per_gpu", plan.tokens_per_second / static_cast<double>(job.world_size())},
      {"mfu", plan.mfu},
      {"energy_j", plan.energy},
      {"objective", plan.value},
      {"memory_bytes", plan.candidate.memory / unit::B},
      {"power_mean_w", plan.power_mean},
      {"power_peak_w", plan.power_peak},
      {"node_power_w", plan.node_power},
      {"temperature_peak_c", plan.hottest},
      {"throttled_share", plan.throttled},
      {"on_front", plan.on_front},
      {"terms_s", terms}};
  if (choice.recompute_layers) json["recompute_layers"] = *choice.recompute_layers;
  if (plan.power_limit) json["power_limit_w"] = *plan.power_limit / unit::W;
  if (plan.lifetime_use) json["lifetime_use"] = *plan.lifetime_use;
  if (!plan.refused.empty()) json["refused"] = plan.refused;
  return json;
}

Json counts_json(const search::SearchCounts& counts) {
  return {{"plans", counts.plans},
          {"layouts", counts.layouts},
          {"out_of_memory", counts.out_of_memory + counts.exact_out_of_memory},
          {"bounded", counts.bounded},
          {"layouts_simulated", counts.layouts_simulated},
          {"simulated", counts.simulated},
          {"simulated_on_shared_links", counts.simulated_on_links}};
}

std::string counts_text(const search::SearchCounts& counts) {
  return fmt::format(
      "{} plans in {} layouts: {} do not fit in memory, {} cannot beat what was found, {} were "
      "simulated.",
      whole(counts.plans), whole(counts.layouts),
      whole(counts.out_of_memory + counts.exact_out_of_memory),
      whole(counts.plans - counts.out_of_memory - counts.exact_out_of_memory - counts.simulated),
      whole(counts.simulated));
}

}  // namespace triplepoint::search
