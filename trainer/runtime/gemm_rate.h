// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/math/math.h"

namespace triplepoint::trainer {

/// Flops per second of a matrix product whose operands fit into the cache (512 cubed; on a device
/// 8192 cubed), over so many seconds: what MFU is measured against.
double measure_gemm_rate(Math&, double seconds);

}  // namespace triplepoint::trainer
