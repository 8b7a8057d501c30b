// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/quoting.h"

#include <algorithm>
#include <iterator>

#include "triplepoint/base/number_text.h"
#include "triplepoint/base/text.h"

namespace triplepoint {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

// Line breaks of Unicode, in UTF-8: next line, line separator, paragraph separator.
constexpr std::string_view wide_breaks[] = {"\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9"};

std::string_view leading_break(std::string_view text) {
  for (const std::string_view each : wide_breaks)
    if (text.starts_with(each)) return each;
  return {};
}

bool is_plain_yaml(std::string_view text) {
  const auto part = [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || c == '/';
  };
  constexpr std::string_view reserved[] = {"true", "false", "null", "yes", "no",  "on",   "off",
                                           "True", "False", "None", "Yes", "No",  "On",   "Off",
                                           "y",    "n",     "Y",    "N",   "NaN", "TRUE", "FALSE"};
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, part) &&
         std::find(std::begin(reserved), std::end(reserved), text) == std::end(reserved);
}

}  // namespace

std::string shell_word(std::string_view text) {
  const auto plain = [](char c) {
    return is_letter(c) || is_digit(c) || c == '_' || c == '-' || c == '.' || c == '/' ||
           c == ',' || c == ':' || c == '=';
  };
  if (!text.empty() && text.front() != '=' && std::ranges::all_of(text, plain))
    return std::string(text);
  std::string result = "'";
  for (const char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

std::string comment_text(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::string_view wide = leading_break(text);
    result += is_control(text.front()) || !wide.empty() ? ' ' : text.front();
    text.remove_prefix(std::max<std::size_t>(1, wide.size()));
  }
  return result;
}

std::string sbatch_path(std::string_view path) {
  std::string result;
  for (const char c : comment_text(path))
    result += c == '%' ? std::string("%%") : std::string(1, c);
  return shell_word(result);
}

std::string toml_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += fmt::format("\\{}", c);
    else if (c == '\n')
      result += "\\n";
    else if (is_control(c))
      result += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    else
      result += c;
  }
  return result + "\"";
}

std::string yaml_text(std::string_view text) {
  if (is_plain_yaml(text)) return std::string(text);
  std::string result = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const std::string_view wide = leading_break(text);
    if (c == '"' || c == '\\') result += '\\';
    if (!wide.empty())
      result += wide == wide_breaks[0] ? "\\N" : wide == wide_breaks[1] ? "\\L" : "\\P";
    else if (is_control(c))
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      result += c;
    text.remove_prefix(std::max<std::size_t>(1, wide.size()));
  }
  return result + '"';
}

bool is_formula(std::string_view cell) {
  if (cell.empty() || !contains(std::string_view("=+-@\t\r"), cell.front())) return false;
  if (cell.front() == '+') cell.remove_prefix(1);
  return !number_of_text<double>(cell);
}

}  // namespace triplepoint
