// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "triplepoint/advise/steer.h"
#include "triplepoint/sim/transient.h"

namespace triplepoint::advise {

/// A machine that is simulated and counted: one side of a comparison. Begins at thermal steady
/// state.
class Track {
 public:
  explicit Track(const spec::Job& job) : world_(job) { world_.solve_steady_state(); }

  const sim::TransientSimulation& world() const { return world_; }
  const spec::Job& job() const { return world_.job(); }
  Seconds now() const { return world_.now(); }
  std::vector<SteerPoint> take_points() { return std::move(points_); }

  std::optional<SteerReadings> advance(Seconds duration);
  void change(const spec::Job& job) { world_.change(job); }
  /// Nobody computes; all devices draw so much.
  void pause(Seconds duration, Watts power);

  /// The part of the step that is not ended yet counts, as long as steps go on as they did.
  SteerTotals finished() const;

 private:
  void count_steps(const run::Run& window);
  void count_energy(const run::Run& window, Seconds begin);
  void add_point(const run::Run& window, const std::optional<SteerReadings>& seen);

  sim::TransientSimulation world_;
  SteerTotals totals_;
  Seconds step_begin_, last_step_;
  std::vector<SteerPoint> points_;
};

/// All devices of a job while nobody computes.
Watts idle_power(const spec::Job& job);

}  // namespace triplepoint::advise
