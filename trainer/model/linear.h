// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/model/context.h"

namespace triplepoint::trainer {

/// What one matrix is called in the workload: forward, input gradient, weight gradient.
struct LinearNames {
  const char *forward, *input_gradient, *weight_gradient;
};

/// Where a linear layer's parameters are put, and how it is cut.
struct LinearPlan {
  LinearNames names;
  std::string name;           // "layers.3.attention.qkv"
  std::vector<int64_t> rows;  // of the whole: outputs held here
  int64_t whole_rows = 0;
  int64_t whole_columns = 0, first_column = 0, columns = 0;
  double deviation = 0.02;
  bool has_bias = true;      // where the model has biases
  bool tied = false;         // shared with another stage
  ParameterRef shared = {};  // a weight that is there already
};

/// y = x W^T of this rank's part of W, with its bias.
///
/// Cut by rows (outputs: column-parallel in Megatron's words) or by columns (row-parallel). The
/// bias of a layer cut by columns is dealt out over the group like everything else: each rank adds
/// its block before the sum over ranks.
class Linear {
 public:
  Linear(ModelContext&, const LinearPlan&, std::vector<Parameter>& parameters);

  int64_t in() const { return weight_->columns; }
  int64_t out() const { return static_cast<int64_t>(weight_->rows.size()); }
  const float* bias() const { return bias_.value(); }

  /// Without the bias: that is added by who comes next, or by add_bias.
  void forward(int64_t rows, const float* x, float* y) const;
  void add_bias(int64_t rows, float* y) const;

  void backward_input(int64_t rows, const float* dy, float* dx) const;
  void backward_weight(int64_t rows, const float* x, const float* dy) const;

 private:
  ModelContext& context_;
  LinearNames names_;
  ParameterRef weight_, bias_;
  Block bias_block_{};  // outputs of y that the bias belongs to
  bool cut_by_rows_;
};

}  // namespace triplepoint::trainer
