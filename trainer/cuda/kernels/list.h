// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/cuda/kernels/attention.h"
#include "trainer/cuda/kernels/elementwise.h"
#include "trainer/cuda/kernels/rows.h"

/// All kernels: the name each has in the image, which is its body's, and its block.
#define TPT_ELEMENTWISE_KERNELS(X) \
  X(Copy)                          \
  X(PlainProduct)                  \
  X(Add)                           \
  X(Scale)                         \
  X(RoundToBf16)                   \
  X(AddBias)                       \
  X(Residual)                      \
  X(Activate)                      \
  X(ActivateBackward)              \
  X(Rotate)                        \
  X(GatherRows)                    \
  X(ScatterRows)                   \
  X(CombineRows)                   \
  X(LossBackward)                  \
  X(StepAdamW)                     \
  X(TopK)                          \
  X(TopKBackward)

#define TPT_BLOCK_KERNELS(X)       \
  X(NormRows, row_threads)         \
  X(NormRowsBackward, row_threads) \
  X(ColumnSums, row_threads)       \
  X(CausalSoftmax, row_threads)    \
  X(SoftmaxBackward, row_threads)  \
  X(RowMaximum, row_threads)       \
  X(LossSums, row_threads)         \
  X(AddLosses, row_threads)        \
  X(Squares, row_threads)          \
  X(CombineBackward, row_threads)  \
  X(AttentionForward, row_threads) \
  X(AttentionAlong, 32)            \
  X(AttentionQueries, row_threads) \
  X(AttentionKeys, row_threads)    \
  X(BlockSoftmax, row_threads)     \
  X(BlockSlopes, row_threads)

namespace triplepoint::trainer::cuda {

/// What an elementwise kernel goes over.
struct Extent {
  int64_t rows, width;
};
inline constexpr int element_threads = 256;

}  // namespace triplepoint::trainer::cuda
