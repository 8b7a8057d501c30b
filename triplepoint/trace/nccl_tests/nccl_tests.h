// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/op.h"

#include "triplepoint/trace/input.h"

namespace triplepoint::trace {

/// One measurement of nccl-tests or rccl-tests: one line, in or out of place.
struct NcclTestRow {
  std::string operation;  // "all_reduce", "hypercube", ...; empty: the output does not say
  Bytes size;             // as printed: S
  int64_t count = 0;      // elements
  std::string type;       // "float"
  std::string reduction;  // "sum"; empty: the operation has none
  bool in_place = false;
  Seconds time;
  BytesPerSecond algorithm_bandwidth, bus_bandwidth;
  std::optional<int64_t> wrong;  // wrong elements; older outputs print an error instead
  std::optional<double> error;
  friend bool operator==(const NcclTestRow&, const NcclTestRow&) = default;
};

/// What one or several such programs printed.
struct NcclTests {
  std::vector<NcclTestRow> rows;
  int64_t ranks = 0;                 // of the last program; 0: not said
  std::vector<std::string> devices;  // as printed, one per rank
  int64_t skipped = 0;               // lines that look like measurements, but are none
};

/// Reads the output of all_reduce_perf and its sisters, whatever stands around it (mpirun, NCCL's
/// own messages, several runs). An error if there is no table in it.
///
/// Columns are found by their titles. Vintages: `error` (before 2022) or `#wrong` as last column;
/// with and without `redop` and `root`; a `(us)` line below the titles.
/// -C 1 calls the time cputime; -S 1 adds a time stamp, others the spread over iterations. Lines
/// may be prefixed by a launcher. JSON (-J, rccl-tests' -Z) stands on one line.
Result<NcclTests> parse_nccl_tests(Input&);
bool looks_like_nccl_tests(std::string_view head);

/// The operation as our collectives are called; nothing for those we have no word for.
std::optional<spec::Collective> collective_of(const NcclTestRow&);

}  // namespace triplepoint::trace
