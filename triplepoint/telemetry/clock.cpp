// SPDX-License-Identifier: Apache-2.0
#include <ctime>

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

int64_t monotonic_now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace triplepoint::telemetry
