// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

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

/// One JSON object; docs/measure/sensors.md names its keys.
Json snapshot_json(const Snapshot&);
/// What is known of a GPU, as its member `gpus` has it.
Json json_of(const DeviceFacts&);
Json json_of(const std::vector<Gap>&);

/// One row a reading: time, host, gpu, uuid, signal, scope, kind, value, rate_per_s, age_s, sensor.
std::string snapshot_csv(const Snapshot&, bool with_header);

/// What sets a clock without throttling it, by its bit: idle, application and display clocks are
/// wishes. Source: nvml.h, nvmlClocksEventReason*.
inline constexpr uint32_t gpu_idle_bit = 0x1, application_clocks_bit = 0x2,
                          any_wished_clock = 0x1 | 0x2 | 0x100;

/// What holds a clock back, by the bits of a throttle_reasons series. Bits that are not known are
/// kept, as "bits 0x400".
std::vector<std::string> held_back_by(uint64_t bits);

/// The reason whose residency a signal counts: "sw_power_cap" of "throttle_ns_sw_power_cap"; the
/// name of the glossary. "" for other signals.
std::string reason_of_residency(const std::string& signal);

}  // namespace triplepoint::telemetry
