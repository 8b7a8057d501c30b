// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace triplepoint::telemetry {

/// Values that a signal can have. Outside of them a driver did not mean a value.
struct Range {
  double low = 0, high = 0;
  bool holds(double value) const { return value >= low && value <= high; }  // false for NaN
};

/// By the unit at the end of the signal's name: wide limits of physics (a chip between -60 and
/// 250 C, a node below 1 MW), not of any product; they catch what is no reading at all.
Range plausible_range(std::string_view signal);

/// What a counter of this name cannot exceed in a second, in its unit: a node below 1 MW, links
/// below 10 TB/s, a second of time per second (twice that, for rough stamps). 0: nothing known.
double plausible_rate(std::string_view signal);

/// Whether a raw number of `bits` bits is a driver's code for "not available": all bits set
/// (NVML, amdgpu), or one of the blanks near the largest signed number (DCGM).
bool is_sentinel(uint64_t raw, int bits);

}  // namespace triplepoint::telemetry
