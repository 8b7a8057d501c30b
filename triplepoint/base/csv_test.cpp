// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/csv.h"

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

CsvTable table(std::string text) {
  return CsvTable::parse(std::move(text), "t.csv").value();
}

std::string complaint(std::string text) {
  return CsvTable::parse(std::move(text), "t.csv").error().what;
}

TEST_CASE("cells are found by row and the title of their column") {
  const CsvTable t = table("gpu,power_w\nH100,700\nA100,400\n");
  CHECK(t.rows() == 2);
  CHECK(t.at(1, t.require_column("gpu").value()) == "A100");
  CHECK(t.number(0, t.column("power_w").value()) == 700.0);
  CHECK(t.line(1) == 3);
}

TEST_CASE("quoted cells keep commas, quotes and line breaks") {
  const CsvTable t = table("a,b\n\"x,\"\"y\"\"\",\"1\n2\"\nlast,row\n");
  CHECK(t.at(0, 0) == "x,\"y\"");
  CHECK(t.at(0, 1) == "1\n2");
  CHECK(t.at(1, 1) == "row");
  CHECK(t.line(1) == 4);
}

TEST_CASE("line ends, byte order mark, comments at the head and empty lines do not matter") {
  const std::string plain = "a,b\n1,2\n3,4\n";
  for (const char* text : {"a,b\r\n1,2\r\n3,4\r\n", "a,b\n1,2\n\n3,4",
                           "\xEF\xBB\xBF"
                           "a,b\n1,2\n3,4\n",
                           "# made by hand\n# source: x\na,b\n1,2\n3,4\n"}) {
    const CsvTable t = table(text);
    REQUIRE(t.header() == table(plain).header());
    REQUIRE(t.rows() == 2);
    CHECK(t.at(1, 1) == "4");
  }
}

TEST_CASE("an empty cell is no number, not zero") {
  const CsvTable t = table("a,b\n,0\n");
  CHECK(t.number(0, 0).value() == std::nullopt);
  CHECK(t.number(0, 1).value() == 0.0);
}

TEST_CASE("a table remains whole when it is copied and moved") {
  CsvTable t = table("a\nx\n");
  const CsvTable copy = t;
  const CsvTable moved = std::move(t);
  CHECK(copy.at(0, 0) == "x");
  CHECK(moved.at(0, 0) == "x");
}

TEST_CASE("errors name the file, the line and a way out") {
  CHECK(complaint("a,b\n1,2\n3\n").starts_with("t.csv:3: the row has 1 cells, the header 2"));
  CHECK(complaint("a\n\"open\n").starts_with("t.csv:2: a quote is opened"));
  CHECK(complaint("a\n\"x\"y\n").starts_with("t.csv:2: text follows"));
  CHECK(complaint("").starts_with("t.csv is empty"));
  CHECK(complaint("# only a comment").starts_with("t.csv is empty"));
  CHECK(table("power_w\n1\n")
            .require_column("powr_w")
            .error()
            .what.ends_with("did you mean \"power_w\"?"));
  CHECK(table("a\n12x\n")
            .number(0, 0)
            .error()
            .what.starts_with("t.csv:2: \"12x\" in column a is not a number"));
}

TEST_CASE("rows whose cells cannot be told apart are left out with their reason, if asked for") {
  const auto read =
      CsvTable::parse("a,b\n1,2\n3\n\"x\"y,4\n5,6,7\n8,9\n", "t.csv", CsvTable::BadRows::leave_out);
  REQUIRE(read);
  REQUIRE(read->rows() == 2);
  CHECK(read->at(0, 1) == "2");
  CHECK(read->at(1, 0) == "8");
  CHECK(read->line(1) == 6);
  REQUIRE(read->left_out().size() == 3);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(read->left_out()[i].line == i + 3);
  CHECK(!CsvTable::parse("a\n\"open\n", "t.csv", CsvTable::BadRows::leave_out));
}

TEST_CASE("what the writer writes the reader reads") {
  const std::vector<std::string> header = {"name, first", "value"};
  CsvWriter writer(header);
  writer.cell("say \"hi\"").cell(0.1).end_row();
  writer.cell("# no comment\nat all").empty_cell().end_row();
  writer.cell("").cell(std::int64_t{9007199254740993}).end_row();
  const CsvTable t = table(writer.text());
  CHECK(t.header() == header);
  CHECK(t.at(0, 0) == "say \"hi\"");
  CHECK(t.number(0, 1) == 0.1);
  CHECK(t.at(1, 0) == "# no comment\nat all");
  CHECK(t.at(1, 1).empty());
  CHECK(t.at(2, 1) == "9007199254740993");
}

TEST_CASE("a column of empty cells keeps its rows") {
  const std::vector<std::string> header = {"only"};
  CsvWriter writer(header);
  writer.empty_cell().end_row();
  writer.cell("x").end_row();
  CHECK(table(writer.text()).rows() == 2);
}

}  // namespace
}  // namespace triplepoint
