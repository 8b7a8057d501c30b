// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "triplepoint/answers/document.h"
#include "triplepoint/calibrate/tables/score_summary.h"

namespace triplepoint::report {

/// What `triplepoint validate` says: how far measurements lie from predictions by family, and the
/// rows that are farthest off.
answers::Document validation_document(const std::vector<calibrate::ValidatedFile>&,
                                      std::size_t worst);
/// Its page, with every row.
std::string validation_page(const std::vector<calibrate::ValidatedFile>&, std::size_t worst);

}  // namespace triplepoint::report
