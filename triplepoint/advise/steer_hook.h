// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/base/units.h"

namespace triplepoint::advise {

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
