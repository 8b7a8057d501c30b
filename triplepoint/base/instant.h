// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

#include "triplepoint/base/units.h"

namespace triplepoint {

/// A point on a run's time line: whole nanoseconds since the run's epoch.
///
/// Records keep integers, so that equal time stamps are equal and 292 years fit; Instant - Instant
/// is Seconds.
class Instant {
 public:
  constexpr Instant() = default;
  explicit constexpr Instant(std::int64_t nanoseconds) : nanoseconds_(nanoseconds) {}
  constexpr std::int64_t nanoseconds() const { return nanoseconds_; }

  friend constexpr auto operator<=>(Instant, Instant) = default;
  friend constexpr bool operator==(Instant, Instant) = default;
  friend constexpr Seconds operator-(Instant a, Instant b) {
    return static_cast<double>(a.nanoseconds_ - b.nanoseconds_) * unit::ns;
  }
  friend Instant operator+(Instant a, Seconds d) {
    return Instant(a.nanoseconds_ + std::llround(d / unit::ns));
  }
  friend Instant operator-(Instant a, Seconds d) { return a + -d; }

 private:
  std::int64_t nanoseconds_ = 0;
};

/// The instant that lies `since_epoch` after the run's epoch, to the nearest nanosecond.
inline Instant instant_at(Seconds since_epoch) {
  return Instant() + since_epoch;
}

}  // namespace triplepoint
