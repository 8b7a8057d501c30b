// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/text.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

TEST_CASE("only ASCII letters change their case") {
  CHECK(lower_case("H200 SXM \xc3\x84") == "h200 sxm \xc3\x84");
  CHECK(upper_case("h200-sxm") == "H200-SXM");
}

TEST_CASE("blanks are trimmed at both ends, and only there") {
  CHECK(trimmed(" \ta b\r\n") == "a b");
  CHECK(trimmed(" \t") == "");
  CHECK(trimmed("\va", " ") == "\va");
}

TEST_CASE("split and joined are inverse") {
  for (const std::string text : {"", ",", "a,b,,c", "abc"})
    CHECK(joined(split(text, ','), ",") == text);
}

TEST_CASE("numbers in names count as numbers") {
  CHECK(natural_less("rank2.json", "rank10.json"));
  CHECK(!natural_less("rank10.json", "rank2.json"));
  CHECK(natural_less("a", "b"));
  CHECK(natural_less("a", "a1"));
  CHECK(natural_less("a01", "a1"));
  CHECK(!natural_less("a1", "a1"));
}

TEST_CASE("natural order compares runs of digits as numbers, and is strict") {
  const std::vector<std::string> sorted{"a", "a1", "a2", "a10", "a10b", "b"};
  for (std::size_t i = 0; i < sorted.size(); ++i)
    for (std::size_t j = 0; j < sorted.size(); ++j)
      CHECK(natural_less(sorted[i], sorted[j]) == (i < j));
}

}  // namespace
}  // namespace triplepoint
