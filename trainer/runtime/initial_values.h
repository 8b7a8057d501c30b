// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "trainer/model/parameter.h"

namespace triplepoint::trainer {

/// The first values of elements [begin, end) of a rank's part of a parameter.
///
///   value(i, j) = mean + standard deviation * normal(seed, name, row i of the whole, column j)
///
/// Keyed by where the element stands in the whole matrix: every layout starts from the same model.
void fill_initial(const Parameter&, uint64_t seed, int64_t begin, std::span<float> values);

}  // namespace triplepoint::trainer
