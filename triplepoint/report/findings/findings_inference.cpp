// SPDX-License-Identifier: Apache-2.0
// What do prompts and tokens cost, and what does fine-tuning change?
#include <algorithm>

#include "triplepoint/answers/labels.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

using Rows = std::vector<const StudyRow*>;

constexpr double clear_change = 1.03;  // times as much; less is within what the models can tell
constexpr std::string_view token_time = "time_per_output_token_s",
                           first_token_time = "time_to_first_token_s", speed = "tokens_per_s",
                           energy = "joules_per_token", memory_energy = "energy_ledger_j.memory";

Rows that_ran(const Groups& groups, spec::Task task) {
  Rows rows = all_that_ran(groups);
  std::erase_if(rows, [&](const StudyRow* row) { return !row->has_job || row->job.task != task; });
  return rows;
}

/// Each layout at the microbatch that serves it best, one batch at a time.
Rows best_of_layouts(const Group& group, std::string_view time) {
  Rows best;
  for (const StudyRow* row : group.that_ran()) {
    if (!number_at(*row, time)) continue;
    const auto same = std::ranges::find_if(best, [&](const StudyRow* other) {
      return layout_label(*other) == layout_label(*row) &&
             other->job.plan.global_batch_size == row->job.plan.global_batch_size;
    });
    if (same == best.end())
      best.push_back(row);
    else if (known_number(*row, time) < known_number(**same, time))
      *same = row;
  }
  return best;
}

/// The two layouts of one batch whose times differ most; `to` is the faster.
std::optional<Pair> fastest_layout(const Groups& groups, spec::Task task, std::string_view time) {
  std::vector<Pair> pairs;
  for (const Group& group : groups) {
    const Rows best = best_of_layouts(group, time);
    if (best.empty() || best.front()->job.task != task) continue;
    for (const StudyRow* from : best)
      for (const StudyRow* to : best)
        if (from->job.plan.global_batch_size == to->job.plan.global_batch_size)
          pairs.push_back({from, to, PlanSetting::layout});
  }
  const auto pair = strongest(pairs, [&](const Pair& p) { return ratio_at(*p.from, *p.to, time); });
  if (!pair || *ratio_at(*pair->from, *pair->to, time) < clear_change) return std::nullopt;
  return pair;
}

MaybeFinding about_latency(const Groups& groups, spec::Task task, std::string_view time,
                           const char* chart, std::string_view sentence) {
  const auto pair = fastest_layout(groups, task, time);
  if (!pair) return std::nullopt;
  const StudyRow &from = *pair->from, &to = *pair->to;
  return Finding(anchor_of(chart, to))
      .say(sentence, group_name(to), named(to), number(to, time, "s"), named(from),
           number(from, time, "s"));
}

/// The thriftiest decoding job of each group beside its layout with fewer sequences at a time.
std::vector<Pair> shared_weights(const Groups& groups) {
  std::vector<Pair> pairs;
  for (const Group& group : groups) {
    const Rows ran = group.that_ran();
    const StudyRow* to = lowest(ran, energy);
    if (to == nullptr || !to->has_job || to->job.task != spec::Task::decode) continue;
    for (const StudyRow* from : ran)
      if (layout_label(*from) == layout_label(*to) &&
          from->job.plan.micro_batch_size < to->job.plan.micro_batch_size)
        pairs.push_back({from, to, PlanSetting::microbatch});
  }
  return pairs;
}

/// The same job in all but what is trained.
bool trains_the_same(const spec::Job& a, const spec::Job& b) {
  return a.model == b.model && a.cluster == b.cluster && a.environment == b.environment &&
         a.stack == b.stack && a.records == b.records &&
         a.plan.micro_batch_size == b.plan.micro_batch_size &&
         a.plan.global_batch_size == b.plan.global_batch_size &&
         a.plan.recompute == b.plan.recompute &&
         answers::configuration_label(a) == answers::configuration_label(b);
}

}  // namespace

/// Of the thriftiest decoding job of each group, the one that spends most on its memory.
MaybeFinding about_decode_energy(const Groups& groups) {
  const StudyRow* row = nullptr;
  for (const Group& group : groups) {
    Rows rows = group.that_ran();
    std::erase_if(rows, [](const StudyRow* candidate) {
      return !candidate->has_job || candidate->job.task != spec::Task::decode ||
             !number_at(*candidate, memory_energy) || !number_at(*candidate, "energy_j");
    });
    const StudyRow* thriftiest = lowest(rows, energy);
    if (thriftiest == nullptr) continue;
    const auto share = [](const StudyRow& of) {
      return known_number(of, memory_energy) / known_number(of, "energy_j");
    };
    if (row == nullptr || share(*thriftiest) > share(*row)) row = thriftiest;
  }
  if (row == nullptr) return std::nullopt;
  Finding finding(anchor_of("energy", *row));
  finding.say(
      "{} energy of a generated token: {}, the most efficient of its group, takes {}; reading "
      "weights and cache is {} of it, "
      "multiplying {}, and static power {}.",
      words(energy_scope_of(*row)), group_and_name(*row), number(*row, energy, "J a token"),
      share_of(*row, memory_energy, "energy_j"),
      share_of(*row, "energy_ledger_j.compute", "energy_j"),
      share_of(*row, "energy_ledger_j.idle", "energy_j"));
  return finding;
}

MaybeFinding about_decode_microbatches(const Groups& groups) {
  const auto best = strongest(shared_weights(groups),
                              [](const Pair& p) { return ratio_at(*p.from, *p.to, energy); });
  if (!best || *ratio_at(*best->from, *best->to, energy) < clear_change) return std::nullopt;
  Finding finding(anchor_of("microbatch-throughput", *best->to));
  finding.say(
      "Batched decoding reads the weights once per batch: in {} as {}, {} takes {} less {} energy "
      "a token than {} and is {} as fast.",
      group_name(*best->to), named(*best->to, layout_label(*best->to)),
      named(*best->to, microbatch_name(*best->to)), less_of(*best->to, *best->from, energy),
      words(energy_scope_of(*best->to)), named(*best->from, microbatch_name(*best->from)),
      times_of(*best->to, *best->from, speed));
  return finding;
}

MaybeFinding about_token_latency(const Groups& groups) {
  return about_latency(groups, spec::Task::decode, token_time, "next-token",
                       "The layout sets the time per output token: in {}, {} gives every sequence "
                       "its next token after {}, {} after {}.");
}

MaybeFinding about_prompt_latency(const Groups& groups) {
  return about_latency(groups, spec::Task::prefill, first_token_time, "first-token",
                       "The layout sets the time to the first token: in {}, {} has read all "
                       "prompts after {}, {} after {}.");
}

MaybeFinding about_fine_tuning(const Groups& groups) {
  const Rows pretrained = that_ran(groups, spec::Task::pretrain);
  const StudyRow *tuned = nullptr, *whole = nullptr;
  double most = 0;
  for (const StudyRow* row : that_ran(groups, spec::Task::lora))
    for (const StudyRow* other : pretrained) {
      const auto gain = ratio_at(*row, *other, speed);
      if (!trains_the_same(row->job, other->job) || !gain || *gain <= most) continue;
      most = *gain, tuned = row, whole = other;
    }
  if (tuned == nullptr || !number_at(*tuned, "power_w.mean") || !number_at(*whole, "power_w.mean"))
    return std::nullopt;
  Finding finding(anchor_of("power", *tuned));
  finding.say(
      "Adapter training saves the weight gradients and the optimizer: {}, trains {} as fast as {}, "
      "at {} a GPU and {}.",
      group_and_name(*tuned), times_of(*tuned, *whole, speed), group_and_name(*whole),
      instead(*tuned, *whole, "power_w.mean", "W"),
      instead(*tuned, *whole, "temperature_c.mean", "°C"));
  return finding;
}

}  // namespace triplepoint::report
