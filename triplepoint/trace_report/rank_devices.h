// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/run/run.h"

namespace triplepoint::trace_report {

/// Gives the devices of a recording that knows no ranks those of the traces, and says so in a
/// sentence. A profiler's lanes name the device of each rank by its number on the host, so the
/// recording has to be of one host, and the traces of it, each rank on a separate device. Where
/// that is not so, the sentence says why, and what would tell. Empty where the recording knows
/// ranks of the traces.
std::string take_ranks_from_traces(run::Run& recording, const run::Run& traces);

}  // namespace triplepoint::trace_report
