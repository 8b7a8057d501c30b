// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "trainer/comm/communicator.h"

namespace triplepoint::trainer {

/// The groups a model's own collectives run on; of size 1 where a dimension is not split.
struct ModelGroups {
  Communicator* tensor = nullptr;
  Communicator* expert = nullptr;
  Communicator* expert_tensor = nullptr;
};

/// One microbatch as this rank sees it: whole sequences, one after the other.
struct Tokens {
  int64_t microbatch = 0;            // of this step, key of what is kept for the backward pass
  int64_t first_sample = 0;          // global index of its first sequence: keys dropout
  std::span<const int32_t> inputs;   // [sequences x length]
  std::span<const int32_t> targets;  // the same, one token on
};

}  // namespace triplepoint::trainer
