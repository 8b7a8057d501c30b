// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

using TableScorer = Result<TableScores> (*)(const CsvTable&, const ScoreContext&);

/// One kind of table of canonical rows. It is recognized by its columns, whatever the file is
/// called; other columns may stand between them.
struct TableKind {
  std::string_view name;                  // "jobs", "kernels"
  std::string_view one_row;               // what a row is, for people
  std::vector<std::string_view> columns;  // all of them must be there
  TableScorer score;
};

/// The first kind whose columns are all there, or an error that names the nearest kind and the
/// columns it lacks.
Result<const TableKind*> recognize_table(const CsvTable&);

/// Scores a table of any kind.
Result<TableScores> score_table(const CsvTable&, const ScoreContext&);

}  // namespace triplepoint::calibrate
