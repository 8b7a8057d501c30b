// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/json.h"

#include <limits>

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

std::string complaint(std::string_view text) {
  return parse_json(text, "t.json").error().what;
}

TEST_CASE("keys keep their order and numbers their bits") {
  const std::string text = R"({"z":0.1,"a":[1,2.5e-07],"m":null})";
  CHECK(json_text(parse_json(text, "t.json").value(), -1) == text);
}

TEST_CASE("a syntax error names file, line and column") {
  CHECK(complaint("{\n  \"a\": 1,\n  \"b\" 2\n}")
            .starts_with("t.json:3:7: not valid JSON (syntax error"));
  CHECK(complaint("").starts_with("t.json:1:1: not valid JSON"));
  CHECK(complaint("[1e999]").find("number overflow") != std::string::npos);
}

TEST_CASE("a file too deep to walk is refused, brackets in strings do not count") {
  CHECK(complaint(std::string(100000, '[')).find("512 values inside each other") !=
        std::string::npos);
  CHECK(parse_json("[\"" + std::string(1000, '[') + R"(\"[\\"])", "t.json"));
}

TEST_CASE("a key twice in one object is an error, in two objects it is none") {
  const auto twice = parse_json(R"({"layers": [{"size": 1, "size": 2}]})", "config.json");
  REQUIRE_FALSE(twice);
  CHECK(twice.error().what ==
        R"(config.json: an object has the key "size" twice; remove one of the two)");
  CHECK(
      parse_json(R"({"size": 1, "layers": [{"size": 1}, {"size": {"size": 2}}]})", "config.json"));
}

TEST_CASE("what JSON cannot say is written as null or replaced, not thrown") {
  CHECK(json_text(Json(std::numeric_limits<double>::quiet_NaN())) == "null");
  CHECK(json_text(Json("\xFF")) == "\"\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace triplepoint
