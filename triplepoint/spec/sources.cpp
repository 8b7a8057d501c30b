// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/sources.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

namespace triplepoint::spec {
namespace {

using Kind = TomlValue::Kind;

struct Leaf {
  std::string key, value;
  int line = 0;
};

struct Source {
  std::vector<std::string> keys;
  NumberKind kind = NumberKind::assumed;
  std::string cite;
  int line = 0;
};

bool is_quantity(const std::string& text) {
  return parse_measured(text).has_value() || parse_celsius(text).has_value();
}

std::optional<std::string> number_text(const TomlValue& value) {
  if (value.is(Kind::integer)) return std::to_string(value.integer);
  if (value.is(Kind::number)) return fmt::format("{}", value.number);
  if (value.is(Kind::text) && is_quantity(value.text)) return value.text;
  return std::nullopt;
}

void collect_leaves(const TomlValue& value, const std::string& key, std::vector<Leaf>& leaves) {
  if (const auto text = number_text(value)) {
    const bool listed = !leaves.empty() && leaves.back().key == key;
    if (listed)
      leaves.back().value += ", " + *text;
    else
      leaves.push_back({key, *text, value.line});
  }
  for (const TomlValue& item : value.items)
    collect_leaves(item, key, leaves);
  for (const TomlEntry& entry : value.entries)
    if (!key.empty() || (entry.key != "source" && entry.key != "fit"))
      collect_leaves(entry.value, key.empty() ? entry.key : key + "." + entry.key, leaves);
}

/// Length of the match, so that the longest may win; nothing where the key does not cover the leaf.
std::optional<std::size_t> coverage(std::string_view pattern, std::string_view leaf) {
  if (pattern == leaf) return leaf.size() + 1;
  if (!pattern.ends_with(".*")) return std::nullopt;
  pattern.remove_suffix(1);  // "gpu."
  if (!leaf.starts_with(pattern)) return std::nullopt;
  return pattern.size();
}

tl::unexpected<Error> problem_at(const std::string& file, int line, const std::string& what) {
  return error(fmt::format("{}:{}: {}", file, line, what));
}

Result<Source> read_source(const TomlValue& table, const std::string& file) {
  Source source;
  source.line = table.line;
  for (const TomlEntry& entry : table.entries)
    if (entry.key != "keys" && entry.key != "kind" && entry.key != "cite")
      return problem_at(
          file, entry.value.line,
          fmt::format("unknown key '{}' in [[source]] (it would be ignored); known are "
                      "keys, kind, cite",
                      entry.key));
  const TomlValue *keys = table.find("keys"), *kind = table.find("kind"),
                  *cite = table.find("cite");
  if (keys == nullptr || kind == nullptr || cite == nullptr || cite->text.empty())
    return problem_at(file, table.line,
                      "a [[source]] is incomplete (it links numbers to their origin); give it "
                      "keys, kind and cite");
  for (const TomlValue& key : keys->items)
    source.keys.push_back(key.text);
  const auto known = enum_from_name<NumberKind>(kind->text);
  if (!known)
    return problem_at(
        file, kind->line,
        fmt::format(
            "kind \"{}\" is unknown (it classifies how a number was obtained); known are {}",
            kind->text, fmt::join(EnumNames<NumberKind>::names, ", ")));
  source.kind = *known;
  source.cite = cite->text;
  return source;
}

const Source* best_source(const std::vector<Source>& sources, const std::string& key) {
  const Source* best = nullptr;
  std::size_t best_length = 0;
  for (const Source& source : sources)
    for (const std::string& pattern : source.keys)
      if (const auto length = coverage(pattern, key); length && *length > best_length) {
        best = &source;
        best_length = *length;
      }
  return best;
}

Result<void> every_key_is_there(const std::vector<Source>& sources, const std::vector<Leaf>& leaves,
                                const std::string& file) {
  std::vector<std::string> known(leaves.size());
  std::transform(leaves.begin(), leaves.end(), known.begin(),
                 [](const Leaf& leaf) { return leaf.key; });
  for (const Source& source : sources)
    for (const std::string& key : source.keys) {
      const bool used = std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) {
        return coverage(key, leaf.key).has_value();
      });
      if (!used)
        return problem_at(file, source.line,
                          fmt::format("source for '{}' (this file has no such number); {}", key,
                                      did_you_mean(key, known)));
    }
  return {};
}

}  // namespace

Result<std::vector<Provenance>> collect_provenance(const TomlValue& root, const std::string& file) {
  std::vector<Source> sources;
  if (const TomlValue* tables = root.find("source"))
    for (const TomlValue& table : tables->items)
      sources.push_back(TPT_TRY(read_source(table, file)));
  std::vector<Leaf> leaves;
  collect_leaves(root, "", leaves);
  if (auto checked = every_key_is_there(sources, leaves, file); !checked)
    return tl::unexpected(checked.error());
  std::vector<Provenance> result;
  for (const Leaf& leaf : leaves) {
    const Source* source = best_source(sources, leaf.key);
    if (source == nullptr)
      return problem_at(
          file, leaf.line,
          fmt::format(
              "{} = {} has no source (every number needs one); add it to the keys of a [[source]]",
              leaf.key, leaf.value));
    result.push_back({leaf.key, leaf.value, source->kind, source->cite, file, leaf.line});
  }
  return result;
}

}  // namespace triplepoint::spec
