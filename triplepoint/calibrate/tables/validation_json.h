// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// What one file says of our models.
struct ValidatedFile {
  std::string file;
  TableScores scores;
};

/// The rows of all files together.
TableScores all_scores(const std::vector<ValidatedFile>&);

/// What `triplepoint validate --format json` prints. Keys and their meaning: docs/formats.md.
Json validation_json(const std::vector<ValidatedFile>&);

/// One line per prediction: table, row_id, family, quantity, sweep, measured, predicted, error_pct,
/// assumptions.
std::string validation_csv(const std::vector<ValidatedFile>&);

}  // namespace triplepoint::calibrate
