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
//   <job id>_chakra/rank-<N>.json          execution traces: sizes and FLOPs for the traces
//   *.out, *.log                           the training's log
//   <experiment>.yaml, hparams.yaml        NeMo's configuration
//   <experiment>_kernel_stats.csv          sums per trace and kernel, from figure_10_parse.py
//
// Any part may be missing.

namespace triplepoint::study {

/// Whether samples, traces or kernel sums of the artifact lie in this folder itself, or a log in a
/// folder that is named like an experiment.
bool is_experiment(const Path& folder);

/// The experiments in a folder and below, sorted; the folder if it is one itself.
std::vector<Path> experiments_in(const Path& folder);

/// Why a folder that is named like an experiment is one of a job that ran out of memory: it has no
/// file, which the artifact's scripts draw so, or a log says so and there is nothing else with a
/// reading in it.
std::optional<std::string> out_of_memory(const Path& folder);

/// Such folders below, sorted.
std::vector<Path> out_of_memory_in(const Path& folder);

/// The names of experiments where these differ, else their paths below the tree.
std::vector<std::string> experiment_names(const std::vector<Path>& experiments, const Path& tree);

/// What a step of an experiment is: the whole recording, as the artifact's scripts take it, or the
/// steps of its log, where these lie in the recording.
enum class ExperimentSteps { whole_recording, logged };

/// Samples, traces, log and configuration of an experiment as one run, on the samples' clock; notes
/// say what was left aside, what is missing (telemetry::incomplete_note) and how the clocks were
/// brought together. Traces that cannot be read do not cost the samples.
Result<run::Run> read_experiment(const Path& folder, const metrics::TraceOptions&,
                                 ExperimentSteps = ExperimentSteps::logged);

/// The notes that say what is missing, without the words they begin with.
std::vector<std::string> missing_parts(const run::Run&);

/// Samples of a run with the timeline of its traces, both of one job.
Result<run::Run> with_timeline(run::Run recording, run::Run traced);

/// The traces of a run as an experiment of the artifact holds them: 1_kineto/rank-<N>.json of every
/// traced rank; nothing of a run without a timeline. Times are those of telemetry::artifact_files.
std::vector<run::NamedText> kineto_files(const run::Run&);

/// The sums of its kernels as figure_10_parse.py makes them from those traces, in
/// <experiment>_kernel_stats.csv: a row for each trace and kernel name with how often it ran, and
/// total and mean duration in microseconds. Nothing of a run without kernels.
std::optional<run::NamedText> kernel_stats_file(const run::Run&, const std::string& experiment);

bool has_kernel_stats(const Path& folder);

/// Kernel seconds of each traced rank from <name>_kernel_stats.csv, classified by the artifact's
/// rules; nothing where the folder has no such file. Columns are found by their names: a trace or
/// rank, a kernel or name, and a total duration (in microseconds, as Kineto has it).
Result<std::optional<std::vector<metrics::KernelSeconds>>> read_kernel_stats(const Path& folder);

}  // namespace triplepoint::study
