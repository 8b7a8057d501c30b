// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/layer.h"

#include <utility>

namespace triplepoint::trainer {

Layer::Layer(ModelContext& context, int64_t layer, Unit& unit)
    : attention_(context, layer, unit.dense) {
  if (context.model().is_moe_layer(layer))
    moe_.emplace(context, layer, unit);
  else
    mlp_.emplace(context, layer, unit.dense);
}

Buffer Layer::forward(const Tokens& tokens, Buffer trunk, LayerKept& kept) {
  Buffer middle = attention_.forward(tokens, std::move(trunk), kept.attention);
  if (moe_) return moe_->forward(tokens, std::move(middle), kept.moe);
  return mlp_->forward(tokens, std::move(middle), kept.mlp);
}

void Layer::replay_core(const Tokens& tokens, LayerKept& kept) {
  attention_.replay_core(tokens, kept.attention);
}

void Layer::backward(const Tokens& tokens, Half half, LayerKept& kept, float* gradient) {
  if (moe_)
    moe_->backward(tokens, half, kept.moe, gradient);
  else
    mlp_->backward(tokens, half, kept.mlp, gradient);
  attention_.backward(tokens, half, kept.attention, gradient);
}

}  // namespace triplepoint::trainer
