// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/sources.h"

#include <algorithm>
#include <optional>

#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/table_reader.h"

namespace triplepoint::spec {
namespace {

using Kind = TomlValue::Kind;

struct Leaf {
  std::string key, value;
  int line = 0;
};

struct SourceAtLine {
  Source source;
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

Result<std::vector<SourceAtLine>> read_sources(const TomlValue& root, const std::string& file) {
  std::vector<SourceAtLine> sources;
  const TomlValue* tables = root.find("source");
  if (tables == nullptr) return sources;
  ReadScope scope;
  scope.file = file;
  scope.key = "source";
  for (const TomlValue& table : tables->items) {
    SourceAtLine& read = sources.emplace_back(SourceAtLine{{}, table.line});
    TPT_TRY(read_value(scope, table, read.source));
    if (read.source.cite.empty())
      return error_at(file, table.line,
                      "a [[source]] with an empty cite (it says where numbers come from); name "
                      "the data sheet, measurement or reason");
  }
  return sources;
}

const Source* best_source(const std::vector<SourceAtLine>& sources, const std::string& key) {
  const Source* best = nullptr;
  std::size_t best_length = 0;
  for (const SourceAtLine& each : sources)
    for (const std::string& pattern : each.source.keys)
      if (const auto length = coverage(pattern, key); length && *length > best_length) {
        best = &each.source;
        best_length = *length;
      }
  return best;
}

Result<void> every_key_is_there(const std::vector<SourceAtLine>& sources,
                                const std::vector<Leaf>& leaves, const std::string& file) {
  std::vector<std::string> known(leaves.size());
  std::transform(leaves.begin(), leaves.end(), known.begin(),
                 [](const Leaf& leaf) { return leaf.key; });
  for (const SourceAtLine& each : sources)
    for (const std::string& key : each.source.keys) {
      const bool used = std::ranges::any_of(
          leaves, [&](const Leaf& leaf) { return coverage(key, leaf.key).has_value(); });
      if (!used)
        return error_at(file, each.line,
                        fmt::format("source for '{}' (this file has no such number); {}", key,
                                    did_you_mean(key, known)));
    }
  return {};
}

}  // namespace

Result<std::vector<Provenance>> collect_provenance(const TomlValue& root, const std::string& file) {
  const std::vector<SourceAtLine> sources = TPT_TRY(read_sources(root, file));
  std::vector<Leaf> leaves;
  collect_leaves(root, "", leaves);
  if (auto checked = every_key_is_there(sources, leaves, file); !checked)
    return tl::unexpected(checked.error());
  std::vector<Provenance> result;
  for (const Leaf& leaf : leaves) {
    const Source* source = best_source(sources, leaf.key);
    result.push_back({leaf.key, leaf.value, source ? source->kind : NumberKind::assumed,
                      source ? source->cite : "", file, leaf.line});
  }
  return result;
}

}  // namespace triplepoint::spec
