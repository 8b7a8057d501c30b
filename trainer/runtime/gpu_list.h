// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/result.h"

#include "trainer/runtime/train_settings.h"

namespace triplepoint::trainer {

/// The GPUs that a training could use here: driver, cuBLASLt and a line per GPU, or JSON. Takes
/// nothing of them.
Result<std::string> gpu_list_text(const GpuChoice&);
Result<std::string> gpu_list_json(const GpuChoice&);

}  // namespace triplepoint::trainer
