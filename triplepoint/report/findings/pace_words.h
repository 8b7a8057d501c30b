// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/run/run.h"

namespace triplepoint::report {

/// "GPU 3 slows the others: 1,008 MHz against 1,850 MHz (power limit, 350 W against 700 W); the
/// step takes 47 % longer, 2.20 s."
std::string pace_sentence(const run::PaceSetter&, Seconds step_time);
/// What to do about it.
std::string pace_advice(const run::PaceSetter&);

}  // namespace triplepoint::report
