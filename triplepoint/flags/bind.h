// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/flags/arguments.h"

namespace triplepoint::flags {

/// Reads an argument's text by `read` into a variable, which must outlive the function.
Store into(auto& target, auto read) {
  return [&target, read](std::string_view text) -> Result<void> {
    target = TPT_TRY(read(text));
    return {};
  };
}
Store into(std::string& target);
Store into(std::optional<std::string>& target);
Store into(std::optional<int64_t>& target);
Store into(std::optional<uint64_t>& target);
Store into(std::vector<std::string>& target);  // appends
Store into(std::optional<std::vector<int64_t>>& target);

/// A quantity with its unit: "10min", "600 W", "30 C".
template <class T>
Store into_quantity(std::optional<T>& target) {
  return into(target, parse_quantity<T>);
}

/// The words of an enum, as the choices of an argument.
template <spec::NamedEnum E>
std::vector<std::string> words_of() {
  return {spec::enum_names<E>.begin(), spec::enum_names<E>.end()};
}

/// An enumerator by its word; the parser lets no other word through.
template <spec::NamedEnum E>
Store into_word(std::optional<E>& target) {
  return [&target](std::string_view text) -> Result<void> {
    target = spec::enum_from_name<E>(text);
    return {};
  };
}

/// "a,b": enumerators by their words.
template <spec::NamedEnum E>
Store into_words(std::vector<E>& target) {
  return [&target](std::string_view text) -> Result<void> {
    for (const std::string& word : TPT_TRY(split_list(text))) {
      const std::optional<E> found = spec::enum_from_name<E>(word);
      if (!found)
        return error("\"{}\" is no entry of this list; {}", word,
                     did_you_mean(word, words_of<E>()));
      target.push_back(*found);
    }
    return {};
  };
}

}  // namespace triplepoint::flags
