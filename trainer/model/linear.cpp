// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/linear.h"

#include <numeric>

namespace triplepoint::trainer {
namespace {

double flops_of(int64_t m, int64_t n, int64_t k) {
  return 2.0 * as_real(m) * as_real(n) * as_real(k);
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
  std::vector<int64_t> all(as_size(block.count));
  std::iota(all.begin(), all.end(), block.first);
  return all;
}

}  // namespace

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
  weight.tied = plan.tied;
  weight_ = put(parameters, std::move(weight));
  if (context.model().biases && plan.has_bias) {
    // Cut by columns: block i of the outputs belongs to rank i.
    const int64_t parts = cut_by_rows_ ? 1 : plan.whole_columns / plan.columns;
    const int64_t part = cut_by_rows_ ? 0 : plan.first_column / plan.columns;
    bias_block_ = block_of(out(), part, parts);
    Parameter bias = vector_part(plan.name + ".bias",
                                 cut_by_rows_ ? plan.rows : numbers(bias_block_), plan.whole_rows);
    bias_ = put(parameters, std::move(bias));
  }
}

void Linear::forward(int64_t rows, const float* x, float* y) const {
  const ScopedSpan span(op_text(context_, names_.forward, rows * in() + in() * out() + rows * out(),
                                flops_of(rows, out(), in())));
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

void Linear::add_bias(int64_t rows, float* y) const {
  if (!bias_) return;
  const ScopedSpan span(op_text(context_, "bias", 2 * rows * bias_block_.count));
  context_.math.add_bias(rows, bias_block_.count, out(), bias_.value(), y + bias_block_.first);
}

void Linear::backward_input(int64_t rows, const float* dy, float* dx) const {
  const ScopedSpan span(op_text(context_, names_.input_gradient,
                                rows * out() + out() * in() + rows * in(),
                                flops_of(rows, in(), out())));
  context_.math.gemm({.m = rows,
                      .n = in(),
                      .k = out(),
                      .a = dy,
                      .a_stride = out(),
                      .b = weight_.value(),
                      .b_stride = in(),
                      .c = dx,
                      .c_stride = in()});
}

void Linear::backward_weight(int64_t rows, const float* x, const float* dy) const {
  {
    const ScopedSpan span(op_text(context_, names_.weight_gradient,
                                  out() * rows + rows * in() + out() * in(),
                                  flops_of(out(), in(), rows)));
    context_.math.gemm({.m = out(),
                        .n = in(),
                        .k = rows,
                        .a = dy,
                        .a_stride = out(),
                        .a_transposed = true,
                        .b = x,
                        .b_stride = in(),
                        .c = weight_.gradient(),
                        .c_stride = in(),
                        .beta = 1});
  }
  if (!bias_) return;
  const ScopedSpan span(op_text(context_, "bias_gradient", rows * bias_block_.count));
  context_.math.add_column_sums(rows, bias_block_.count, out(), dy + bias_block_.first,
                                bias_.gradient());
}

}  // namespace triplepoint::trainer
