// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::spec {

/// A cell of a table as a TOML value: true or false, a whole number, a decimal, a list in square
/// brackets; everything else is a text. Texts in lists may stand in quotes.
TomlValue cell_value(std::string_view cell, int line);

/// Sets "plan.tensor_parallel_size" in a tree whose root is a table. Where a key holds a name and
/// has its own keys as well (cluster = "dgx-h100", cluster.num_nodes = 4), in either order, the
/// name becomes the base of its table.
void set_dotted(TomlValue& root, std::string_view key, TomlValue value);

/// Every dotted key that a job file may have: "task", "model", "model.moe.num_experts", ...
std::vector<std::string> job_keys();

}  // namespace triplepoint::spec
