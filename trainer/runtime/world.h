// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "triplepoint/base/result.h"

#include "trainer/comm/mpi_session.h"
#include "trainer/comm/shaped_transport.h"
#include "trainer/runtime/train.h"

namespace triplepoint::trainer {

/// How ranks reach each other.
struct WorldSettings {
  EndpointSettings ends;
  Carrier carrier = Carrier::automatic;  // processes only
  std::optional<LinkShapes> shapes;      // an emulated cluster's links; nothing: as they are
};

/// Trains with ranks that are threads of this process; rank 0's outcome. Where ranks fail, the
/// error is what the first of them said.
Result<TrainOutcome> train_with_threads(const spec::Job&, const TrainSettings&,
                                        const WorldSettings&, const OnStep& = {});

/// Trains as the rank that a launcher made this process. A rank that fails says so on standard
/// error and ends all others: then this does not return.
Result<TrainOutcome> train_with_mpi(const spec::Job&, const TrainSettings&, const WorldSettings&,
                                    const OnStep& = {});

/// Which of the launcher's processes this one is; 0 without a launcher.
int64_t launched_rank();

/// Ranks of the job on this machine, as the launcher says; all of them where it does not.
int64_t launched_ranks_here(int64_t all);

}  // namespace triplepoint::trainer
