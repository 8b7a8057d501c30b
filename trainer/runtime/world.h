// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triplepoint/base/result.h"

#include "trainer/comm/endpoint.h"
#include "trainer/runtime/train.h"

namespace triplepoint::trainer {

/// Trains with ranks that are threads of this process; rank 0's outcome. Where ranks fail, the
/// error is what the first of them said.
Result<TrainOutcome> train_with_threads(const spec::Job&, const TrainSettings&,
                                        const EndpointSettings&, const OnStep& = {});

/// Trains as the rank that a launcher made this process. A rank that fails says so on standard
/// error and ends all others: then this does not return.
Result<TrainOutcome> train_with_mpi(const spec::Job&, const TrainSettings&, const EndpointSettings&,
                                    const OnStep& = {});

/// Which of the launcher's processes this one is; 0 without a launcher.
int64_t launched_rank();

/// Ranks of the job on this machine, as the launcher says; all of them where it does not.
int64_t launched_ranks_here(int64_t all);

}  // namespace triplepoint::trainer
