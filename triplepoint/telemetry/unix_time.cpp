// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/unix_time.h"

#include <cstdlib>
#include <ctime>

namespace triplepoint::telemetry {

void UnixTime::look(int64_t monotonic_ns) {
  timespec real{};
  clock_gettime(CLOCK_REALTIME, &real);
  look(monotonic_ns, real.tv_sec * 1'000'000'000LL + real.tv_nsec);
}

void UnixTime::look(int64_t monotonic_ns, int64_t realtime_ns) {
  now_ns_ = monotonic_ns;
  const int64_t difference = realtime_ns - monotonic_ns;
  if (std::llabs(difference - difference_ns_) > 1'000'000) difference_ns_ = difference;
}

std::optional<int64_t> UnixTime::monotonic(int64_t unix_us) const {
  constexpr int64_t tolerance_ns = 2'000'000, oldest_ns = 10'000'000'000;
  // Beyond these a number of microseconds does not fit once it is nanoseconds.
  if (unix_us <= 0 || unix_us > INT64_MAX / 1000) return std::nullopt;
  const int64_t stamp = unix_us * 1000 - difference_ns_;
  if (stamp > now_ns_ + tolerance_ns || stamp < now_ns_ - oldest_ns) return std::nullopt;
  return stamp < now_ns_ ? stamp : now_ns_;
}

}  // namespace triplepoint::telemetry
