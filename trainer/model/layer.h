// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "trainer/model/attention_block.h"
#include "trainer/model/mlp_block.h"
#include "trainer/model/moe_block.h"

namespace triplepoint::trainer {

/// What one layer keeps of a microbatch; its input alone where it is played again.
struct LayerKept {
  AttentionKept attention;
  MlpKept mlp;
  MoeKept moe;
  Buffer input;
};

/// One transformer layer: attention, then MLP or experts.
class Layer {
 public:
  Layer(ModelContext&, int64_t layer, Unit&);

  Buffer forward(const Tokens&, Buffer trunk, LayerKept&);
  void replay_core(const Tokens&, LayerKept&);
  /// `gradient`: of the output; becomes that of the input.
  void backward(const Tokens&, Half, LayerKept&, float* gradient);

 private:
  AttentionBlock attention_;
  std::optional<MlpBlock> mlp_;
  std::optional<MoeBlock> moe_;
};

}  // namespace triplepoint::trainer
