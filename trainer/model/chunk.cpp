// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/chunk.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "triplepoint/base/result.h"

#include "trainer/model/attention_block.h"
#include "trainer/model/mlp_block.h"
#include "trainer/model/normalization.h"
#include "trainer/model/tensor_region.h"

namespace triplepoint::trainer {
namespace {

/// What one layer keeps of a microbatch; its input alone where it is recomputed.
struct LayerKept {
  AttentionKept attention;
  MlpKept mlp;
  Buffer input;
};

/// One transformer layer: attention, then MLP.
class Layer {
 public:
  Layer(ModelContext&, int64_t layer, Unit&);

  Buffer forward(Buffer trunk, LayerKept&);
  void replay_core(LayerKept&);
  /// `gradient`: of the output; becomes that of the input.
  void backward(Half, LayerKept&, float* gradient);

 private:
  AttentionBlock attention_;
  MlpBlock mlp_;
};

Layer::Layer(ModelContext& context, int64_t layer, Unit& unit)
    : attention_(context, layer, unit.parameters), mlp_(context, layer, unit.parameters) {}

Buffer Layer::forward(Buffer trunk, LayerKept& kept) {
  return mlp_.forward(attention_.forward(std::move(trunk), kept.attention), kept.mlp);
}

void Layer::replay_core(LayerKept& kept) {
  attention_.replay_core(kept.attention);
}

void Layer::backward(Half half, LayerKept& kept, float* gradient) {
  mlp_.backward(half, kept.mlp, gradient);
  attention_.backward(half, kept.attention, gradient);
}

/// Vocabulary-parallel lookup, learned positions.
class EmbeddingBlock {
 public:
  EmbeddingBlock(ModelContext&, std::vector<Parameter>& parameters);

  Buffer forward(const Tokens&);
  /// `gradient`: of the first layer's input; is overwritten.
  void backward(const Tokens&, Half, float* gradient, Buffer& stored_gradient);

  ParameterRef words() const { return words_; }

 private:
  void add_positions(float* trunk);
  void add_position_gradient(const float* gradient);
  /// Calls body(first row of the shard, first position, rows) for runs of neighbouring positions.
  template <class Body>
  void for_each_position_run(const Body&) const;

  ModelContext& context_;
  ParameterRef words_, positions_;
};

/// What the head keeps of a microbatch.
struct HeadKept {
  Buffer trunk, normed, statistics;
  Buffer logits;        // then exponentials, then their gradients
  Buffer maximum, sum;  // of each token, over the whole vocabulary
};

/// Last norm, LM head, vocabulary-parallel cross-entropy over words only: what pads the vocabulary
/// takes no part, so that its size does not matter.
class HeadBlock {
 public:
  /// `tied`: the embedding's words where they lie on the same rank, else null.
  HeadBlock(ModelContext&, ParameterRef tied, std::vector<Parameter>& parameters);

  /// Adds the tokens' losses to those that take_loss_sum() gives.
  void forward(const Tokens&, Buffer trunk, HeadKept&);
  /// Writes the gradient of the trunk; `weight`: what a token's loss counts.
  void backward(const Tokens&, Half, HeadKept&, double weight, float* gradient);
  /// Of all tokens since it was asked last.
  double take_loss_sum() { return std::exchange(loss_sum_, 0.0); }

 private:
  void loss(const Tokens&, HeadKept&);
  LogitShape logit_shape() const;

  ModelContext& context_;
  Normalization norm_;
  EntranceLinear words_;
  double loss_sum_ = 0;
};

constexpr const char* words_name = "embedding";

bool ties_stages(const ModelContext& context) {
  return context.model().tied_embeddings && context.job.plan.pipeline_parallel_size > 1;
}

/// Words held by this tensor rank.
std::vector<int64_t> word_rows(const ModelContext& context) {
  std::vector<int64_t> rows = all_rows(context.share.vocabulary);
  for (int64_t& row : rows)
    row += context.tensor.index() * context.share.vocabulary;
  return rows;
}

LinearPlan word_plan(const ModelContext& context, ParameterRef tied) {
  LinearPlan plan{.names = {"lm_head", "lm_head_dgrad", "lm_head_wgrad"},
                  .name = context.model().tied_embeddings ? words_name : "head",
                  .rows = word_rows(context)};
  plan.whole_rows = context.share.vocabulary * context.tensor.size();
  plan.whole_columns = plan.columns = context.hidden();
  plan.has_bias = false;
  plan.tied = ties_stages(context);
  plan.shared = tied;
  return plan;
}

Parameter word_table(const ModelContext& context) {
  Parameter words;
  words.name = std::string(words_name) + ".weight";
  words.whole_rows = context.share.vocabulary * context.tensor.size();
  words.whole_columns = words.columns = context.hidden();
  words.rows = word_rows(context);
  words.initial.standard_deviation = 0.02;
  words.tied = ties_stages(context);
  return words;
}

Parameter position_table(const ModelContext& context) {
  Parameter positions;
  positions.name = "embedding.position";
  positions.whole_rows = context.model().sequence_length;
  positions.whole_columns = positions.columns = context.hidden();
  positions.rows = all_rows(context.model().sequence_length);
  positions.initial.standard_deviation = 0.02;
  positions.on_every_tensor_rank = true;
  return positions;
}

EmbeddingBlock::EmbeddingBlock(ModelContext& context, std::vector<Parameter>& parameters)
    : context_(context) {
  parameters.push_back(word_table(context));
  words_ = {parameters, parameters.size() - 1};
  if (context.model().position_embedding != spec::PositionEmbedding::learned) return;
  parameters.push_back(position_table(context));
  positions_ = {parameters, parameters.size() - 1};
}

template <class Body>
void EmbeddingBlock::for_each_position_run(const Body& body) const {
  const int64_t length = context_.share.key_length, rows = context_.shard_tokens();
  for (int64_t row = 0, count = 0; row < rows; row += count) {
    const int64_t position = (context_.first_row() + row) % length;
    count = std::min(rows - row, length - position);
    body(row, position, count);
  }
}

void EmbeddingBlock::add_positions(float* trunk) {
  if (!positions_) return;
  const int64_t width = context_.hidden();
  const ScopedSpan span(op_text(context_, "position_embedding", 2 * context_.shard_size()));
  for_each_position_run([&](int64_t row, int64_t position, int64_t count) {
    context_.math.add(count * width, positions_.value() + position * width, trunk + row * width);
  });
}

Buffer EmbeddingBlock::forward(const Tokens& tokens) {
  Buffer trunk = context_.kept(context_.shard_size());
  Buffer whole;
  const int64_t rows = context_.tokens(), width = context_.hidden();
  if (context_.share.sequence_parallel) whole = context_.workspace(rows * width);
  float* found = whole.empty() ? trunk.data() : whole.data();
  {
    const ScopedSpan span(op_text(context_, "embedding", 2 * rows * width));
    context_.math.lookup(rows, width, tokens.inputs.data(),
                         context_.tensor.index() * context_.share.vocabulary,
                         context_.share.vocabulary, words_.value(), found);
  }
  sum_tokens(context_, found, trunk.data()).wait();
  add_positions(trunk.data());
  return trunk;
}

void EmbeddingBlock::add_position_gradient(const float* gradient) {
  if (!positions_) return;
  const int64_t width = context_.hidden();
  for_each_position_run([&](int64_t row, int64_t position, int64_t count) {
    // Sums of gradients are never rounded: add_column_sums takes them as one row.
    context_.math.add_column_sums(1, count * width, count * width, gradient + row * width,
                                  positions_.gradient() + position * width);
  });
}

void EmbeddingBlock::backward(const Tokens& tokens, Half half, float* gradient,
                              Buffer& stored_gradient) {
  const int64_t rows = context_.tokens(), width = context_.hidden();
  if (has_input(half)) {
    add_position_gradient(gradient);
    stored_gradient =
        half == Half::both ? context_.workspace(rows * width) : context_.kept(rows * width);
    if (context_.share.sequence_parallel)
      gather_tokens(context_, gradient, stored_gradient.data()).wait();
    else
      context_.math.copy(rows * width, gradient, stored_gradient.data());
  }
  if (!has_weight(half)) return;
  const ScopedSpan span(op_text(context_, "embedding_wgrad", 3 * rows * width));
  context_.math.add_lookup_gradient(
      rows, width, tokens.inputs.data(), context_.tensor.index() * context_.share.vocabulary,
      context_.share.vocabulary, stored_gradient.data(), words_.gradient());
  stored_gradient.release();
}

HeadBlock::HeadBlock(ModelContext& context, ParameterRef tied, std::vector<Parameter>& parameters)
    : context_(context),
      norm_(context, "final_norm", "final_norm", parameters),
      words_(context, word_plan(context, tied), parameters) {}

LogitShape HeadBlock::logit_shape() const {
  const int64_t width = context_.share.vocabulary;
  const int64_t first = context_.tensor.index() * width;
  const int64_t valid = std::clamp<int64_t>(context_.model().vocabulary_size - first, 0, width);
  return {.rows = context_.tokens(), .width = width, .valid = valid, .first = first};
}

void HeadBlock::loss(const Tokens& tokens, HeadKept& kept) {
  const auto rows = as_size(context_.tokens());
  const LogitShape shape = logit_shape();
  Communicator& tensor = context_.tensor;
  const bool split = tensor.size() > 1;
  const ScopedSpan span(op_text(context_, "loss", 2 * shape.rows * shape.width));
  context_.math.row_maximum(shape, kept.logits.data(), kept.maximum.data());
  if (split) tensor.all_reduce({kept.maximum.data(), rows}, Reduction::maximum).wait();
  float* target = kept.sum.data();  // targets' logits, then sums
  float* sum = target + rows;
  context_.math.loss_sums(shape, tokens.targets.data(), kept.maximum.data(), kept.logits.data(),
                          target, sum);
  if (split && context_.job.stack.fused_activations) {
    tensor.all_reduce({target, 2 * rows}).wait();
  } else if (split) {
    tensor.all_reduce({target, rows}).wait();
    tensor.all_reduce({sum, rows}).wait();
  }
  for (size_t i = 0; i < rows; ++i)
    loss_sum_ += std::log(as_real(sum[i])) - as_real(target[i]);
}

void HeadBlock::forward(const Tokens& tokens, Buffer trunk, HeadKept& kept) {
  const int64_t rows = context_.tokens();
  kept.trunk = std::move(trunk);
  kept.normed = context_.kept(context_.shard_size());
  kept.statistics = context_.kept(2 * context_.shard_tokens());
  kept.logits = Buffer(context_.ledger, MemoryTerm::logits, rows * context_.share.vocabulary);
  kept.maximum = context_.kept(rows);
  kept.sum = context_.kept(2 * rows);
  norm_.forward(kept.trunk.data(), kept.normed.data(), kept.statistics.data());
  words_.enter(context_, kept.normed.data(), kept.logits.data());
  loss(tokens, kept);
}

void HeadBlock::backward(const Tokens& tokens, Half half, HeadKept& kept, double weight,
                         float* gradient) {
  Buffer normed_gradient;
  if (has_input(half)) {
    normed_gradient = context_.workspace(context_.shard_size());
    const LogitShape shape = logit_shape();
    const ScopedSpan span(op_text(context_, "loss_backward", 2 * shape.rows * shape.width));
    context_.math.loss_backward(shape, tokens.targets.data(), kept.sum.data() + context_.tokens(),
                                static_cast<float>(weight), kept.logits.data());
  }
  words_.enter_backward(context_, half, kept.normed.data(), kept.logits.data(),
                        normed_gradient.data());
  if (has_input(half)) {
    context_.math.zero(context_.shard_size(), gradient);
    norm_.backward(kept.trunk.data(), kept.statistics.data(), normed_gradient.data(), gradient);
    kept.trunk.release();
    kept.statistics.release();
  }
  if (has_weight(half)) kept = HeadKept();
}

/// What is kept of one microbatch.
struct Slot {
  int64_t microbatch = -1;  // -1: free
  std::vector<LayerKept> layers;
  HeadKept head;
  Buffer embedding_gradient;  // between the halves of a split backward pass
};

std::span<float> all_of(Buffer& buffer) {
  return {buffer.data(), as_size(buffer.count())};
}

}  // namespace

struct Chunk::Parts {
  Parts(const spec::Job& job, const workload::ChunkLayers& chunk, Communicator& tensor, Math& math,
        MemoryLedger& ledger)
      : context(job, tensor, math, ledger), layout(chunk) {
    recomputed = workload::recomputed_layers(job, chunk).total();
    units.reserve(as_size(chunk.layers()) + 2);
    if (chunk.has_embedding) embedding.emplace(context, add_unit("embedding").parameters);
    for (int64_t i = 0; i < chunk.layers(); ++i) {
      const int64_t layer = chunk.first_layer + i;
      Unit& unit = add_unit(layer_name(layer).substr(0, layer_name(layer).size() - 1));
      unit.layer = layer;
      layers.emplace_back(context, layer, unit);
    }
    if (chunk.has_head) head.emplace(context, shared_words(), add_unit("head").parameters);
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
    auto found = std::ranges::find_if(slots, [](const Slot& slot) { return slot.microbatch < 0; });
    if (found == slots.end()) found = slots.insert(slots.end(), Slot());
    found->microbatch = microbatch;
    found->layers.resize(layers.size());
    return *found;
  }
  Slot& slot_of(int64_t microbatch) {
    const auto found = std::ranges::find(slots, microbatch, &Slot::microbatch);
    TPT_EXPECT(found != slots.end());
    return *found;
  }
  bool is_recomputed(size_t layer) const { return static_cast<int64_t>(layer) < recomputed; }

  Buffer enter(const Tokens&, std::span<const float> input);
  Buffer forward_layer(size_t layer, Buffer trunk, Slot&);
  void recompute(size_t layer, Slot&);
  void backward_head(const Tokens&, Half, Slot&, double loss_scale, Buffer& gradient);
  void backward_layer(size_t layer, Half, Slot&, float* gradient);
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

Buffer Chunk::Parts::forward_layer(size_t layer, Buffer trunk, Slot& slot) {
  LayerKept& kept = slot.layers[layer];
  const size_t unit = first_layer_unit() + layer;
  hooks->before_forward(unit);
  Buffer next = layers[layer].forward(std::move(trunk), kept);
  hooks->after_forward(unit);
  if (is_recomputed(layer)) {
    kept.input = std::move(kept.attention.trunk);
    kept.attention = AttentionKept();
    kept.mlp = MlpKept();
  }
  return next;
}

/// The forward pass of a layer again, as the plan has it.
void Chunk::Parts::recompute(size_t layer, Slot& slot) {
  LayerKept& kept = slot.layers[layer];
  const bool whole = !kept.input.empty();
  if (!whole && context.job.plan.recompute != spec::Recompute::selective) return;
  hooks->before_recompute(first_layer_unit() + layer);
  if (whole)
    layers[layer].forward(std::move(kept.input), kept);
  else
    layers[layer].replay_core(kept);
}

void Chunk::Parts::backward_layer(size_t layer, Half half, Slot& slot, float* gradient) {
  const size_t unit = first_layer_unit() + layer;
  if (has_input(half)) {
    recompute(layer, slot);
    hooks->before_backward(unit);
  }
  layers[layer].backward(half, slot.layers[layer], gradient);
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
    backward_layer(layer, half, slot, gradient.data());
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

Chunk::Chunk(const spec::Job& job, const workload::ChunkLayers& layers, Communicator& tensor,
             Math& math, MemoryLedger& ledger)
    : parts_(std::make_unique<Parts>(job, layers, tensor, math, ledger)) {}

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
    trunk = parts.forward_layer(layer, std::move(trunk), slot);
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
  return parts_->head ? parts_->head->take_loss_sum() : 0.0;
}

}  // namespace triplepoint::trainer
