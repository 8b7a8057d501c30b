// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace triplepoint::trainer {

/// How a parameter begins.
struct Initial {
  double mean = 0;
  double standard_deviation = 0;  // 0: all equal to the mean
};

/// A matrix (or a vector: one row) of the model, of which this rank holds a part.
///
/// Element (i, j) of the part is element (row(i), column(j)) of the whole, whatever the layout:
/// what the generator and gradients of other layouts are keyed by.
struct Parameter {
  std::string name;  // "layers.3.attention.qkv.weight", alike in every layout
  int64_t whole_rows = 1, whole_columns = 0;
  std::vector<int64_t> rows;  // of the whole, held here, ascending runs welcome
  int64_t first_column = 0, columns = 0;
  Initial initial;
  bool decays = true;                 // weight decay (not for norms and biases)
  bool on_every_tensor_rank = false;  // norms, router, row-parallel biases: counted once in norms
  bool tied = false;                 // shared with another stage: gradients add up over `embedding`
  std::span<float> value, gradient;  // set by the store that keeps them

  int64_t count() const { return static_cast<int64_t>(rows.size()) * columns; }
};

/// What is gathered, reduced and kept together: the embedding, one layer, or final norm and head.
/// `experts` have copies in the expert_data group, `dense` in the data group.
struct Unit {
  std::string name;
  int64_t layer = -1;
  std::vector<Parameter> dense, experts;
};

}  // namespace triplepoint::trainer
