// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "trainer/model/linear.h"
#include "trainer/model/routing.h"

namespace triplepoint::trainer {

/// What a rank's experts keep of a microbatch.
struct ExpertsKept {
  ExpertRowsHere here;
  Buffer input;          // sorted rows
  Buffer up, activated;  // product before the activation, then its gradient; and after it
  Buffer output_gradient;

  void release() {
    input.release();
    up.release();
    activated.release();
    output_gradient.release();
  }
};

/// The experts of one rank, each an MLP over its rows; their hidden units are cut over the
/// expert-tensor group.
class Experts {
 public:
  Experts(ModelContext&, int64_t layer, std::vector<Parameter>& parameters);

  int64_t count() const { return static_cast<int64_t>(up_.size()); }
  /// kept.input -> y, both sorted by expert.
  void forward(ExpertsKept&, float* y);
  /// kept.output_gradient -> dx (written in the input half).
  void backward(Half, ExpertsKept&, float* dx);

 private:
  int64_t width() const { return down_.front().in(); }

  ModelContext& context_;
  std::deque<Linear> up_, down_;
};

}  // namespace triplepoint::trainer
