// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/attention_block.h"

#include <cmath>
#include <utility>

#include "trainer/model/context.h"

// The core of attention with its scores written out: stacks without flash attention.

namespace triplepoint::trainer {
namespace {

/// One head of one sequence: where it lies, and its square of scores.
struct Square {
  int64_t query, key, value, output, scores, dropout_row;
};

Square square_of(const Attention& shape, int64_t sequence, int64_t head) {
  const int64_t d = shape.head_dim, row = sequence * shape.length;
  const int64_t group = head / (shape.heads / shape.groups);
  const int64_t at = row * shape.width();
  return {.query = at + head * d,
          .key = at + (shape.heads + group) * d,
          .value = at + (shape.heads + shape.groups + group) * d,
          .output = row * shape.heads * d + head * d,
          .scores = (sequence * shape.heads + head) * shape.length * shape.length,
          .dropout_row = shape.dropout.first_row +
                         (sequence * shape.all_heads + shape.first_head + head) * shape.length};
}

template <class Body>
void for_each_square(const Attention& shape, const Body& body) {
  for (int64_t s = 0; s < shape.sequences; ++s)
    for (int64_t h = 0; h < shape.heads; ++h)
      body(square_of(shape, s, h));
}

Dropout dropout_of(const Attention& shape, const Square& square) {
  Dropout dropout = shape.dropout;
  dropout.first_row = square.dropout_row;
  return dropout;
}

int64_t all_scores(const Attention& shape) {
  return shape.sequences * shape.heads * shape.length * shape.length;
}

SpanText product_text(const ModelContext& context, const char* name, const Attention& shape) {
  return op_text(context, name, all_scores(shape),
                 2.0 * static_cast<double>(all_scores(shape) * shape.head_dim));
}

float scale_of(const Attention& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

/// [length, length] = rows x rows^T, both of one head.
Gemm outer(const Attention& shape, const float* a, int64_t a_stride, const float* b, float* c) {
  return {.m = shape.length,
          .n = shape.length,
          .k = shape.head_dim,
          .a = a,
          .a_stride = a_stride,
          .b = b,
          .b_stride = shape.width(),
          .b_transposed = true,
          .c = c,
          .c_stride = shape.length};
}

struct Rows {
  float* data;
  int64_t stride;
};

/// [length, head_dim] (+)= square (transposed or not) x rows.
Gemm inner(const Attention& shape, const float* square, bool transposed, const float* b,
           int64_t b_stride, Rows c) {
  return {.m = shape.length,
          .n = shape.head_dim,
          .k = shape.length,
          .a = square,
          .a_stride = shape.length,
          .a_transposed = transposed,
          .b = b,
          .b_stride = b_stride,
          .c = c.data,
          .c_stride = c.stride};
}

}  // namespace

void AttentionBlock::unfused_core(const Attention& shape, AttentionKept& kept) {
  Math& math = context_.math;
  kept.scores = context_.kept(all_scores(shape));
  float* qkv = kept.qkv.data();
  {
    const ScopedSpan span(product_text(context_, "attention_scores", shape));
    for_each_square(shape, [&](const Square& at) {
      math.gemm(outer(shape, qkv + at.query, shape.width(), qkv + at.key,
                      kept.scores.data() + at.scores));
    });
  }
  {
    const ScopedSpan span(op_text(context_, "softmax", 2 * all_scores(shape)));
    math.causal_softmax(shape.sequences * shape.heads, shape.length, scale_of(shape),
                        kept.scores.data());
  }
  if (shape.dropout.probability > 0) {
    const ScopedSpan span(op_text(context_, "attention_dropout", 2 * all_scores(shape)));
    kept.dropped_scores = context_.kept(all_scores(shape));
    for_each_square(shape, [&](const Square& at) {
      math.dropout(shape.length, shape.length, dropout_of(shape, at),
                   kept.scores.data() + at.scores, kept.dropped_scores.data() + at.scores);
    });
  }
  const float* used = (kept.dropped_scores.empty() ? kept.scores : kept.dropped_scores).data();
  const ScopedSpan span(product_text(context_, "attention_values", shape));
  for_each_square(shape, [&](const Square& at) {
    math.gemm(inner(shape, used + at.scores, false, qkv + at.value, shape.width(),
                    {kept.output.data() + at.output, shape.heads * shape.head_dim}));
  });
}

void AttentionBlock::unfused_core_backward(const Attention& shape, AttentionKept& kept,
                                           const float* output_gradient) {
  Math& math = context_.math;
  const int64_t out_stride = shape.heads * shape.head_dim;
  float* qkv = kept.qkv.data();
  Buffer gradients = context_.workspace(all_scores(shape));
  Buffer result = context_.workspace(context_.tokens() * shape.width());
  math.zero(result.count(), result.data());
  const float* used = (kept.dropped_scores.empty() ? kept.scores : kept.dropped_scores).data();
  const auto add = [&](Gemm g) {
    g.beta = 1;  // queries of a group add up in its keys and values
    math.gemm(g);
  };
  {
    const ScopedSpan span(product_text(context_, "attention_value_dgrad", shape));
    for_each_square(shape, [&](const Square& at) {
      add(inner(shape, used + at.scores, true, output_gradient + at.output, out_stride,
                {result.data() + at.value, shape.width()}));
    });
  }
  {
    const ScopedSpan span(product_text(context_, "attention_scores_dgrad", shape));
    for_each_square(shape, [&](const Square& at) {
      math.gemm(outer(shape, output_gradient + at.output, out_stride, qkv + at.value,
                      gradients.data() + at.scores));
    });
  }
  if (shape.dropout.probability > 0) {
    const ScopedSpan span(op_text(context_, "attention_dropout_backward", 2 * all_scores(shape)));
    for_each_square(shape, [&](const Square& at) {
      float* square = gradients.data() + at.scores;
      math.dropout(shape.length, shape.length, dropout_of(shape, at), square, square);
    });
  }
  {
    const ScopedSpan span(op_text(context_, "softmax_backward", 3 * all_scores(shape)));
    math.softmax_backward(shape.sequences * shape.heads, shape.length, scale_of(shape),
                          kept.scores.data(), gradients.data());
  }
  {
    const ScopedSpan span(product_text(context_, "attention_key_dgrad", shape));
    for_each_square(shape, [&](const Square& at) {
      add(inner(shape, gradients.data() + at.scores, true, qkv + at.query, shape.width(),
                {result.data() + at.key, shape.width()}));
    });
  }
  const ScopedSpan span(product_text(context_, "attention_query_dgrad", shape));
  for_each_square(shape, [&](const Square& at) {
    add(inner(shape, gradients.data() + at.scores, false, qkv + at.key, shape.width(),
              {result.data() + at.query, shape.width()}));
  });
  math.copy(result.count(), result.data(), qkv);
  kept.scores.release();
  kept.dropped_scores.release();
}

namespace {

/// Rows of the whole QKV matrix held here: queries of all heads, then keys, then values, by head.
std::vector<int64_t> qkv_rows(const ModelContext& context) {
  const spec::Model& model = context.model();
  const auto& share = context.share;
  const int64_t rank = context.groups.tensor->index(), d = share.head_dim;
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
  plan.first_column = context.groups.tensor->index() * plan.columns;
  plan.deviation = exit_deviation(model);
  return plan;
}

double core_flops(const Attention& shape, double per_score) {
  return 0.5 * per_score * static_cast<double>(shape.sequences * shape.heads) *
         static_cast<double>(shape.length) * static_cast<double>(shape.length) *
         static_cast<double>(shape.head_dim);
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
      const auto t = static_cast<double>(i);
      const double angle =
          t * std::pow(1e4, -static_cast<double>(j % half) / static_cast<double>(half));
      table.push_back(static_cast<float>(j < half ? std::cos(angle) : std::sin(angle)));
    }
  return table;
}

}  // namespace

AttentionBlock::AttentionBlock(ModelContext& context, int64_t layer,
                               std::vector<Parameter>& parameters)
    : context_(context),
      site_(dropout_site(layer, DropoutPlace::attention_core)),
      norm_(context, "input_norm", layer_name(layer) + "input_norm", parameters),
      qkv_(context, qkv_plan(context, layer), parameters),
      projection_(context, projection_plan(context, layer), parameters),
      table_(rotary_table(context)) {}

Attention AttentionBlock::shape_for(const Tokens& tokens) const {
  const auto& share = context_.share;
  Attention shape{.sequences = share.sequences,
                  .length = context_.share.key_length,
                  .heads = share.heads,
                  .groups = share.query_groups,
                  .head_dim = share.head_dim};
  shape.all_heads = context_.model().num_attention_heads;
  shape.first_head = context_.groups.tensor->index() * share.heads;
  shape.dropout = {.site = site_,
                   .first_row = context_.first_token(tokens) * shape.all_heads,
                   .probability = static_cast<float>(context_.model().dropout)};
  return shape;
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

void AttentionBlock::core(const Tokens& tokens, AttentionKept& kept) {
  const Attention shape = shape_for(tokens);
  if (!context_.job.stack.has_flash_attention()) {
    unfused_core(shape, kept);
    return;
  }
  const ScopedSpan span(core_text(context_, shape));
  context_.math.attention(shape, kept.qkv.data(), kept.output.data(), kept.sums.data());
}

void AttentionBlock::core_backward(const Tokens& tokens, AttentionKept& kept,
                                   const float* output_gradient) {
  const Attention shape = shape_for(tokens);
  if (!context_.job.stack.has_flash_attention()) {
    unfused_core_backward(shape, kept, output_gradient);
    return;
  }
  const ScopedSpan span(core_backward_text(context_, shape));
  context_.math.attention_backward(shape, kept.qkv.data(), kept.output.data(), output_gradient,
                                   kept.sums.data());
}

Buffer AttentionBlock::forward(const Tokens& tokens, Buffer trunk, AttentionKept& kept) {
  const int64_t rows = context_.tokens(), width = context_.share.heads * context_.share.head_dim;
  kept.trunk = std::move(trunk);
  kept.normed = context_.kept(context_.shard_size());
  kept.statistics = context_.kept(2 * context_.shard_tokens());
  kept.qkv = context_.kept(rows * qkv_.out());
  kept.output = context_.kept(rows * width);
  if (context_.job.stack.has_flash_attention())
    kept.sums = context_.kept(rows * context_.share.heads);
  norm_.forward(kept.trunk.data(), kept.normed.data(), kept.statistics.data());
  qkv_.enter(context_, kept.normed.data(), kept.qkv.data());
  qkv_.add_bias(rows, kept.qkv.data());
  turn(kept, false);
  core(tokens, kept);
  if (context_.job.plan.recompute == spec::Recompute::selective) kept.scores.release();
  if (context_.job.plan.recompute == spec::Recompute::selective) kept.dropped_scores.release();
  Buffer next = context_.kept(context_.shard_size());
  projection_.leave(context_, kept.output.data(), next.data());
  const ScopedSpan span(op_text(context_, "attention_residual", 3 * context_.shard_size()));
  context_.add_residual(site_ + 1, tokens, kept.trunk.data(), next.data(), next.data());
  return next;
}

void AttentionBlock::replay_core(const Tokens& tokens, AttentionKept& kept) {
  core(tokens, kept);
}

void AttentionBlock::backward(const Tokens& tokens, Half half, AttentionKept& kept,
                              float* gradient) {
  const int64_t rows = context_.tokens(), width = context_.share.heads * context_.share.head_dim;
  Buffer branch, output_gradient, normed_gradient;
  const float* branch_gradient = gradient;
  if (has_input(half)) {
    if (context_.model().dropout > 0) {
      const ScopedSpan span(op_text(context_, "attention_residual", 2 * context_.shard_size()));
      branch = context_.workspace(context_.shard_size());
      context_.drop(site_ + 1, tokens, gradient, branch.data());
      branch_gradient = branch.data();
    }
    output_gradient = context_.workspace(rows * width);
    normed_gradient = context_.workspace(context_.shard_size());
  }
  projection_.leave_backward(context_, half, kept.output.data(), branch_gradient,
                             output_gradient.data(), kept.projection_gradient);
  if (has_input(half)) {
    core_backward(tokens, kept, output_gradient.data());
    turn(kept, true);
  }
  qkv_.enter_backward(context_, half, kept.normed.data(), kept.qkv.data(), normed_gradient.data());
  if (has_input(half)) {
    norm_.backward(kept.trunk.data(), kept.statistics.data(), normed_gradient.data(), gradient);
    // A weight half that is put off needs none of these.
    for (Buffer* read :
         {&kept.trunk, &kept.statistics, &kept.sums, &kept.scores, &kept.dropped_scores})
      read->release();
  }
  if (has_weight(half)) kept = AttentionKept();
}

}  // namespace triplepoint::trainer
