// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/model/linear.h"

namespace triplepoint::trainer {

/// A linear layer at the entrance of a tensor-parallel region: its input is gathered over the group
/// under sequence parallelism, the gradient of its input is summed.
///
/// Backward, the gather for the weight gradient runs behind the product for the input gradient, and
/// the sum of that behind the product for the weight gradient.
class EntranceLinear : public Linear {
 public:
  using Linear::Linear;

  /// x: [shard tokens, hidden]; y: [tokens, out] without bias.
  void enter(ModelContext&, const float* x, float* y) const;
  /// dx: [shard tokens, hidden], written. `x` as above; dy must stay until both halves are done.
  void enter_backward(ModelContext&, Half, const float* x, const float* dy, float* dx) const;
};

/// A linear layer at the exit: what the ranks computed is summed, and scattered under sequence
/// parallelism.
class ExitLinear : public Linear {
 public:
  using Linear::Linear;

  /// x: [tokens, in]; y: [shard tokens, hidden], with the bias.
  void leave(ModelContext&, const float* x, float* y) const;
  /// dy: [shard tokens, hidden]; dx: [tokens, in], written. `kept`: the whole output's gradient
  /// between the halves.
  void leave_backward(ModelContext&, Half, const float* x, const float* dy, float* dx,
                      Buffer& kept) const;

 private:
  void leave_backward_input(ModelContext&, Half, const float* dy, float* dx, Buffer& kept) const;
};

/// [shard tokens, hidden] of all ranks -> [tokens, hidden].
Pending gather_tokens(ModelContext&, const float* shard, float* whole);
/// The sum over ranks of [tokens, hidden] -> each rank's shard, or all of it everywhere (in place,
/// shard = whole).
Pending sum_tokens(ModelContext&, float* whole, float* shard);

}  // namespace triplepoint::trainer
