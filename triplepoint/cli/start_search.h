// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"

namespace triplepoint::cli {

/// Under mpirun `plan` belongs to triplepoint-search, which lies beside this program and knows MPI:
/// becomes that program, and does not return. Returns where there is no such need; an error where
/// it cannot be started.
Result<void> become_search_under_mpi(int argc, char** argv);

}  // namespace triplepoint::cli
