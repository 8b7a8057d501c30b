// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/calibrate/training_row.h"
#include "triplepoint/calibrate/training_rules.h"

namespace triplepoint::calibrate {

/// What is played twice: as the row says it, or its printed HFU over MFU; else as its recipe does
/// (`recipe`: parts of every layer; null: unknown), if that fits in memory; else the least that
/// fits, as its authors had to choose too:
///
///   nothing; selective, where attention keeps its scores; parts of every layer, one more at a time
///   and from cheap to dear, where the framework can (cheap_parts()); the fewest layers of each
///   chunk; all; and then with parameters sharded, where that may be left unsaid
///
/// All else of the plan must stand. Returns what was assumed.
std::vector<std::string> take_recompute(spec::Job&, const TrainingRow&, const FrameworkRule&,
                                        const std::vector<spec::RecomputeModule>* recipe = nullptr);

/// Parts of this model's layers in the order of the time that a byte saved costs: norms and the
/// experts' activation read and write once; latent attention's up-projections are thin products
/// that keep three wide results; shared experts and the few dense MLPs of a mixture of experts are
/// a small part of its work. What is dear frees no more a second than whole layers do: a dense
/// model's MLPs, routed experts (with their traffic), attention that keeps no scores.
std::vector<spec::RecomputeModule> cheap_parts(const spec::Model&);

/// Does the job fit in memory, played twice so? The plan keeps the choice.
bool fits_with(spec::Job&, spec::Recompute);

}  // namespace triplepoint::calibrate
