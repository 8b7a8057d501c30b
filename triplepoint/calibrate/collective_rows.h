// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/load.h"
#include "triplepoint/spec/op.h"

#include "triplepoint/calibrate/table_scores.h"

namespace triplepoint::calibrate {

/// Whether the switches reduced (NVLink SHARP): nccl-tests does not print it.
enum class SwitchReduction { as_the_cluster, on, off };

/// One measured collective. Either the latency or the bus bandwidth is what was written down.
struct CollectiveRow {
  std::string row_id, family;
  std::string gpu;           // a name of data/gpus
  std::string cluster;       // a name of data/clusters with such GPUs
  std::string interconnect;  // as the table spells it
  std::string software;      // "NCCL 2.29.2"; empty: not stated
  std::string dtype;
  spec::Collective collective = spec::Collective::all_reduce;
  Bytes payload;
  int64_t ranks = 1, nodes = 1;
  SwitchReduction reduction = SwitchReduction::as_the_cluster;
  Seconds latency;            // zero: only the rate is known
  double busbw_gb_per_s = 0;  // zero: only the latency is known
  std::vector<std::string> notes;
};

struct CollectiveRows {
  std::vector<CollectiveRow> rows;
  std::vector<SkippedRow> skipped;
};

/// system, nccl_version, op, num_gpus, message_size_elements, latency_ms: nccl.csv and its like.
bool is_collective_table(const std::vector<std::string>& header);

/// The rows of such a table, or the collectives of a table of kernels (kernel_rows.h).
///
/// Written rules for what is not stated, each noted at its row: without a size, 1 GiB (published
/// bandwidths are those of large messages); Blackwell runs of the aiconfigurator tables do not use
/// the switches' reduction (256 MiB over eight B200 or B300 move at the ring's rate in three NCCL
/// versions), Hopper runs do; a GPU alone names the usual eight-GPU node.
Result<CollectiveRows> read_collective_rows(const CsvTable&);

/// The machine of a row: its cluster with the bandwidth between nodes that `interconnect` names
/// (machine_names.h; "EFA" chooses the Amazon node) and the reduction that the row used.
Result<spec::Cluster> machine_of(const CollectiveRow&, const spec::Library&,
                                 std::vector<std::string>& notes);

}  // namespace triplepoint::calibrate
