// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/json.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

namespace triplepoint {
namespace {

/// Deeper values could exhaust the stack.
constexpr int deepest = 512;

bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool inside_string = false;
  for (std::size_t i = 0; i < text.size() && depth <= deepest; ++i) {
    const char c = text[i];
    if (inside_string && c == '\\') ++i;
    if (c == '"') inside_string = !inside_string;
    if (inside_string) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
  }
  return depth > deepest;
}

/// What the parser says, without its own numbering: "[json.exception.parse_error.101] parse error
/// at line 1, column 2: syntax ..."
std::string complaint(std::string_view what) {
  const auto number_ends = what.find("] ");
  if (number_ends != std::string_view::npos) what.remove_prefix(number_ends + 2);
  const auto place_ends = what.find(": ");
  if (what.starts_with("parse error") && place_ends != std::string_view::npos)
    what.remove_prefix(place_ends + 2);
  return std::string(what);
}

tl::unexpected<Error> syntax_error(std::string_view text, std::string_view name,
                                   const Json::parse_error& problem) {
  const std::string_view before =
      text.substr(0, std::min(text.size(), problem.byte > 0 ? problem.byte - 1 : 0));
  const auto line = 1 + std::ranges::count(before, '\n');
  const auto line_begins =
      before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return error("{}:{}:{}: not valid JSON ({}); correct the text there", name, line,
               before.size() - line_begins + 1, complaint(problem.what()));
}

/// The keys of the objects around a place in the text.
class KeysSeen {
 public:
  /// Of the parser; notes the first key that an object has twice.
  bool see(Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start) open_.emplace_back();
    if (event == Event::object_end) open_.pop_back();
    if (event != Event::key || twice_) return true;
    const auto& key = parsed.get_ref<const std::string&>();
    if (!open_.back().insert(key).second) twice_ = key;
    return true;
  }
  const std::optional<std::string>& twice() const { return twice_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::optional<std::string> twice_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view name) {
  if (is_too_deep(text))
    return error(
        "{}: more than {} values inside each other (no file of ours is so deep); check the file",
        name, deepest);
  try {
    KeysSeen keys;
    Json json = Json::parse(text, [&](int, Json::parse_event_t event, Json& parsed) {
      return keys.see(event, parsed);
    });
    if (keys.twice())
      return error("{}: an object has the key {} twice; remove one of the two", name,
                   json_text(*keys.twice()));
    return json;
  } catch (const Json::parse_error& problem) {
    return syntax_error(text, name, problem);
  } catch (const Json::exception& problem) {
    return error("{}: not valid JSON ({}); correct the file", name, complaint(problem.what()));
  }
}

std::string json_text(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace triplepoint
