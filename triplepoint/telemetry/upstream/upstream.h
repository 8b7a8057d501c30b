// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/export.h"
#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// Recordings of other people's samplers:
///
///  - a result folder of the paper's artifact: <metric>_<rank>.csv and system_*.csv, no header,
///    Unix time in seconds and value (source: CharLLM-PPT, zeus/zeus/monitor/power.py and
///    scripts/visualization/vistools.py);
///  - Zeus: the CSV of its PowerMonitor (Unix time, watts of each GPU, with or without a header),
///    of its older monitor program (Time,Power: local time and milliwatts of one GPU), and the log
///    of its ZeusMonitor (start_time,window_name,elapsed_time,gpu0_energy,... in joules); a file,
///    or a folder of such files (source: ml-energy/zeus, zeus/monitor/power.py, energy.py).
///
/// By the names and the first lines of the files.
bool looks_like_upstream(const Path& source);

/// Such a recording as a run of origin `imported`. Readings that failed (-1) are left out, counters
/// that were read modulo 2^32 are put together again, and notes say what was left out and what
/// could not be known. The artifact's recording is one window: it becomes one step, as its scripts
/// take it; windows of ZeusMonitor are steps.
Result<run::Run> read_upstream(const Path& source);

/// The artifact's files of a run, which its scripts read as if its own sampler had written them. A
/// device without a rank counts as the rank of its index; a run without an epoch begins at Unix
/// time 0.
std::vector<run::NamedText> artifact_files(const run::Run&);

/// A run as Zeus would have written it: power.csv of all GPUs (PowerMonitor; at the stamps of the
/// first GPU, empty where a GPU has no value yet) and windows.csv with a window for each step
/// (ZeusMonitor).
std::vector<run::NamedText> zeus_files(const run::Run&);

}  // namespace triplepoint::telemetry
