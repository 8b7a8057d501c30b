// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "trainer/model/context.h"
#include "trainer/model/normalization.h"
#include "trainer/model/tensor_region.h"

namespace triplepoint::trainer {

/// What the attention part of a layer keeps of a microbatch, as workload's layer_activation_bytes
/// counts it. The backward pass writes gradients over what it has read for the last time.
struct AttentionKept {
  Buffer trunk, normed, statistics;  // [shard tokens, hidden]
  Buffer qkv;                        // after the rotary embedding; then its gradient
  Buffer output, sums;               // of the core
  Buffer projection_gradient;        // of its output, between the halves of a backward pass
};

/// Norm, QKV, rotary embedding, causal core, projection, residual.
class AttentionBlock {
 public:
  AttentionBlock(ModelContext&, int64_t layer, std::vector<Parameter>& parameters);

  /// Takes the trunk, returns the next one.
  Buffer forward(Buffer trunk, AttentionKept&);
  /// The core alone, from what is kept.
  void replay_core(AttentionKept&);
  /// `gradient`: of the output; becomes that of the input.
  void backward(Half, AttentionKept&, float* gradient);

 private:
  void turn(AttentionKept&, bool backward);
  void core(AttentionKept&);
  void core_backward(AttentionKept&, const float* output_gradient);
  Attention shape() const;

  ModelContext& context_;
  Normalization norm_;
  EntranceLinear qkv_;
  ExitLinear projection_;
  std::vector<float> table_;  // cosines and sines
};

}  // namespace triplepoint::trainer
