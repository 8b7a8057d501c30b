// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"
#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::perf {

/// Time of one kernel, split by what sets its pace, so that any clock can be asked for cheaply.
///
///   t(f) = max( norm_p( compute * ((1 - q) f_max/f + q), memory ), floor )
///
/// compute: at max clock; memory: bytes over achieved bandwidth, does not depend on the SM clock;
/// q: clock-insensitive share; p: roofline norm; floor: kernels * shortest kernel.
/// Holds for SM-clock changes at constant memory clock. Source: docs/models/kernels.md.
struct KernelTime {
  Seconds compute, memory, floor;
  double norm = 4, insensitive = 0;
  Seconds at(double clock_ratio) const;  // f / f_max
};

/// Kernel time of a compute op (op_class != communication) on this GPU, before launch costs.
/// Requires: gpu.peak(precision), hbm_bandwidth present (spec::diagnose refuses others).
KernelTime kernel_time(const spec::Gpu& gpu, const spec::Op& op);

/// Share of the dense peak a GEMM reaches at max clock, unthrottled: tile and wave quantization,
/// prologue over k, large-shape limit. In (0, 1].
double gemm_efficiency(const spec::Gpu& gpu, const spec::GemmShape& shape, spec::Precision precision);

}  // namespace triplepoint::perf
