// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/execution_trace/companions.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/merge.h"

namespace triplepoint::trace {

namespace {

/// Only what lies behind the last slash names a rank; folders are called anything.
std::string_view file_name(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

}  // namespace

void join_companions(std::vector<Companion> companions, Trace& trace) {
  if (companions.empty()) return;
  std::stable_sort(
      companions.begin(), companions.end(),
      [](const Companion& a, const Companion& b) { return natural_less(a.name, b.name); });
  const bool one_each = companions.size() == static_cast<size_t>(trace.timeline.num_ranks);
  Joined all;
  for (size_t i = 0; i < companions.size(); ++i) {
    const Companion& companion = companions[i];
    auto rank = rank_in_name(file_name(companion.name));
    if (!rank && one_each) rank = static_cast<int32_t>(i);
    if (!rank || *rank >= trace.timeline.num_ranks) {
      note_reason(trace.skipped, fmt::format("{}: no spans are of its rank", companion.name));
      continue;
    }
    const Joined joined = join(companion.trace, *rank, trace.timeline);
    all.nodes += joined.nodes;
    all.without += joined.without;
    all.collectives += joined.collectives;
  }
  trace.facts["joined_operators"] = std::to_string(all.nodes);
  trace.facts["joined_collectives"] = std::to_string(all.collectives);
  if (all.without > 0) trace.facts["operators_without_span"] = std::to_string(all.without);
}

}  // namespace triplepoint::trace
