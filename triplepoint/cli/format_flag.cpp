// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/format_flag.h"

#include "triplepoint/base/json.h"

namespace triplepoint::cli {

void print_json(Console& console, const Json& json) {
  console.print(json_text(json) + "\n");
}

}  // namespace triplepoint::cli
