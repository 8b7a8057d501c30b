// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/run/export.h"
#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// A run as Zeus would have written it: power.csv of all GPUs (PowerMonitor; at the stamps of the
/// first GPU, empty where a GPU has no value yet) and windows.csv with a window for each step
/// (ZeusMonitor). Source: ml-energy/zeus, zeus/monitor/power.py, energy.py.
std::vector<run::NamedText> zeus_files(const run::Run&);

}  // namespace triplepoint::telemetry
