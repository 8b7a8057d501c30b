// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/resume.h"

#include <algorithm>
#include <array>

namespace triplepoint::trace::kineto {

namespace {

constexpr std::string_view spaces = " \n\r\t";
// What begins an event, and what may follow the list of events.
constexpr std::array<std::string_view, 8> event_keys = {"ph",  "cat", "name", "pid",
                                                        "tid", "ts",  "dur",  "args"};
constexpr std::array<std::string_view, 8> file_keys = {
    "traceName",     "displayTimeUnit", "baseTimeNanoseconds",
    "schemaVersion", "distributedInfo", "deviceProperties",
    "INFO",          "metadata"};
/// Longer than any key and the spaces around it.
constexpr size_t lookahead = 128;

std::string_view without_spaces(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  return text;
}

template <size_t n>
bool begins_with_key(std::string_view text, const std::array<std::string_view, n>& keys) {
  if (!text.starts_with('"')) return false;
  const size_t end = text.find('"', 1);
  if (end == std::string_view::npos) return false;
  return std::find(keys.begin(), keys.end(), text.substr(1, end - 1)) != keys.end();
}

/// Whether an event or the end of the list begins here, where a brace or bracket stands.
bool is_place(std::string_view before, std::string_view text) {
  const std::string_view rest = without_spaces(text.substr(1));
  if (text[0] == ']')
    return rest.starts_with(',') && begins_with_key(without_spaces(rest.substr(1)), file_keys);
  const size_t last = before.find_last_not_of(spaces);
  return last != std::string_view::npos && before[last] == ',' && begins_with_key(rest, event_keys);
}

}  // namespace

Place find_resume(std::string_view text, bool is_last) {
  size_t at = 0;
  for (;;) {
    at = text.find_first_of("{]", at);
    if (at == std::string_view::npos)
      return {text.size() - std::min(text.size(), lookahead), false};
    const size_t from = at - std::min(at, lookahead);
    if (is_place(text.substr(from, at - from), text.substr(at, lookahead))) return {at, true};
    if (!is_last && text.size() - at < lookahead) return {from, false};
    ++at;
  }
}

bool ends_like_a_trace(std::string_view text) {
  const auto drop = [&](char last) {
    const size_t end = text.find_last_not_of(spaces);
    if (end == std::string_view::npos || text[end] != last) return false;
    text = text.substr(0, end);
    return true;
  };
  return drop('}') && drop(']');
}

}  // namespace triplepoint::trace::kineto
