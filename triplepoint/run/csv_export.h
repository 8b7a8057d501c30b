// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// A file and what is in it.
struct NamedText {
  std::string name, text;
};

/// Tables with units in their column names: spans.csv (instances expanded), series.csv (one row per
/// value), devices.csv (what is known of each device over a step), steps.csv. An empty cell is
/// unknown.
std::vector<NamedText> csv_tables(const Run&);

/// The files of the paper's artifact, <metric>_<rank>.csv: no header, Unix time in seconds and
/// value; gpu_power in W, gpu_thermal and mem_thermal in degrees Celsius, sm_clock in MHz, gpu_util
/// in percent, nvlink_tx_throughput as a counter in KiB. Its scripts read them as if its own
/// sampler had written them. A device without a rank counts as the rank of its index; a run without
/// an epoch begins at Unix time 0. Source: CharLLM-PPT, zeus/zeus/monitor/power.py and
/// scripts/visualization/vistools.py.
std::vector<NamedText> artifact_csv(const Run&);

/// Writes such files into a folder, which is made if need be.
Result<void> write_all(const std::vector<NamedText>&, const Path& folder);

}  // namespace triplepoint::run
