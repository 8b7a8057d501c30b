// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/suggest.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

namespace triplepoint {
namespace {

bool same_letter(char a, char b) {
  return lower_case(a) == lower_case(b);
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table of distances between the heads of both words: a swap looks two rows
  // back.
  std::vector<std::size_t> two_back, previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    previous[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      const bool swapped =
          i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
      if (swapped) current[j] = std::min(current[j], two_back[j - 2] + 1);
    }
    two_back = previous;
    std::swap(previous, current);
  }
  return previous[b.size()];
}

std::optional<std::string> closest_word(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t longest = 100;  // longer texts are not keys
  if (word.size() > longest) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& each : known) {
    const std::size_t distance = edit_distance(word, each);
    if (distance >= best_distance) continue;
    best = &each;
    best_distance = distance;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  if (const auto guess = closest_word(word, known))
    return fmt::format("did you mean \"{}\"?", *guess);
  if (known.empty()) return "nothing is known here; leave it out";
  return fmt::format("known are {}", fmt::join(known, ", "));
}

}  // namespace triplepoint
