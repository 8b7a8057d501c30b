// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/text.h"

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

const std::vector<std::string> keys = {"base_clock", "boost_clock", "tdp", "memory"};

TEST_CASE("the distance counts insertions, deletions, replacements and swaps, not case") {
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("clock", "clock") == 0);
  CHECK(edit_distance("clok", "clock") == 1);
  CHECK(edit_distance("colkc", "clock") == 2);
  CHECK(edit_distance("tpd", "tdp") == 1);
  CHECK(edit_distance("TDP", "tdp") == 0);
}

TEST_CASE("the distance is the same both ways") {
  for (const std::string& a : keys)
    for (const std::string& b : keys)
      CHECK(edit_distance(a, b) == edit_distance(b, a));
}

TEST_CASE("a near miss is answered with the word that was meant") {
  CHECK(did_you_mean("bost_clock", keys) == "did you mean \"boost_clock\"?");
  CHECK(did_you_mean("tpd", keys) == "did you mean \"tdp\"?");
}

TEST_CASE("a far miss is answered with what is known") {
  CHECK(did_you_mean("colour", keys) == "known are base_clock, boost_clock, tdp, memory");
  CHECK_FALSE(closest_word(std::string(1000, 'x'), keys));
  CHECK(did_you_mean("colour", std::vector<std::string>(100, "key"))
            .ends_with("key, key and 20 more; see docs/formats.md"));
  // A word that shares no letter is no slip of the pen.
  CHECK_FALSE(closest_word("6", std::vector<std::string>{"3", "15"}));
}

TEST_CASE("only ASCII letters change their case") {
  CHECK(lower_case("H200 SXM \xc3\x84") == "h200 sxm \xc3\x84");
  CHECK(upper_case("h200-sxm") == "H200-SXM");
}

TEST_CASE("blanks are trimmed at both ends, and only there") {
  CHECK(trimmed(" \ta b\r\n") == "a b");
  CHECK(trimmed(" \t") == "");
  CHECK(trimmed("\va", " ") == "\va");
}

TEST_CASE("what is rounded to zero has no minus") {
  CHECK(fixed_point(-0.0004, 3) == "0.000");
  CHECK(fixed_point(-0.0006, 3) == "-0.001");
  CHECK(fixed_point(-10, 0) == "-10");
  CHECK(significant(-1e-14) == "0.000000000000");
  CHECK(percent(-0.0004) == "0.0 %");
  CHECK(in_unit(-10, time_unit(0)) == "0.0");
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
