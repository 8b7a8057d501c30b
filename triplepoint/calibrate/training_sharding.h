// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/training_row.h"
#include "triplepoint/calibrate/training_rules.h"

namespace triplepoint::calibrate {

/// Who holds what of parameters, gradients and optimizer states, as the row says it in any of its
/// spellings (ZeRO-1, zero1=8, FSDP=64, FULL_SHARD, HSDP, ISP), else as its framework does; and the
/// optimizer's buffers, which are others in some stacks once its states are sharded.
/// Layout and batch must stand in the plan.
Result<void> take_sharding(spec::Job&, const TrainingRow&, const FrameworkRule&,
                           const spec::Library&);

/// What runs behind what: split sequences, traffic of tensors, of replicas, of stages and experts.
/// Sharding must stand in the plan.
void take_overlap(spec::Job&, const TrainingRow&, const FrameworkRule&);

}  // namespace triplepoint::calibrate
