// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/telemetry/live/snapshot.h"

namespace triplepoint::telemetry::testing {

inline LiveReading reading(std::string signal, int32_t device, run::ReadingKind kind, double value,
                           std::optional<double> rate = {}) {
  LiveReading made;
  made.about.signal = std::move(signal);
  made.about.device = device;
  made.about.kind = kind;
  made.about.sensor = "nvml";
  made.value = value;
  made.rate = rate;
  return made;
}

inline LiveReading node_reading(std::string signal, run::ReadingKind kind, double value,
                                std::optional<double> rate = {}) {
  LiveReading made = reading(std::move(signal), 0, kind, value, rate);
  made.about.of_node = true;
  made.about.scope = run::Scope::node;
  made.about.sensor = "proc";
  return made;
}

/// Two GPUs: 0 is throttled by its power cap, 1 does not answer.
inline Snapshot sample_snapshot() {
  using Kind = run::ReadingKind;
  Snapshot snapshot;
  snapshot.unix_ns = 1'700'000'000'123'000'000;
  snapshot.node.host = "node\"17\"";
  snapshot.node.cpu = "Some CPU";
  snapshot.node.memory = 64e9 * unit::B;
  for (int32_t i = 0; i < 2; ++i) {
    LiveDevice device;
    device.facts.device.index = i;
    device.facts.device.local = i;
    device.facts.device.name = "NVIDIA H200";
    device.facts.device.uuid = i == 0 ? "GPU-a" : "GPU-b";
    device.facts.vendor = "nvidia";
    device.facts.power_limit = 700 * unit::W;
    device.facts.memory = 140e9 * unit::B;
    device.facts.slowdown = Celsius(87);
    device.answers = i == 0;
    snapshot.devices.push_back(device);
  }
  snapshot.readings = {
      reading("power_instant_w", 0, Kind::instant, 690.5),
      reading("power_average_w", 0, Kind::average, 680),
      reading("energy_j", 0, Kind::counter, 1000, 685.0),
      reading("die_c", 0, Kind::instant, 71),
      reading("sm_clock_mhz", 0, Kind::instant, 1755),
      reading("utilization", 0, Kind::instant, 0.98),
      reading("memory_used_b", 0, Kind::instant, 70e9),
      reading("throttle_reasons", 0, Kind::bits, 4),
      reading("throttle_ns_sw_power_cap", 0, Kind::counter, 3e9, 0.25e9),
      reading("throttle_ns_sw_thermal_slowdown", 0, Kind::counter, 0, 0.0),
      reading("scale_up_tx_bytes", 0, Kind::counter, 5e9, 2e9),
      node_reading("cpu_user_s", Kind::counter, 100, 6),
      node_reading("cpu_system_s", Kind::counter, 100, 2),
      node_reading("cpu_idle_s", Kind::counter, 100, 8),
      node_reading("memory_used_b", Kind::instant, 10e9),
  };
  snapshot.gaps = {{"package energy", "only root may read it", "chmod a+r energy_uj"}};
  snapshot.troubles = {"GPU 1 fell off the bus"};
  snapshot.sampler_share = 0.003;
  return snapshot;
}

}  // namespace triplepoint::telemetry::testing
