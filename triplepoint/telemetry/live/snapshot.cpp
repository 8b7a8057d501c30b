// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/snapshot.h"

#include <array>
#include <ctime>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"

namespace triplepoint::telemetry {
namespace {

/// "2026-11-21T19:04:23.512Z"
std::string utc_text(int64_t unix_ns) {
  const auto seconds = static_cast<std::time_t>(unix_ns / 1'000'000'000);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  return fmt::format("{}.{:03}Z", text.data(), unix_ns / 1'000'000 % 1000);
}

}  // namespace

const LiveReading* find_reading(const Snapshot& snapshot, std::string_view signal, int32_t device,
                                bool of_node) {
  const LiveReading* found = nullptr;
  for (const LiveReading& reading : snapshot.readings) {
    const run::SeriesSource& about = reading.about;
    if (about.signal != signal || about.of_node != of_node) continue;
    if (!of_node && about.device != device) continue;
    if (found == nullptr || about.scope == run::Scope::gpu) found = &reading;
  }
  return found;
}

std::string snapshot_csv(const Snapshot& snapshot, bool with_header) {
  const std::array<std::string, 11> header = {"time",       "host",  "gpu",   "uuid",
                                              "signal",     "scope", "kind",  "value",
                                              "rate_per_s", "age_s", "sensor"};
  CsvWriter csv(header);
  for (const LiveReading& reading : snapshot.readings) {
    const run::SeriesSource& about = reading.about;
    csv.cell(utc_text(snapshot.unix_ns)).cell(snapshot.node.host);
    if (about.of_node) {
      csv.empty_cell().empty_cell();
    } else {
      const run::Device& device =
          snapshot.devices.at(static_cast<std::size_t>(about.device)).facts.device;
      csv.cell(int64_t{device.local}).cell(device.uuid);
    }
    csv.cell(about.signal).cell(name_of(about.scope)).cell(name_of(about.kind)).cell(reading.value);
    reading.rate ? csv.cell(*reading.rate) : csv.empty_cell();
    csv.cell(reading.age_s).cell(about.sensor).end_row();
  }
  if (with_header) return csv.text();
  return csv.text().substr(csv.text().find('\n') + 1);
}

}  // namespace triplepoint::telemetry
