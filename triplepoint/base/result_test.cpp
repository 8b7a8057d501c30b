// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/result.h"

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

Result<int> half_of(int number) {
  if (number % 2 != 0) return error("number is odd (it has no whole half); try an even one");
  return number / 2;
}

Result<void> check_even(int number) {
  TPT_TRY(half_of(number));
  return {};
}

Result<int> quarter_of(int number) {
  TPT_TRY(check_even(number));
  return half_of(TPT_TRY(half_of(number)));
}

struct Box {  // may be moved, not copied
  explicit Box(int number) : content(number) {}
  Box(Box&&) = default;
  Box& operator=(Box&&) = default;
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;
  ~Box() = default;
  int content;
};

Result<Box> boxed(int number) {
  return Box(number);
}

Result<int> unboxed(int number) {
  const Box box = TPT_TRY(boxed(number));
  return box.content;
}

TEST_CASE("TPT_TRY unwraps a value, also a move-only one and none at all") {
  CHECK(quarter_of(12) == 3);
  CHECK(unboxed(7) == 7);
}

TEST_CASE("TPT_TRY hands the first error to the caller") {
  CHECK(quarter_of(6).error().what.starts_with("number is odd"));
  CHECK(quarter_of(5).error().what.starts_with("number is odd"));
}

}  // namespace
}  // namespace triplepoint
