// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace triplepoint::telemetry {

/// Turns a driver's time of day into time on the clock of readings.
///
/// The difference of the two clocks is kept until it has moved by over a millisecond (the clock was
/// set), so that the same stamp stays the same: the sampler finds repeated readings by it.
class UnixTime {
 public:
  /// Looks at both clocks; once per tick.
  void look(int64_t monotonic_ns);
  void look(int64_t monotonic_ns, int64_t realtime_ns);
  /// Nothing where the stamp is none (0), in the future, or older than ten seconds.
  std::optional<int64_t> monotonic(int64_t unix_us) const;

 private:
  int64_t now_ns_ = 0;
  int64_t difference_ns_ = 0;  // realtime - monotonic
};

}  // namespace triplepoint::telemetry
