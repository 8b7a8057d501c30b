// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/data_table.h"

#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// The table as text, with the title above, and below why numbers are missing.
std::string table_text(const DataTable&, const Console&);

}  // namespace triplepoint::tui
