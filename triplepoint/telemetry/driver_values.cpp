// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/driver_values.h"

#include <array>
#include <cstdlib>
#include <ctime>
#include <utility>

namespace triplepoint::telemetry {
namespace {

constexpr uint64_t two_to_32 = 1ULL << 32U;

struct UnitRange {
  std::string_view ending;
  Range range;
};

// The largest number a double counts up to without gaps: bit sets, bytes, ns.
constexpr double exact = 9007199254740992.0;

constexpr std::array<UnitRange, 11> unit_ranges = {{{"_w", {0, 1e6}},
                                                    {"inlet_c", {-60, 100}},
                                                    {"_c", {1, 130}},
                                                    {"_mhz", {0, 1e5}},
                                                    {"_share", {0, 4}},
                                                    {"utilization", {0, 1.01}},
                                                    {"_active", {0, 1.01}},
                                                    {"_occupancy", {0, 1.01}},
                                                    {"_b", {0, exact}},
                                                    {"_reasons", {0, exact}},
                                                    {"", {0, 1e300}}}};

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
    const bool stored_in_32 = kind_.perhaps_32 && *last_ < two_to_32 && *last_ >= two_to_32 / 2;
    const uint64_t modulus = kind_.modulus != 0 ? kind_.modulus : stored_in_32 ? two_to_32 : 0;
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

Range plausible_range(std::string_view signal) {
  for (const auto& [ending, range] : unit_ranges)
    if (signal.ends_with(ending)) return range;
  return {};
}

double plausible_rate(std::string_view signal) {
  if (signal.ends_with("_j")) return 1e6;
  if (signal.ends_with("_bytes")) return 1e13;
  if (signal.starts_with("throttle_ns_")) return 2e9;
  return 0;
}

bool is_sentinel(uint64_t raw, int bits) {
  const uint64_t all = bits >= 64 ? ~0ULL : (1ULL << static_cast<unsigned>(bits)) - 1;
  if (raw == all) return true;
  if (bits < 64) return false;
  constexpr uint64_t largest_signed = 0x7fffffffffffffffULL;
  return raw >= ~0ULL - 15 || (raw <= largest_signed && raw >= largest_signed - 15);
}

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
