// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

/// Errors of a job as one message; nothing if there are none.
Result<void> require_valid(const Job& job);

/// An error if the job answers instead of training: for what only training has. `what` is a
/// sentence's beginning: "placements are searched".
Result<void> require_training(const Job& job, std::string_view what);

}  // namespace triplepoint::spec
