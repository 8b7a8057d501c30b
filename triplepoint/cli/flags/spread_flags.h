// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/cli/command.h"
#include "triplepoint/search/search_parts.h"

namespace triplepoint::cli {

/// The flags that spread a search over processes which do not know each other.
struct SpreadFlags {
  std::optional<search::Shard> shard;
  std::optional<std::string> merge;  // folder
  std::vector<Argument> arguments();
  Result<void> check(bool has_output, bool has_team) const;
};

}  // namespace triplepoint::cli
