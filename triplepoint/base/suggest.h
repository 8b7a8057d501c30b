// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace triplepoint {

/// Fewest insertions, deletions, replacements and swaps of neighbours which turn one word into the
/// other. Letters in the other case count as equal. Source: "optimal string alignment" form of
/// Damerau's distance.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The known word that `word` was probably meant to be; none if all are farther than a third of its
/// length. Of equally close ones, the first.
std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> known);

/// The way out at the end of a message about an unknown word: `did you mean "x"?` or `known are a,
/// b, c`.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace triplepoint
