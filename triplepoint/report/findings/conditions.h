// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/report/study.h"

namespace triplepoint::report {

/// Sets each row's `condition`: what tells its machine or room from those of other rows with as
/// many of the same GPUs ("inlet 18 °C", "liquid", "4 x 400 Gb/s"). Empty where nothing differs.
void tell_conditions(Study& study);

}  // namespace triplepoint::report
