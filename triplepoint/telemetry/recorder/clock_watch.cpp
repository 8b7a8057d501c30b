// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/clock_watch.h"

#include <cstdlib>
#include <ctime>

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

ClockPair read_clocks() {
  ClockPair best;
  int64_t shortest = INT64_MAX;
  // Somebody else may run between two readings; of a few attempts one is not disturbed.
  for (int attempt = 0; attempt < 5; ++attempt) {
    const int64_t before = monotonic_now_ns();
    timespec wall{};
    clock_gettime(CLOCK_REALTIME, &wall);
    const int64_t after = monotonic_now_ns();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {.monotonic_ns = before + shortest / 2,
            .unix_ns = wall.tv_sec * 1'000'000'000LL + wall.tv_nsec};
  }
  return best;
}

ClockWatch::Verdict ClockWatch::look(const ClockPair& now) {
  Verdict verdict;
  if (!last_look_) {
    verdict.keep = true;
  } else {
    const int64_t moved =
        (now.unix_ns - last_look_->unix_ns) - (now.monotonic_ns - last_look_->monotonic_ns);
    if (std::abs(moved) >= jump_ns) verdict.jumped_ns = moved;
    verdict.keep = verdict.jumped_ns || now.monotonic_ns - last_kept_ns_ >= every_ns;
  }
  if (verdict.keep) last_kept_ns_ = now.monotonic_ns;
  last_look_ = now;
  return verdict;
}

}  // namespace triplepoint::telemetry
