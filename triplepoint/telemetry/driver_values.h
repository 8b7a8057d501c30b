// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

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

/// Values that a signal can have. Outside of them a driver did not mean a value.
struct Range {
  double low = 0, high = 0;
  bool holds(double value) const { return value >= low && value <= high; }  // false for NaN
};

/// By the unit at the end of the signal's name: wide limits of physics (a node below 1 MW), not of
/// any product; they catch what is no reading at all. A powered chip is at 1 to 130 C: 0 and 255
/// are what drivers write without a sensor.
Range plausible_range(std::string_view signal);

/// What a counter of this name cannot exceed in a second, in its unit: a node below 1 MW, links
/// below 10 TB/s, a second of time per second (twice that, for rough stamps). 0: nothing known.
double plausible_rate(std::string_view signal);

/// Whether a raw number of `bits` bits is a driver's code for "not available": all bits set
/// (NVML, amdgpu), or one of the blanks near the largest signed number (DCGM).
bool is_sentinel(uint64_t raw, int bits);

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
