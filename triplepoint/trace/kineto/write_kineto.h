// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "triplepoint/run/run.h"

namespace triplepoint::trace {

/// One rank of a timeline as the PyTorch profiler writes it (schema of 2024: base time, nanosecond
/// decimals), for everything that reads such files: HTA, TraceLens, Perfetto, and read_kineto.
///
/// Kernels are told by their names there: what a name does not say (kinds of a simulated timeline's
/// ops, stages, flops) stands in arguments of our own, which others ignore. Instances of patterns
/// are expanded. `epoch_unix_ns`: Unix time of Instant 0; without it, times count from 0.
std::string write_kineto(const run::Timeline&, int32_t rank,
                         std::optional<int64_t> epoch_unix_ns = std::nullopt);

/// All ranks in one file for trace viewers (Perfetto, chrome://tracing): a process per rank, arrows
/// from launches to kernels, the series as counters. Ranks stand one after the other, each behind
/// an event of ours that names it, so read_merged_kineto finds each rank's trace again.
std::string write_merged_kineto(const run::Run&);

}  // namespace triplepoint::trace
