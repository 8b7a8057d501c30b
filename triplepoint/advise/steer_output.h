// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/units.h"

#include "triplepoint/advise/steer.h"

namespace triplepoint::advise {

/// A disturbance with what came of it.
struct SteeredScenario {
  std::string name, about;
  advise::SteerOutcome outcome;
};

/// One row per scenario: both sides, the gain, moves, and what was said.
DataTable scenarios_table(const std::vector<SteeredScenario>&, search::Goal, double margin);
Json decision_json(const advise::Decision&);
/// All scenarios of a job.
Json steering_json(const std::string& job, const std::vector<SteeredScenario>&,
                   const SteerOptions&);
/// "dynamic", "leave it (right)", "leave it (wrong)", "static": which side was right.
std::string verdict_of(const advise::SteerOutcome&, search::Goal, double margin);

/// Calls a user's command with a decision as JSON on its standard input.
///
/// One call per decision, never again for the same one; at least `gap` between two calls. A call
/// that runs longer than `timeout` is killed with all it started. After three failures in a row the
/// hook is left alone: what fails three times is not mended by calling it more often.
class Hook {
 public:
  Hook(std::string command, Seconds timeout, Seconds gap)
      : command_(std::move(command)), timeout_(timeout), gap_(gap) {}

  static constexpr int most_failures = 3;

  struct Outcome {
    bool called = false, worked = false;
    std::string says;  // one sentence
  };
  /// `now`: on the caller's clock; only differences count.
  Outcome call(const std::string& json, Seconds now);
  int failures() const { return failures_; }

 private:
  std::string command_;
  Seconds timeout_, gap_;
  std::optional<Seconds> last_call_;
  int failures_ = 0, in_a_row_ = 0;
};

}  // namespace triplepoint::advise
