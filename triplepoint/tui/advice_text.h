// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/advise/place_tables.h"
#include "triplepoint/advise/steer_tables.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// What happened and why, moment by moment.
void print_decisions(Console&, const advise::SteeredScenario&, double margin);

/// What separates the GPUs, and the order that puts cold ones first.
void print_thermal_groups(Console&, const advise::GroupedMachine&);
/// The job, its thermal groups, the placements and how to launch the best.
void print_placements(Console&, const spec::Job&, const advise::GroupedMachine&,
                      const advise::PlaceResult&);

}  // namespace triplepoint::tui
