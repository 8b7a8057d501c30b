// SPDX-License-Identifier: Apache-2.0
// What do the settings of a plan do, one at a time, where they do most?
#include <cmath>

#include "triplepoint/base/text.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

constexpr double clear_change = 1.03;  // times as much; less is within what the models can tell
constexpr std::string_view speed = "tokens_per_s", step_time = "step_time_s",
                           peak_power = "power_w.peak", peak_heat = "temperature_c.peak";

std::optional<double> gain(const Pair& pair) {
  return ratio_at(pair, speed);
}
std::optional<double> slowdown(const Pair& pair) {
  return ratio_at(*pair.from, *pair.to, speed);
}

std::vector<Pair> growing_microbatches(const Groups& groups) {
  std::vector<Pair> pairs = pairs_that_ran(groups, PlanSetting::microbatch);
  std::erase_if(pairs, [](const Pair& pair) {
    return pair.from->job.plan.micro_batch_size >= pair.to->job.plan.micro_batch_size;
  });
  return pairs;
}

/// "1.9 times as fast", "31 % faster".
Phrase gain_words(const Pair& pair) {
  return change_of(*pair.to, *pair.from, speed, {" as fast", " faster", " slower"});
}

std::optional<double> bubble_seconds(const StudyRow& row) {
  const auto step = number_at(row, "step_time_s"), bubble = number_at(row, "bubble_fraction");
  return step && bubble ? std::optional(*step * *bubble) : std::nullopt;
}
std::optional<double> compute_seconds(const StudyRow& row) {
  return number_at(row, "kernel_time_s.compute");
}
std::optional<double> all_to_all_seconds(const StudyRow& row) {
  return number_at(row, "kernel_time_s.all_to_all");
}

/// Whether a part changes the way the step does, and by half as much or more. Only then it is named
/// as the reason.
bool is_most_of_change(const Pair& pair, std::optional<double> (*part)(const StudyRow&)) {
  const auto from = part(*pair.from), to = part(*pair.to),
             step_from = number_at(*pair.from, "step_time_s"),
             step_to = number_at(*pair.to, "step_time_s");
  if (!from || !to || !step_from || !step_to || *step_from == *step_to) return false;
  return (*to - *from) / (*step_to - *step_from) >= 0.5;
}

/// "raises peak power by 31 %", "lowers ...".
void add_peak_power(Finding& finding, const Pair& pair) {
  const auto change = ratio_at(pair, peak_power);
  if (!change) return;
  finding.say(*change >= 1 ? " and raises peak power by {}" : " and lowers peak power by {}",
              (*change >= 1 ? more_of : less_of)(*pair.to, *pair.from, peak_power));
}

/// Fewer microbatches gather the weights less often, where that is most of what they save.
void add_gathers(Finding& finding, const Pair& pair) {
  constexpr std::string_view gathers = "kernel_time_s.all_gather", all = "kernel_time_s.total";
  const auto before = number_at(*pair.from, gathers), after = number_at(*pair.to, gathers),
             all_before = number_at(*pair.from, all), all_after = number_at(*pair.to, all);
  if (!before || !after || !all_before || !all_after) return;
  if (*before - *after <= 0.5 * (*all_before - *all_after) || *before <= *after) return;
  finding.say("; all-gathers take {} a step", instead(*pair.to, *pair.from, gathers, "s"));
}

std::vector<Pair> switched_on(const Groups& groups, PlanSetting setting,
                              bool (*is_on)(const StudyRow&)) {
  std::vector<Pair> pairs = pairs_that_ran(groups, setting);
  std::erase_if(pairs, [&](const Pair& p) { return is_on(*p.from) || !is_on(*p.to); });
  return pairs;
}

bool recomputes(const StudyRow& row) {
  return row.job.plan.recompute == spec::Recompute::full;
}
bool is_fully_sharded(const StudyRow& row) {
  return row.job.plan.sharding == spec::Sharding::parameters;
}

}  // namespace

MaybeFinding about_faster_microbatches(const Groups& groups) {
  const auto best = strongest(growing_microbatches(groups), gain);
  if (!best || *gain(*best) < clear_change) return std::nullopt;
  Finding finding(anchor_of("microbatch-throughput", *best->to));
  finding.say("Larger microbatches can be faster: {} instead of {} makes {} of {} {}",
              named(*best->to, microbatch_name(*best->to)),
              named(*best->from, microbatch_name(*best->from)),
              named(*best->to, layout_with_options(*best->to)), group_name(*best->to),
              gain_words(*best));
  add_peak_power(finding, *best);
  add_gathers(finding, *best);
  finding.say(".");
  add_default_stack(finding, *best->from, *best->to);
  return finding;
}

MaybeFinding about_slower_microbatches(const Groups& groups) {
  const auto worst = strongest(growing_microbatches(groups), slowdown);
  if (!worst || *gain(*worst) > 1 / clear_change) return std::nullopt;
  Finding finding(anchor_of("microbatch-throughput", *worst->to));
  if (is_most_of_change(*worst, bubble_seconds))
    finding.say("Fewer microbatches lengthen the bubble, and with it the step: ");
  else
    finding.say("Larger microbatches can be slower: ");
  finding.say("{} instead of {} makes steps of {} of {} ",
              named(*worst->to, microbatch_name(*worst->to)),
              named(*worst->from, microbatch_name(*worst->from)),
              named(*worst->to, layout_with_options(*worst->to)), group_name(*worst->to));
  if (*ratio_at(*worst, step_time) >= 2)
    finding.say("{} as long.", times_of(*worst->to, *worst->from, step_time));
  else
    finding.say("{} longer.", more_of(*worst->to, *worst->from, step_time));
  add_default_stack(finding, *worst->from, *worst->to);
  return finding;
}

/// Peaks rise with the microbatch whether or not the speed does.
MaybeFinding about_peaks_of_microbatches(const Groups& groups) {
  std::vector<Pair> slower = growing_microbatches(groups);
  std::erase_if(slower, [](const Pair& pair) { return gain(pair).value_or(9) >= 1; });
  const auto worst = strongest(slower, [](const Pair& pair) { return ratio_at(pair, peak_power); });
  if (!worst || *ratio_at(*worst, peak_power) < 1.01) return std::nullopt;
  Finding finding(anchor_of("microbatch-peak-power", *worst->to));
  finding.say(
      "Peaks grow with the microbatch even where speed does not: {} takes {} of {} from {} to {} "
      "at its peak and makes steps {} longer.",
      named(*worst->to, microbatch_name(*worst->to)),
      named(*worst->to, layout_with_options(*worst->to)), group_name(*worst->to),
      number(*worst->from, peak_power, ""), number(*worst->to, peak_power, "W"),
      more_of(*worst->to, *worst->from, step_time));
  return finding;
}

/// Equal expert groups, once inside a node and once over several.
MaybeFinding about_experts(const Groups& groups) {
  std::vector<Pair> pairs = pairs_that_ran(groups, PlanSetting::layout);
  std::erase_if(pairs, [](const Pair& pair) {
    const auto from = metrics::expert_group_nodes(pair.from->job),
               to = metrics::expert_group_nodes(pair.to->job);
    return !from || !to || *from <= 1 || *to > 1 ||
           pair.from->job.plan.expert_parallel_size != pair.to->job.plan.expert_parallel_size;
  });
  const auto best = strongest(pairs, gain);
  if (!best || *gain(*best) < clear_change) return std::nullopt;
  Finding finding(anchor_of("kernels", *best->to));
  finding.say(
      "{} inside a node: for {}, {} keeps each expert group in one node and is {}{}{}, whose "
      "groups cross nodes",
      words(is_most_of_change(*best, all_to_all_seconds) ? "Experts belong" : "Expert groups"),
      group_name(*best->to), named(*best->to), gain_words(*best),
      words(*gain(*best) >= 2 ? " as " : " than "), named(*best->from));
  constexpr std::string_view all_to_all = "kernel_time_s.all_to_all";
  if (number_at(*best->from, all_to_all) && number_at(*best->to, all_to_all))
    finding.say(" (all-to-all {} a step)", instead(*best->to, *best->from, all_to_all, "s"));
  finding.say(".");
  add_default_stack(finding, *best->from, *best->to);
  return finding;
}

MaybeFinding about_recompute(const Groups& groups) {
  const auto worst = strongest(switched_on(groups, PlanSetting::recompute, recomputes), slowdown);
  if (!worst || *gain(*worst) > 1 / clear_change) return std::nullopt;
  Finding finding(anchor_of("throughput", *worst->to));
  finding.say(
      "Recomputing activations that would fit costs time: it makes steps of {}, {}, {} longer",
      group_name(*worst->from), named(*worst->from), more_of(*worst->to, *worst->from, step_time));
  if (number_at(*worst->from, "memory_gib.total") && number_at(*worst->to, "memory_gib.total"))
    finding.say(" to save {} that the GPU has",
                difference_of(*worst->from, *worst->to, "memory_gib.total", "GiB"));
  finding.say(".");
  add_default_stack(finding, *worst->from, *worst->to);
  return finding;
}

/// Jobs that fit only with it: the one among them that runs best against its group's others.
MaybeFinding about_what_recompute_unlocks(const Groups& groups) {
  std::optional<Pair> best;
  double best_share = 0;
  for (const Group& group : groups) {
    const StudyRow* fastest = highest(group.that_ran(), speed);
    if (fastest == nullptr) continue;
    for (const Pair& pair : pairs_of(group)) {
      if (pair.setting != PlanSetting::recompute || pair.from->verdict != Verdict::oom ||
          !recomputes(*pair.to) || !number_at(*pair.to, speed))
        continue;
      const double share = known_number(*pair.to, speed) / known_number(*fastest, speed);
      if (share > best_share) best = pair, best_share = share;
    }
  }
  if (!best || !number_at(*best->from, "memory_gib.total") ||
      !number_at(*best->from, "memory_gib.limit"))
    return std::nullopt;
  Finding finding(anchor_of("memory", *best->to));
  finding.say(
      "Recomputing makes room: {} as {} would need {} of {}; with it, it needs {} and runs at {}.",
      group_name(*best->from), named(*best->from), number(*best->from, "memory_gib.total", "GiB"),
      number(*best->from, "memory_gib.limit", ""), number(*best->to, "memory_gib.total", "GiB"),
      number(*best->to, speed, "tokens/s"));
  return finding;
}

MaybeFinding about_overlap(const Groups& groups) {
  const std::vector<Pair> pairs = switched_on(groups, PlanSetting::overlap, overlaps);
  const auto best = strongest(pairs, gain);
  const auto least = strongest(pairs, slowdown);
  if (!best || *gain(*best) < clear_change) return std::nullopt;
  Finding finding(anchor_of("throughput", *best->to));
  finding.say(
      pairs.size() > 1 ? "Overlap pays at best: it makes {}, {}" : "Overlap pays: it makes {}, {}",
      group_and_name(*best->from), gain_words(*best));
  const auto peaks = ratio_at(*best, peak_heat);
  if (peaks && known_number(*best->to, peak_heat) - known_number(*best->from, peak_heat) > 0.5)
    finding.say(" and {} hotter at its peak",
                difference_of(*best->to, *best->from, peak_heat, "°C"));
  if (least->to != best->to && std::abs(*gain(*least) - 1) < 0.005)
    finding.say("; it changes nothing of {}", group_and_name(*least->from));
  else if (least->to != best->to && *gain(*least) > 1)
    finding.say("; at worst {}, {} faster", group_and_name(*least->from),
                more_of(*least->to, *least->from, speed));
  else if (least->to != best->to)
    finding.say("; at worst it makes {}, {} slower", group_and_name(*least->from),
                less_of(*least->to, *least->from, speed));
  finding.say(".");
  add_default_stack(finding, *best->from, *best->to);
  return finding;
}

/// Where overlap costs: compute kernels share processors and memory with the transfers.
MaybeFinding about_overlap_in_vain(const Groups& groups) {
  const auto worst = strongest(switched_on(groups, PlanSetting::overlap, overlaps), slowdown);
  if (!worst || *gain(*worst) > 0.995) return std::nullopt;
  Finding finding(anchor_of("throughput", *worst->to));
  finding.say("Overlap can cost speed: {}, takes {} longer a step with it",
              group_and_name(*worst->from), more_of(*worst->to, *worst->from, step_time));
  if (is_most_of_change(*worst, compute_seconds))
    finding.say(", because kernels that share a GPU with transfers take longer");
  finding.say(".");
  add_default_stack(finding, *worst->from, *worst->to);
  return finding;
}

/// Full sharding against the fastest layout of the same microbatch and options.
MaybeFinding about_full_sharding(const Groups& groups) {
  std::vector<Pair> pairs = pairs_that_ran(groups, PlanSetting::layout);
  std::erase_if(pairs, [](const Pair& pair) {
    return is_fully_sharded(*pair.from) == is_fully_sharded(*pair.to);
  });
  std::vector<Pair> sharded = pairs;
  std::erase_if(sharded, [](const Pair& pair) { return !is_fully_sharded(*pair.to); });
  const auto worst = strongest(sharded, slowdown);
  if (!worst) return std::nullopt;
  const StudyRow &fsdp = *worst->to, &other = *worst->from;
  Finding finding(anchor_of("kernels", fsdp));
  if (*gain(*worst) > 1) {
    finding.say("Full sharding is faster even in its worst case: {} is {} faster than {}.",
                group_and_name(fsdp), more_of(fsdp, other, speed), named(other));
    return finding;
  }
  finding.say("Sharding parameters over nodes costs most: {} needs {} the time of {}",
              group_and_name(fsdp), times_of(other, fsdp, speed), named(other));
  if (number_at(fsdp, "kernel_time_s.all_gather"))
    finding.say("; of its kernel time, {} goes into all-gathers",
                share_of(fsdp, "kernel_time_s.all_gather", "kernel_time_s.total"));
  if (number_at(fsdp, "kernel_time_s.waiting").value_or(0) > 0)
    finding.say("; waiting inside communication is {} of it",
                share_of(fsdp, "kernel_time_s.waiting", "kernel_time_s.total"));
  finding.say(".");
  add_default_stack(finding, *worst->from, *worst->to);
  return finding;
}

namespace {

constexpr std::string_view link_use = "links.scale_out_utilization";

/// Pairs that differ in their sends alone, of tensor with pipeline parallelism: the same bytes in
/// other messages.
std::vector<Pair> other_sends(const Groups& groups) {
  std::vector<Pair> pairs = pairs_that_ran(groups, PlanSetting::sends);
  std::erase_if(pairs, [](const Pair& pair) {
    const spec::Plan &plan = pair.from->job.plan, &other = pair.to->job.plan;
    return plan.sends || other.sends->scatter_gather || plan.tensor_parallel_size == 1 ||
           plan.pipeline_parallel_size == 1 || !gain(pair) || !number_at(*pair.from, link_use) ||
           !number_at(*pair.to, link_use);
  });
  return pairs;
}

/// What the fastest way of sending shows to be the reason, if it gains clearly.
const char* why_links_are_idle(const Pair& most) {
  const spec::PipelineSends& sends = *most.to->job.plan.sends;
  if (*gain(most) < clear_change) return ", and other messages gain little: ";
  if (sends.microbatches > 1) return ", and the size of its messages costs speed: ";
  return sends.nics > 1 ? ", and one NIC a send costs speed: " : ", and whole sends cost speed: ";
}

void add_other_traffic(Finding& finding, const Pair& pair) {
  finding.say("{} as {}", group_name(*pair.to), named(*pair.to, pair.to->name));
  if (*gain(pair) >= 1)
    finding.say(" is {} faster than ", more_of(*pair.to, *pair.from, speed));
  else
    finding.say(" takes {} longer a step than ", more_of(*pair.to, *pair.from, step_time));
  finding.say("{} and uses {}", named(*pair.from, pair.from->name), percentage(*pair.to, link_use));
  if (percent(known_number(*pair.to, link_use)) != percent(known_number(*pair.from, link_use)))
    finding.say(" instead of {} of its NICs", percentage(*pair.from, link_use));
  else
    finding.say(" of its NICs, as before");
}

}  // namespace

MaybeFinding about_sends(const Groups& groups) {
  const std::vector<Pair> pairs = other_sends(groups);
  const auto most = strongest(pairs, gain);
  const auto least = strongest(pairs, slowdown);
  if (!most || !least) return std::nullopt;
  const auto idle = [](const Pair& pair) { return *number_at(*pair.from, link_use) < 0.1; };
  if (!std::ranges::all_of(pairs, idle)) return std::nullopt;
  Finding finding(anchor_of("throughput", *most->to));
  finding.say("Tensor with pipeline parallelism leaves the links between nodes idle{}",
              words(why_links_are_idle(*most)));
  add_other_traffic(finding, *most);
  if (most->to != least->to) {
    finding.say("; ");
    add_other_traffic(finding, *least);
  }
  finding.say(".");
  return finding;
}

}  // namespace triplepoint::report
