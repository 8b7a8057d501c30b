// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/normalization.h"

namespace triplepoint::trainer {
namespace {

ParameterRef put_vector(const ModelContext& context, const std::string& name, double mean,
                        std::vector<Parameter>& parameters) {
  Parameter part;
  part.name = name;
  part.whole_columns = context.hidden();
  part.rows = {0};
  part.columns = context.hidden();
  part.initial.mean = mean;
  part.decays = false;
  part.on_every_tensor_rank = true;
  parameters.push_back(std::move(part));
  return {parameters, parameters.size() - 1};
}

}  // namespace

Normalization::Normalization(ModelContext& context, const char* op_name, const std::string& name,
                             std::vector<Parameter>& parameters)
    : context_(context), op_name_(op_name) {
  gain_ = put_vector(context, name + ".weight", 1, parameters);
  if (context.model().normalization == spec::Normalization::layer_norm)
    bias_ = put_vector(context, name + ".bias", 0, parameters);
}

void Normalization::forward(const float* x, float* y, float* statistics) const {
  const ScopedSpan span(op_text(context_, op_name_, 2 * context_.shard_size()));
  context_.math.norm(context_.norm_of(context_.shard_tokens()), x, gain_.value(), bias_.value(), y,
                     statistics);
}

void Normalization::backward(const float* x, const float* statistics, const float* dy,
                             float* dx) const {
  const ScopedSpan span(op_text(context_, op_name_, 4 * context_.shard_size()));
  context_.math.norm_backward(context_.norm_of(context_.shard_tokens()), x, gain_.value(),
                              statistics, dy, dx, gain_.gradient(), bias_.gradient());
}

}  // namespace triplepoint::trainer
