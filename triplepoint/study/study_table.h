// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/report/study.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::study {

/// One line per job: verdict, speed, energy, power, heat, clock, memory.
std::string study_table(const tui::Console& console, const report::Study& study);

}  // namespace triplepoint::study
