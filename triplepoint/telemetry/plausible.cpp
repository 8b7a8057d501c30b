// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/plausible.h"

#include <array>

namespace triplepoint::telemetry {
namespace {

struct UnitRange {
  std::string_view ending;
  Range range;
};

// The largest number a double counts up to without gaps: bit sets, bytes, ns.
constexpr double exact = 9007199254740992.0;

constexpr std::array<UnitRange, 10> unit_ranges = {{{"_w", {0, 1e6}},
                                                    {"_c", {-60, 250}},
                                                    {"_mhz", {0, 1e5}},
                                                    {"_share", {0, 4}},
                                                    {"utilization", {0, 1.01}},
                                                    {"_active", {0, 1.01}},
                                                    {"_occupancy", {0, 1.01}},
                                                    {"_b", {0, exact}},
                                                    {"_reasons", {0, exact}},
                                                    {"", {0, 1e300}}}};

}  // namespace

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

}  // namespace triplepoint::telemetry
