// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triplepoint/spec/job.h"

#include "triplepoint/formats/export.h"

namespace triplepoint::formats {

/// A configuration for torchtitan's trainer (torchtitan.train --job.config_file). torchtitan knows
/// models by family and flavor; sizes of no flavor are unsupported.
formats::Exported export_torchtitan(const spec::Job& job, int64_t steps);

}  // namespace triplepoint::formats
