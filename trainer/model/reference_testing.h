// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "triplepoint/spec/model.h"
#include "triplepoint/spec/plan.h"

namespace triplepoint::trainer {

/// The model once more, as plainly as it can be written: one process, doubles, loops over single
/// numbers, and a tape that differentiates them. Shares no code with the modules it is the measure
/// of; a thousand times slower.
struct ReferenceInput {
  const spec::Model& model;
  int64_t sequences = 1;
  std::vector<int32_t> inputs, targets;
  /// Value of an element of a whole parameter.
  std::function<double(const std::string& name, int64_t row, int64_t column)> value;
};

struct ReferenceResult {
  double loss = 0;                                       // sum over tokens
  std::map<std::string, std::vector<double>> gradients;  // of the loss; whole, row by row
};

ReferenceResult run_reference(const ReferenceInput&);

}  // namespace triplepoint::trainer
