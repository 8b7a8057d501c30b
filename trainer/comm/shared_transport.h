// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "trainer/comm/shared_segment.h"
#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

/// Ranks that are processes of one machine. Who waits sleeps until a peer has written or read, so
/// that it takes nothing from those who compute on the same core; a peer that has died is noticed
/// within a second.
std::unique_ptr<Transport> shared_transport(std::shared_ptr<SharedSegment>, int rank);

/// All ends in one process, for tests.
std::vector<std::unique_ptr<Transport>> shared_transports(int ranks);

}  // namespace triplepoint::trainer
