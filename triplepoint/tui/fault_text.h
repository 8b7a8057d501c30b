// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/run/run.h"

#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// What faults did to a job, each before, while and after it was on, and GPU by GPU. `without`: the
/// same job without them, for a steady state; null for a transient, which tells itself.
void print_faults(Console& console, const run::Run& run, const run::Run* without);

}  // namespace triplepoint::tui
