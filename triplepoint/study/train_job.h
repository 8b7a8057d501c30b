// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::study {

/// The training that `triplepoint train` runs if nothing else is said, as a job.toml: a small
/// Llama on the emulated cluster `laptop`, split by tensor, pipeline and data parallelism; by data
/// parallelism alone where the user says how to split.
std::string beginning_of_training(bool user_splits);

/// Spreads `ranks` ranks over the cluster's nodes; over one node, if they do not divide evenly.
Result<void> spread_ranks(spec::Job& job, int64_t ranks);

/// Why the trainer cannot run a job that is valid as such: what only other stacks have, or a
/// layout that is wrong. What a prediction would need besides is not asked for.
Result<void> require_trainable(const spec::Job& job);

}  // namespace triplepoint::study
