// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/advise/steer_tables.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// What happened and why, moment by moment.
void print_decisions(Console&, const advise::SteeredScenario&, double margin);

}  // namespace triplepoint::tui
