// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trainer/model/context.h"
#include "trainer/model/mlp_block.h"

namespace triplepoint::trainer {

std::vector<int64_t> expert_places(const spec::MixtureOfExperts& moe, int64_t tokens) {
  if (!moe.capacity_factor) return {};
  const auto total = static_cast<int64_t>(
      std::ceil(static_cast<double>(tokens * moe.router_topk) * *moe.capacity_factor));
  std::vector<int64_t> places;
  for (int64_t e = 0; e < moe.num_experts; ++e)
    places.push_back(total * (e + 1) / moe.num_experts - total * e / moe.num_experts);
  return places;
}

void plan_dispatch(const spec::MixtureOfExperts& moe, int64_t tokens, const int32_t* chosen,
                   Dispatch& dispatch) {
  const auto experts = static_cast<size_t>(moe.num_experts);
  const std::vector<int64_t> places = expert_places(moe, tokens);
  dispatch.rows_of.assign(experts, 0);
  dispatch.place.assign(static_cast<size_t>(tokens * moe.router_topk), -1);
  // First each copy's place among its expert's, then where the expert's rows begin.
  for (size_t i = 0; i < dispatch.place.size(); ++i) {
    const auto expert = static_cast<size_t>(chosen[i]);
    if (!places.empty() && dispatch.rows_of[expert] >= places[expert]) continue;
    dispatch.place[i] = static_cast<int32_t>(dispatch.rows_of[expert]++);
  }
  if (moe.pad_to_capacity && !places.empty()) dispatch.rows_of = places;
  std::vector<int64_t> first(experts, 0);
  std::exclusive_scan(dispatch.rows_of.begin(), dispatch.rows_of.end(), first.begin(), int64_t{0});
  dispatch.row_of.assign(static_cast<size_t>(first.back() + dispatch.rows_of.back()), -1);
  for (size_t i = 0; i < dispatch.place.size(); ++i) {
    if (dispatch.place[i] < 0) continue;
    dispatch.place[i] += static_cast<int32_t>(first[static_cast<size_t>(chosen[i])]);
    dispatch.row_of[static_cast<size_t>(dispatch.place[i])] =
        static_cast<int32_t>(static_cast<int64_t>(i) / moe.router_topk);
  }
}

void sort_by_expert(const std::vector<int64_t>& counts, const std::vector<int64_t>& first_row,
                    int64_t total, ExpertRowsHere& here) {
  const size_t sources = first_row.size(), experts = counts.size() / sources;
  here.rows_of.assign(experts, 0);
  here.received_row.clear();
  here.sorted_row.assign(static_cast<size_t>(total), -1);
  for (size_t expert = 0; expert < experts; ++expert)
    for (size_t source = 0; source < sources; ++source) {
      const int64_t* of_source = counts.data() + source * experts;
      const int64_t first = std::accumulate(of_source, of_source + expert, first_row[source]);
      for (int64_t i = 0; i < of_source[expert]; ++i) {
        here.sorted_row[static_cast<size_t>(first + i)] =
            static_cast<int32_t>(here.received_row.size());
        here.received_row.push_back(static_cast<int32_t>(first + i));
      }
      here.rows_of[expert] += of_source[expert];
    }
  here.in_order =
      here.sorted() == total && std::is_sorted(here.received_row.begin(), here.received_row.end());
}

namespace {

LinearPlan up_plan(const ModelContext& context, const std::string& name) {
  const auto& group = *context.groups.expert_tensor;
  const int64_t ffn = context.model().moe->ffn_hidden_size;
  LinearPlan plan{.names = {"expert_up", "expert_up_dgrad", "expert_up_wgrad"},
                  .name = name + ".up",
                  .rows = up_rows(context.model(), ffn, group.index(), group.size())};
  plan.whole_rows = gates_of(context.model()) * ffn;
  plan.whole_columns = plan.columns = context.hidden();
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
}

void Experts::backward(Half half, ExpertsKept& kept, float* dx) {
  const int64_t hidden = context_.hidden(), up_width = up_.front().out();
  Buffer gradient;
  if (has_input(half)) gradient = context_.workspace(kept.here.sorted() * width());
  int64_t row = 0;
  for (size_t e = 0; e < up_.size(); row += kept.here.rows_of[e], ++e) {
    const int64_t count = kept.here.rows_of[e];
    const float* dy = kept.output_gradient.data() + row * hidden;
    float* up = kept.up.data() + row * up_width;
    if (has_input(half)) {
      float* slope = gradient.data() + row * width();
      down_[e].backward_input(count, dy, slope);
      const ScopedSpan span(op_text(context_, "activation", count * (2 * up_width + width())));
      context_.math.activation_backward(nonlinearity_of(context_.model()), count, width(), up,
                                        up_[e].bias(), slope);
    }
    if (has_input(half)) up_[e].backward_input(count, up, dx + row * hidden);
    if (!has_weight(half)) continue;
    down_[e].backward_weight(count, kept.activated.data() + row * width(), dy);
    up_[e].backward_weight(count, kept.input.data() + row * hidden, up);
  }
}

}  // namespace triplepoint::trainer
