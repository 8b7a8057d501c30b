// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/format_flag.h"

#include "triplepoint/base/json.h"

namespace triplepoint::cli {

void print_json(tui::Console& console, const Json& json) {
  console.print(json_text(json) + "\n");
}

}  // namespace triplepoint::cli
