// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/suggest.h"

#include <vector>

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
}

}  // namespace
}  // namespace triplepoint
