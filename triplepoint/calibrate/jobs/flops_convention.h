// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "triplepoint/spec/job.h"

namespace triplepoint::calibrate {

/// TFLOPs of one step per GPU as a publication counts them ("SEQSEL", "PALM_MFU", ...); nothing for
/// a convention without a formula. Formulas: docs/models/validation.md.
std::optional<double> step_tflop_of_convention(std::string_view convention, const spec::Job&);

}  // namespace triplepoint::calibrate
