// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "triplepoint/cli/command.h"
#include "triplepoint/search/worker_pool.h"

namespace triplepoint::cli {

/// `plan`, searched by several processes together; the first of them prints and writes.
std::unique_ptr<Command> make_plan_in_pool(const search::WorkerPool& pool);

}  // namespace triplepoint::cli
