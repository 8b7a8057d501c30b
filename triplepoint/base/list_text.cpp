// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/list_text.h"

#include <charconv>

#include <fmt/format.h>

namespace triplepoint {

Result<int64_t> parse_count(std::string_view text) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc() || end != text.data() + text.size()) {
    return error(fmt::format("\"{}\" is not a whole number; write digits only, as in 8", text));
  }
  return value;
}

Result<std::vector<std::string>> split_list(std::string_view text) {
  std::vector<std::string> pieces;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view piece = text.substr(0, comma);
    if (piece.empty()) {
      return error("a list has an empty entry; separate entries by single commas, as in a,b,c");
    }
    pieces.emplace_back(piece);
    if (comma == std::string_view::npos) return pieces;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace triplepoint
