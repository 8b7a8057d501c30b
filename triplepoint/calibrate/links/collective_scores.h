// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/op.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// One measured collective.
struct CollectiveRow {
  std::string row_id, family;
  std::string cluster;        // of the library
  std::string nic_bandwidth;  // of this machine's NICs: "400 Gb/s"; empty: as in the library
  std::string nvls;           // whether switches reduced: "true", "false"; empty: as in the library
  spec::Collective collective = spec::Collective::all_reduce;
  int64_t ranks = 0, nodes = 1;
  Bytes payload;
  Seconds latency;            // zero: not stated
  double busbw_gb_per_s = 0;  // zero: not stated
};

/// Reads a row of kind collective of a table of kernels (docs/formats.md).
Result<CollectiveRow> read_collective_row(const Cells&);

/// Time of the row's collective on that machine, all ranks there, one group alone on its nodes.
Seconds predicted_time(const spec::Cluster& cluster, const CollectiveRow&);

/// Scores the collectives of a table of kernels. Families are split by payload as "family/large"
/// above 16 MB, "family/small" below 1 MB, "family/between". Quantity: latency_us, or
/// busbw_gb_per_s where the table gives that alone.
void score_collective_rows(const CsvTable&, const spec::Library&, TableScores&);

}  // namespace triplepoint::calibrate
