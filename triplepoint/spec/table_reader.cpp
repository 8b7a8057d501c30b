// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/table_reader.h"

#include <limits>

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {
namespace {

using Kind = TomlValue::Kind;

// Products of three counts still fit a double exactly enough to be compared with a world size.
constexpr int64_t largest_count = 1'000'000'000;

Result<int64_t> read_count(const ReadScope& scope, const TomlValue& value, int64_t largest) {
  if (!value.is(Kind::integer))
    return wrong_kind(scope, value, "it counts something", "write a whole number, as in 8");
  if (value.integer < 0 || value.integer > largest)
    return error(fmt::format("{} is {} (counts go from 0 to {}); write a number between them",
                             scope.place(value), value.integer, largest));
  return value.integer;
}

}  // namespace

Result<void> read_value(const ReadScope& scope, const TomlValue& value, int64_t& out) {
  out = TPT_TRY(read_count(scope, value, largest_count));
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, int& out) {
  out = static_cast<int>(TPT_TRY(read_count(scope, value, largest_count)));
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, uint64_t& out) {
  out =
      static_cast<uint64_t>(TPT_TRY(read_count(scope, value, std::numeric_limits<int64_t>::max())));
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, double& out) {
  if (!value.is(Kind::number) && !value.is(Kind::integer))
    return wrong_kind(scope, value, "it is a plain number, its unit is in its name",
                      "write a number, as in 0.85");
  out = value.is(Kind::integer) ? static_cast<double>(value.integer) : value.number;
  if (!std::isfinite(out) || out < 0)
    return error(fmt::format("{} is {} (it is finite and not negative); write such a number",
                             scope.place(value), out));
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, bool& out) {
  if (!value.is(Kind::truth))
    return wrong_kind(scope, value, "it is switched on or off", "write true or false");
  out = value.truth;
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, std::string& out) {
  if (!value.is(Kind::text)) return wrong_kind(scope, value, "it is a text", "write it in quotes");
  out = value.text;
  return {};
}

namespace {

/// The text of a quantity. A bare number is handed on as text: unit_text says what is missing.
Result<std::string> quantity_text(const ReadScope& scope, const TomlValue& value) {
  if (value.is(Kind::text)) return value.text;
  if (value.is(Kind::integer)) return std::to_string(value.integer);
  if (value.is(Kind::number)) return fmt::format("{}", value.number);
  return wrong_kind(scope, value, "it is a quantity",
                    "write a number and a unit in quotes, as in \"700 W\"");
}

tl::unexpected<Error> at_place(const ReadScope& scope, const TomlValue& value,
                               const Error& problem) {
  return error(fmt::format("{}: {}", scope.place(value), problem.what));
}

}  // namespace

Result<double> read_quantity(const ReadScope& scope, const TomlValue& value, Dim dim) {
  const std::string text = TPT_TRY(quantity_text(scope, value));
  const Result<double> parsed = parse_in_base_units(text, dim);
  if (!parsed) return at_place(scope, value, parsed.error());
  if (*parsed < 0 && dim != Dim{.heat = 1})
    return error(fmt::format("{} is \"{}\" (a {} is not negative); leave the sign out",
                             scope.place(value), text, dimension_name(dim)));
  return *parsed;
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value, Celsius& out) {
  const std::string text = TPT_TRY(quantity_text(scope, value));
  const Result<Celsius> parsed = parse_celsius(text);
  if (!parsed) return at_place(scope, value, parsed.error());
  out = *parsed;
  return {};
}

Result<void> read_value(const ReadScope& scope, const TomlValue& value,
                        std::array<double, op_class_count>& out) {
  if (!value.is(Kind::table))
    return wrong_kind(scope, value, "it has one number per class of operation",
                      fmt::format("write a table, [{}]", scope.key));
  TableReader reader(value, scope);
  for (std::size_t i = 0; i < out.size(); ++i)
    reader(EnumNames<OpClass>::names[i], out[i]);
  return reader.finish();
}

Error unknown_word(const ReadScope& scope, const TomlValue& value,
                   const std::vector<std::string>& known) {
  return {fmt::format("{} is \"{}\" (an unknown word); {}", scope.place(value), value.text,
                      did_you_mean(value.text, known))};
}

Result<void> TableReader::finish() const {
  for (const TomlEntry& entry : table_.entries) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    const std::string where = scope_.key.empty() ? "" : fmt::format(" in [{}]", scope_.key);
    return error(fmt::format("{}:{}: unknown key '{}'{} (it would be ignored); {}", scope_.file,
                             entry.value.line, entry.key, where, did_you_mean(entry.key, known_)));
  }
  if (problem_) return tl::unexpected(*problem_);
  return {};
}

void TableReader::note_missing(std::string_view key) {
  const std::string where = scope_.key.empty() ? "the file" : fmt::format("[{}]", scope_.key);
  problem_ = Error{fmt::format("{}:{}: {} has no '{}' (it has no default); add it", scope_.file,
                               table_.line, where, key)};
}

void complete(Model& model) {
  if (model.num_query_groups == 0) model.num_query_groups = model.num_attention_heads;
  if (model.kv_channels == 0 && model.num_attention_heads > 0)
    model.kv_channels = model.hidden_size / model.num_attention_heads;
}

void complete(Cluster& cluster) {
  // Fewer GPUs a node than the base has slots: a part of each node is used.
  const int64_t devices = cluster.gpus_per_node;
  const auto slots = static_cast<int64_t>(cluster.chassis.slots.size());
  if (devices < 1 || devices >= slots) return;
  cluster.gpus_per_node = slots;
  use_devices(cluster, devices);
}

}  // namespace triplepoint::spec
