// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/sim/simulate_schedule.h"

namespace triplepoint::advise {

/// How long a pass takes, by [stage][chunk][ActionKind].
using PassTimes = std::vector<std::vector<std::array<Seconds, sim::action_kind_count>>>;

/// One pass of a simulated step and what it waits for.
struct Pass {
  size_t stage = 0, chunk = 0, kind = 0;
  static constexpr size_t none = ~size_t{0};
  size_t before = none;  // the pass that the stage runs just before
  size_t input = none;   // the pass of another stage whose tensor it needs
  Seconds sent;          // from its end until its tensor has arrived
};

/// One pipeline's step as passes that wait for each other: what a change of a pass's duration does
/// to the end, and how much later each pass could end without harm.
///
///   begin = max(free of the stage, arrival of the input);  end = begin + gap + duration
///   latest end = min over what waits for it of (its latest end - its duration - gap - sent)
///   slack = latest end - end
///
/// Sends keep the time they took in the simulated step: shared links are not solved again.
/// Equal to sim::simulate_schedule where the durations are those of that schedule (test). Source of
/// the use of slack: Chung et al., "Reducing Energy Bloat in Large Model Training" (Perseus, SOSP
/// 2024).
class PassGraph {
 public:
  PassGraph(std::span<const sim::StageTimeline> timeline, size_t chunks, sim::SendMode mode,
            const sim::ScheduleRules& rules);

  /// Computes ends() and finishes() for these durations.
  void update(const PassTimes& times);
  /// When each stage is through, its last send included where sends block.
  std::span<const Seconds> finishes() const { return finish_; }

  /// Slack of each pass when stage s may finish at `deadlines[s]`.
  std::vector<Seconds> slacks(std::span<const Seconds> deadlines) const;

  /// How often each kind of pass lies on the path that decides when `stage` finishes: by how much a
  /// longer pass delays it, as long as no other path takes over.
  std::vector<std::vector<std::array<int32_t, sim::action_kind_count>>> critical_counts(
      size_t stage) const;

  const std::vector<Pass>& passes() const { return passes_; }

 private:
  Seconds leaves_stage(size_t pass) const;

  sim::SendMode mode_;
  sim::ScheduleRules rules_;
  size_t stages_, chunks_;
  std::vector<Pass> passes_;  // in an order in which everything comes after what it waits for
  std::vector<Seconds> begin_, end_, duration_, finish_;
  std::vector<size_t> last_;  // pass of each stage
};

}  // namespace triplepoint::advise
