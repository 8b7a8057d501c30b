// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/calibrate/training_row.h"
#include "triplepoint/calibrate/training_rules.h"

namespace triplepoint::calibrate {

/// What is played twice: as the row says it, or its printed HFU over MFU; else the least that fits
/// in memory, as its authors had to choose too:
///
///   nothing, selective (where attention keeps its scores), the fewest layers of each chunk, all,
///   and then with parameters sharded, where that may be left unsaid
///
/// All else of the plan must stand. Returns what was assumed.
std::vector<std::string> take_recompute(spec::Job&, const TrainingRow&, const FrameworkRule&);

/// Does the job fit in memory, played twice so? The plan keeps the choice.
bool fits_with(spec::Job&, spec::Recompute);

}  // namespace triplepoint::calibrate
