// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace triplepoint::telemetry {

/// Both clocks of the node at the same moment, as near as they can be read.
struct ClockPair {
  int64_t monotonic_ns = 0, unix_ns = 0;
};
ClockPair read_clocks();

/// Says when the pair is worth keeping: at the start, every minute, and when the wall clock was
/// set. (CLOCK_MONOTONIC never jumps; the wall clock may, and is slewed.)
class ClockWatch {
 public:
  static constexpr int64_t every_ns = 60'000'000'000;
  static constexpr int64_t jump_ns = 20'000'000;

  struct Verdict {
    bool keep = false;
    std::optional<int64_t> jumped_ns;  // the wall clock, since the last look
  };
  Verdict look(const ClockPair& now);

 private:
  std::optional<ClockPair> last_look_;
  int64_t last_kept_ns_ = 0;
};

}  // namespace triplepoint::telemetry
