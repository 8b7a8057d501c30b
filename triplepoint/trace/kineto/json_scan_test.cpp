// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/json_scan.h"

#include <optional>
#include <string>

#include <doctest/doctest.h>

namespace triplepoint::trace::json_scan {
namespace {

/// With the zeros that a scan relies on.
std::string padded(std::string text) {
  text.append(padding, '\0');
  return text;
}

std::optional<int64_t> microseconds(const std::string& text) {
  const std::string all = padded(text);
  const char* at = all.data();
  int64_t ns = 0;
  if (!read_microseconds(at, ns)) {
    CHECK(at == all.data());
    return std::nullopt;
  }
  CHECK(at == all.data() + text.size());
  return ns;
}

/// How far a value reaches; nothing if it is none.
std::optional<size_t> value_size(const std::string& text) {
  const std::string all = padded(text);
  const char* at = all.data();
  if (!skip_value(at)) return std::nullopt;
  return static_cast<size_t>(at - all.data());
}

TEST_CASE("microseconds are whole nanoseconds, whatever their form") {
  CHECK(microseconds("4458677009853.422") == 4'458'677'009'853'422);
  CHECK(microseconds("1709232423187223.25") == 1'709'232'423'187'223'250);
  CHECK(microseconds("9007199254740993") == 9'007'199'254'740'993'000);  // 2^53 + 1: no float
  CHECK(microseconds("0") == 0);
  CHECK(microseconds("0.001") == 1);
  CHECK(microseconds("-1.5") == -1500);
  CHECK(microseconds("\"12.5\"") == 12'500);
  CHECK(microseconds("1.5e3") == 1'500'000);
  CHECK(microseconds("15E-1") == 1500);
  CHECK(microseconds("1.0004") == 1000);
  CHECK(microseconds("1.0005") == 1001);
  CHECK(microseconds("1.00000000000000000000000000000000001") == 1000);
}

TEST_CASE("what is no time that fits is none") {
  for (const char* const text :
       {"NaN", "Infinity", "null", "1e300", "9223372036854775807", "\"1", ".5", "-", "1e", "--1",
        "99999999999999999999999", "true", "\"\"", "1x"})
    CHECK(!microseconds(text));
}

TEST_CASE("values of every kind are passed over to their last byte") {
  for (const std::string text :
       {"1", "-1.5e3", "true", "null", "\"\"", "\"a\\\"b\\\\\"", "[]", "{}",
        "[[1, 2], {\"a\": \"]}\"}]", "{\"a\": {\"b\": [\"}\", \"\\\"]\"]}}"}) {
    CAPTURE(text);
    CHECK(value_size(text) == text.size());
    CHECK(value_size(text + ", 5") == text.size());
    CHECK(value_size(text + std::string(70, ' ')) == text.size());
  }
  const std::string text = "\"" + std::string(1000, 'x') + "\"";
  CHECK(value_size(text) == text.size());
}

TEST_CASE("values that do not end, or nest too deep, are none") {
  for (const std::string text :
       {"", "\"abc", "\"abc\\", "[1, 2", "{\"a\": ", "[\"a\"b\"]", "\"a\nb\""})
    CHECK(!value_size(text));
  CHECK(value_size(std::string(512, '[') + std::string(512, ']')) == 1024);
  CHECK(!value_size(std::string(513, '[') + std::string(513, ']')));
}

TEST_CASE("spaces are passed over however many there are") {
  for (size_t count = 0; count < 70; ++count) {
    std::string text;
    for (size_t i = 0; i < count; ++i)
      text += " \n\r\t"[i % 4];
    const std::string all = padded(text + "x");
    CHECK(after_space(all.data()) == all.data() + count);
  }
}

}  // namespace
}  // namespace triplepoint::trace::json_scan
