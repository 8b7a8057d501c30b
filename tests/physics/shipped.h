// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"

#include "triplepoint/spec/load.h"

namespace triplepoint {

/// Products without a pause, at a rate that follows the clock.
inline auto products(FlopsPerSecond rate, BytesPerSecond traffic) {
  return [=](double clock_ratio) {
    spec::GpuLoad load;
    load.duration = load.computing = 1 * unit::s;
    load.flops[as_size(spec::OpClass::gemm)] = clock_ratio * rate * load.duration;
    load.hbm_bytes = clock_ratio * traffic * load.duration;
    return load;
  };
}

inline spec::Cluster cluster_named(const char* name) {
  return spec::load_cluster(spec::default_library(), name).value();
}

inline spec::Gpu gpu_named(const char* name) {
  return spec::load_gpu(spec::default_library(), name).value();
}

}  // namespace triplepoint
