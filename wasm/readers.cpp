// SPDX-License-Identifier: Apache-2.0
// What readers do otherwise in a browser: the page's parser reads YAML, no script is run, and no
// stored run is opened.
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/formats/script_run.h"
#include "triplepoint/formats/yaml_document.h"
#include "triplepoint/store/store.h"

namespace triplepoint {
namespace formats {
namespace {

YamlNode node_of(const Json& json) {
  YamlNode node;
  if (json.is_object()) {
    node.kind = YamlNode::Kind::table;
    for (const auto& [key, value] : json.items())
      node.entries.push_back({key, node_of(value)});
  } else if (json.is_array()) {
    node.kind = YamlNode::Kind::list;
    for (const Json& value : json)
      node.items.push_back(node_of(value));
  } else if (!json.is_null()) {
    node.kind = YamlNode::Kind::scalar;
    node.quoted = json.is_string();
    node.scalar = json.is_string() ? json.get<std::string>() : json.dump();
  }
  return node;
}

}  // namespace

/// JSON is YAML, too.
Result<YamlNode> parse_yaml(std::string_view text, std::string_view name) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_discarded()) return node_of(json);
  return error(
      fmt::format("{}: this page reads no YAML yet (it has no parser of it); triplepoint import {} "
                  "--format json, or drop the job.toml that triplepoint export writes",
                  name, name));
}

Result<std::vector<Launch>> run_script(const std::string& path, const ScriptWorld&, Seconds) {
  return error(
      fmt::format("{}: --run-script runs nothing in a browser; triplepoint import {} --run-script "
                  "on a machine does",
                  path, path));
}

}  // namespace formats

namespace run {

Result<Run> load(const std::string& path) {
  return error(
      fmt::format("{}: a browser opens no stored run; triplepoint explore {} opens this page with "
                  "its job",
                  path, path));
}

}  // namespace run
}  // namespace triplepoint
