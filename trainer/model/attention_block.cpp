// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/attention_block.h"

#include <cmath>
#include <utility>

namespace triplepoint::trainer {
namespace {

/// Rows of the whole QKV matrix held here: queries of all heads, then keys, then values, by head.
std::vector<int64_t> qkv_rows(const ModelContext& context) {
  const spec::Model& model = context.model();
  const auto& share = context.share;
  const int64_t rank = context.tensor.index(), d = share.head_dim;
  std::vector<int64_t> rows;
  const auto take = [&](int64_t first, int64_t count) {
    for (int64_t i = 0; i < count * d; ++i)
      rows.push_back((first + rank * count) * d + i);
  };
  take(0, share.heads);
  take(model.num_attention_heads, share.query_groups);
  take(model.num_attention_heads + model.num_query_groups, share.query_groups);
  return rows;
}

LinearPlan qkv_plan(const ModelContext& context, int64_t layer) {
  const spec::Model& model = context.model();
  LinearPlan plan{.names = {"qkv", "qkv_dgrad", "qkv_wgrad"},
                  .name = layer_name(layer) + "attention.qkv",
                  .rows = qkv_rows(context)};
  plan.whole_rows = (model.num_attention_heads + 2 * model.num_query_groups) * model.kv_channels;
  plan.whole_columns = plan.columns = model.hidden_size;
  return plan;
}

LinearPlan projection_plan(const ModelContext& context, int64_t layer) {
  const spec::Model& model = context.model();
  LinearPlan plan{.names = {"projection", "projection_dgrad", "projection_wgrad"},
                  .name = layer_name(layer) + "attention.projection",
                  .rows = all_rows(model.hidden_size)};
  plan.whole_rows = model.hidden_size;
  plan.whole_columns = model.num_attention_heads * model.kv_channels;
  plan.columns = context.share.heads * context.share.head_dim;
  plan.first_column = context.tensor.index() * plan.columns;
  plan.deviation = exit_deviation(model);
  return plan;
}

double core_flops(const Attention& shape, double per_score) {
  return 0.5 * per_score * as_real(shape.sequences * shape.heads) * as_real(shape.length) *
         as_real(shape.length) * as_real(shape.head_dim);
}

int64_t core_elements(const Attention& shape) {
  return shape.sequences * shape.length * (shape.width() + shape.heads * shape.head_dim);
}

/// Of the core with equally many queries and keys, half of which a query sees on average.
SpanText core_text(const ModelContext& context, const Attention& shape) {
  return op_text(context, "attention", core_elements(shape), core_flops(shape, 4));
}

SpanText core_backward_text(const ModelContext& context, const Attention& shape) {
  return op_text(context, "attention_backward", 2 * core_elements(shape), core_flops(shape, 10));
}

/// Angle of pair j at position t: t / 10000^(2 j / d). A row for each token of a sequence.
std::vector<float> rotary_table(const ModelContext& context) {
  const spec::Model& model = context.model();
  if (model.position_embedding != spec::PositionEmbedding::rope) return {};
  const int64_t half = model.kv_channels / 2;
  std::vector<float> table;
  for (int64_t i = 0; i < context.share.key_length; ++i)
    for (int64_t j = 0; j < 2 * half; ++j) {
      const auto t = as_real(i);
      const double angle = t * std::pow(1e4, -as_real(j % half) / as_real(half));
      table.push_back(static_cast<float>(j < half ? std::cos(angle) : std::sin(angle)));
    }
  return table;
}

}  // namespace

AttentionBlock::AttentionBlock(ModelContext& context, int64_t layer,
                               std::vector<Parameter>& parameters)
    : context_(context),
      norm_(context, "input_norm", layer_name(layer) + "input_norm", parameters),
      qkv_(context, qkv_plan(context, layer), parameters),
      projection_(context, projection_plan(context, layer), parameters),
      table_(rotary_table(context)) {}

Attention AttentionBlock::shape() const {
  const auto& share = context_.share;
  return {.sequences = share.sequences,
          .length = share.key_length,
          .heads = share.heads,
          .groups = share.query_groups,
          .head_dim = share.head_dim};
}

void AttentionBlock::turn(AttentionKept& kept, bool backward) {
  if (table_.empty()) return;
  const auto& share = context_.share;
  const Rotary shape{.tokens = share.tokens,
                     .length = context_.share.key_length,
                     .heads = share.heads + share.query_groups,
                     .head_dim = share.head_dim,
                     .stride = qkv_.out(),
                     .table = table_.data(),
                     .backward = backward};
  const ScopedSpan span(
      op_text(context_, "rotary", 2 * shape.tokens * shape.heads * shape.head_dim));
  context_.math.rotary(shape, kept.qkv.data());
}

void AttentionBlock::core(AttentionKept& kept) {
  const ScopedSpan span(core_text(context_, shape()));
  context_.math.attention(shape(), kept.qkv.data(), kept.output.data(), kept.sums.data());
}

void AttentionBlock::core_backward(AttentionKept& kept, const float* output_gradient) {
  const ScopedSpan span(core_backward_text(context_, shape()));
  context_.math.attention_backward(shape(), kept.qkv.data(), kept.output.data(), output_gradient,
                                   kept.sums.data());
}

Buffer AttentionBlock::forward(Buffer trunk, AttentionKept& kept) {
  const int64_t rows = context_.tokens(), width = context_.share.heads * context_.share.head_dim;
  kept.trunk = std::move(trunk);
  kept.normed = context_.kept(context_.shard_size());
  kept.statistics = context_.kept(2 * context_.shard_tokens());
  kept.qkv = context_.kept(rows * qkv_.out());
  kept.output = context_.kept(rows * width);
  kept.sums = context_.kept(rows * context_.share.heads);
  norm_.forward(kept.trunk.data(), kept.normed.data(), kept.statistics.data());
  qkv_.enter(context_, kept.normed.data(), kept.qkv.data());
  qkv_.add_bias(rows, kept.qkv.data());
  turn(kept, false);
  core(kept);
  Buffer next = context_.kept(context_.shard_size());
  projection_.leave(context_, kept.output.data(), next.data());
  const ScopedSpan span(op_text(context_, "attention_residual", 3 * context_.shard_size()));
  context_.math.add(next.count(), kept.trunk.data(), next.data());
  return next;
}

void AttentionBlock::replay_core(AttentionKept& kept) {
  core(kept);
}

void AttentionBlock::backward(Half half, AttentionKept& kept, float* gradient) {
  const int64_t rows = context_.tokens(), width = context_.share.heads * context_.share.head_dim;
  Buffer output_gradient, normed_gradient;
  if (has_input(half)) {
    output_gradient = context_.workspace(rows * width);
    normed_gradient = context_.workspace(context_.shard_size());
  }
  projection_.leave_backward(context_, half, kept.output.data(), gradient, output_gradient.data(),
                             kept.projection_gradient);
  if (has_input(half)) {
    core_backward(kept, output_gradient.data());
    turn(kept, true);
  }
  qkv_.enter_backward(context_, half, kept.normed.data(), kept.qkv.data(), normed_gradient.data());
  if (has_input(half)) {
    norm_.backward(kept.trunk.data(), kept.statistics.data(), normed_gradient.data(), gradient);
    // A weight half that is put off needs none of these.
    for (Buffer* read : {&kept.trunk, &kept.statistics, &kept.sums})
      read->release();
  }
  if (has_weight(half)) kept = AttentionKept();
}

}  // namespace triplepoint::trainer
