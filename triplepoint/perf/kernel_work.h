// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"

#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::perf {

/// Flops by which an op's energy counts.
///
///   attention:   peak * e_max * t_compute        all others: flops
///
/// t_compute: at maximum clock; e_max: the share of the peak that long keys and wide heads reach.
/// Fused attention draws the same power however few products it gets done: exponentials, masks and
/// half-filled blocks take energy as they take time. A B200 reads 880 to 970 W from 327 to 1300
/// TFLOP/s, for heads of 64 to 512 and keys of 512 to 10240.
/// Holds for fused kernels. Source: docs/models/power.md.
Flops energy_flops(const spec::Gpu&, const spec::Op&);

}  // namespace triplepoint::perf
