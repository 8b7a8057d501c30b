// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::answers {
struct Document;
}

namespace triplepoint::cli {

/// --format table|json, which every verb takes; csv where what is printed is one table.
class FormatFlag {
 public:
  enum class Csv { no, yes };
  explicit FormatFlag(Csv csv = Csv::no) : csv_(csv) {}

  Argument argument(std::string help = "output format (default table)") {
    Accepts words{.choices = {"table", "json"}};
    if (csv_ == Csv::yes) words.choices.emplace_back("csv");
    return {std::move(words), "--format", "FORMAT", std::move(help), "", into(word_)};
  }
  bool is_table() const { return word_ == "table"; }
  bool is_json() const { return word_ == "json"; }
  bool is_csv() const { return word_ == "csv"; }
  const std::string& word() const { return word_; }

 private:
  Csv csv_;
  std::string word_ = "table";
};

/// Prints one JSON object and a line break. Its first key is "schema": 1, or the number that it
/// has.
void print_json(tui::Console& console, const Json& json);
/// The answer as it is asked for; of CSV the table of this name, or the first.
void print_answer(tui::Console&, const answers::Document&, const FormatFlag&,
                  std::string_view csv_table = {});

/// Each as a line on standard error.
void print_warnings(tui::Console& console, const std::vector<std::string>& warnings);

}  // namespace triplepoint::cli
