// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

/// Ranks that are threads of one process, for tests and for machines without MPI: one transport
/// each. A message is copied once, straight from the sender's buffer to the receiver's, by
/// whichever of the two comes last; a waiting rank sleeps until the other arrives.
std::vector<std::unique_ptr<Transport>> thread_transports(int ranks);

}  // namespace triplepoint::trainer
