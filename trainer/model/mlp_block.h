// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/model/normalization.h"
#include "trainer/model/tensor_region.h"

namespace triplepoint::trainer {

/// What up, activation and down keep of a microbatch.
struct MlpCoreKept {
  Buffer up, activated;  // product before the activation, then its gradient; and after it
  Buffer down_gradient;  // of the output, between the halves of a backward pass
};

/// Up, activation, down, over the tensor group: of a dense layer, or a shared expert.
class MlpCore {
 public:
  /// `name`: "layers.3.mlp"; `ffn`: hidden units of the whole.
  MlpCore(ModelContext&, const std::string& name, int64_t ffn, std::vector<Parameter>& parameters);

  /// [shard tokens, hidden] both.
  void forward(const float* x, float* y, MlpCoreKept&);
  /// dx is written.
  void backward(Half, const float* x, const float* dy, float* dx, MlpCoreKept&);

 private:
  ModelContext& context_;
  int64_t width_;  // hidden units here
  EntranceLinear up_;
  ExitLinear down_;
};

struct MlpKept {
  Buffer trunk, normed, statistics;
  MlpCoreKept core;
};

/// Norm, MLP, residual.
class MlpBlock {
 public:
  MlpBlock(ModelContext&, int64_t layer, std::vector<Parameter>& parameters);

  Buffer forward(Buffer trunk, MlpKept&);
  void backward(Half, MlpKept&, float* gradient);

 private:
  ModelContext& context_;
  Normalization norm_;
  MlpCore core_;
};

Nonlinearity nonlinearity_of(const spec::Model&);
/// Rows of a whole up matrix with `ffn` units that part `index` of `parts` holds: of the gate, then
/// of the up product.
std::vector<int64_t> up_rows(const spec::Model&, int64_t ffn, int64_t index, int64_t parts);
int64_t gates_of(const spec::Model&);

}  // namespace triplepoint::trainer
