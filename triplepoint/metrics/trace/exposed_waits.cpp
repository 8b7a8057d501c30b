// SPDX-License-Identifier: Apache-2.0
// The timeline with the waits of the match, asked as simulated ones are: see Occupancy.
#include "triplepoint/metrics/trace/exposed_waits.h"

#include "triplepoint/metrics/trace/occupancy.h"
#include "triplepoint/metrics/trace/trace_lanes.h"

namespace triplepoint::metrics {
namespace {

/// Messages of a known group other than the stages', as a ring of context ranks, are none.
bool is_pipeline_message(const run::SpanType& type) {
  return type.collective == spec::Collective::send_recv &&
         type.group.value_or(spec::GroupKind::pipeline) == spec::GroupKind::pipeline;
}

}  // namespace

bool waits_for_schedule(const Collective& collective, const SpanList& spans) {
  if (collective.parts.empty()) return collective.is_message;
  const run::SpanType& type = spans.type(collective.parts.front().span);
  return collective.is_message ? is_pipeline_message(type) : ties_stages_together(type);
}

std::vector<ExposedWaits> exposed_waits(const run::Timeline& timeline,
                                        const CollectiveMatch& match) {
  run::Timeline known = timeline;
  for (run::SpanType& type : known.types)
    if (is_pipeline_message(type)) type.group = spec::GroupKind::pipeline;
  for (const Collective& collective : match.collectives)
    if (collective.knows_waits())
      for (const CollectivePart& part : collective.parts)
        known.spans[static_cast<size_t>(part.span)].wait =
            static_cast<double>(collective.wait_of(part)) * unit::ns;
  using A = DeviceActivity;
  std::vector<ExposedWaits> ranks;
  for (const Occupancy& doing : occupancy_of_ranks(known))
    ranks.push_back({.pipeline = doing.nanoseconds_with(A::communicating,
                                                        A::computing | A::exchanging | A::awaiting),
                     .late_peers = doing.nanoseconds_with(A::awaiting, A::computing)});
  return ranks;
}

}  // namespace triplepoint::metrics
