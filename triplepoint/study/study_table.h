// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/study/runner.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// One line per job: verdict, speed, energy, power, heat, clock, memory.
std::string study_table(const tui::Console& console, const report::Study& study);
/// The table, the findings, and where the files are.
void print_results(tui::Console& console, const StudyResults& results, const Path& folder);

}  // namespace triplepoint::study
