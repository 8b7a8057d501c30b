// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/telemetry/opening_state.h"

namespace triplepoint::telemetry {

/// Open all GPUs of a vendor that are wanted, each on its own thread; what answers within some
/// seconds is delivered together, in the order of the GPUs.
void open_nvidia(OpeningState& state);
void open_amd(OpeningState& state);

}  // namespace triplepoint::telemetry
