// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/experts.h"

#include "trainer/model/layer_names.h"
#include "trainer/model/mlp_block.h"

namespace triplepoint::trainer {
namespace {

LinearPlan up_plan(const ModelContext& context, const std::string& name) {
  const auto& group = *context.groups.expert_tensor;
  const int64_t ffn = context.model().moe->ffn_hidden_size;
  LinearPlan plan{.names = {"expert_up", "expert_up_dgrad", "expert_up_wgrad"},
                  .name = name + ".up",
                  .rows = up_rows(context.model(), ffn, group.index(), group.size())};
  plan.whole_rows = gates_of(context.model()) * ffn;
  plan.whole_columns = plan.columns = context.hidden();
  plan.expert = true;
  return plan;
}

LinearPlan down_plan(const ModelContext& context, const std::string& name) {
  const auto& group = *context.groups.expert_tensor;
  LinearPlan plan{.names = {"expert_down", "expert_down_dgrad", "expert_down_wgrad"},
                  .name = name + ".down",
                  .rows = all_rows(context.hidden())};
  plan.whole_rows = context.hidden();
  plan.whole_columns = context.model().moe->ffn_hidden_size;
  plan.columns = plan.whole_columns / group.size();
  plan.first_column = group.index() * plan.columns;
  plan.deviation = exit_deviation(context.model());
  plan.expert = true;
  return plan;
}

}  // namespace

Experts::Experts(ModelContext& context, int64_t layer, std::vector<Parameter>& parameters)
    : context_(context) {
  const int64_t here = context.model().moe->num_experts / context.groups.expert->size();
  const int64_t first = context.groups.expert->index() * here;
  for (int64_t i = 0; i < here; ++i) {
    const std::string name = layer_name(layer) + "experts." + std::to_string(first + i);
    up_.emplace_back(context, up_plan(context, name), parameters);
    down_.emplace_back(context, down_plan(context, name), parameters);
  }
}

void Experts::forward(ExpertsKept& kept, float* y) {
  const int64_t hidden = context_.hidden(), rows = kept.here.sorted();
  const int64_t up_width = up_.front().out();
  kept.up = context_.kept(rows * up_width);
  kept.activated = context_.kept(rows * width());
  int64_t row = 0;
  for (size_t e = 0; e < up_.size(); row += kept.here.rows_of[e], ++e) {
    const int64_t count = kept.here.rows_of[e];
    float* up = kept.up.data() + row * up_width;
    float* activated = kept.activated.data() + row * width();
    up_[e].forward(count, kept.input.data() + row * hidden, up);
    {
      const ScopedSpan span(op_text(context_, "activation", count * (up_width + width())));
      context_.math.activation(nonlinearity_of(context_.model()), count, width(), up, up_[e].bias(),
                               activated);
    }
    down_[e].forward(count, activated, y + row * hidden);
    down_[e].add_bias(count, y + row * hidden);
  }
  if (!context_.frozen()) return;
  kept.input.release();
  kept.activated.release();
}

void Experts::backward(Half half, ExpertsKept& kept, float* dx) {
  const int64_t hidden = context_.hidden(), up_width = up_.front().out();
  LinearKept none;
  Buffer gradient;
  if (has_input(half)) gradient = context_.workspace(kept.here.sorted() * width());
  int64_t row = 0;
  for (size_t e = 0; e < up_.size(); row += kept.here.rows_of[e], ++e) {
    const int64_t count = kept.here.rows_of[e];
    const float* dy = kept.output_gradient.data() + row * hidden;
    float* up = kept.up.data() + row * up_width;
    if (has_input(half)) {
      float* slope = gradient.data() + row * width();
      down_[e].backward_input(count, dy, slope, none);
      const ScopedSpan span(op_text(context_, "activation", count * (2 * up_width + width())));
      context_.math.activation_backward(nonlinearity_of(context_.model()), count, width(), up,
                                        up_[e].bias(), slope);
    }
    if (has_input(half)) up_[e].backward_input(count, up, dx + row * hidden, none);
    if (!has_weight(half) || context_.frozen()) continue;
    down_[e].backward_weight(count, kept.activated.data() + row * width(), dy, none);
    up_[e].backward_weight(count, kept.input.data() + row * hidden, up, none);
  }
}

}  // namespace triplepoint::trainer
