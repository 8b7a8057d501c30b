// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/export.h"
#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// Recordings of Zeus: the CSV of its PowerMonitor (Unix time, watts of each GPU, with or without a
/// header), of its older monitor program (Time,Power: local time and milliwatts of one GPU), and
/// the log of its ZeusMonitor (start_time,window_name,elapsed_time,gpu0_energy,... in joules); a
/// file, or a folder of such files. By the first lines of the files. Source: ml-energy/zeus,
/// zeus/monitor/power.py, energy.py.
bool looks_like_zeus(const Path& source);

/// Such a recording as a run of origin `imported`. Readings that failed (-1) are left out, and
/// notes say what was left out. Windows of ZeusMonitor are steps.
Result<run::Run> read_zeus(const Path& source);

/// A run as Zeus would have written it: power.csv of all GPUs (PowerMonitor; at the stamps of the
/// first GPU, empty where a GPU has no value yet) and windows.csv with a window for each step
/// (ZeusMonitor).
std::vector<run::NamedText> zeus_files(const run::Run&);

}  // namespace triplepoint::telemetry
