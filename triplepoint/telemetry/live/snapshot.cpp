// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/snapshot.h"

#include <algorithm>
#include <array>

#include <fmt/chrono.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"

#include "triplepoint/run/throttle_reasons.h"

namespace triplepoint::telemetry {
namespace {

constexpr int schema = 1;

/// Members that are known.
class Writer {
 public:
  Json json = Json::object();
  void operator()(const char* key, const std::string& text) {
    if (!text.empty()) json[key] = text;
  }
  void operator()(const char* key, int32_t number) {
    if (number != 0) json[key] = number;
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& value, T unit) {
    if (value) json[key] = *value / unit;
  }
  void operator()(const char* key, const std::optional<Celsius>& value) {
    if (value) json[key] = value->degrees();
  }
  void operator()(const char* key, const std::optional<int32_t>& value) {
    if (value) json[key] = *value;
  }
};

void write_node(Writer& write, const NodeFacts& facts) {
  write("host", facts.host);
  write("kernel", facts.kernel);
  write("cpu", facts.cpu);
  write("system", facts.system);
  write("sockets", facts.sockets);
  write("cores", facts.cores);
  write("threads", facts.threads);
  write("memory_b", facts.memory, unit::B);
  write("nvidia_driver", facts.nvidia_driver);
  write("cuda", facts.cuda);
  write("amd_driver", facts.amd_driver);
}

Json json_of(const LiveReading& reading) {
  const run::SeriesSource& about = reading.about;
  Json json = {{"signal", about.signal},      {"scope", name_of(about.scope)},
               {"kind", name_of(about.kind)}, {"value", reading.value},
               {"age_s", reading.age_s},      {"sensor", about.sensor}};
  if (!about.of_node) json["gpu"] = about.device;
  if (reading.rate) json["rate_per_s"] = *reading.rate;
  if (about.period) json["period_s"] = *about.period / unit::s;
  return json;
}

/// "2026-11-21T19:04:23.512Z"
std::string utc_text(int64_t unix_ns) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(unix_ns / 1'000'000'000),
                     unix_ns / 1'000'000 % 1000);
}

}  // namespace

Json json_of(const DeviceFacts& facts) {
  Writer write;
  write.json["index"] = facts.device.local;
  write("name", facts.device.name);
  write("uuid", facts.device.uuid);
  write("pci", facts.device.pci);
  write("rank", facts.device.rank);
  write("vendor", facts.vendor);
  write("architecture", facts.architecture);
  write("power_limit_w", facts.power_limit, unit::W);
  write("power_limit_default_w", facts.power_limit_default, unit::W);
  write("slowdown_c", facts.slowdown);
  write("shutdown_c", facts.shutdown);
  write("memory_b", facts.memory, unit::B);
  write("max_sm_clock_mhz", facts.max_sm_clock, unit::MHz);
  write("power_counted_on", facts.device.power_counted_on);
  return std::move(write.json);
}

Json json_of(const std::vector<Gap>& gaps) {
  return mapped<Json>(gaps, [&](const Gap& gap) -> Json {
    return {{"what", gap.what}, {"why", gap.why}, {"remedy", gap.remedy}};
  });
}

Json snapshot_json(const Snapshot& snapshot) {
  Writer node;
  write_node(node, snapshot.node);
  Json gpus = Json::array(), readings = Json::array();
  for (const LiveDevice& device : snapshot.devices) {
    gpus.push_back(json_of(device.facts));
    gpus.back()["answers"] = device.answers;
  }
  for (const LiveReading& reading : snapshot.readings)
    readings.push_back(json_of(reading));
  Json json = {{"schema", schema},
               {"unix_ns", snapshot.unix_ns},
               {"node", std::move(node.json)},
               {"gpus", std::move(gpus)},
               {"readings", std::move(readings)},
               {"missing", json_of(snapshot.gaps)},
               {"troubles", snapshot.troubles}};
  if (snapshot.sampler_share) json["sampler_share"] = *snapshot.sampler_share;
  return json;
}

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
      const run::Device& device = snapshot.devices.at(as_size(about.device)).facts.device;
      csv.cell(int64_t{device.local}).cell(device.uuid);
    }
    csv.cell(about.signal).cell(name_of(about.scope)).cell(name_of(about.kind)).cell(reading.value);
    reading.rate ? csv.cell(*reading.rate) : csv.empty_cell();
    csv.cell(reading.age_s).cell(about.sensor).end_row();
  }
  if (with_header) return csv.text();
  return csv.text().substr(csv.text().find('\n') + 1);
}

std::vector<std::string> held_back_by(uint64_t bits) {
  std::vector<std::string> reasons;
  for (const run::ThrottleReason& one : run::throttle_reasons)
    if ((bits & one.bit) != 0) reasons.emplace_back(one.name);
  bits &= ~uint64_t{run::any_throttle_reason | any_wished_clock};
  if (bits != 0) reasons.push_back(fmt::format("bits 0x{:x}", bits));
  return reasons;
}

std::string reason_of_residency(const std::string& signal) {
  constexpr std::string_view prefix = "throttle_ns_";
  if (!signal.starts_with(prefix)) return "";
  const auto* const found =
      std::ranges::find(run::throttle_reasons, signal, &run::ThrottleReason::counter);
  return found == run::throttle_reasons.end() ? signal.substr(prefix.size())
                                              : std::string(found->name);
}

}  // namespace triplepoint::telemetry
