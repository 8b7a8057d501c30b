// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

/// MPI's point-to-point messages, and its collectives. MPI has been initialized. No header of MPI
/// is needed to use it.
std::unique_ptr<Transport> mpi_transport();

}  // namespace triplepoint::trainer
