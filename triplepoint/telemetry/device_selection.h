// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// Which of these devices the words mean, as SensorOptions::devices explains them; no words: all. A
/// word that no device answers to is an error that says which devices there are.
Result<std::vector<bool>> select_devices(const std::vector<run::Device>& devices,
                                         const std::vector<std::string>& words);

}  // namespace triplepoint::telemetry
