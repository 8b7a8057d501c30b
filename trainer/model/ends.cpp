// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/ends.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/model/layer_names.h"

namespace triplepoint::trainer {
namespace {

constexpr const char* words_name = "embedding";

bool ties_stages(const ModelContext& context) {
  return context.model().tied_embeddings && context.job.plan.pipeline_parallel_size > 1;
}

/// Words held by this tensor rank.
std::vector<int64_t> word_rows(const ModelContext& context) {
  std::vector<int64_t> rows = all_rows(context.share.vocabulary);
  for (int64_t& row : rows)
    row += context.groups.tensor->index() * context.share.vocabulary;
  return rows;
}

LinearPlan word_plan(const ModelContext& context, ParameterRef tied) {
  LinearPlan plan{.names = {"lm_head", "lm_head_dgrad", "lm_head_wgrad"},
                  .name = context.model().tied_embeddings ? words_name : "head",
                  .rows = word_rows(context)};
  plan.whole_rows = context.share.vocabulary * context.groups.tensor->size();
  plan.whole_columns = plan.columns = context.hidden();
  plan.has_bias = false;
  plan.tied = ties_stages(context);
  plan.shared = tied;
  return plan;
}

Parameter word_table(const ModelContext& context) {
  Parameter words;
  words.name = std::string(words_name) + ".weight";
  words.whole_rows = context.share.vocabulary * context.groups.tensor->size();
  words.whole_columns = words.columns = context.hidden();
  words.rows = word_rows(context);
  words.initial.standard_deviation = 0.02;
  words.trained = !context.frozen();
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
  positions.trained = !context.frozen();
  positions.on_every_tensor_rank = true;
  return positions;
}

}  // namespace

EmbeddingBlock::EmbeddingBlock(ModelContext& context, std::vector<Parameter>& parameters)
    : context_(context) {
  parameters.push_back(word_table(context));
  words_ = {parameters, parameters.size() - 1};
  if (context.model().position_embedding != spec::PositionEmbedding::learned) return;
  parameters.push_back(position_table(context));
  positions_ = {parameters, parameters.size() - 1};
}

/// Position of the shard's first token in its sequence.
int64_t EmbeddingBlock::first_position() const {
  if (!context_.share.sequence_parallel) return 0;
  return context_.groups.tensor->index() * context_.shard_tokens() % context_.share.key_length;
}

/// Calls body(first row of the shard, first position, rows) for runs within one sequence.
template <class Body>
static void for_each_run(int64_t rows, int64_t first, int64_t length, const Body& body) {
  for (int64_t row = 0, position = first; row < rows; position = 0) {
    const int64_t count = std::min(rows - row, length - position);
    body(row, position, count);
    row += count;
  }
}

void EmbeddingBlock::add_positions(const Tokens& tokens, float* trunk) {
  const bool drops = context_.model().dropout > 0;
  if (!positions_ && !drops) return;
  const int64_t width = context_.hidden();
  const ScopedSpan span(op_text(context_, "position_embedding", 2 * context_.shard_size()));
  if (positions_)
    for_each_run(context_.shard_tokens(), first_position(), context_.share.key_length,
                 [&](int64_t row, int64_t position, int64_t count) {
                   context_.math.add(count * width, positions_.value() + position * width,
                                     trunk + row * width);
                 });
  if (drops)
    context_.math.dropout(context_.shard_tokens(), width,
                          context_.dropout_at(embedding_dropout_site, tokens), trunk, trunk);
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
                         context_.groups.tensor->index() * context_.share.vocabulary,
                         context_.share.vocabulary, words_.value(), found);
  }
  sum_tokens(context_, found, trunk.data()).wait();
  add_positions(tokens, trunk.data());
  return trunk;
}

void EmbeddingBlock::add_position_gradient(const float* gradient) {
  if (!positions_ || !positions_->trained) return;
  const int64_t width = context_.hidden();
  for_each_run(context_.shard_tokens(), first_position(), context_.share.key_length,
               [&](int64_t row, int64_t position, int64_t count) {
                 // Sums of gradients are never rounded: add_column_sums takes them as one row.
                 context_.math.add_column_sums(1, count * width, count * width,
                                               gradient + row * width,
                                               positions_.gradient() + position * width);
               });
}

void EmbeddingBlock::backward(const Tokens& tokens, Half half, float* gradient,
                              Buffer& kept_gradient) {
  const int64_t rows = context_.tokens(), width = context_.hidden();
  if (has_input(half)) {
    if (context_.model().dropout > 0) {
      const ScopedSpan span(op_text(context_, "dropout_backward", 2 * context_.shard_size()));
      context_.math.dropout(context_.shard_tokens(), width,
                            context_.dropout_at(embedding_dropout_site, tokens), gradient,
                            gradient);
    }
    add_position_gradient(gradient);
    kept_gradient =
        half == Half::both ? context_.workspace(rows * width) : context_.kept(rows * width);
    if (context_.share.sequence_parallel)
      gather_tokens(context_, gradient, kept_gradient.data()).wait();
    else
      context_.math.copy(rows * width, gradient, kept_gradient.data());
  }
  if (!has_weight(half)) return;
  if (words_->trained) {
    const ScopedSpan span(op_text(context_, "embedding_wgrad", 3 * rows * width));
    context_.math.add_lookup_gradient(rows, width, tokens.inputs.data(),
                                      context_.groups.tensor->index() * context_.share.vocabulary,
                                      context_.share.vocabulary, kept_gradient.data(),
                                      words_.gradient());
  }
  kept_gradient.release();
}

HeadBlock::HeadBlock(ModelContext& context, ParameterRef tied, std::vector<Parameter>& parameters)
    : context_(context),
      norm_(context, "final_norm", "final_norm", parameters),
      words_(context, word_plan(context, tied), parameters) {}

LogitShape HeadBlock::logit_shape() const {
  const int64_t width = context_.share.vocabulary;
  const int64_t first = context_.groups.tensor->index() * width;
  const int64_t valid = std::clamp<int64_t>(context_.model().vocabulary_size - first, 0, width);
  return {.rows = context_.tokens(), .width = width, .valid = valid, .first = first};
}

void HeadBlock::loss(const Tokens& tokens, HeadKept& kept) {
  const auto rows = static_cast<size_t>(context_.tokens());
  const LogitShape shape = logit_shape();
  Communicator& tensor = *context_.groups.tensor;
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
  context_.math.add_losses(shape.rows, sum, target);
}

void HeadBlock::forward(const Tokens& tokens, Buffer trunk, HeadKept& kept) {
  const int64_t rows = context_.tokens();
  kept.trunk = std::move(trunk);
  kept.normed = context_.kept(context_.shard_size());
  kept.statistics = context_.exact(2 * context_.shard_tokens());
  kept.logits =
      Buffer(context_.pool, rows * context_.share.vocabulary, MemoryTerm::logits, Storage::exact);
  kept.maximum = context_.exact(rows);
  kept.sum = context_.exact(2 * rows);
  norm_.forward(kept.trunk.data(), kept.normed.data(), kept.statistics.data());
  words_.enter(context_, kept.normed.data(), kept.logits.data(), kept.linear);
  if (!words_.reads_input_again()) kept.normed.release();
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
                        normed_gradient.data(), kept.linear);
  if (has_input(half)) {
    context_.math.zero(context_.shard_size(), gradient);
    norm_.backward(kept.trunk.data(), kept.statistics.data(), normed_gradient.data(), gradient);
    kept.trunk.release();
    kept.statistics.release();
  }
  if (has_weight(half)) kept = HeadKept();
}

}  // namespace triplepoint::trainer
