// SPDX-License-Identifier: Apache-2.0
// The kernels' image: compiled by nvcc, contained in the plug-in, loaded by the driver.
#include "trainer/cuda/kernels/list.h"

namespace triplepoint::trainer::cuda {

#define TPT_KERNEL(Body)                                                                    \
  extern "C" __global__ void __launch_bounds__(element_threads)                             \
      tpt_##Body(Body body, Extent extent) {                                                \
    const int64_t step = static_cast<int64_t>(gridDim.x) * element_threads;                 \
    const int64_t first = static_cast<int64_t>(blockIdx.x) * element_threads + threadIdx.x; \
    for (int64_t row = blockIdx.y; row < extent.rows; row += gridDim.y)                     \
      for (int64_t column = first; column < extent.width; column += step)                   \
        body(row, column);                                                                  \
  }
TPT_ELEMENTWISE_KERNELS(TPT_KERNEL)
#undef TPT_KERNEL

#define TPT_KERNEL(Body, threads)                                               \
  extern "C" __global__ void __launch_bounds__(threads) tpt_##Body(Body body) { \
    body(Block<threads>());                                                     \
  }
TPT_BLOCK_KERNELS(TPT_KERNEL)
#undef TPT_KERNEL

}  // namespace triplepoint::trainer::cuda
