// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <vector>

#include "triplepoint/workload/caching_allocator.h"
#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

/// Bytes of the tensors of one microbatch and layer on one rank.
struct EagerSizes {
  double whole = 0, own = 0;  // activations of all tokens, and of this rank's under SP
  double query = 0, key_value = 0, sums = 0;
  double units = 0;   // hidden units of an MLP
  double logits = 0;  // 16 bits
  double qkv_weight = 0, projection_weight = 0, up_weight = 0, down_weight = 0;
  double vocabulary_weight = 0;
  bool stacks_qkv = true;  // as many keys as queries: all three in one tensor, which the core keeps
  bool several_rows = false;          // sequences are turned around by a copy
  bool scatters = false;              // inputs are gathered, outputs reduced and scattered
  bool keeps_logit_gradient = false;  // until the next microbatch has had its forward pass
  int64_t gates = 1;
};

EagerSizes eager_sizes(const LayerContext&);

using Tensor = CachingAllocator::Tensor;

/// What a layer keeps until its backward pass.
struct KeptLayer {
  Tensor input = 0, norm1 = 0, query = 0, key_value = 0, core = 0, sums = 0;
  Tensor trunk = 0, norm2 = 0, merged = 0, activated = 0, product = 0;
};

struct KeptHead {
  Tensor input = 0, norm = 0, softmax = 0;
};

/// Forward and backward passes of layers and ends as they take and drop tensors.
class EagerLayers {
 public:
  EagerLayers(const EagerSizes& sizes, int64_t pending, CachingAllocator& memory)
      : sizes_(sizes), most_pending_(static_cast<std::size_t>(pending)), memory_(memory) {}

  Tensor embed();    // the trunk that enters the first layer
  Tensor receive();  // the same, from the stage before
  KeptLayer forward(Tensor& trunk);
  KeptHead forward_head(Tensor trunk);

  /// Gradients of weights stay in `gradients`.
  Tensor backward_head(const KeptHead&, std::vector<Tensor>& gradients);  // the trunk's gradient
  Tensor backward_end(Tensor trunk);  // of a stage without head: its gradient comes in
  void backward(const KeptLayer&, Tensor& gradient, std::vector<Tensor>& gradients);
  void backward_embedding(Tensor gradient, std::vector<Tensor>& gradients);

  void drop_logit_gradient();  // of the microbatch before
  void wait_for_transfers();   // what was pending is free
  double buffers() const { return gathered_bytes_[0] + gathered_bytes_[1]; }

 private:
  Tensor take(double bytes);
  void drop(Tensor tensor) { memory_.drop(tensor); }
  void gather(std::size_t buffer);
  Tensor scatter(Tensor whole);
  void drop_late(Tensor whole);
  Tensor project();
  Tensor forward_attention(KeptLayer&);
  void backward_mlp(const KeptLayer&, Tensor& gradient, std::vector<Tensor>& gradients);
  void backward_attention(const KeptLayer&, Tensor& gradient, std::vector<Tensor>& gradients);
  Tensor backward_core(const KeptLayer&, Tensor core);
  Tensor backward_input(Tensor output, double weight, Tensor kept, std::vector<Tensor>& gradients);
  void add_branch(Tensor branch, Tensor kept, Tensor& gradient);

  EagerSizes sizes_;
  std::size_t most_pending_;
  CachingAllocator& memory_;
  std::deque<Tensor> pending_;
  Tensor gathered_[2] = {0, 0};  // for inputs, and for gradients of outputs
  double gathered_bytes_[2] = {0, 0};
  std::vector<Tensor> logit_gradient_;
};

}  // namespace triplepoint::workload
