// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/cli/flags/bind.h"
#include "triplepoint/tui/console.h"

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

/// Prints one JSON value and a line break.
void print_json(tui::Console& console, const Json& json);

}  // namespace triplepoint::cli
