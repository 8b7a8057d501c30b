// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/mlp_block.h"

#include <utility>

#include "trainer/model/context.h"

namespace triplepoint::trainer {
namespace {

LinearPlan up_plan(const ModelContext& context, const std::string& name, int64_t ffn) {
  const auto& tensor = *context.groups.tensor;
  LinearPlan plan{.names = {"mlp_up", "mlp_up_dgrad", "mlp_up_wgrad"},
                  .name = name + ".up",
                  .rows = up_rows(context.model(), ffn, tensor.index(), tensor.size())};
  plan.whole_rows = gates_of(context.model()) * ffn;
  plan.whole_columns = plan.columns = context.hidden();
  return plan;
}

LinearPlan down_plan(const ModelContext& context, const std::string& name, int64_t ffn) {
  LinearPlan plan{.names = {"mlp_down", "mlp_down_dgrad", "mlp_down_wgrad"},
                  .name = name + ".down",
                  .rows = all_rows(context.hidden())};
  plan.whole_rows = context.hidden();
  plan.whole_columns = ffn;
  plan.columns = ffn / context.groups.tensor->size();
  plan.first_column = context.groups.tensor->index() * plan.columns;
  plan.deviation = exit_deviation(context.model());
  return plan;
}

}  // namespace

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

int64_t gates_of(const spec::Model& model) {
  return model.activation == spec::Activation::swiglu ? 2 : 1;
}

std::vector<int64_t> up_rows(const spec::Model& model, int64_t ffn, int64_t index, int64_t parts) {
  std::vector<int64_t> rows;
  const int64_t width = ffn / parts;
  for (int64_t gate = 0; gate < gates_of(model); ++gate)
    for (int64_t i = 0; i < width; ++i)
      rows.push_back(gate * ffn + index * width + i);
  return rows;
}

MlpCore::MlpCore(ModelContext& context, const std::string& name, int64_t ffn,
                 std::vector<Parameter>& parameters)
    : context_(context),
      width_(ffn / context.groups.tensor->size()),
      up_(context, up_plan(context, name, ffn), parameters),
      down_(context, down_plan(context, name, ffn), parameters) {}

void MlpCore::forward(const float* x, float* y, MlpCoreKept& kept) {
  const int64_t rows = context_.tokens();
  kept.up = context_.kept(rows * up_.out());
  kept.activated = context_.kept(rows * width_);
  up_.enter(context_, x, kept.up.data());
  {
    const ScopedSpan span(op_text(context_, "activation", rows * (up_.out() + width_)));
    context_.math.activation(nonlinearity_of(context_.model()), rows, width_, kept.up.data(),
                             up_.bias(), kept.activated.data());
  }
  down_.leave(context_, kept.activated.data(), y);
}

void MlpCore::backward(Half half, const float* x, const float* dy, float* dx, MlpCoreKept& kept) {
  const int64_t rows = context_.tokens();
  Buffer gradient;
  if (has_input(half)) gradient = context_.workspace(rows * width_);
  down_.leave_backward(context_, half, kept.activated.data(), dy, gradient.data(),
                       kept.down_gradient);
  if (has_input(half)) {
    const ScopedSpan span(op_text(context_, "activation", rows * (2 * up_.out() + width_)));
    context_.math.activation_backward(nonlinearity_of(context_.model()), rows, width_,
                                      kept.up.data(), up_.bias(), gradient.data());
  }
  up_.enter_backward(context_, half, x, kept.up.data(), dx);
  if (has_weight(half)) kept = MlpCoreKept();
}

MlpBlock::MlpBlock(ModelContext& context, int64_t layer, std::vector<Parameter>& parameters)
    : context_(context),
      norm_(context, "mlp_norm", layer_name(layer) + "mlp_norm", parameters),
      core_(context, layer_name(layer) + "mlp", context.model().ffn_hidden_size, parameters) {}

Buffer MlpBlock::forward(Buffer trunk, MlpKept& kept) {
  kept.trunk = std::move(trunk);
  kept.normed = context_.kept(context_.shard_size());
  kept.statistics = context_.kept(2 * context_.shard_tokens());
  norm_.forward(kept.trunk.data(), kept.normed.data(), kept.statistics.data());
  Buffer next = context_.kept(context_.shard_size());
  core_.forward(kept.normed.data(), next.data(), kept.core);
  const ScopedSpan span(op_text(context_, "mlp_residual", 3 * context_.shard_size()));
  context_.math.add(next.count(), kept.trunk.data(), next.data());
  return next;
}

void MlpBlock::backward(Half half, MlpKept& kept, float* gradient) {
  Buffer normed_gradient;
  if (has_input(half)) normed_gradient = context_.workspace(context_.shard_size());
  core_.backward(half, kept.normed.data(), gradient, normed_gradient.data(), kept.core);
  if (has_input(half)) {
    norm_.backward(kept.trunk.data(), kept.statistics.data(), normed_gradient.data(), gradient);
    kept.trunk.release();
    kept.statistics.release();
  }
  if (has_weight(half)) kept = MlpKept();
}

}  // namespace triplepoint::trainer
