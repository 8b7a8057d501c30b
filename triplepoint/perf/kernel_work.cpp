// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/kernel_work.h"

#include "triplepoint/perf/kernel_time.h"

namespace triplepoint::perf {

Flops energy_flops(const spec::Gpu& gpu, const spec::Op& op) {
  if (op.op_class != spec::OpClass::attention) return op.flops;
  const double best =
      op.backward ? gpu.kernels.attention_backward_share : gpu.kernels.attention_forward_share;
  return best * *gpu.peak(op.precision) * kernel_time(gpu, op).compute;
}

}  // namespace triplepoint::perf
