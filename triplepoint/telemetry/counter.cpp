// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/counter.h"

#include <utility>

namespace triplepoint::telemetry {
namespace {

constexpr uint64_t two_to_32 = 1ULL << 32U;

}  // namespace

double Counter::update(uint64_t raw, int64_t time_ns) {
  if (last_) total_ += step(raw, time_ns);
  last_ = raw;
  last_ns_ = time_ns;
  return static_cast<double>(total_) * kind_.unit;
}

bool Counter::take_restart() {
  return std::exchange(restarted_, false);
}

uint64_t Counter::step(uint64_t raw, int64_t time_ns) {
  if (raw >= *last_ && possible(raw - *last_, time_ns)) return raw - *last_;
  if (raw < *last_) {
    // A counter that stopped just below 2^32 and is small now has 32 bits, whatever its type says.
    const bool kept_in_32 = kind_.perhaps_32 && *last_ < two_to_32 && *last_ >= two_to_32 / 2;
    const uint64_t modulus = kind_.modulus != 0 ? kind_.modulus : kept_in_32 ? two_to_32 : 0;
    if (modulus > *last_ && possible(raw + (modulus - *last_), time_ns))
      return raw + (modulus - *last_);
  }
  restarted_ = true;
  return 0;
}

bool Counter::possible(uint64_t step, int64_t time_ns) const {
  if (kind_.most_per_s <= 0) return true;
  // The counter may be up to a second older than the time of its reading.
  const double seconds = 1 + static_cast<double>(time_ns - last_ns_) * 1e-9;
  return static_cast<double>(step) <= kind_.most_per_s * seconds;
}

}  // namespace triplepoint::telemetry
