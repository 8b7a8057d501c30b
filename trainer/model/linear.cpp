// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/linear.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace triplepoint::trainer {
namespace {

double flops_of(int64_t m, int64_t n, int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

SpanText gemm_text(const ModelContext& context, const char* name, const Gemm& g) {
  return op_text(context, name, g.m * g.k + g.k * g.n + g.m * g.n, flops_of(g.m, g.n, g.k));
}

ParameterRef put(std::vector<Parameter>& parameters, Parameter parameter) {
  parameters.push_back(std::move(parameter));
  return {parameters, parameters.size() - 1};
}

Parameter vector_part(const std::string& name, const std::vector<int64_t>& places, int64_t whole) {
  // A vector is one row of the whole; what is held of it may lie in runs, so it stands as a column.
  Parameter part;
  part.name = name;
  part.whole_rows = whole;
  part.whole_columns = 1;
  part.rows = places;
  part.columns = 1;
  part.decays = false;
  return part;
}

std::vector<int64_t> numbers(Block block) {
  std::vector<int64_t> all(static_cast<size_t>(block.count));
  std::iota(all.begin(), all.end(), block.first);
  return all;
}

}  // namespace

bool is_lora_target(const spec::Plan& plan, const char* target) {
  if (!plan.lora || std::string_view(target).empty()) return false;
  const auto& targets = plan.lora->targets;
  return std::find(targets.begin(), targets.end(), target) != targets.end();
}

Linear::Linear(ModelContext& context, const LinearPlan& plan, std::vector<Parameter>& parameters)
    : context_(context), names_(plan.names), cut_by_rows_(plan.columns == plan.whole_columns) {
  if (plan.shared) {
    weight_ = plan.shared;
    return;
  }
  Parameter weight;
  weight.name = plan.name + ".weight";
  weight.whole_rows = plan.whole_rows;
  weight.whole_columns = plan.whole_columns;
  weight.rows = plan.rows;
  weight.first_column = plan.first_column;
  weight.columns = plan.columns;
  weight.initial.standard_deviation = plan.deviation;
  weight.trained = !context.frozen();
  weight.on_every_tensor_rank = plan.replicated;
  weight.tied = plan.tied;
  weight_ = put(parameters, std::move(weight));
  if (context.model().biases && plan.has_bias) {
    // Cut by columns: block i of the outputs belongs to rank i.
    const int64_t parts = cut_by_rows_ ? 1 : plan.whole_columns / plan.columns;
    const int64_t part = cut_by_rows_ ? 0 : plan.first_column / plan.columns;
    bias_block_ = block_of(out(), part, parts);
    Parameter bias = vector_part(plan.name + ".bias",
                                 cut_by_rows_ ? plan.rows : numbers(bias_block_), plan.whole_rows);
    bias.trained = !context.frozen();
    bias_ = put(parameters, std::move(bias));
  }
  if (!plan.expert && is_lora_target(context.job.plan, plan.lora_target))
    make_adapter(plan, parameters);
}

/// Both matrices are cut over the tensor group, the first by columns, the second by rows, so that
/// each rank has the share of them that it has of the base; [tokens, rank] are summed between.
void Linear::make_adapter(const LinearPlan& plan, std::vector<Parameter>& parameters) {
  const int64_t rank = context_.job.plan.lora->rank;
  const int64_t size = context_.groups.tensor->size(), index = context_.groups.tensor->index();
  down_block_ = cut_by_rows_ ? block_of(plan.columns, index, size) : Block{0, plan.columns};
  up_block_ = cut_by_rows_ ? Block{0, out()} : block_of(out(), index, size);
  Parameter down;
  down.name = plan.name + ".lora_down";
  down.whole_rows = rank;
  down.whole_columns = plan.whole_columns;
  down.rows = numbers({0, rank});
  down.first_column = plan.first_column + down_block_.first;
  down.columns = down_block_.count;
  down.initial.standard_deviation = 0.02;
  down_ = put(parameters, std::move(down));
  Parameter up;
  up.name = plan.name + ".lora_up";
  up.whole_rows = plan.whole_rows;
  up.whole_columns = rank;
  up.rows = cut_by_rows_ ? plan.rows : numbers(up_block_);
  up.columns = rank;
  up_ = put(parameters, std::move(up));
}

void Linear::multiply(int64_t rows, const float* x, float* y) const {
  context_.math.gemm({.m = rows,
                      .n = out(),
                      .k = in(),
                      .a = x,
                      .a_stride = in(),
                      .b = weight_.value(),
                      .b_stride = in(),
                      .b_transposed = true,
                      .c = y,
                      .c_stride = out()});
}

void Linear::forward(int64_t rows, const float* x, float* y) const {
  const ScopedSpan span(op_text(context_, names_.forward, rows * in() + in() * out() + rows * out(),
                                flops_of(rows, out(), in())));
  multiply(rows, x, y);
}

void Linear::add_bias(int64_t rows, float* y) const {
  if (!bias_) return;
  const ScopedSpan span(op_text(context_, "bias", 2 * rows * bias_block_.count));
  context_.math.add_bias(rows, bias_block_.count, out(), bias_.value(), y + bias_block_.first);
}

void Linear::add_adapter(int64_t rows, const float* x, float* y, LinearKept& kept) const {
  if (!down_) return;
  const int64_t rank = down_->whole_rows;
  kept.low = context_.kept(rows * rank);
  const Gemm down{.m = rows,
                  .n = rank,
                  .k = down_block_.count,
                  .a = x + down_block_.first,
                  .a_stride = in(),
                  .b = down_.value(),
                  .b_stride = down_block_.count,
                  .b_transposed = true,
                  .c = kept.low.data(),
                  .c_stride = rank};
  {
    const ScopedSpan span(gemm_text(context_, "lora_down", down));
    context_.math.gemm(down);
  }
  if (context_.groups.tensor->size() > 1)
    context_.groups.tensor
        ->all_reduce({kept.low.data(), static_cast<size_t>(rows * rank)}, Reduction::sum,
                     context_.wire)
        .wait();
  if (cut_by_rows_ && context_.share.sequence_parallel) {
    // The gathered input is gone by the time of the weight gradient; its shard would be as large.
    kept.columns = context_.kept(rows * down_block_.count);
    context_.math.copy_matrix(rows, down_block_.count, x + down_block_.first, in(),
                              kept.columns.data(), down_block_.count);
  }
  const Gemm up{.m = rows,
                .n = up_block_.count,
                .k = rank,
                .a = kept.low.data(),
                .a_stride = rank,
                .b = up_.value(),
                .b_stride = rank,
                .b_transposed = true,
                .c = y + up_block_.first,
                .c_stride = out(),
                .beta = 1};
  const ScopedSpan span(gemm_text(context_, "lora_up", up));
  context_.math.gemm(up);
}

void Linear::backward_input(int64_t rows, const float* dy, float* dx, LinearKept& kept) const {
  const Gemm base{.m = rows,
                  .n = in(),
                  .k = out(),
                  .a = dy,
                  .a_stride = out(),
                  .b = weight_.value(),
                  .b_stride = in(),
                  .c = dx,
                  .c_stride = in()};
  {
    const ScopedSpan span(gemm_text(context_, names_.input_gradient, base));
    context_.math.gemm(base);
  }
  if (!down_) return;
  const int64_t rank = down_->whole_rows;
  kept.low_gradient = context_.kept(rows * rank);
  const Gemm up{.m = rows,
                .n = rank,
                .k = up_block_.count,
                .a = dy + up_block_.first,
                .a_stride = out(),
                .b = up_.value(),
                .b_stride = rank,
                .c = kept.low_gradient.data(),
                .c_stride = rank};
  {
    const ScopedSpan span(gemm_text(context_, "lora_up_dgrad", up));
    context_.math.gemm(up);
  }
  if (context_.groups.tensor->size() > 1)
    context_.groups.tensor
        ->all_reduce({kept.low_gradient.data(), static_cast<size_t>(rows * rank)}, Reduction::sum,
                     context_.wire)
        .wait();
  const Gemm down{.m = rows,
                  .n = down_block_.count,
                  .k = rank,
                  .a = kept.low_gradient.data(),
                  .a_stride = rank,
                  .b = down_.value(),
                  .b_stride = down_block_.count,
                  .c = dx + down_block_.first,
                  .c_stride = in(),
                  .beta = 1};
  const ScopedSpan span(gemm_text(context_, "lora_down_dgrad", down));
  context_.math.gemm(down);
}

void Linear::backward_base(int64_t rows, const float* x, const float* dy) const {
  const Gemm base{.m = out(),
                  .n = in(),
                  .k = rows,
                  .a = dy,
                  .a_stride = out(),
                  .a_transposed = true,
                  .b = x,
                  .b_stride = in(),
                  .c = weight_.gradient(),
                  .c_stride = in(),
                  .beta = 1};
  {
    const ScopedSpan span(gemm_text(context_, names_.weight_gradient, base));
    context_.math.gemm(base);
  }
  if (!bias_) return;
  const ScopedSpan span(op_text(context_, "bias_gradient", rows * bias_block_.count));
  context_.math.add_column_sums(rows, bias_block_.count, out(), dy + bias_block_.first,
                                bias_.gradient());
}

void Linear::backward_weight(int64_t rows, const float* x, const float* dy,
                             LinearKept& kept) const {
  if (rows == 0) return;
  if (weight_->trained) backward_base(rows, x, dy);
  if (!down_) return;
  const int64_t rank = down_->whole_rows;
  const bool apart = !kept.columns.empty();
  const Gemm down{.m = rank,
                  .n = down_block_.count,
                  .k = rows,
                  .a = kept.low_gradient.data(),
                  .a_stride = rank,
                  .a_transposed = true,
                  .b = apart ? kept.columns.data() : x + down_block_.first,
                  .b_stride = apart ? down_block_.count : in(),
                  .c = down_.gradient(),
                  .c_stride = down_block_.count,
                  .beta = 1};
  {
    const ScopedSpan span(gemm_text(context_, "lora_down_wgrad", down));
    context_.math.gemm(down);
  }
  const Gemm up{.m = up_block_.count,
                .n = rank,
                .k = rows,
                .a = dy + up_block_.first,
                .a_stride = out(),
                .a_transposed = true,
                .b = kept.low.data(),
                .b_stride = rank,
                .c = up_.gradient(),
                .c_stride = rank,
                .beta = 1};
  const ScopedSpan span(gemm_text(context_, "lora_up_wgrad", up));
  context_.math.gemm(up);
}

}  // namespace triplepoint::trainer
