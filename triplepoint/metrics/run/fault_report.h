// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

namespace triplepoint::metrics {

/// "gpu=3,power=0.25@120s..300s host=1,...": as they are written.
std::string names_of(const std::vector<spec::Fault>&);

/// What faults did to a job, by fault. `without`: the same job without them, for a steady state;
/// null for a transient.
Json faults_json(const run::Run& run, const run::Run* without);

}  // namespace triplepoint::metrics
