// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/answers/document.h"
#include "triplepoint/calibrate/jobs/own_runs.h"

namespace triplepoint::app {

/// What a place's own runs taught: how well they are predicted, each coefficient before and after
/// with its spread and who taught it, power, the room, what contradicts, and what to measure next.
answers::Document calibration_answer(const learn::Learned&, const calibrate::OwnRuns&,
                                     const std::string& folder);

/// Of that the coefficients alone: a picture and a table.
answers::Section learned_coefficients(const learn::Calibration&);

}  // namespace triplepoint::app
