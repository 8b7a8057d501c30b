// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <source_location>
#include <utility>

#include <doctest/doctest.h>

#include "triplepoint/base/result.h"

namespace triplepoint {

/// The value of a result, for tests: an error ends the test and names the line that called.
template <class T>
T must(Result<T> result, std::source_location at = std::source_location::current()) {
  if (!result) ADD_FAIL_AT(at.file_name(), static_cast<int>(at.line()), result.error().what);
  return *std::move(result);
}
template <class T>
T must(std::optional<T> value, std::source_location at = std::source_location::current()) {
  if (!value) ADD_FAIL_AT(at.file_name(), static_cast<int>(at.line()), "nothing is there");
  return *std::move(value);
}

}  // namespace triplepoint
