// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/execution_trace/execution_trace.h"
#include "triplepoint/trace/timeline_testing.h"

#include "trace_reader_fuzz.h"

/// Whatever is read can be joined with a timeline, which stays sound.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint::trace;
  if (size == 0) return 0;
  const auto trace = read_in_pieces(data, size, parse_execution_trace);
  if (!trace) return 0;
  auto timeline = sample_timeline(1, 2, 10);
  const Joined joined = join(*trace, 1, timeline);
  TPT_ENSURE(joined.nodes + joined.without <= static_cast<int64_t>(trace->nodes.size()));
  TPT_ENSURE(!triplepoint::run::find_fault(timeline));
  return 0;
}
