// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/trace/late_ranks.h"

namespace triplepoint::metrics {

/// The ranks whose delays are beyond the noise, each with what its worst late arrival shows: most
/// of its delay is in kernels, or in gaps; then which kernel, or what its host was at; then, where
/// `telemetry` (times on the same line) has them, clock, power and heat of its GPU meanwhile beside
/// those of the other ranks.
std::vector<run::Bottleneck> late_bottlenecks(const SpanList&, const CollectiveMatch&,
                                              const LateRanks&,
                                              const run::Run* telemetry = nullptr);

/// The same of a run with its own series; nothing where its spans do not tell: where no collective
/// is seen on two ranks, ranks are missing, or spans are more than a million.
std::optional<std::vector<run::Bottleneck>> late_bottlenecks(const run::Run&);

}  // namespace triplepoint::metrics
