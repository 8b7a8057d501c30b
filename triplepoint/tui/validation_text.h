// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "triplepoint/calibrate/tables/validation_json.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// Errors by family, what does not fit, what was skipped, and the rows that are farthest off.
void print_validation(Console&, const std::vector<calibrate::ValidatedFile>&, std::size_t worst);

}  // namespace triplepoint::tui
