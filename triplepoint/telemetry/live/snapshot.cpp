// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/live/snapshot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <string_view>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"

#include "triplepoint/run/throttle_reasons.h"

namespace triplepoint::telemetry {
namespace {

constexpr int schema = 1;
constexpr std::size_t most_devices = 4096, most_readings = 1U << 20U;  // of a stranger's text

/// Writes and reads the same members, so that no key is spelled twice.
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

std::optional<double> number_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

/// Whole numbers of a stranger: what does not fit is none.
std::optional<int32_t> count_at(const Json& json, const char* key) {
  const auto number = number_at(json, key);
  if (!number || !(std::abs(*number) < 1e9)) return std::nullopt;
  return static_cast<int32_t>(*number);
}

std::string text_at(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}
  void operator()(const char* key, std::string& text) { text = text_at(json_, key); }
  void operator()(const char* key, int32_t& number) { number = count_at(json_, key).value_or(0); }
  template <class T>
  void operator()(const char* key, std::optional<T>& value, T unit) {
    if (const auto number = number_at(json_, key)) value = *number * unit;
  }
  void operator()(const char* key, std::optional<Celsius>& value) {
    if (const auto number = number_at(json_, key)) value = Celsius(*number);
  }
  void operator()(const char* key, std::optional<int32_t>& value) { value = count_at(json_, key); }

 private:
  const Json& json_;
};

template <class Visitor, class Facts>
void visit_device(Visitor& visit, Facts& facts) {
  visit("index", facts.device.local);
  visit("name", facts.device.name);
  visit("uuid", facts.device.uuid);
  visit("pci", facts.device.pci);
  visit("rank", facts.device.rank);
  visit("vendor", facts.vendor);
  visit("architecture", facts.architecture);
  visit("power_limit_w", facts.power_limit, unit::W);
  visit("power_limit_default_w", facts.power_limit_default, unit::W);
  visit("slowdown_c", facts.slowdown);
  visit("shutdown_c", facts.shutdown);
  visit("memory_b", facts.memory, unit::B);
  visit("max_sm_clock_mhz", facts.max_sm_clock, unit::MHz);
  visit("power_counted_on", facts.power_counted_on);
}

template <class Visitor, class Facts>
void visit_node(Visitor& visit, Facts& facts) {
  visit("host", facts.host);
  visit("kernel", facts.kernel);
  visit("cpu", facts.cpu);
  visit("system", facts.system);
  visit("sockets", facts.sockets);
  visit("cores", facts.cores);
  visit("threads", facts.threads);
  visit("memory_b", facts.memory, unit::B);
  visit("nvidia_driver", facts.nvidia_driver);
  visit("cuda", facts.cuda);
  visit("amd_driver", facts.amd_driver);
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

template <class Enum>
Enum enum_of(const std::string& word, Enum last, Enum otherwise) {
  for (int i = 0; i <= static_cast<int>(last); ++i)
    if (name_of(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  return otherwise;
}

/// Nothing for a reading that a newer program wrote in a way we do not know.
std::optional<LiveReading> reading_of(const Json& json, std::size_t devices) {
  LiveReading reading;
  reading.about.signal = text_at(json, "signal");
  const auto value = number_at(json, "value");
  if (reading.about.signal.empty() || !value) return std::nullopt;
  const auto gpu = count_at(json, "gpu");
  if (gpu && (*gpu < 0 || static_cast<std::size_t>(*gpu) >= devices)) return std::nullopt;
  reading.about.device = gpu.value_or(0);
  reading.about.of_node = !gpu.has_value();
  reading.about.scope = enum_of(text_at(json, "scope"), run::Scope::node, run::Scope::gpu);
  reading.about.kind =
      enum_of(text_at(json, "kind"), run::ReadingKind::bits, run::ReadingKind::instant);
  reading.about.sensor = text_at(json, "sensor");
  if (const auto period = number_at(json, "period_s")) reading.about.period = *period * unit::s;
  reading.value = *value;
  reading.rate = number_at(json, "rate_per_s");
  reading.age_s = number_at(json, "age_s").value_or(0);
  return reading;
}

/// The objects of a list that may be absent.
std::vector<const Json*> objects_at(const Json& json, const char* key, std::size_t most) {
  std::vector<const Json*> objects;
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return objects;
  for (const Json& item : *found)
    if (item.is_object() && objects.size() < most) objects.push_back(&item);
  return objects;
}

void read_troubles(const Json& json, Snapshot& snapshot) {
  const auto found = json.find("troubles");
  if (found == json.end() || !found->is_array()) return;
  for (const Json& item : *found)
    if (item.is_string() && snapshot.troubles.size() < 100)
      snapshot.troubles.push_back(item.get<std::string>());
}

}  // namespace

Json snapshot_json(const Snapshot& snapshot) {
  Writer node;
  visit_node(node, snapshot.node);
  Json gpus = Json::array(), readings = Json::array(), missing = Json::array();
  for (const LiveDevice& device : snapshot.devices) {
    Writer gpu;
    gpu.json["index"] = device.facts.device.local;
    visit_device(gpu, device.facts);
    gpu.json["answers"] = device.answers;
    gpus.push_back(std::move(gpu.json));
  }
  for (const LiveReading& reading : snapshot.readings)
    readings.push_back(json_of(reading));
  for (const Gap& gap : snapshot.gaps)
    missing.push_back({{"what", gap.what}, {"why", gap.why}, {"remedy", gap.remedy}});
  Json json = {{"schema", schema},
               {"unix_ns", snapshot.unix_ns},
               {"node", std::move(node.json)},
               {"gpus", std::move(gpus)},
               {"readings", std::move(readings)},
               {"missing", std::move(missing)},
               {"troubles", snapshot.troubles}};
  if (snapshot.sampler_share) json["sampler_share"] = *snapshot.sampler_share;
  return json;
}

Result<Snapshot> parse_snapshot(std::string_view text, std::string_view name) {
  const Json json = TPT_TRY(parse_json(text, name));
  const auto wrong = [&](std::string_view why) {
    return error(fmt::format(
        "{} is no snapshot ({}); triplepoint snapshot --format json prints one", name, why));
  };
  if (!json.is_object() || !count_at(json, "schema")) return wrong("it has no \"schema\"");
  if (count_at(json, "schema") != schema)
    return wrong("a newer triplepoint wrote it; use the same version on both machines");
  Snapshot snapshot;
  snapshot.unix_ns = json.contains("unix_ns") && json["unix_ns"].is_number_integer()
                         ? json["unix_ns"].get<int64_t>()
                         : 0;
  if (json.contains("node") && json["node"].is_object()) {
    Reader node(json["node"]);
    visit_node(node, snapshot.node);
  }
  for (const Json* gpu : objects_at(json, "gpus", most_devices)) {
    LiveDevice device;
    Reader reader(*gpu);
    visit_device(reader, device.facts);
    device.facts.device.index = static_cast<int32_t>(snapshot.devices.size());
    device.answers = gpu->value("answers", Json(true)) == Json(true);
    snapshot.devices.push_back(std::move(device));
  }
  for (const Json* object : objects_at(json, "readings", most_readings))
    if (auto reading = reading_of(*object, snapshot.devices.size()))
      snapshot.readings.push_back(*std::move(reading));
  for (const Json* gap : objects_at(json, "missing", most_devices))
    snapshot.gaps.push_back({text_at(*gap, "what"), text_at(*gap, "why"), text_at(*gap, "remedy")});
  read_troubles(json, snapshot);
  snapshot.sampler_share = number_at(json, "sampler_share");
  return snapshot;
}

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
