// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/results.h"

#include <cstddef>
#include <map>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/run_findings.h"

namespace triplepoint::answers {
namespace {

/// The place of a dotted key.
Json& at_path(Json& json, std::string_view key) {
  const size_t dot = key.find('.');
  Json& here = json[std::string(key.substr(0, dot))];
  return dot == std::string_view::npos ? here : at_path(here, key.substr(dot + 1));
}

std::string cell_text(const Json& value) {
  if (value.is_null()) return {};
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.dump();
}

std::string setting_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return json_text(value, -1);
  const std::string list =
      triplepoint::joined(mapped(value, [](const Json& item) { return cell_text(item); }), ", ");
  return list.empty() ? "none" : list;
}

Json schema_of(const Quantity& quantity) {
  Json schema;
  if (const std::string text = sentence_of(quantity); !text.empty()) schema["description"] = text;
  if (const std::string_view type = json_type(quantity.type); !type.empty())
    schema["type"] = {type, "null"};
  if (!quantity.unit.empty()) schema["x-unit"] = quantity.unit;
  if (quantity.is_column()) schema["x-column"] = quantity.name;
  return schema;
}

void add_to_schema(Json& schema, std::string_view key, const Quantity& quantity) {
  const size_t dot = key.find('.');
  Json& property = schema["properties"][std::string(key.substr(0, dot))];
  if (dot == std::string_view::npos) {
    property.update(schema_of(quantity));
    return;
  }
  property["type"] = {"object", "null"};
  add_to_schema(property, key.substr(dot + 1), quantity);
}

constexpr Quantity added(std::string_view key, Type type, std::string_view about) {
  return {key, "", "", "", about, nullptr, type};
}
/// What commands add to the quantities of a run.
constexpr Quantity additions[] = {
    added("schema", Type::count, "grows when a key changes its meaning or disappears"),
    added("findings", Type::object, "sentences: what stands out"),
    added("diagnoses", Type::object, "list: `code`, `severity` (`error`, `warning`), `what`"),
    added("fits_with", Type::text, "of a job out of memory: flags with which it fits"),
    added("power_profile", Type::object, "`levels[]`, and what smoothing would cost"),
    added("bill", Type::object, "time, energy, money and CO2, and the `rates` they are by"),
    added("faults", Type::object, "list: `fault`, `slowdown`, `before`, `during`, `after`"),
    added("phases", Type::object, "the whole run over time, then each fault's before and after"),
};

}  // namespace

Json results_json(const run::Run& run, const metrics::Metrics& metrics,
                  const run::Run* fault_free) {
  const RunResult result = result_of(run, metrics);
  const bool lists_devices = run.devices.size() <= metrics::most_listed_devices;
  Json json;
  for (const QuantityGroup& group : quantity_groups()) {
    if (!is_given(group, result)) continue;
    for (const Quantity& quantity : group.quantities) {
      if (quantity.key.empty() || (quantity.type == Type::per_gpu && !lists_devices)) continue;
      Json value = quantity.value(result);
      if (!value.is_null() || group.given != Given::if_known)
        at_path(json, quantity.key) = std::move(value);
    }
  }
  json["findings"] = mapped<Json>(run_findings(run, metrics, fault_free), &Remark::text);
  return json;
}

std::vector<const Quantity*> results_columns() {
  std::vector<const Quantity*> columns;
  for (const QuantityGroup& group : quantity_groups())
    for (const Quantity& quantity : group.quantities)
      if (quantity.is_column()) columns.push_back(&quantity);
  return columns;
}

std::vector<std::string> results_row(const run::Run& run, const metrics::Metrics& metrics) {
  const RunResult result = result_of(run, metrics);
  std::vector<std::string> cells;
  for (const QuantityGroup& group : quantity_groups())
    for (const Quantity& quantity : group.quantities)
      if (quantity.is_column())
        cells.push_back(is_given(group, result) ? cell_text(quantity.value(result))
                                                : std::string());
  return cells;
}

std::vector<std::pair<std::string, std::string>> settings_of(const run::Run& run) {
  constexpr std::string_view prefix = "configuration.";
  const metrics::Metrics nothing;
  const RunResult result = result_of(run, nothing);
  std::map<std::string, std::string> settings;
  for (const QuantityGroup& group : quantity_groups()) {
    if (!is_given(group, result)) continue;
    for (const Quantity& quantity : group.quantities) {
      if (!quantity.key.starts_with(prefix)) continue;
      const Json value = quantity.value(result);
      if (!value.is_null())
        settings.emplace(quantity.key.substr(prefix.size()), setting_text(value));
    }
  }
  return {settings.begin(), settings.end()};
}

// ---- reference

std::string_view json_type(Type type) {
  return word_for<Type::object>({"string", "integer", "number", "boolean", "", ""}, type);
}

std::string sentence_of(const Quantity& quantity) {
  std::string text(quantity.label);
  if (!text.empty() && !quantity.about.empty()) text += ": ";
  return text.append(quantity.about);
}

Json results_schema() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "Results of a run"},
                 {"type", "object"}};
  for (const QuantityGroup& group : quantity_groups())
    for (const Quantity& quantity : group.quantities)
      if (!quantity.key.empty()) add_to_schema(schema, quantity.key, quantity);
  for (const Quantity& quantity : additions)
    add_to_schema(schema, quantity.key, quantity);
  return schema;
}

}  // namespace triplepoint::answers
