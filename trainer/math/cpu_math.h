// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/math/math.h"

namespace triplepoint::trainer {

/// One per instruction set; the caller owns the result.
Math* new_cpu_math_generic();
Math* new_cpu_math_avx2();
Math* new_cpu_math_avx512();

}  // namespace triplepoint::trainer
