// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"

#include "trainer/comm/communicator.h"

namespace triplepoint::trainer {

/// A failure of one rank ends all ranks. All ranks call it. A rank that did not
/// fail itself gets a sentence about those that did; of equal failures only rank 0 keeps its own
/// (others get an empty one, which is not printed).
Result<void> agree(Communicator& world, const Result<void>& mine, const char* act);

}  // namespace triplepoint::trainer
