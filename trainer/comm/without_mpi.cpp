// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/mpi_session.h"

namespace triplepoint::trainer {

Result<std::unique_ptr<MpiSession>> MpiSession::open() {
  return error(
      "this program was built without MPI (none was found); install libopenmpi-dev and openmpi-bin "
      "and build again, or run all ranks as threads");
}

bool MpiSession::launched() {
  return false;
}

}  // namespace triplepoint::trainer
