// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/collective_rows.h"
#include "triplepoint/calibrate/table_scores.h"

namespace triplepoint::calibrate {

/// Time of the row's collective on that machine, all ranks there, one group alone on its nodes.
Seconds predicted_time(const spec::Cluster&, const CollectiveRow&);

/// Scores a table of collectives, or the collectives of a table of kernels. Families are the
/// table's own (or "nccl h100 2.29.2"), split by payload as "family/large" above 16 MB,
/// "family/small" below 1 MB, "family/between". Quantity: latency_us, or busbw_gb_per_s where the
/// table gives that alone.
Result<TableScores> score_collective_table(const CsvTable&, const spec::Library&);

}  // namespace triplepoint::calibrate
