// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/mlp_block.h"

#include <utility>

#include "trainer/model/context.h"

namespace triplepoint::trainer {
namespace {

Nonlinearity nonlinearity_of(const spec::Model& model) {
  switch (model.activation) {
    case spec::Activation::swiglu:
      return Nonlinearity::swiglu;
    case spec::Activation::squared_relu:
      return Nonlinearity::squared_relu;
    case spec::Activation::gelu:
      break;
  }
  return Nonlinearity::gelu;
}

/// Hidden units of one rank.
int64_t width_of(const ModelContext& context) {
  return context.model().ffn_hidden_size / context.tensor.size();
}

/// Rows of the whole up matrix that are held here: of the gate, then of the up product.
LinearPlan up_plan(const ModelContext& context, int64_t layer) {
  const int64_t ffn = context.model().ffn_hidden_size, width = width_of(context);
  const int64_t gates = context.model().activation == spec::Activation::swiglu ? 2 : 1;
  LinearPlan plan{.names = {"mlp_up", "mlp_up_dgrad", "mlp_up_wgrad"},
                  .name = layer_name(layer) + "mlp.up"};
  for (int64_t gate = 0; gate < gates; ++gate)
    for (int64_t i = 0; i < width; ++i)
      plan.rows.push_back(gate * ffn + context.tensor.index() * width + i);
  plan.whole_rows = gates * ffn;
  plan.whole_columns = plan.columns = context.hidden();
  return plan;
}

LinearPlan down_plan(const ModelContext& context, int64_t layer) {
  LinearPlan plan{.names = {"mlp_down", "mlp_down_dgrad", "mlp_down_wgrad"},
                  .name = layer_name(layer) + "mlp.down",
                  .rows = all_rows(context.hidden())};
  plan.whole_rows = context.hidden();
  plan.whole_columns = context.model().ffn_hidden_size;
  plan.columns = width_of(context);
  plan.first_column = context.tensor.index() * plan.columns;
  plan.deviation = exit_deviation(context.model());
  return plan;
}

}  // namespace

MlpBlock::MlpBlock(ModelContext& context, int64_t layer, std::vector<Parameter>& parameters)
    : context_(context),
      norm_(context, "mlp_norm", layer_name(layer) + "mlp_norm", parameters),
      width_(width_of(context)),
      up_(context, up_plan(context, layer), parameters),
      down_(context, down_plan(context, layer), parameters) {}

Buffer MlpBlock::forward(Buffer trunk, MlpKept& kept) {
  const int64_t rows = context_.tokens();
  kept.trunk = std::move(trunk);
  kept.normed = context_.kept(context_.shard_size());
  kept.statistics = context_.kept(2 * context_.shard_tokens());
  norm_.forward(kept.trunk.data(), kept.normed.data(), kept.statistics.data());
  Buffer next = context_.kept(context_.shard_size());
  kept.up = context_.kept(rows * up_.out());
  kept.activated = context_.kept(rows * width_);
  up_.enter(context_, kept.normed.data(), kept.up.data());
  {
    const ScopedSpan span(op_text(context_, "activation", rows * (up_.out() + width_)));
    context_.math.activation(nonlinearity_of(context_.model()), rows, width_, kept.up.data(),
                             up_.bias(), kept.activated.data());
  }
  down_.leave(context_, kept.activated.data(), next.data());
  const ScopedSpan span(op_text(context_, "mlp_residual", 3 * context_.shard_size()));
  context_.math.add(next.count(), kept.trunk.data(), next.data());
  return next;
}

void MlpBlock::backward(Half half, MlpKept& kept, float* gradient) {
  const int64_t rows = context_.tokens();
  Buffer normed_gradient, activated_gradient;
  if (has_input(half)) {
    normed_gradient = context_.workspace(context_.shard_size());
    activated_gradient = context_.workspace(rows * width_);
  }
  down_.leave_backward(context_, half, kept.activated.data(), gradient, activated_gradient.data(),
                       kept.down_gradient);
  if (has_input(half)) {
    const ScopedSpan span(op_text(context_, "activation", rows * (2 * up_.out() + width_)));
    context_.math.activation_backward(nonlinearity_of(context_.model()), rows, width_,
                                      kept.up.data(), up_.bias(), activated_gradient.data());
  }
  up_.enter_backward(context_, half, kept.normed.data(), kept.up.data(), normed_gradient.data());
  if (has_input(half)) {
    norm_.backward(kept.trunk.data(), kept.statistics.data(), normed_gradient.data(), gradient);
    kept.trunk.release();
    kept.statistics.release();
  }
  if (has_weight(half)) kept = MlpKept();
}

}  // namespace triplepoint::trainer
