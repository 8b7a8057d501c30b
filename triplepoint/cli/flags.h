// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/http/server.h"
#include "triplepoint/trace_report/analyses.h"
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

/// The flags of commands that listen on a socket: --listen, --token-file, --allow-everybody.
class ListenFlags {
 public:
  explicit ListenFlags(std::string listen) : listen_(std::move(listen)) {}
  Arguments arguments();
  /// With the token read: from the file, else from TRIPLEPOINT_TOKEN. A file others may read, or
  /// without a token in it, is an error.
  Result<HttpOptions> options() const;

 private:
  std::string listen_;
  std::optional<std::string> token_file_;
  bool everybody_ = false;
};

/// The token of --token-file, else of TRIPLEPOINT_TOKEN; nothing if neither is there.
Result<std::optional<std::string>> read_token(const std::optional<std::string>& file);

/// The flags that say which part of traces is looked at, and how they are read: --ranks, --step,
/// --rules, --align, -j, --memory.
Arguments trace_flags(trace_report::TraceOptions&);

}  // namespace triplepoint::cli
