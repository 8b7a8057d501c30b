// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// The PyTorch profiler's JSON of any year. docs/traces.md lists the vintages.
bool looks_like_kineto(std::string_view head);
Result<Trace> read_kineto(Input&, const ReadOptions&);

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

/// The event, with the comma before it, behind which a rank begins in a file of
/// write_merged_kineto.
std::string merged_rank_event(int32_t rank);

/// A file of write_merged_kineto, by its first bytes.
bool looks_like_merged_kineto(std::string_view head);

/// The trace of each rank in it.
Result<std::vector<NamedTrace>> read_merged_kineto(Input&, const ReadOptions&);

/// Kineto traces of the jobs that ran in a folder, as NeMo's chakra_profile leaves them:
/// <job id>_kineto/rank-<N>.json.
struct JobTraces {
  Path newest;                     // of the highest job id that left traces
  std::vector<std::string> older;  // names of the other folders, ascending job ids
};

/// Nothing where the folder has no such traces.
std::optional<JobTraces> newest_job_traces(const Path& folder);

}  // namespace triplepoint::trace
