// SPDX-License-Identifier: Apache-2.0
// The kernels, compiled for the host: block after block, thread after thread.
#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/doubles/cuda/streams.h"
#include "trainer/cuda/kernels/list.h"

namespace triplepoint::trainer::cuda_double {
namespace {

using namespace triplepoint::trainer::cuda;

template <class Body>
Act bind_elements(const LaunchShape& shape, void** arguments) {
  const Body body = *static_cast<const Body*>(arguments[0]);
  const Extent extent = *static_cast<const Extent*>(arguments[1]);
  return [=] {
    // As the device's loop: whatever the grid, every number once.
    const int64_t step = int64_t{shape.grid[0]} * element_threads;
    for (int64_t y = 0; y < shape.grid[1]; ++y)
      for (int64_t first = 0; first < step; ++first)
        for (int64_t row = y; row < extent.rows; row += shape.grid[1])
          for (int64_t column = first; column < extent.width; column += step)
            body(row, column);
  };
}

template <class Body, int threads>
Act bind_blocks(const LaunchShape& shape, void** arguments) {
  const Body body = *static_cast<const Body*>(arguments[0]);
  return [=] {
    // What a block finds in its memory is of no meaning, so let it be none.
    constexpr float nothing = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> memory(shape.memory / sizeof(float));
    for (unsigned z = 0; z < shape.grid[2]; ++z)
      for (unsigned y = 0; y < shape.grid[1]; ++y)
        for (unsigned x = 0; x < shape.grid[0]; ++x) {
          std::fill(memory.begin(), memory.end(), nothing);
          Block<threads> block;
          block.place[0] = x;
          block.place[1] = y;
          block.place[2] = z;
          block.shared = memory.data();
          body(block);
        }
  };
}

struct Named {
  const char* name;
  Bind bind;
};

#define TPT_NAMED(Body) {"tpt_" #Body, bind_elements<Body>},
#define TPT_NAMED_BLOCKS(Body, threads) {"tpt_" #Body, bind_blocks<Body, threads>},
const Named kernels[] = {TPT_ELEMENTWISE_KERNELS(TPT_NAMED) TPT_BLOCK_KERNELS(TPT_NAMED_BLOCKS)};

}  // namespace

Bind find_kernel(const char* name) {
  for (const Named& kernel : kernels)
    if (std::strcmp(kernel.name, name) == 0) return kernel.bind;
  return nullptr;
}

}  // namespace triplepoint::trainer::cuda_double
