// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triplepoint/cli/command.h"
#include "triplepoint/search/worker_pool.h"

namespace triplepoint::cli {

/// `plan`, searched by several processes together; the first of them prints and writes.
std::unique_ptr<Command> make_plan_in_pool(const search::WorkerPool& pool);

/// Under mpirun `triplepoint plan ...` becomes triplepoint-search, which lies beside this program
/// and links MPI. Does nothing where one process was started, or where another command was. Returns
/// the error if the program cannot be started.
Result<void> become_distributed_search();

}  // namespace triplepoint::cli
