// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace triplepoint::telemetry {

/// Why a clock is where it is: the bits of a throttle_reasons series.
/// Source: nvml.h, nvmlClocksEventReason*; spelled as in the glossary.
enum class ReasonClass : uint8_t { benign, power, thermal, hardware };

struct ClockReason {
  uint32_t bit = 0;
  std::string name;
  ReasonClass kind = ReasonClass::hardware;
};

/// The reasons whose bits are set. Bits that no one has named are kept, as "bits 0x400".
std::vector<ClockReason> clock_reasons(uint64_t bits);

/// "software_power_cap, software_thermal"; benign ones only where there are no others. "" for none.
std::string reasons_text(uint64_t bits);

/// The reason whose residency a signal counts: "sw_power_cap" of "throttle_ns_sw_power_cap"; the
/// name of the glossary. "" for other signals.
std::string reason_of_residency(const std::string& signal);

}  // namespace triplepoint::telemetry
