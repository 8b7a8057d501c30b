// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/statistics.h"

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

TEST_CASE("of an odd count both medians are the value in the middle, in any order") {
  std::vector<int> values = {1, 2, 3, 50, 60};
  do {
    CHECK(lower_median(values) == 3);
    CHECK(upper_median(values) == 3);
  } while (std::next_permutation(values.begin(), values.end()));
}

TEST_CASE("of an even count the two medians are neighbours that were both seen") {
  CHECK(lower_median<double>({4, 1, 3, 2}) == 2);
  CHECK(upper_median<double>({4, 1, 3, 2}) == 3);
}

TEST_CASE("an outlier does not change the robust deviation") {
  CHECK(robust_deviation({1, 2, 3, 4, 5}) == doctest::Approx(1.4826));
  CHECK(robust_deviation({1, 2, 3, 4, 500}) == doctest::Approx(1.4826));
}

TEST_CASE("one value is its own median") {
  CHECK(lower_median<int>({7}) == 7);
  CHECK(upper_median<int>({7}) == 7);
}

}  // namespace
}  // namespace triplepoint
