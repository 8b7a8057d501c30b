// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/nvml/fields.h"

#include <array>
#include <cmath>

#include "triplepoint/telemetry/driver_values.h"

namespace triplepoint::telemetry::nvml {
namespace {

using run::ReadingKind;
using run::Scope;

// Numbers of NVML_FI_DEV_*; scopes of power as nvmlPowerScopeType_t counts.
constexpr uint32_t memory_temperature = 82, total_energy = 83;
constexpr uint32_t policy_power = 74, policy_thermal = 75, policy_sync_boost = 76;
constexpr uint32_t link_data_tx = 138, link_data_rx = 139, link_raw_tx = 140, link_raw_rx = 141;
constexpr uint32_t power_average = 185, power_instant = 186;
constexpr uint32_t pcie_tx = 197, pcie_rx = 198;
constexpr uint32_t link_bytes_tx = 202, link_bytes_rx = 204;
constexpr uint32_t gpu_scope = 0, module_scope = 1, memory_scope = 2;
constexpr uint32_t first_new_residency = 269, first_old_residency = 251;
constexpr unsigned blackwell = 10;
constexpr double milli = 1e-3, kibi = 1024;

std::string field_name(uint32_t id, std::string_view note = "") {
  return fmt::format("nvml field {}{}{}", id, note.empty() ? "" : ", ", note);
}

Source gauge(Field field, double unit, Scope scope = Scope::gpu, std::string_view note = "") {
  return {.fields = {field}, .unit = unit, .scope = scope, .name = field_name(field.id, note)};
}

Source averaged(Source source) {
  source.kind = ReadingKind::average;
  source.window = 1 * unit::s;  // as NVML's reference says of POWER_AVERAGE
  return source;
}

Source count(uint32_t id, double unit, uint32_t scope = 0, std::string_view note = "") {
  return {.fields = {{id, scope}},
          .unit = unit,
          .kind = ReadingKind::counter,
          .name = field_name(id, note)};
}

Source over_links(uint32_t id, double unit, const std::vector<unsigned>& links) {
  Source sum = count(id, unit, 0, "links added");
  sum.fields.clear();
  for (const unsigned link : links)
    sum.fields.push_back({id, link});
  return sum;
}

SignalSources power(std::string signal, uint32_t id, std::string what, bool is_average) {
  SignalSources wanted{.signal = std::move(signal),
                       .sources = {gauge({id, gpu_scope}, milli)},
                       .what = std::move(what),
                       .from_driver = 535};
  if (is_average)
    for (Source& source : wanted.sources)
      source = averaged(std::move(source));
  return wanted;
}

/// Of the module with the CPU: each of its GPUs says it, so it is none of theirs alone.
SignalSources module_power() {
  return {.signal = "module_power_w",
          .sources = {gauge({power_instant, module_scope}, milli, Scope::module, "module scope"),
                      averaged(gauge({power_average, module_scope}, milli, Scope::module,
                                     "module scope"))},
          .what = "power of the module"};
}

SignalSources memory_power() {
  return {.signal = "memory_power_w",
          .sources = {gauge({power_instant, memory_scope}, milli, Scope::memory, "memory scope"),
                      averaged(gauge({power_average, memory_scope}, milli, Scope::memory,
                                     "memory scope"))},
          .what = "power of the memory"};
}

/// Payload over all NVLinks. Blackwell counts bytes per link; the older fields read zero there.
SignalSources link_bytes(bool out, unsigned architecture, const std::vector<unsigned>& links) {
  const uint32_t data = out ? link_data_tx : link_data_rx, raw = out ? link_raw_tx : link_raw_rx;
  const uint32_t bytes = out ? link_bytes_tx : link_bytes_rx;
  SignalSources wanted{.signal = out ? "scale_up_tx_bytes" : "scale_up_rx_bytes",
                       .sources = {count(data, kibi, all_links, "all links"),
                                   count(raw, kibi, all_links, "all links, with protocol")},
                       .what = out ? "NVLink bytes sent" : "NVLink bytes received"};
  const auto newer = architecture >= blackwell ? wanted.sources.begin() : wanted.sources.end();
  if (!links.empty()) wanted.sources.insert(newer, over_links(bytes, 1, links));
  return wanted;
}

SignalSources residency(const std::string& reason, std::vector<Source> sources) {
  return {.signal = "throttle_ns_" + reason,
          .sources = std::move(sources),
          .what = "time throttled by " + reason,
          .from_driver = 575};
}

void add_residency(std::vector<SignalSources>& wanted, Numbering numbering) {
  wanted.push_back(residency("sw_power_cap", {count(policy_power, 1)}));
  wanted.push_back(residency("sync_boost", {count(policy_sync_boost, 1)}));
  const uint32_t first =
      numbering == Numbering::from_251 ? first_old_residency : first_new_residency;
  std::vector<Source> software, thermal, brake;
  if (numbering != Numbering::none) {
    software.push_back(count(first, 1));
    thermal.push_back(count(first + 1, 1));
    brake.push_back(count(first + 2, 1));
  }
  software.push_back(count(policy_thermal, 1, 0, "thermal policy"));
  wanted.push_back(residency("sw_thermal_slowdown", std::move(software)));
  wanted.push_back(residency("hw_thermal_slowdown", std::move(thermal)));
  wanted.push_back(residency("hw_power_brake", std::move(brake)));
}

struct ErrorField {
  const char* signal;
  uint32_t id;
  ReadingKind kind = ReadingKind::counter;
};
// NVML_FI_DEV_*: volatile ECC totals, retired pages, remapped rows, NVLink totals, PCIe replays.
constexpr std::array error_fields = {ErrorField{"ecc_corrected_errors", 3},
                                     ErrorField{"ecc_uncorrected_errors", 4},
                                     ErrorField{"retired_pages_pending", 31, ReadingKind::instant},
                                     ErrorField{"nvlink_crc_errors", 38},
                                     ErrorField{"nvlink_replay_errors", 52},
                                     ErrorField{"nvlink_recovery_errors", 59},
                                     ErrorField{"pcie_replays", 94},
                                     ErrorField{"remapped_rows_corrected", 142},
                                     ErrorField{"remapped_rows_uncorrected", 143},
                                     ErrorField{"remapped_rows_pending", 144, ReadingKind::instant},
                                     ErrorField{"remapped_rows_failed", 145, ReadingKind::instant}};

void add_errors(std::vector<SignalSources>& wanted) {
  for (const ErrorField& field : error_fields) {
    Source source = count(field.id, 1);
    source.kind = field.kind;
    wanted.push_back(
        {.signal = field.signal, .sources = {std::move(source)}, .what = "", .rare = true});
  }
}

bool all_count_in_64(const FieldValue* answers) {
  for (int i = 0; i < 3; ++i) {
    const auto type = static_cast<ValueType>(answers[i].type);
    if (answers[i].code != Code::success) return false;
    if (type != ValueType::u64 && type != ValueType::u64_long) return false;
  }
  return true;
}

}  // namespace

std::vector<Field> numbering_fields() {
  std::vector<Field> fields;
  for (const uint32_t first : {first_old_residency, first_new_residency})
    for (uint32_t i = 0; i < 3; ++i)
      fields.push_back({first + i, 0});
  return fields;
}

Numbering numbering_of(const std::vector<FieldValue>& answers, int driver_major) {
  if (answers.size() != 6) return Numbering::none;
  const bool older = all_count_in_64(answers.data()), newer = all_count_in_64(answers.data() + 3);
  if (older && newer) return driver_major < 580 ? Numbering::from_251 : Numbering::from_269;
  return older ? Numbering::from_251 : newer ? Numbering::from_269 : Numbering::none;
}

std::vector<SignalSources> wanted_fields(unsigned architecture, const std::vector<unsigned>& links,
                                         Numbering numbering) {
  std::vector<SignalSources> wanted = {
      power("power_instant_w", power_instant, "instant power", false),
      power("power_average_w", power_average, "average power", true),
      module_power(),
      memory_power(),
      SignalSources{"energy_j", {count(total_energy, milli)}, "energy counter"},
      SignalSources{"memory_c", {gauge({memory_temperature, 0}, 1)}, "memory temperature"},
      link_bytes(true, architecture, links),
      link_bytes(false, architecture, links),
      SignalSources{"pcie_tx_bytes", {count(pcie_tx, 1)}, "PCIe bytes sent", 555},
      SignalSources{"pcie_rx_bytes", {count(pcie_rx, 1)}, "PCIe bytes received", 555}};
  add_residency(wanted, numbering);
  add_errors(wanted);
  return wanted;
}

std::optional<double> number_in(const FieldValue& answer) {
  if (answer.code != Code::success) return std::nullopt;
  const auto type = static_cast<ValueType>(answer.type);
  // DCGM's blank numbers begin at 2^47; no gauge is near.
  constexpr double blank = 140737488355328.0;
  if (type == ValueType::f64) {
    if (!std::isfinite(answer.value.f64) || std::fabs(answer.value.f64) >= blank)
      return std::nullopt;
    return answer.value.f64;
  }
  if (type == ValueType::i32 || type == ValueType::i64) {
    const int64_t number = type == ValueType::i32 ? answer.value.i32 : answer.value.i64;
    const int64_t largest = type == ValueType::i32 ? INT32_MAX - 15 : INT64_MAX - 15;
    if (number == -1 || number >= largest) return std::nullopt;
    return as_real(number);
  }
  const auto count = count_in(answer);
  return count ? std::optional(as_real(count->value)) : std::nullopt;
}

std::optional<RawCount> count_in(const FieldValue& answer) {
  if (answer.code != Code::success) return std::nullopt;
  RawCount raw;
  switch (static_cast<ValueType>(answer.type)) {
    case ValueType::u16:
      raw = {answer.value.u16, 16};
      break;
    case ValueType::u32:
      raw = {answer.value.u32, 32};
      break;
    case ValueType::u64_long:
    case ValueType::u64:
      raw = {answer.value.u64, 64};
      break;
    case ValueType::i64:
      if (answer.value.i64 < 0) return std::nullopt;
      raw = {answer.value.u64, 64};
      break;
    default:
      return std::nullopt;
  }
  if (is_sentinel(raw.value, raw.bits)) return std::nullopt;
  return raw;
}

}  // namespace triplepoint::telemetry::nvml
