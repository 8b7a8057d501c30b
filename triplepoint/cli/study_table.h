// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/cli/console.h"
#include "triplepoint/report/study.h"

namespace triplepoint::cli {

/// One line per job: verdict, speed, energy, power, heat, clock, memory.
std::string study_table(const Console& console, const report::Study& study);

}  // namespace triplepoint::cli
