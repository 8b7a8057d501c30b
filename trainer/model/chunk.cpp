// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/chunk.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "triplepoint/base/expect.h"

#include "trainer/model/ends.h"
#include "trainer/model/layer.h"
#include "trainer/model/layer_names.h"

namespace triplepoint::trainer {
namespace {

/// What is kept of one microbatch.
struct Slot {
  int64_t microbatch = -1;  // -1: free
  std::vector<LayerKept> layers;
  HeadKept head;
  Buffer embedding_gradient;  // between the halves of a split backward pass
};

std::span<float> all_of(Buffer& buffer) {
  return {buffer.data(), static_cast<size_t>(buffer.count())};
}

}  // namespace

struct Chunk::Parts {
  Parts(const spec::Job& job, const workload::ChunkLayers& chunk, const ModelGroups& groups,
        Math& math, MemoryLedger& ledger)
      : context(job, groups, math, ledger), layout(chunk) {
    recomputed = workload::recomputed_layers(job, chunk).total();
    units.reserve(static_cast<size_t>(chunk.layers()) + 2);
    if (chunk.has_embedding) embedding.emplace(context, add_unit("embedding").dense);
    for (int64_t i = 0; i < chunk.layers(); ++i) {
      const int64_t layer = chunk.first_layer + i;
      Unit& unit = add_unit(layer_name(layer).substr(0, layer_name(layer).size() - 1));
      unit.layer = layer;
      layers.emplace_back(context, layer, unit);
    }
    if (chunk.has_head) head.emplace(context, shared_words(), add_unit("head").dense);
  }

  Unit& add_unit(std::string name) {
    units.push_back({});
    units.back().name = std::move(name);
    return units.back();
  }
  /// The embedding's words, where the head shares them and lies on the same rank.
  ParameterRef shared_words() const {
    const bool shares = context.model().tied_embeddings && embedding;
    return shares ? embedding->words() : ParameterRef();
  }
  size_t first_layer_unit() const { return embedding ? 1 : 0; }
  size_t head_unit() const { return units.size() - 1; }

  Slot& free_slot(int64_t microbatch) {
    auto found = std::find_if(slots.begin(), slots.end(),
                              [](const Slot& slot) { return slot.microbatch < 0; });
    if (found == slots.end()) found = slots.insert(slots.end(), Slot());
    found->microbatch = microbatch;
    found->layers.resize(layers.size());
    return *found;
  }
  Slot& slot_of(int64_t microbatch) {
    const auto found = std::find_if(slots.begin(), slots.end(), [microbatch](const Slot& slot) {
      return slot.microbatch == microbatch;
    });
    TPT_EXPECT(found != slots.end());
    return *found;
  }
  bool is_recomputed(size_t layer) const { return static_cast<int64_t>(layer) < recomputed; }

  Buffer enter(const Tokens&, std::span<const float> input);
  Buffer forward_layer(size_t layer, const Tokens&, Buffer trunk, Slot&);
  void recompute(size_t layer, const Tokens&, Slot&);
  void backward_head(const Tokens&, Half, Slot&, double loss_scale, Buffer& gradient);
  void backward_layer(size_t layer, const Tokens&, Half, Slot&, float* gradient);
  void backward(const Tokens&, Half, std::span<const float> output_gradient,
                std::span<float> input_gradient, double loss_scale);

  UnitHooks none;  // before context: outlives what calls it
  UnitHooks* hooks = &none;
  ModelContext context;
  workload::ChunkLayers layout;
  int64_t recomputed = 0;  // layers that keep their input only
  std::vector<Unit> units;
  std::optional<EmbeddingBlock> embedding;
  std::deque<Layer> layers;
  std::optional<HeadBlock> head;
  std::deque<Slot> slots;
};

Buffer Chunk::Parts::enter(const Tokens& tokens, std::span<const float> input) {
  if (!embedding) {
    TPT_EXPECT(static_cast<int64_t>(input.size()) == context.shard_size());
    Buffer trunk = context.kept(context.shard_size());
    context.math.copy(context.shard_size(), input.data(), trunk.data());
    return trunk;
  }
  hooks->before_forward(0);
  Buffer trunk = embedding->forward(tokens);
  hooks->after_forward(0);
  return trunk;
}

Buffer Chunk::Parts::forward_layer(size_t layer, const Tokens& tokens, Buffer trunk, Slot& slot) {
  LayerKept& kept = slot.layers[layer];
  const size_t unit = first_layer_unit() + layer;
  hooks->before_forward(unit);
  Buffer next = layers[layer].forward(tokens, std::move(trunk), kept);
  hooks->after_forward(unit);
  if (is_recomputed(layer)) {
    kept.input = std::move(kept.attention.trunk);
    kept.attention = AttentionKept();
    kept.mlp = MlpKept();
    kept.moe.release();
  }
  return next;
}

/// The forward pass of a layer again, as the plan has it.
void Chunk::Parts::recompute(size_t layer, const Tokens& tokens, Slot& slot) {
  LayerKept& kept = slot.layers[layer];
  const bool whole = !kept.input.empty();
  if (!whole && context.job.plan.recompute != spec::Recompute::selective) return;
  hooks->before_recompute(first_layer_unit() + layer);
  if (whole)
    layers[layer].forward(tokens, std::move(kept.input), kept);
  else
    layers[layer].replay_core(tokens, kept);
}

void Chunk::Parts::backward_layer(size_t layer, const Tokens& tokens, Half half, Slot& slot,
                                  float* gradient) {
  const size_t unit = first_layer_unit() + layer;
  if (has_input(half)) {
    recompute(layer, tokens, slot);
    hooks->before_backward(unit);
  }
  layers[layer].backward(tokens, half, slot.layers[layer], gradient);
  if (has_weight(half)) hooks->after_backward(unit);
}

void Chunk::Parts::backward_head(const Tokens& tokens, Half half, Slot& slot, double loss_scale,
                                 Buffer& gradient) {
  if (has_input(half)) hooks->before_backward(head_unit());
  head->backward(tokens, half, slot.head, loss_scale, gradient.data());
  if (has_weight(half)) hooks->after_backward(head_unit());
}

void Chunk::Parts::backward(const Tokens& tokens, Half half, std::span<const float> output_gradient,
                            std::span<float> input_gradient, double loss_scale) {
  context.microbatch = tokens.microbatch;
  Slot& slot = slot_of(tokens.microbatch);
  Buffer gradient;
  if (has_input(half)) gradient = context.workspace(context.shard_size());
  if (head)
    backward_head(tokens, half, slot, loss_scale, gradient);
  else if (has_input(half))
    context.math.copy(context.shard_size(), output_gradient.data(), gradient.data());
  for (size_t layer = layers.size(); layer-- > 0;)
    backward_layer(layer, tokens, half, slot, gradient.data());
  if (embedding) {
    if (has_input(half)) hooks->before_backward(0);
    embedding->backward(tokens, half, gradient.data(), slot.embedding_gradient);
    if (has_weight(half)) hooks->after_backward(0);
  } else if (has_input(half)) {
    TPT_EXPECT(static_cast<int64_t>(input_gradient.size()) == context.shard_size());
    context.math.copy(context.shard_size(), all_of(gradient).data(), input_gradient.data());
  }
  if (has_weight(half)) slot.microbatch = -1;
}

Chunk::Chunk(const spec::Job& job, const workload::ChunkLayers& layers, const ModelGroups& groups,
             Math& math, MemoryLedger& ledger)
    : parts_(std::make_unique<Parts>(job, layers, groups, math, ledger)) {}

Chunk::~Chunk() = default;

std::vector<Unit>& Chunk::units() {
  return parts_->units;
}

void Chunk::set_hooks(UnitHooks* hooks) {
  parts_->hooks = hooks != nullptr ? hooks : &parts_->none;
}

void Chunk::forward(const Tokens& tokens, std::span<const float> input, std::span<float> output) {
  Parts& parts = *parts_;
  parts.context.microbatch = tokens.microbatch;
  Slot& slot = parts.free_slot(tokens.microbatch);
  Buffer trunk = parts.enter(tokens, input);
  for (size_t layer = 0; layer < parts.layers.size(); ++layer)
    trunk = parts.forward_layer(layer, tokens, std::move(trunk), slot);
  if (!parts.head) {
    parts.context.math.copy(trunk.count(), trunk.data(), output.data());
    return;
  }
  parts.hooks->before_forward(parts.head_unit());
  parts.head->forward(tokens, std::move(trunk), slot.head);
  parts.hooks->after_forward(parts.head_unit());
}

void Chunk::backward(const Tokens& tokens, std::span<const float> output_gradient,
                     std::span<float> input_gradient, double loss_scale) {
  parts_->backward(tokens, Half::both, output_gradient, input_gradient, loss_scale);
}

void Chunk::backward_input(const Tokens& tokens, std::span<const float> output_gradient,
                           std::span<float> input_gradient, double loss_scale) {
  parts_->backward(tokens, Half::input, output_gradient, input_gradient, loss_scale);
}

void Chunk::backward_weight(const Tokens& tokens) {
  parts_->backward(tokens, Half::weight, {}, {}, 0);
}

double Chunk::take_loss_sum() {
  return parts_->head ? parts_->context.math.take_losses() : 0.0;
}

int64_t Chunk::workspace_bytes() const {
  return parts_->context.pool.workspace_peak();
}

}  // namespace triplepoint::trainer
