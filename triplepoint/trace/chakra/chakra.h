// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/trace/dependencies.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

// Chakra execution traces (MLCommons): one file per rank, a graph of nodes in protobuf.

struct ChakraTrace {
  Trace trace;
  Dependencies dependencies;
};

/// A file whose nodes have no start times (most have none) is laid out: every node begins as soon
/// as the nodes it needs (data_deps) have ended and its queue (tid, or the device's stream) is
/// free. `facts` then say times = laid_out. Nodes on a cycle are skipped and counted.
Result<ChakraTrace> parse_chakra(std::string_view bytes, const ReadOptions& = {});

bool looks_like_chakra(std::string_view head);
Result<Trace> read_chakra(Input&, const ReadOptions&);

/// The file of one rank. Other programs (ASTRA-sim) find what they know: types, comm_type,
/// comm_size, num_ops, tensor_size, dependencies, whole microseconds; ours finds every field, to
/// the nanosecond, in further attributes. Instances of patterns are expanded; times are since the
/// timeline's epoch, which the header keeps (as Unix time, 0 if that is not known), so that files
/// of ranks stay aligned. Dependencies on other ranks' spans are left out.
std::string write_chakra(const run::Timeline&, const Dependencies&, int32_t rank,
                         std::optional<int64_t> epoch_unix_ns = std::nullopt);

}  // namespace triplepoint::trace
