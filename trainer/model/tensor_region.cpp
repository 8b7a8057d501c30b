// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/tensor_region.h"

namespace triplepoint::trainer {
namespace {

std::span<const float> shard_span(const ModelContext& context, const float* shard) {
  return {shard, as_size(context.shard_size())};
}

std::span<float> whole_span(const ModelContext& context, float* whole) {
  return {whole, as_size(context.tokens() * context.hidden())};
}

}  // namespace

Pending gather_tokens(ModelContext& context, const float* shard, float* whole) {
  return context.tensor.all_gather(shard_span(context, shard), whole_span(context, whole));
}

Pending sum_tokens(ModelContext& context, float* whole, float* shard) {
  if (context.tensor.size() == 1) return {};
  if (!context.share.sequence_parallel)
    return context.tensor.all_reduce(whole_span(context, whole));
  return context.tensor.reduce_scatter(whole_span(context, whole),
                                       {shard, as_size(context.shard_size())});
}

void EntranceLinear::enter(ModelContext& context, const float* x, float* y) const {
  if (!context.share.sequence_parallel) return forward(context.tokens(), x, y);
  Buffer whole = context.buffer(context.tokens() * context.hidden());
  gather_tokens(context, x, whole.data()).wait();
  forward(context.tokens(), whole.data(), y);
}

void EntranceLinear::enter_backward(ModelContext& context, Half half, const float* x,
                                    const float* dy, float* dx) const {
  const bool sharded = context.share.sequence_parallel;
  const int64_t whole_size = context.tokens() * context.hidden();
  Buffer gathered, whole_gradient;
  Pending gathering, summing;
  if (has_weight(half) && sharded) {
    gathered = context.buffer(whole_size);
    gathering = gather_tokens(context, x, gathered.data());
  }
  if (has_input(half)) {
    if (sharded) whole_gradient = context.workspace(whole_size);
    float* target = sharded ? whole_gradient.data() : dx;
    backward_input(context.tokens(), dy, target);
    summing = sum_tokens(context, target, dx);
  }
  if (has_weight(half)) {
    gathering.wait();
    backward_weight(context.tokens(), gathered.empty() ? x : gathered.data(), dy);
  }
  summing.wait();
}

void ExitLinear::leave(ModelContext& context, const float* x, float* y) const {
  Buffer whole;
  if (context.share.sequence_parallel)
    whole = context.workspace(context.tokens() * context.hidden());
  float* sums = whole.empty() ? y : whole.data();
  forward(context.tokens(), x, sums);
  add_bias(context.tokens(), sums);
  sum_tokens(context, sums, y).wait();
}

void ExitLinear::leave_backward_input(ModelContext& context, Half half, const float* dy, float* dx,
                                      Buffer& kept) const {
  const int64_t whole_size = context.tokens() * context.hidden();
  if (!context.share.sequence_parallel) {
    if (half == Half::input) {  // the trunk's gradient goes on changing
      kept = context.kept(whole_size);
      context.math.copy(whole_size, dy, kept.data());
    }
    backward_input(context.tokens(), dy, dx);
    return;
  }
  kept = half == Half::both ? context.workspace(whole_size) : context.kept(whole_size);
  gather_tokens(context, dy, kept.data()).wait();
  backward_input(context.tokens(), kept.data(), dx);
}

void ExitLinear::leave_backward(ModelContext& context, Half half, const float* x, const float* dy,
                                float* dx, Buffer& kept) const {
  if (has_input(half)) leave_backward_input(context, half, dy, dx, kept);
  if (!has_weight(half)) return;
  backward_weight(context.tokens(), x, kept.empty() ? dy : kept.data());
  kept.release();
}

}  // namespace triplepoint::trainer
