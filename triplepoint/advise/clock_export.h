// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/advise/clock_plan.h"

namespace triplepoint::advise {

/// One row per rank: where it sits, what clock and cap it gets, what it drew and will draw.
std::string clock_csv(const spec::Job& job, const ClockPlan& plan, const ClockPoint& point);

/// A shell script that sets the clocks of the node whose number it is given, power caps as comments
/// beside them: nvidia-smi for NVIDIA, amd-smi for AMD. To be read first; nothing here runs it.
std::string clock_script(const spec::Job& job, const ClockPoint& point);

}  // namespace triplepoint::advise
