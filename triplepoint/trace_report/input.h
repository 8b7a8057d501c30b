// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/trace/kernel_class.h"
#include "triplepoint/trace_report/analyses.h"

namespace triplepoint::trace_report {

/// Reads traces (files, folders, tars of one or many ranks) or one .run, applies the kernel rules,
/// keeps the ranks and the step that were asked for, and aligns the clocks of ranks.
Result<TraceInput> read_trace_input(const std::vector<std::string>& files, const TraceOptions&,
                                    trace::HostSpans);

/// The same for analyses of what ran in the steps, which a training's log does not tell: refused.
Result<TraceInput> read_traced_work(const std::vector<std::string>& files, const TraceOptions&,
                                    trace::HostSpans);

/// What was named: recordings (.run) beside traces. A run that is alone stands for traces.
struct TracesAndRecordings {
  std::vector<std::string> traces, recordings;
};
TracesAndRecordings divide(const std::vector<std::string>& files);

/// A recording beside the traces, its series moved to their time line, its ranks theirs.
Result<run::Run> load_recording(const std::string& file, TraceInput& traces);

/// The recording, for clocks and heat, of which there is one at most; without any, the trace's own
/// if it is a run with series.
Result<std::optional<run::Run>> telemetry_of(const std::vector<std::string>& recordings,
                                             TraceInput&);

/// 0 of nothing.
inline double percent(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : 100 * as_real(part) / as_real(whole);
}

/// A rule set by name ("default": data/rules/default.toml) or from a file.
Result<metrics::KernelRuleSet> load_kernel_rules(const std::string& name_or_file);

/// "0,2,8-15" as numbers, ascending.
Result<std::vector<int32_t>> parse_ranks(std::string_view text);

/// Whether a file is a run, by its first bytes.
bool is_run_file(const std::string& path);

/// Gives the devices of a recording that knows no ranks those of the traces, and says so in a
/// sentence. A profiler's lanes name the device of each rank by its number on the host, so the
/// recording has to be of one host, and the traces of it, each rank on a separate device. Where
/// that is not so, the sentence says why, and what would tell. Empty where the recording knows
/// ranks of the traces.
std::string take_ranks_from_traces(run::Run& recording, const run::Run& traces);

}  // namespace triplepoint::trace_report
