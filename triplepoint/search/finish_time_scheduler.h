// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "triplepoint/sim/schedule_engine.h"
#include "triplepoint/sim/wiring.h"

namespace triplepoint::search {

/// Keeps when sends begin, in seconds, and nothing of actions.
struct SendRecord {
  std::vector<std::vector<double>> begins;  // [wire]

  void start(std::span<const sim::StageTimes> stages) {
    begins.resize(2 * stages.size());
    for (std::vector<double>& of_wire : begins)
      of_wire.clear();
  }
  static void begin_action(size_t, const workload::Action&, Seconds, Seconds) {}
  static void end_action(size_t, Seconds) {}
  static size_t last_action(size_t) { return 0; }
  void send(size_t wire, size_t, Seconds begin, Seconds) {
    begins[wire].push_back(begin / unit::s);
  }
};

/// When the stages of one pipeline are through, where sends take the time they take alone: the
/// bits of sim::simulate_schedule without a record of each action.
class FinishTimeScheduler {
 public:
  /// Finish of each stage; valid until the next call.
  std::span<const Seconds> finish_times(std::span<const sim::StageTimes> stages,
                                        std::span<const sim::Wire> wires, sim::SendMode mode,
                                        const sim::ScheduleRules& rules);

  /// Whether the sends of the last call never ask more of a link than it carries. Then no send
  /// slows down another, and sim::simulate_schedule, event by event, ends every stage at the same
  /// time. `pipeline` is the one of the last call, of a wiring in which no other shares its links.
  bool links_suffice(const sim::Wiring& wiring, size_t pipeline) const;

 private:
  sim::ScheduleEngine<SendRecord, sim::Delays::none> engine_;
  std::vector<Seconds> finish_;
};

}  // namespace triplepoint::search
