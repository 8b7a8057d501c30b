// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/site.h"

#include <doctest/doctest.h>

namespace triplepoint::app {
namespace {

TEST_CASE("page cache: forgets the oldest pages first when it is full") {
  PageCache cache(1000);
  int made = 0;
  const auto get = [&](const std::string& key) {
    return cache.find(
        key, "1",
        [&]() -> Result<std::string> {
          ++made;
          return std::string(400, 'x');
        },
        std::chrono::seconds(20));
  };
  for (const char* key : {"a", "b", "c", "c", "b"})
    REQUIRE(get(key));
  CHECK(made == 3);  // c pushed a out; b and c are still there
  REQUIRE(get("a"));
  CHECK(made == 4);
}

}  // namespace
}  // namespace triplepoint::app
