// SPDX-License-Identifier: Apache-2.0
// What do heat and clocks do to the jobs of a study?
#include <algorithm>
#include <cmath>
#include <set>

#include "triplepoint/answers/labels.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

using Rows = std::vector<const StudyRow*>;

constexpr double least_clock_loss = 2e-3;  // of hot slots against cool ones
constexpr double clear_clock_loss = 1e-2;  // that a step shows
constexpr double least_chance = 0.05;      // below it a pattern is not chance
constexpr double least_heat_share = 5e-3;  // of the step, that its printed times tell apart
constexpr double least_throttling = 0.01;  // share of time

std::optional<double> quantity_ratio(const StudyRow& row, std::string_view key,
                                     std::string_view over) {
  const auto above = number_at(row, key), below = number_at(row, over);
  if (!above || !below || !(*below > 0)) return std::nullopt;
  return *above / *below;
}

const StudyRow* largest(const Rows& rows, auto&& value) {
  const StudyRow* best = nullptr;
  for (const StudyRow* row : rows)
    if (value(*row) && (best == nullptr || *value(*row) > *value(*best))) best = row;
  return best;
}

std::string longest_reason(const StudyRow& row) {
  const auto& reasons = row.metrics->throttle;
  const auto longest = std::ranges::max_element(
      reasons, [](const auto& a, const auto& b) { return a.second < b.second; });
  return longest == reasons.end() ? "" : longest->first;
}

/// Probability that as many nodes or more have their slowest GPU in a hot slot, were slots no
/// reason: a tail of the binomial distribution.
double chance_of_slowest(const StudyRow& row) {
  const auto share = number_at(row, "sm_clock_mhz.slowest_in_hot_slot");
  const std::set<int32_t> slots(row.slots.begin(), row.slots.end());
  if (!share || !row.has_job || slots.empty()) return 1;
  const double hot = as_real(row.metrics->hot_slots.size()) / as_real(slots.size());
  const int64_t nodes = row.job.cluster.num_nodes;
  const int64_t found = std::llround(*share * as_real(nodes));
  double exactly = std::pow(hot, as_real(nodes)),
         chance = 0;  // k of them, from all down
  for (int64_t k = nodes; k >= found; --k) {
    chance += exactly;
    exactly *= as_real(k) / as_real(nodes - k + 1) * (1 - hot) / hot;
  }
  return chance;
}

/// Whether the step waits for hot slots.
bool waits_for_hot_slots(const StudyRow& row) {
  const auto clocks = quantity_ratio(row, "sm_clock_mhz.hot_mean", "sm_clock_mhz.cool_mean");
  return clocks && *clocks <= 1 - clear_clock_loss && chance_of_slowest(row) < least_chance;
}

void add_slowest(Finding& finding, const StudyRow& row) {
  const auto clocks = quantity_ratio(row, "sm_clock_mhz.hot_mean", "sm_clock_mhz.cool_mean");
  if (clocks && *clocks < 1 - least_clock_loss)
    finding.say("; the hot ones clock {} lower",
                less_than(row, "sm_clock_mhz.hot_mean", "sm_clock_mhz.cool_mean"));
  if (chance_of_slowest(row) < least_chance)
    finding.say(
        "; the slowest GPU, for which all others wait, sits in a hot slot in {} of the nodes",
        percentage(row, "sm_clock_mhz.slowest_in_hot_slot"));
}

/// The same job but for who sits where and who has how many layers.
bool is_placed_like(const StudyRow& placed, const StudyRow& base) {
  spec::Job job = placed.job;
  job.plan.device_order = base.job.plan.device_order;
  job.plan.node_order = base.job.plan.node_order;
  job.plan.layers_per_stage = base.job.plan.layers_per_stage;
  job.name = base.job.name;
  job.origin = base.job.origin;
  job.notes = base.job.notes;
  return job == base.job;
}

double gap_of(const StudyRow& row) {
  return number_at(row, "temperature_c.hot_mean").value_or(0) -
         number_at(row, "temperature_c.cool_mean").value_or(0);
}

struct Placed {
  const StudyRow *row = nullptr, *base = nullptr;
  double gain = 0;  // efficiency over the baseline's
};

/// Every row with its own slots, against the row of the same job without.
std::vector<Placed> placed_rows(const Groups& groups, bool with_layers) {
  std::vector<Placed> found;
  for (const Group& group : groups)
    for (const StudyRow* row : group.that_ran()) {
      const spec::Plan& plan = row->job.plan;
      if (!row->has_job || plan.device_order.empty() ||
          plan.layers_per_stage.empty() == with_layers)
        continue;
      for (const StudyRow* base : group.that_ran()) {
        const auto gain = ratio_at(*row, *base, "samples_per_s_mj");
        if (base->job.plan.device_order.empty() && base->job.plan.layers_per_stage.empty() &&
            gain && is_placed_like(*row, *base))
          found.push_back({row, base, *gain - 1});
      }
    }
  return found;
}

void add_efficiency(Finding& finding, const Placed& placed) {
  const auto of = placed.gain < 0 ? less_of : more_of;
  finding.say(placed.gain < 0 ? "{} less samples per second and megajoule"
                              : "{} more samples per second and megajoule",
              of(*placed.row, *placed.base, "samples_per_s_mj"));
}

}  // namespace

/// Layers moved from hot to cold stages: where it pays most and where least.
MaybeFinding about_placement(const Groups& groups) {
  std::vector<Placed> placed = placed_rows(groups, true);
  std::erase_if(placed, [](const Placed& one) { return gap_of(*one.row) >= gap_of(*one.base); });
  if (placed.empty()) return std::nullopt;
  const auto [worst, best] =
      std::minmax_element(placed.begin(), placed.end(),
                          [](const Placed& a, const Placed& b) { return a.gain < b.gain; });
  constexpr std::string_view hot = "temperature_c.hot_mean", cool = "temperature_c.cool_mean",
                             cold_step = "step_without_heat_s";
  Finding finding(anchor_of("heat-temperature", *best->row));
  finding.say(
      "Uneven layers help: with more layers on cold slots and fewer on hot ones, {} reaches ",
      group_and_name(*best->row));
  add_efficiency(finding, *best);
  finding.say(" than {}, with hot slots at {} and cool ones at {}", named(*best->base),
              instead(*best->row, *best->base, hot, "°C"),
              instead(*best->row, *best->base, cool, "°C"));
  if (number_at(*best->row, cold_step) && number_at(*best->base, cold_step))
    finding.say("; without heat they would give a step of {}",
                instead(*best->row, *best->base, cold_step, "s"));
  if (worst != best && worst->gain < 0) {
    finding.say("; with few layers per stage the imbalance costs more than the heat: {} reaches ",
                group_and_name(*worst->row));
    add_efficiency(finding, *worst);
    constexpr std::string_view bubble = "bubble_fraction";
    const auto grown = number_at(*worst->row, bubble), before = number_at(*worst->base, bubble);
    if (grown && before && *grown >= *before + 0.01)
      finding.say(", its bubble grown to {} from {}", percentage(*worst->row, bubble),
                  percentage(*worst->base, bubble));
  }
  finding.say(".");
  return finding;
}

/// Other devices for the same ranks, and nothing else.
MaybeFinding about_rank_order(const Groups& groups) {
  constexpr std::string_view speed = "tokens_per_s";
  const auto most = strongest(pairs_that_ran(groups, PlanSetting::placement),
                              [&](const Pair& pair) { return ratio_at(pair, speed); });
  if (!most) return std::nullopt;
  Finding finding(anchor_of("heat-temperature", *most->to));
  finding.say("Which rank runs in which slot is worth at most {} of the speed: {}, {} against {}.",
              more_of(*most->to, *most->from, speed), group_name(*most->to),
              named(*most->to, most->to->name), named(*most->from, most->from->name));
  return finding;
}

/// Hot and cool slots: where they lie furthest apart.
MaybeFinding about_slots(const Groups& groups) {
  const auto heat = [](const StudyRow& row) { return std::optional<double>(gap_of(row)); };
  Rows slowed;  // where heat lowers the clock and delays all ranks
  for (const StudyRow* row : all_that_ran(groups))
    if (quantity_ratio(*row, "sm_clock_mhz.hot_mean", "sm_clock_mhz.cool_mean").value_or(1) <
        1 - least_clock_loss)
      slowed.push_back(row);
  const StudyRow* worst = largest(slowed.empty() ? all_that_ran(groups) : slowed, heat);
  if (worst == nullptr || gap_of(*worst) < answers::least_slot_gap_c) return std::nullopt;
  Finding finding(anchor_of("heat-temperature", *worst));
  finding.say("{}: in {}, the hot slots run at {} and the cool ones at {}",
              words(waits_for_hot_slots(*worst) ? "The GPU slot matters"
                                                : "GPU slots differ in temperature"),
              group_and_name(*worst), number(*worst, "temperature_c.hot_mean", "°C"),
              number(*worst, "temperature_c.cool_mean", "°C"));
  add_slowest(finding, *worst);
  finding.say(".");
  return finding;
}

MaybeFinding about_throttling(const Groups& groups) {
  Rows known;
  for (const StudyRow* row : all_that_ran(groups))
    if (number_at(*row, "sm_clock_mhz.mean") && !row->metrics->throttle.empty())
      known.push_back(row);
  const auto share = [](const StudyRow& row) {
    return number_at(row, "throttle." + longest_reason(row));
  };
  const StudyRow* worst = largest(known, share);
  if (worst == nullptr || *share(*worst) < least_throttling) return std::nullopt;
  const std::string reason = longest_reason(*worst);
  Finding finding(anchor_of("throttle", *worst));
  finding.say(
      "Clocks are limited by {}: GPUs of {} spend {} of the step below the requested clock and "
      "average {}.",
      words(answers::throttle_reason_text(reason)), group_and_name(*worst),
      percentage(*worst, "throttle." + reason), number(*worst, "sm_clock_mhz.mean", "MHz", 4));
  return finding;
}

std::optional<int32_t> gpu_slowed_by_heat(const StudyRow& row) {
  for (const run::Bottleneck& bottleneck : row.metrics->bottlenecks)
    if (bottleneck.cause == run::Cause::heat && bottleneck.of == run::Bottleneck::Of::gpu)
      return bottleneck.who.front();
  return std::nullopt;
}

/// What heat costs the step and the clock, in the job whose step it stretches most.
MaybeFinding about_lost_clocks(const Groups& groups) {
  const StudyRow* worst = largest(all_that_ran(groups), [](const StudyRow& row) {
    return has_fault(row) ? std::nullopt
                          : quantity_ratio(row, "step_time_s", "step_without_heat_s");
  });
  if (worst == nullptr ||
      quantity_ratio(*worst, "step_time_s", "step_without_heat_s").value_or(1) <
          1 + least_heat_share ||
      !number_at(*worst, "sm_clock_mhz.lost_to_power") ||
      number_at(*worst, "sm_clock_mhz.lost_to_temperature").value_or(0) < 1)
    return std::nullopt;
  Finding finding(anchor_of("clock", *worst));
  const bool at_limit =
      number_at(*worst, "throttle.software_thermal").value_or(0) >= least_throttling;
  finding.say(
      "Heat slows the step {}: {} takes {} a step, and {} with every die at inlet temperature; ",
      words(at_limit ? "at the temperature limit" : "through leakage under the power cap"),
      group_and_name(*worst), number(*worst, "step_time_s", "s"),
      number(*worst, "step_without_heat_s", "s"));
  if (const auto gpu = gpu_slowed_by_heat(*worst))
    finding.say("all wait for {}; ", gpu_name(*worst, *gpu));
  finding.say("on average heat takes {} of the clock and the power cap {}.",
              number(*worst, "sm_clock_mhz.lost_to_temperature", "MHz"),
              number(*worst, "sm_clock_mhz.lost_to_power", "MHz"));
  return finding;
}

}  // namespace triplepoint::report
