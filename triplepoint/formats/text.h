// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace triplepoint::formats {

std::string_view trimmed(std::string_view text);
std::string_view unquoted(std::string_view text);  // without one pair of " or ' around it
std::string lower_case(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);
std::vector<std::string_view> lines_of(std::string_view text);

/// Letters and digits that stand together: "sweep-h200/gpt3_5" is {"sweep", "h200", "gpt3", "5"}.
/// In lower case.
std::vector<std::string> words_of(std::string_view text);

/// Decimal digits only.
std::optional<int64_t> whole_number(std::string_view text);

/// file9 before file10: runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace triplepoint::formats
