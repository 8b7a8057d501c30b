// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "triplepoint/run/timeline.h"

namespace triplepoint::trace {

/// How our writers spell what only we know of a span. In the enums' order.
inline constexpr std::array<std::string_view, run::span_kind_count> span_kind_words = {
    "compute", "memory", "communication", "other", "host", "pass", "step", "copy"};
inline constexpr std::array<std::string_view, 3> stream_words = {"compute", "communication",
                                                                 "host"};

template <class Enum, size_t N>
std::string_view word_of(const std::array<std::string_view, N>& words, Enum value) {
  return words[static_cast<size_t>(value)];
}

template <class Enum, size_t N>
std::optional<Enum> from_word(const std::array<std::string_view, N>& words, std::string_view word) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) return std::nullopt;
  return static_cast<Enum>(found - words.begin());
}

}  // namespace triplepoint::trace
