// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace triplepoint::telemetry {

/// How a counter of the hardware is read.
struct CounterKind {
  double unit = 1;          // of one count, in the unit of the signal
  uint64_t modulus = 0;     // it wraps to 0 here; 0: 64 bits, which never wrap
  bool perhaps_32 = false;  // says 64 bits, but some drivers keep 32
  double most_per_s = 0;    // counts a second that nothing can exceed; 0: not known
};

/// Makes a hardware counter count up from its first value (0), without wraps and restarts.
///
/// A step back is a wrap if the counter can wrap and the step forward this means is one the
/// hardware can take; otherwise the counter began anew (a driver was reset, a machine slept), and
/// what it counted in between is not known: the total stays and goes on from the new value.
class Counter {
 public:
  Counter() = default;
  explicit Counter(CounterKind kind) : kind_(kind) {}

  /// The count since the first value, in the unit of the signal.
  double update(uint64_t raw, int64_t time_ns);
  /// The next value is where counting goes on.
  void rebase() { last_.reset(); }
  /// Whether it began anew since the last call.
  bool take_restart();

 private:
  uint64_t step(uint64_t raw, int64_t time_ns);
  bool possible(uint64_t step, int64_t time_ns) const;

  CounterKind kind_;
  std::optional<uint64_t> last_;
  int64_t last_ns_ = 0;
  uint64_t total_ = 0;
  bool restarted_ = false;
};

}  // namespace triplepoint::telemetry
