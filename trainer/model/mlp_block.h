// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/model/normalization.h"
#include "trainer/model/tensor_region.h"

namespace triplepoint::trainer {

/// What the MLP of a layer keeps of a microbatch.
struct MlpKept {
  Buffer trunk, normed, statistics;
  Buffer up, activated;  // product before the activation, then its gradient; and after it
  Buffer down_gradient;  // of the output, between the halves of a backward pass
};

/// Norm; up, activation and down over the tensor group; residual.
class MlpBlock {
 public:
  MlpBlock(ModelContext&, int64_t layer, std::vector<Parameter>& parameters);

  Buffer forward(Buffer trunk, MlpKept&);
  void backward(Half, MlpKept&, float* gradient);

 private:
  ModelContext& context_;
  Normalization norm_;
  int64_t width_;  // hidden units here
  EntranceLinear up_;
  ExitLinear down_;
};

}  // namespace triplepoint::trainer
