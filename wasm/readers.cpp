// SPDX-License-Identifier: Apache-2.0
// What readers do otherwise in a browser: the page's parser reads YAML, no script is run, and no
// stored run is opened.
#include <cstdlib>
#include <memory>
#include <string>

#include "triplepoint/base/json.h"

#include "triplepoint/formats/script_run.h"
#include "triplepoint/formats/yaml_document.h"
#include "triplepoint/store/store.h"

/// The page's parser: a tree as JSON (web/src/explorer_yaml.ts), which ends with a zero; the
/// caller frees it.
extern "C" [[clang::import_module("explore"), clang::import_name("parse_yaml")]] char*
tpt_parse_yaml(const char* text, std::size_t bytes);

namespace triplepoint {
namespace formats {
namespace {

YamlNode node_of(const Json& json) {
  YamlNode node{.line = json.at("line").get<int>()};
  if (const auto items = json.find("items"); items != json.end()) {
    node.kind = YamlNode::Kind::list;
    for (const Json& item : *items)
      node.items.push_back(node_of(item));
  } else if (const auto entries = json.find("entries"); entries != json.end()) {
    node.kind = YamlNode::Kind::table;
    for (const Json& entry : *entries)
      node.entries.push_back({entry.at(0).get<std::string>(), node_of(entry.at(1))});
  } else if (const auto text = json.find("text"); text != json.end()) {
    node.kind = YamlNode::Kind::scalar;
    node.scalar = text->get<std::string>();
    node.quoted = json.at("quoted").get<bool>();
  }
  return node;
}

}  // namespace

Result<YamlNode> parse_yaml(std::string_view text, std::string_view name) {
  if (text.find('\0') != text.npos)
    return error("{}: has zero bytes (it is not a text file); try another file", name);
  const std::unique_ptr<char, decltype(&std::free)> answer(tpt_parse_yaml(text.data(), text.size()),
                                                           &std::free);
  const Json tree = Json::parse(answer.get());
  if (!tree.contains("error")) return node_of(tree);
  const int line = tree.at("line").get<int>();
  return error("{}{}: {}", name, line > 0 ? fmt::format(":{}", line) : "",
               tree.at("error").get<std::string>());
}

Result<std::vector<Launch>> run_script(const std::string& path, const ScriptWorld&, Seconds) {
  return error(
      "{}: --run-script runs nothing in a browser; triplepoint import {} --run-script "
      "on a machine does",
      path, path);
}

}  // namespace formats

namespace run {

Result<Run> load(const std::string& path) {
  return error(
      "{}: a browser opens no stored run; triplepoint explore {} opens this page with its job",
      path, path);
}

}  // namespace run
}  // namespace triplepoint
