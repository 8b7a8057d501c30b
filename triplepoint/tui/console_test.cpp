// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/console.h"

#include <algorithm>
#include <sstream>

#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

namespace triplepoint::tui {
namespace {

TEST_CASE("a table that is too wide leaves out what it may, and says so") {
  std::ostringstream ignored;
  const Console narrow(ignored, ignored, {.width = 24});
  DataTable table = text_table({{"job", Align::left}, {"first"}, {"second", Align::right, 1}});
  table.add({"a job with a long name", "12.3", "456"});
  const std::string text = table_text(table, narrow);
  CHECK(contains(text, "12.3"));
  CHECK(!contains(text, "456"));
  CHECK(contains(text, "no room for: second"));
}

TEST_CASE("control characters of names reach no terminal, and break no table") {
  const std::string name =
      "gemm\033[2J\nrow\x7f\t\r\xc2\x9b"
      "31m °C";
  CHECK(printable(name) == "gemm\\x1b[2J\\nrow\\x7f\\t\\r\\x9b31m °C");
  std::ostringstream out, err;
  Console terminal(out, err, {.width = 200, .colour = true});
  DataTable table = text_table({{"kernel", Align::left}, {"us"}});
  table.add({name, DataCell("3\033]0;title\a", Style::bad)});
  terminal.print(table_text(table, terminal));
  terminal.print(name + "\n");
  terminal.warn("triplepoint: " + name + ": no such file\n");
  CHECK(contains(out.str(), "\033[31m3\\x1b]0;title\\x07\033[0m"));
  for (std::string text : {out.str(), err.str()}) {
    for (const std::string own : {"\033[0m", "\033[1m", "\033[31m"})
      for (std::size_t at; (at = text.find(own)) != std::string::npos;)
        text.erase(at, own.size());
    CHECK(std::ranges::count(text, '\n') == (text.starts_with("triple") ? 2 : 4));
    for (const char byte : {'\033', '\x7f', '\r', '\a', '\x9b'})
      CHECK(!contains(text, byte));
  }
}

TEST_CASE("what is not printed on a terminal stays as it is, but for tables") {
  std::ostringstream out, err;
  Console file(out, err, {});
  file.print("a\033b\n");
  CHECK(out.str() == "a\033b\n");
  DataTable table = text_table({{"kernel", Align::left}});
  table.add({std::string("a\nb")});
  CHECK(table_text(table, file) == "kernel\na\\nb\n");
}

TEST_CASE(
    "a table that is too wide: the highest optional column goes first, a whole text is wrapped") {
  std::ostringstream ignored;
  const Console narrow(ignored, ignored, {.width = 44});
  DataTable table;
  table.columns = {{.key = "plan", .title = "plan", .whole = true},
                   {.key = "w", .title = "W", .optional = 1},
                   {.key = "front", .title = "front", .optional = 2},
                   {.key = "kj", .title = "kJ", .optional = 1}};
  table.add({"TP8 PP16 DP1, microbatch 1, recompute full, overlap tp", int64_t{1234}, "*",
             int64_t{5678}});
  const std::string text = table_text(table, narrow);
  CHECK(contains(text, "1234"));
  CHECK(contains(text, "5678"));
  CHECK(contains(text, "no room for: front)"));
  CHECK(contains(text, "overlap tp"));
  CHECK(!contains(text, "…"));
}

TEST_CASE("text is cut by columns, not by bytes") {
  CHECK(shorten("65 °C warm", 5) == "65 °…");
  CHECK(shorten("short", 9) == "short");
  CHECK(display_width("°C") == 2);
}

TEST_CASE("sparkline: low and high values look so, gaps stay empty") {
  CHECK(sparkline({0.0, 1.0, std::nullopt, 0.5}, true) == "▁█ ▅");
  CHECK(sparkline({0.0, 1.0}, false) == "_#");
  CHECK(sparkline({3.0, 3.0}, false).size() == 2);
  CHECK(sparkline({}, true).empty());
}

}  // namespace
}  // namespace triplepoint::tui
