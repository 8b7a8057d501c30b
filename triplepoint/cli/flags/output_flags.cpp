// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/output_flags.h"

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/tui/document_text.h"

namespace triplepoint::cli {

void print_json(tui::Console& console, const Json& json) {
  Json whole = {{"schema", 1}};
  whole.update(json);
  console.print(json_text(whole) + "\n");
}

void print_warnings(tui::Console& console, const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings)
    console.warn(fmt::format("triplepoint: {}\n", warning));
}

void print_answer(tui::Console& console, const answers::Document& answer, const FormatFlag& format,
                  std::string_view csv_table) {
  if (format.is_json())
    print_json(console, answers::document_json(answer));
  else if (format.is_csv())
    console.print(answers::document_csv(answer, csv_table));
  else
    tui::print_document(console, answer);
}

}  // namespace triplepoint::cli
