// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

namespace triplepoint::sim {

/// A cluster that keeps its time and heat while what runs on it changes: what a controller acts on
/// and plays ahead with.
///
/// `simulate` with a horizon is a session that is played once. Copies are independent and cheap
/// next to playing them, so that a controller can try an action on a copy.
class Session {
 public:
  /// At rest at the inlet temperature. The job must be free of errors and fit.
  explicit Session(const spec::Job& job);
  Session(const Session&);
  Session& operator=(const Session&);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const spec::Job& job() const;
  Seconds now() const;
  /// Goes where the present job leads in the end, without time passing; faults of this moment hold.
  void settle();
  /// Trains on: steps and series (power_w, die_c, sm_clock_mhz, throttled_share per device) between
  /// now() and now() + duration, on the session's clock.
  run::Run play(Seconds duration);
  /// Nobody computes: a restart, a checkpoint being written, a move.
  void pause(Seconds duration);
  /// Another plan, other limits or faults, on the same boards; heat and time go on.
  void change(const spec::Job& job);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace triplepoint::sim
