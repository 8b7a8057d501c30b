// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"

#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::perf {

/// Flops by which an op's energy counts.
///
///   attention:           peak * t_compute        all others: flops
///   products of m rows, fewer than a tile has, but for gradients:  flops * (m + tile) / 2 m
///   attention of one query a sequence: the same, m: heads that share keys and values
///
/// t_compute: at maximum clock. tile: 128 rows, or the library's whole tile where that is smaller.
///
/// Fused attention draws the same power however few products it gets done: exponentials, masks and
/// half-filled blocks take energy as they take time. A B200 reads 880 to 970 W from 327 to 1300
/// TFLOP/s, for heads of 64 to 512 and keys of 512 to 10240; an H200 about 500 W from 200 to 700.
/// Counted by what the chip's peak would do in that time, both need the same energy, 0.30 and 0.31 J/TFLOP,
/// with two libraries that reach 0.66 and 0.79 of their peaks.
/// Few rows pass a whole tile of weights through the tensor cores as many do; rows of zeros toggle
/// about half. Decoding 8 sequences draws 430 to 540 W on H100 and 640 to 870 W on B200 while it
/// reads weights, 140 to 155 pJ a byte more than waiting, of which memory is 80; 64 sequences draw
/// a quarter more.
/// Holds for fused kernels and for tensor cores. Sources: docs/models/power.md, inference.md.
Flops energy_flops(const spec::Gpu&, const spec::Op&);

}  // namespace triplepoint::perf
