// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/trace/late_ranks.h"

namespace triplepoint::metrics {

/// Who is late and by how much, why, and whom a naive reading (most time in communication kernels)
/// would blame instead: one sentence each, the first one always, but for a run whose pace setters
/// say it all.
std::vector<std::string> lateness_sentences(const metrics::LateRanks&);

/// A simulated run knows what each slow GPU, link and host costs the step. Only one of those that
/// cost at least 1 % of it (Metrics::pace_setters) is its straggler, the first one in
/// Metrics::stragglers; so page, tables and JSON name the same. Runs of other origin stay.
void judge_by_cost(LateRanks&, const run::Run&, const Metrics&);

/// A cause and what is behind it: "a <- b <- c".
std::string chain_text(const std::vector<std::string>& chain);

}  // namespace triplepoint::metrics
