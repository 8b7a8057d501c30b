// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/sim/simulate_schedule.h"
#include "triplepoint/sim/wiring.h"

namespace triplepoint::search {

/// When the stages of one pipeline are through, where nobody slows down its sends: what
/// sim::simulate_schedule gives, to the bit, without a record of each action.
///
/// Actions follow each other's dependencies as in sim/pipeline_scheduler.h. Buffers are kept
/// between calls. About 8 ns an action (bench/search_bench.cpp).
class FinishTimeScheduler {
 public:
  /// Finish of each stage; valid until the next call.
  std::span<const Seconds> finish_times(std::span<const sim::StageTimes> stages,
                                        std::span<const sim::Wire> wires, sim::SendMode mode,
                                        const sim::ScheduleRules& rules);

  /// Whether the sends of the last call never ask more of a link than it carries. Then nobody slows
  /// anybody down, and sim::simulate_schedule, event by event, ends every stage at the same time.
  /// `pipeline` is the one that was simulated, of a wiring in which no other shares its links.
  bool links_suffice(const sim::Wiring& wiring, size_t pipeline) const;

 private:
  struct Stage {
    const workload::Action* next = nullptr;
    const workload::Action* end = nullptr;
    const std::array<Seconds, sim::action_kind_count>* durations = nullptr;
    const double* awaits = nullptr;
  };
  void start(std::span<const sim::StageTimes> stages, const sim::ScheduleRules& rules);
  bool run_next(size_t stage);
  double* cell(std::vector<double>& mailbox, size_t virtual_stage, int32_t microbatch) {
    return &mailbox[virtual_stage * microbatches_ + static_cast<size_t>(microbatch)];
  }
  void deliver(size_t stage, const workload::Action& action, size_t virtual_stage);
  void send_to(size_t wire, size_t receiver, double* to, size_t stage);

  std::span<const sim::Wire> wires_;
  sim::SendMode mode_ = sim::SendMode::blocking;
  double gap_ = 0;
  size_t microbatches_ = 0, last_virtual_ = 0;
  std::vector<std::vector<double>> begins_;  // of sends, by wire
  std::vector<double> forward_, backward_, channel_free_, free_;
  std::vector<Stage> stages_;
  std::vector<size_t> can_go_on_;
  std::vector<Seconds> finish_;
};

}  // namespace triplepoint::search
