// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/calibrate/jobs/own_runs.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// What `triplepoint calibrate` learned, from which runs, and what stayed unknown.
void print_learned(Console&, const learn::Learned&, const calibrate::OwnRuns&,
                   const std::string& folder);

}  // namespace triplepoint::tui
