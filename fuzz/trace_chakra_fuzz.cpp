// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/sim/trace_what_if.h"
#include "triplepoint/trace/chakra/chakra.h"

#include "trace_reader_fuzz.h"

/// Besides: dependencies are inside of the timeline, what is written again is read again, and a
/// replay that changes nothing changes nothing.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  if (size == 0) return 0;
  const auto read = trace::parse_chakra({reinterpret_cast<const char*>(data) + 1, size - 1});
  if (!read) return 0;
  const run::Timeline& timeline = read->trace.timeline;
  TPT_ENSURE(!run::find_fault(timeline));
  for (const trace::Dependency& edge : read->dependencies.edges) {
    TPT_ENSURE(edge.before >= 0 && static_cast<size_t>(edge.before) < timeline.spans.size());
    TPT_ENSURE(edge.after >= 0 && static_cast<size_t>(edge.after) < timeline.spans.size());
  }
  if (timeline.spans.empty()) return 0;
  const int32_t rank = timeline.spans.front().rank;
  const auto again = trace::parse_chakra(trace::write_chakra(timeline, read->dependencies, rank));
  TPT_ENSURE(again.has_value());
  TPT_ENSURE(again->trace.timeline.spans.size() == timeline.spans.size());
  TPT_ENSURE(again->dependencies == read->dependencies);
  TPT_ENSURE(sim::what_if_from_trace(timeline, {}).timeline == timeline);
  return trace::fuzz_reader(data, size, trace::read_chakra);
}
