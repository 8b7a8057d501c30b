// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

/// Does the model answer instead of learn? No backward pass, no gradients, no optimizer.
constexpr bool is_inference(Task task) {
  return task == Task::prefill || task == Task::decode;
}

}  // namespace triplepoint::spec
