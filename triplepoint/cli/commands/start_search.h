// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/result.h"

namespace triplepoint::cli {

/// Under mpirun `triplepoint plan ...` becomes triplepoint-search, which lies beside this program
/// and links MPI. Does nothing where one process was started, or where another command was. Returns
/// the error if the program cannot be started.
Result<void> become_distributed_search();

}  // namespace triplepoint::cli
