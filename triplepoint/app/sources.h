// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/run/run.h"

#include "triplepoint/app/runner.h"
#include "triplepoint/report/study.h"
#include "triplepoint/trace_report/analyses.h"

namespace triplepoint::app {

/// What report, compare and serve can show.
enum class SourceKind { study, run, traces };

/// By name and content: a .run file; a folder that characterize made, or one of runs; else traces.
SourceKind kind_of_source(const std::string& source);

/// "ranks" of ranks.tar.gz, "rank0" of rank0.pt.trace.json.gz, "job" of job.run.
std::string stem_of_source(Path file);

/// What shows a file that holds no job but a training's log or a trace; nothing of any other file.
std::optional<std::string> use_of_trace(const std::string& file);

/// Samples of a run with the timeline of its traces, both of one job.
Result<run::Run> with_timeline(run::Run recording, run::Run traced);

/// A run, or traces as one run; traces may have a recording among them, whose devices, series and
/// steps join the timeline on one time line. Steps that only the traces' kernels show become steps
/// of the run. Ranks, step and kernel rules as asked for.
Result<run::Run> load_run_source(const std::vector<std::string>& sources,
                                 const trace_report::TraceOptions& = {});

/// The numbers of the library that a predicted run rests on: of its model, GPU, cluster, stack and
/// calibrations. Empty for runs that predict nothing, and for what the library does not hold.
std::vector<spec::Provenance> numbers_of(const run::Run&);

/// The page of a run, with the numbers that it rests on.
std::string page_of_run(const run::Run&);

Result<report::Study> load_study_source(const std::string& folder);

/// Whose pages lie beside their runs, one click from the study's page: a page is up to a megabyte.
enum class RunPages { none, best, all };

/// The fastest, the thriftiest and the hottest job of each model on each machine.
std::vector<std::size_t> best_rows(const report::Study& study);

/// Writes runs/NAME.html for the runs of the results that are chosen, unless the page is there
/// already, and links every row to its page if there is one.
Result<void> write_run_pages(const Watch&, StudyResults& results, const Path& folder,
                             RunPages which, int threads);

/// What jobs ask for in vain or against themselves: each once, with a job.
std::vector<std::string> warnings_of(const report::Study& study);

}  // namespace triplepoint::app
