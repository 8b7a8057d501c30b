// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/console.h"

namespace triplepoint::cli {

/// --format table|json, which every verb takes.
class FormatFlag {
 public:
  Argument argument() {
    return {.names = "--format",
            .value = "FORMAT",
            .help = "what is printed (default table)",
            .choices = {"table", "json"},
            .store = into(word_)};
  }
  bool is_json() const { return word_ == "json"; }

 private:
  std::string word_ = "table";
};

/// Prints one JSON value and a line break.
void print_json(Console& console, const Json& json);

}  // namespace triplepoint::cli
