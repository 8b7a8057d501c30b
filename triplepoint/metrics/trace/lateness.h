// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/metrics/trace/late_ranks.h"

namespace triplepoint::metrics {

/// Who is late and by how much, why, and whom a naive reading (most time in communication kernels)
/// would blame instead: one sentence each, the first one always.
std::vector<std::string> lateness_sentences(const metrics::LateRanks&);

/// A cause and what is behind it: "a <- b <- c".
std::string chain_text(const std::vector<std::string>& chain);

}  // namespace triplepoint::metrics
