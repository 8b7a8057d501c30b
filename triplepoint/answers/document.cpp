// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/document.h"

namespace triplepoint::answers {

Json document_json(const Document& document) {
  Json json = document.numbers;
  if (!document.verdict.empty()) json["verdict"] = document.verdict;
  for (const Section& section : document.sections)
    for (const DataTable& table : section.tables)
      if (!table.name.empty() && !json.contains(table.name))
        json[table.name] = table_json(table)["rows"];
  return json;
}

std::string document_csv(const Document& document, std::string_view name) {
  for (const Section& section : document.sections)
    for (const DataTable& table : section.tables)
      if (name.empty() ? !table.name.empty() : table.name == name) return table_csv(table);
  return "";
}

}  // namespace triplepoint::answers
