// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/document.h"

#include <doctest/doctest.h>

namespace triplepoint::answers {
namespace {

DataTable table_of(const char* name, double value) {
  DataTable table{.name = name, .title = "", .columns = {{"value", "value"}}, .rows = {}};
  table.add({value});
  return table;
}

TEST_CASE("document: JSON has the verdict, named tables, and what numbers say more exactly") {
  Document document{.kind = "test", .title = "", .facts = "", .verdict = "Do it."};
  document.sections = {{.id = "", .title = "", .tables = {table_of("a", 1), table_of("", 2)}},
                       {.id = "", .title = "", .tables = {table_of("b", 3)}}};
  document.numbers = {{"b", "finer"}};
  CHECK(document_json(document) ==
        Json({{"b", "finer"}, {"verdict", "Do it."}, {"a", {{{"value", 1.0}}}}}));
}

TEST_CASE("document: CSV is one table, the first with a name unless another is asked for") {
  Document document;
  document.sections = {
      {.id = "", .title = "", .tables = {table_of("", 1), table_of("a", 2), table_of("b", 3)}}};
  CHECK(document_csv(document) == "value\n2\n");
  CHECK(document_csv(document, "b") == "value\n3\n");
  CHECK(document_csv(document, "c").empty());
}

}  // namespace
}  // namespace triplepoint::answers
