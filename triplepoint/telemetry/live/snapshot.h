// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/open_sensors.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

/// The latest that one channel said.
struct LiveReading {
  run::SeriesSource about;     // `device` counts as in Snapshot::devices
  double value = 0;            // counters: since measuring began
  std::optional<double> rate;  // of counters: per second, over the last second or two
  double age_s = 0;
};

struct LiveDevice {
  DeviceFacts facts;
  bool answers = true;  // false: it has readings no more; it fell off the bus, or is being reset
};

/// All that is known of a node at one moment: what top, snapshot and exporter show. Readings that
/// have not been renewed for long are left out: absent is not zero, and neither is it the past.
struct Snapshot {
  NodeFacts node;
  int64_t unix_ns = 0;
  std::vector<LiveDevice> devices;
  std::vector<LiveReading> readings;
  std::vector<Gap> gaps;
  std::vector<std::string> troubles;    // of the last minutes
  std::optional<double> sampler_share;  // of one core, that measuring has taken so far
};

/// The reading of a signal; of several scopes that of the GPU itself, or the first. Null: absent.
const LiveReading* find_reading(const Snapshot&, std::string_view signal, int32_t device,
                                bool of_node = false);

/// One JSON object; docs/measure/sensors.md names its keys. `indent` -1: on one line.
Json snapshot_json(const Snapshot&);
/// What snapshot_json wrote, perhaps on another machine. Errors name what is missing.
Result<Snapshot> parse_snapshot(std::string_view text, std::string_view name);

/// One row a reading: time, host, gpu, uuid, signal, scope, kind, value, rate_per_s, age_s, sensor.
std::string snapshot_csv(const Snapshot&, bool with_header);

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

/// The reason whose residency a signal counts: "sw_power_cap" of "throttle_ns_sw_power_cap"; the
/// name of the glossary. "" for other signals.
std::string reason_of_residency(const std::string& signal);

}  // namespace triplepoint::telemetry
