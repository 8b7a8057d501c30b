// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "triplepoint/base/json.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/table_reader.h"

namespace triplepoint::spec {
namespace {

struct FieldComment {
  std::string_view key, text;  // no key: of the struct
};
template <class T>
inline constexpr std::array<FieldComment, 0> comments_of{};
#include "field_comments.inc"

template <class T>
std::string comment_of(std::string_view key) {
  for (const FieldComment& comment : comments_of<T>)
    if (comment.key == key) return std::string(comment.text);
  return {};
}

/// What a value must look like, and which keys it needs where it is described from scratch: an
/// entry that starts from a named base has the same shape and no needs.
struct Part {
  Json shape;
  Json needs = nullptr;
};

template <class T>
using Type = std::type_identity<T>;

// These depend on other keys; struct and file have different values.
constexpr std::array<std::string_view, 4> computed_defaults{"global_batch_size", "sharding",
                                                            "schedule", "optimizer"};

/// The default of an optional key, where it is one value that says something.
template <class T>
Json default_of(const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return value;
  else if constexpr (NamedEnum<T>)
    return enum_name(value);
  else if constexpr (std::is_arithmetic_v<T>)
    return value == T{} ? Json() : Json(value);
  else
    return {};
}

Json quantity(std::string_view what, std::string_view units, std::string pattern) {
  return {{"type", "string"},
          {"description", fmt::format("{} in {}", what, units)},
          {"pattern", std::move(pattern)}};
}

Json object_of(Json properties) {
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}

/// Library names beside any other text: editors offer the former.
void offer(Json& schema, const std::vector<std::string>& names) {
  schema["anyOf"] = {{{"enum", names}}, Json::object()};
}

/// `needs` in force where `condition` holds.
void demand(Json& schema, Json condition, Json needs) {
  if (needs.is_null()) return;
  schema["if"] = std::move(condition);
  schema["then"] = std::move(needs);
}

class Parts {
 public:
  explicit Parts(const Library& library) : library_(library) {}

  Part of(Type<bool>) const { return {{{"type", "boolean"}}}; }
  Part of(Type<double>) const { return {{{"type", "number"}, {"minimum", 0}}}; }
  Part of(Type<std::string>) const { return {{{"type", "string"}}}; }
  Part of(Type<Celsius>) const { return {quantity("temperature", "C, F", celsius_pattern())}; }
  template <Dim D>
  Part of(Type<Quantity<D>>) const {
    return {quantity(dimension_name(D), usual_units(D), quantity_pattern(D, D == Kelvins::dim))};
  }
  template <NamedEnum E>
  Part of(Type<E>) const {
    return {{{"enum", enum_names<E>}}};
  }
  template <class T>
  requires std::is_integral_v<T> Part of(Type<T>)
  const { return {{{"type", "integer"}, {"minimum", 0}}}; }
  template <class T>
  Part of(Type<std::optional<T>>) const {
    return of(Type<T>());
  }
  template <class T>
  Part of(Type<std::vector<T>>) const {
    Part item = of(Type<T>());
    Part list{{{"type", "array"}, {"items", std::move(item.shape)}}};
    if (!item.needs.is_null()) list.needs = {{"items", std::move(item.needs)}};
    return list;
  }
  Part of(Type<std::array<double, op_class_count>>) const {
    Json properties = Json::object();
    for (const std::string_view name : enum_names<OpClass>)
      properties[std::string(name)] = of(Type<double>()).shape;
    return {object_of(std::move(properties))};
  }
  template <class T>
  requires(std::is_class_v<T> && !NamedEnum<T>) Part of(Type<T>)
  const;

 private:
  std::vector<std::string> names(Type<Model>) const { return list_models(library_); }
  std::vector<std::string> names(Type<Gpu>) const { return list_gpus(library_); }
  std::vector<std::string> names(Type<Cluster>) const { return list_clusters(library_); }
  std::vector<std::string> names(Type<Stack>) const { return list_stacks(library_); }
  std::vector<std::string> names(Type<OptimizerState>) const { return list_optimizers(library_); }
  std::vector<std::string> names(Type<Records>) const { return list_records(library_); }

  /// As a name, a table that changes what is named as its base, or a complete table.
  template <class T>
  void may_be_named(Part& part) const {
    const std::vector<std::string> known = names(Type<T>());
    Json base = {{"type", "string"}, {"description", "name or file of what this table changes"}};
    offer(base, known);
    Json properties = {{"base", std::move(base)}};
    properties.update(part.shape["properties"]);
    part.shape["properties"] = std::move(properties);
    part.shape["type"] = {"string", "object"};
    offer(part.shape, known);
    Json needs = Json::object();
    demand(needs, {{"type", "object"}, {"not", {{"required", {"base"}}}}}, std::move(part.needs));
    part.needs = needs.empty() ? Json() : std::move(needs);
  }

  const Library& library_;
};

/// Adds the fields of an Owner to a table's part, one by one.
template <class Owner>
class FieldAdder {
 public:
  FieldAdder(const Parts& parts, Part& table) : parts_(parts), table_(table) {}

  template <class T>
  void operator()(std::string_view name, T& member, Need need = Need::optional) {
    const std::string key(name);
    Part part = parts_.of(Type<T>());
    describe(part.shape, comment_of<Owner>(key));
    const bool computed = holds(computed_defaults, name);
    const Json usual = default_of(member);
    if (need == Need::optional && !computed && !usual.is_null()) part.shape["default"] = usual;
    if (need == Need::required) table_.needs["required"].push_back(key);
    if (!part.needs.is_null()) table_.needs["properties"][key] = std::move(part.needs);
    table_.shape["properties"][key] = std::move(part.shape);
  }

 private:
  /// The field's comment, then the units of a quantity; of a table the comment alone.
  static void describe(Json& shape, const std::string& comment) {
    if (comment.empty()) return;
    const std::string of_type = shape.contains("properties") ? "" : shape.value("description", "");
    shape["description"] = of_type.empty() ? comment : fmt::format("{}; {}", comment, of_type);
  }

  const Parts& parts_;
  Part& table_;
};

template <class T>
void add_fields(const Parts& parts, Part& table) {
  FieldAdder<T> fields(parts, table);
  T thing{};
  visit_fields(fields, thing);
}

template <class T>
requires(std::is_class_v<T> && !NamedEnum<T>) Part Parts::of(Type<T>)
const {
  Part part{object_of(Json::object())};
  add_fields<T>(*this, part);
  if (const std::string about = comment_of<T>(""); !about.empty())
    part.shape["description"] = about;
  if constexpr (HasName<T>) may_be_named<T>(part);
  return part;
}

void add(Part& table, const std::string& key, Part part) {
  if (!part.needs.is_null()) table.needs["properties"][key] = std::move(part.needs);
  table.shape["properties"][key] = std::move(part.shape);
}

Part empty_table() {
  return {object_of(Json::object())};
}

/// A whole file of this shape, described from scratch.
Json file_of(std::string_view title, const Part& part) {
  Json file = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", title}};
  file.update(part.shape);
  if (part.needs.is_null()) return file;
  if (part.needs.contains("required")) file["required"] = part.needs["required"];
  if (part.needs.contains("properties"))
    demand(file, true, {{"properties", part.needs["properties"]}});
  return file;
}

/// A file of data/ begins with what its numbers are about.
Json library_file(const Parts& parts, std::string_view title, Part file) {
  add(file, "source", parts.of(Type<std::vector<Source>>()));
  add(file, "fit", {{{"description", "record of a fit, which only people read"}}});
  return file_of(title, file);
}

template <class T>
Json library_file(const Library& library, const std::string& table) {
  const Parts parts(library);
  Part file = empty_table();
  add(file, table, parts.of(Type<T>()));
  file.needs["required"].push_back(table);
  return library_file(parts, fmt::format("{} of Triplepoint", table), std::move(file));
}

/// One block of coefficients of a GPU.
Json calibration_file(const Library& library) {
  const Parts parts(library);
  Part file = empty_table();
  // What holds for every GPU is in a separate file, so that no file needs to be complete.
  add(file, "kernels", {parts.of(Type<KernelCoefficients>()).shape});
  add(file, "power", parts.of(Type<PowerCoefficients>()));
  add(file, "thermal", parts.of(Type<ThermalLadder>()));
  add(file, "governor", parts.of(Type<GovernorCoefficients>()));
  add(file, "sensor", parts.of(Type<SensorCoefficients>()));
  add(file, "variability", parts.of(Type<Variability>()));
  return library_file(parts, "Calibration of a GPU of Triplepoint", std::move(file));
}

Part job_part(const Parts& parts) {
  Part job = empty_table();
  add_fields<Job>(parts, job);
  add_fields<JobShortcuts>(parts, job);
  return job;
}

Json job_file(const Library& library) {
  const Parts parts(library);
  Part job = job_part(parts);
  add(job, "source", parts.of(Type<std::vector<Source>>()));
  return file_of("Job of Triplepoint", job);
}

// Studies ------------------------------------------------------------------------------------

Json reference(const std::string& key) {
  return {{"$ref", "#/definitions/" + key}};
}

Json list_of(Json item) {
  return {{"type", "array"}, {"items", std::move(item)}};
}

/// Properties that refer to the definitions of these keys; in a grid each may be a list of values.
Json references(const Json& definitions, bool may_vary) {
  Json properties = Json::object();
  for (const auto& [key, ignored] : definitions.items())
    properties[key] =
        may_vary ? Json{{"anyOf", {reference(key), list_of(reference(key))}}} : reference(key);
  return properties;
}

/// A [[grid.axis]]: steps with a label, which set keys of the job and of its plan.
Json axis_of(const Json& all_keys) {
  Json step = references(all_keys, false);
  step["label"] = {{"type", "string"}, {"description", "its part of the job's name"}};
  Json step_table = object_of(std::move(step));
  step_table["required"] = {"label"};
  Json axis = object_of({{"name", {{"type", "string"}}}, {"values", list_of(step_table)}});
  axis["required"] = {"name", "values"};
  return axis;
}

Json study_file(const Library& library) {
  const Parts parts(library);
  const Json job_keys = job_part(parts).shape["properties"];
  const Json plan_keys = job_keys["plan"]["properties"];
  Json all_keys = job_keys;
  all_keys.update(plan_keys);

  const Part diagnoses = parts.of(Type<std::vector<Diagnosis>>());
  Json known_problem = diagnoses.shape;
  known_problem["items"].update(diagnoses.needs["items"]);

  Json job = references(all_keys, false), grid = references(all_keys, true);
  job["diagnosis"] = grid["diagnosis"] = known_problem;
  grid["plan"] = object_of(references(plan_keys, true));
  grid["axis"] = list_of(axis_of(all_keys));

  Part file = empty_table();
  add(file, "study", parts.of(Type<StudyHead>()));
  add(file, "defaults", {object_of(references(job_keys, false))});
  add(file, "job", {list_of(object_of(std::move(job)))});
  add(file, "grid", {list_of(object_of(std::move(grid)))});
  add(file, "score", parts.of(Type<ScoreRules>()));
  file.needs["required"].push_back("study");
  Json schema = file_of("Study of Triplepoint", file);
  schema["definitions"] = std::move(all_keys);
  return schema;
}

struct Kind {
  std::string_view name;
  Json (*schema)(const Library&);
};

constexpr std::array kinds{
    Kind{"job", job_file},
    Kind{"study", study_file},
    Kind{"model", [](const Library& library) { return library_file<Model>(library, "model"); }},
    Kind{"gpu", [](const Library& library) { return library_file<Gpu>(library, "gpu"); }},
    Kind{"cluster",
         [](const Library& library) { return library_file<Cluster>(library, "cluster"); }},
    Kind{"stack", [](const Library& library) { return library_file<Stack>(library, "stack"); }},
    Kind{"optimizer",
         [](const Library& library) { return library_file<OptimizerState>(library, "optimizer"); }},
    Kind{"records",
         [](const Library& library) { return library_file<Records>(library, "records"); }},
    Kind{"calibration", calibration_file}};

}  // namespace

std::vector<std::string> schema_kinds() {
  return mapped<std::string>(kinds, &Kind::name);
}

Json file_schema(const Library& library, std::string_view kind) {
  const auto found = std::ranges::find(kinds, kind, &Kind::name);
  TPT_EXPECT(found != kinds.end());
  return found->schema(library);
}

}  // namespace triplepoint::spec
