// SPDX-License-Identifier: Apache-2.0
// Few large GPUs or many smaller ones?
#include "triplepoint/base/number_text.h"

#include "triplepoint/report/findings.h"
#include "triplepoint/report/keys.h"
#include "triplepoint/report/machines.h"
#include "triplepoint/report/pairs.h"

namespace triplepoint::report {
namespace {

constexpr double clear_difference = 1.03;

struct Duel {
  const StudyRow *winner = nullptr, *loser = nullptr;
};

/// The two machines that lie furthest apart for one model: `high` wins if more is better.
std::optional<Duel> clearest_duel(const Groups& groups, std::string_view key, bool high) {
  std::optional<Duel> best;
  double best_ratio = clear_difference;
  for (const Contest& contest : contests_of(groups))
    for (const StudyRow* a : contest.entries)
      for (const StudyRow* b : contest.entries) {
        const auto ratio = high ? ratio_at(*a, *b, key) : ratio_at(*b, *a, key);
        if (ratio && *ratio > best_ratio) best = Duel{a, b}, best_ratio = *ratio;
      }
  return best;
}

/// Tokens per second and byte of memory, the winner's over the loser's.
std::optional<Evidence> memory_ratio(const StudyRow& winner, const StudyRow& loser) {
  const auto speed = ratio_at(winner, loser, "tokens_per_s"),
             gpus = ratio_at(loser, winner, "configuration.num_gpus"),
             memory = ratio_at(loser, winner, "memory_gib.limit");
  if (!speed || !gpus || !memory) return std::nullopt;
  const double ratio = *speed * *gpus * *memory;
  const double change = ratio >= 1 ? ratio - 1 : 1 - ratio;
  return Evidence{ratio >= 1 ? Evidence::Form::more : Evidence::Form::less,
                  {{winner.name, "tokens_per_s"},
                   {loser.name, "configuration.num_gpus"},
                   {loser.name, "memory_gib.limit"}},
                  {{loser.name, "tokens_per_s"},
                   {winner.name, "configuration.num_gpus"},
                   {winner.name, "memory_gib.limit"}},
                  change,
                  percent(change)};
}

void say_as_they_stand(Finding& finding, const StudyRow& winner, const StudyRow& loser) {
  const auto ratio = ratio_at(winner, loser, "tokens_per_s");
  if (!ratio) return;
  finding.say(", and as they stand ");
  if (*ratio >= 1)
    finding.more(winner, loser, "tokens_per_s").say(" faster");
  else
    finding.less(winner, loser, "tokens_per_s").say(" slower");
}

}  // namespace

FoundOne about_machines(const Groups& groups) {
  const auto duel = clearest_duel(groups, "tokens_per_s_per_gpu", true);
  if (!duel) return std::nullopt;
  const auto& [winner, loser] = *duel;
  Finding finding("machines-equal-gpus");
  const bool same_gpus = winner->job.cluster.gpu == loser->job.cluster.gpu &&
                         winner->job.world_size() == loser->job.world_size();
  finding.say(same_gpus ? "The same GPUs elsewhere: " : "Scale up or out: GPU for GPU, ")
      .group(*winner)
      .say(" is ")
      .more(*winner, *loser, "tokens_per_s_per_gpu")
      .say(" faster than ")
      .name(*loser, machine_title(*loser));
  if (same_gpus) return std::move(finding.say("."));
  if (const auto memory = memory_ratio(*winner, *loser))
    finding.say(", for equal memory ")
        .add(*memory)
        .say(memory->form == Evidence::Form::more ? " faster" : " slower");
  say_as_they_stand(finding, *winner, *loser);
  finding.say(".");
  return finding;
}

FoundOne about_machines_per_watt(const Groups& groups) {
  const auto duel = clearest_duel(groups, "joules_per_token", false);
  if (!duel) return std::nullopt;
  const auto& [winner, loser] = *duel;
  Finding finding("machines-equal-watts");
  finding.say("For equal watts, ")
      .group(*winner)
      .say(" as ")
      .name(*winner)
      .say(" takes ")
      .less(*winner, *loser, "joules_per_token")
      .say(" less energy a token than ")
      .name(*loser, machine_title(*loser))
      .say(" as ")
      .name(*loser)
      .say(".");
  return finding;
}

}  // namespace triplepoint::report
