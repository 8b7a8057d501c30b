// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/yaml_writer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/lists.h"
#include "triplepoint/base/quoting.h"

namespace triplepoint::formats {
namespace {

/// "${a}" as a text: OmegaConf, which reads NeMo's files, would look it up.
std::string without_references(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("${")) result += '\\';
    result += text[i];
  }
  return result;
}

}  // namespace

void YamlWriter::put(std::string_view key, std::string value) {
  Node* node = &root_;
  for (;;) {
    const std::size_t dot = std::min(key.find('.'), key.size());
    const std::string_view name = key.substr(0, dot);
    auto& entries = node->entries;
    auto entry = std::ranges::find(entries, name, &Node::name);
    if (entry == entries.end()) entry = entries.insert(entry, {std::string(name), {}, {}});
    node = &*entry;
    if (dot == key.size()) break;
    key.remove_prefix(dot + 1);
  }
  node->value = std::move(value);
}

void YamlWriter::text(std::string_view key, std::string_view value) {
  put(key, yaml_text(without_references(value)));
}
void YamlWriter::count(std::string_view key, int64_t value) {
  put(key, fmt::format("{}", value));
}
void YamlWriter::number(std::string_view key, double value) {
  put(key, fmt::format("{}", value));
}
void YamlWriter::boolean(std::string_view key, bool value) {
  put(key, value ? "true" : "false");
}
void YamlWriter::null(std::string_view key) {
  put(key, "null");
}

void YamlWriter::list(std::string_view key, const std::vector<std::string>& words) {
  const std::vector<std::string> items =
      mapped(words, [](const std::string& word) { return yaml_text(word); });
  put(key, fmt::format("[{}]", fmt::join(items, ", ")));
}

void YamlWriter::write(const Node& node, int indent, std::string& into) {
  for (const Node& child : node.entries) {
    into += fmt::format("{:{}}{}:", "", indent, child.name);
    if (child.entries.empty()) {
      into += fmt::format(" {}\n", child.value);
      continue;
    }
    into += '\n';
    write(child, indent + 2, into);
  }
}

std::string YamlWriter::str() const {
  std::string text;
  write(root_, 0, text);
  return text;
}

}  // namespace triplepoint::formats
