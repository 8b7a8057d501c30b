// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/export.h"
#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/trace_tables/analyses.h"

// The result tree of the paper's artifact: results/<sweep>/<model>/<experiment>/ with
//
//   <metric>_<rank>.csv, system_*.csv      samples of every GPU and node
//   <job id>_kineto/rank-<N>.json          traces; of several jobs the newest counts
//   <experiment>_kernel_stats.csv          sums per trace and kernel, from figure_10_parse.py
//
// Any part may be missing.

namespace triplepoint::study {

/// Whether samples or traces of the artifact lie in this folder itself.
bool is_experiment(const Path& folder);

/// The experiments in a folder and below, sorted; the folder if it is one itself.
std::vector<Path> experiments_in(const Path& folder);

/// Folders below without any file whose name is that of an experiment: the job left nothing, which
/// the artifact's scripts draw as out of memory.
std::vector<Path> empty_experiments_in(const Path& folder);

/// The names of experiments where these differ, else their paths below the tree.
std::vector<std::string> experiment_names(const std::vector<Path>& experiments, const Path& tree);

/// Samples and traces of an experiment as one run, on the samples' clock; notes say what was left
/// aside and how the clocks were brought together.
Result<run::Run> read_experiment(const Path& folder, const metrics::TraceOptions&);

/// Samples of a run with the timeline of its traces, both of one job.
Result<run::Run> with_timeline(run::Run recording, run::Run traced);

/// The traces of a run as an experiment of the artifact holds them: 1_kineto/rank-<N>.json of every
/// traced rank; nothing of a run without a timeline. Times are those of telemetry::artifact_files.
std::vector<run::NamedText> kineto_files(const run::Run&);

/// Kernel seconds of each traced rank from <name>_kernel_stats.csv, classified by the artifact's
/// rules; nothing where the folder has no such file. Columns are found by their names: a trace or
/// rank, a kernel or name, and a total duration (in microseconds, as Kineto has it).
Result<std::optional<std::vector<metrics::KernelSeconds>>> read_kernel_stats(const Path& folder);

}  // namespace triplepoint::study
