// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/power_loads.h"

#include "triplepoint/perf/kernel_work.h"

namespace triplepoint::calibrate {

spec::GpuLoad looped_load(const spec::Gpu& gpu, const spec::Op& op, Seconds duration) {
  spec::GpuLoad load;
  load.duration = load.computing = duration;
  load.flops[static_cast<size_t>(op.op_class)] = perf::energy_flops(gpu, op);
  load.hbm_bytes = op.hbm_bytes;
  // Attention draws the same power in 8 bits: softmax and data movement stay what they were.
  if (op.op_class == spec::OpClass::attention) return load;
  if (op.precision == spec::Precision::nvfp4)
    load.fp4_flops = op.flops;
  else if (spec::is_quantized(op.precision))
    load.fp8_flops = op.flops;
  return load;
}

const Result<spec::Gpu>& GpuShelf::gpu(const std::string& name) {
  auto found = gpus_.find(name);
  if (found == gpus_.end()) found = gpus_.emplace(name, spec::load_gpu(library_, name)).first;
  return found->second;
}

}  // namespace triplepoint::calibrate
