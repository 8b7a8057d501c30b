// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <utility>

#include <doctest/doctest.h>

#include "triplepoint/base/result.h"

namespace triplepoint {

/// The value of a result, for tests: an error ends the test and names the line that called (by
/// builtins, since clang 14, whose clang-tidy we use, has no std::source_location).
template <class T>
T must(Result<T> result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!result) ADD_FAIL_AT(file, line, result.error().what);
  return *std::move(result);
}
template <class T>
T must(std::optional<T> value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (!value) ADD_FAIL_AT(file, line, "nothing is there");
  return *std::move(value);
}

}  // namespace triplepoint
