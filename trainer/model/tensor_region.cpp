// SPDX-License-Identifier: Apache-2.0
#include "trainer/model/tensor_region.h"

#include <array>

namespace triplepoint::trainer {
namespace {

std::span<const float> shard_span(const ModelContext& context, const float* shard) {
  return {shard, static_cast<size_t>(context.shard_size())};
}

std::span<float> whole_span(const ModelContext& context, float* whole) {
  return {whole, static_cast<size_t>(context.tokens() * context.hidden())};
}

constexpr int64_t pieces = 4;  // that a transfer is cut into where it overlaps its product

/// Piece of each rank's shard: rows [first, first + count) of it.
Block piece_at(const ModelContext& context, int64_t piece) {
  return block_of(context.shard_tokens(), piece, pieces);
}

}  // namespace

bool overlaps_tensor(const ModelContext& context) {
  return context.job.plan.overlap_tensor && context.share.sequence_parallel &&
         context.shard_tokens() >= pieces;
}

Pending gather_tokens(ModelContext& context, const float* shard, float* whole) {
  return context.groups.tensor->all_gather(shard_span(context, shard), whole_span(context, whole));
}

Pending sum_tokens(ModelContext& context, float* whole, float* shard) {
  if (context.groups.tensor->size() == 1) return {};
  if (!context.share.sequence_parallel)
    return context.groups.tensor->all_reduce(whole_span(context, whole));
  return context.groups.tensor->reduce_scatter(whole_span(context, whole),
                                               {shard, static_cast<size_t>(context.shard_size())});
}

void EntranceLinear::enter(ModelContext& context, const float* x, float* y) const {
  if (!context.share.sequence_parallel) return forward(context.tokens(), x, y);
  Buffer whole = context.buffer(context.tokens() * context.hidden());
  if (overlaps_tensor(context)) {
    enter_in_pieces(context, x, y, &whole);
  } else {
    gather_tokens(context, x, whole.data()).wait();
    forward(context.tokens(), whole.data(), y);
  }
}

/// While one piece of every rank's shard is multiplied, the next one travels.
void EntranceLinear::enter_in_pieces(ModelContext& context, const float* x, float* y,
                                     Buffer* whole) const {
  const int64_t hidden = context.hidden(), size = context.groups.tensor->size();
  std::array<Pending, pieces> travelling;
  const auto arrived = [&](int64_t piece) {
    return whole->data() + piece_at(context, piece).first * size * hidden;
  };
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const Block rows = piece_at(context, piece);
    travelling[static_cast<size_t>(piece)] = context.groups.tensor->all_gather(
        {x + rows.first * hidden, static_cast<size_t>(rows.count * hidden)},
        {arrived(piece), static_cast<size_t>(rows.count * size * hidden)});
  }
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const Block rows = piece_at(context, piece);
    travelling[static_cast<size_t>(piece)].wait();
    for (int64_t rank = 0; rank < size; ++rank)
      forward(rows.count, arrived(piece) + rank * rows.count * hidden,
              y + (rank * context.shard_tokens() + rows.first) * out());
  }
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
  if (overlaps_tensor(context)) {
    leave_in_pieces(context, x, y);
    return;
  }
  Buffer whole;
  if (context.share.sequence_parallel)
    whole = context.workspace(context.tokens() * context.hidden());
  float* sums = whole.empty() ? y : whole.data();
  forward(context.tokens(), x, sums);
  add_bias(context.tokens(), sums);
  sum_tokens(context, sums, y).wait();
}

/// While one piece of every rank's shard is summed, the next one is multiplied.
void ExitLinear::leave_in_pieces(ModelContext& context, const float* x, float* y) const {
  const int64_t hidden = context.hidden(), size = context.groups.tensor->size();
  Buffer whole = context.workspace(context.tokens() * hidden);
  std::array<Pending, pieces> travelling;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const Block rows = piece_at(context, piece);
    float* sums = whole.data() + rows.first * size * hidden;
    for (int64_t rank = 0; rank < size; ++rank)
      forward(rows.count, x + (rank * context.shard_tokens() + rows.first) * in(),
              sums + rank * rows.count * hidden);
    add_bias(rows.count * size, sums);
    travelling[static_cast<size_t>(piece)] = context.groups.tensor->reduce_scatter(
        {sums, static_cast<size_t>(rows.count * size * hidden)},
        {y + rows.first * hidden, static_cast<size_t>(rows.count * hidden)});
  }
  for (Pending& pending : travelling)
    pending.wait();
}

/// While one piece of every rank's gradient is multiplied, the next one travels. `whole`: all of
/// it, in order, for the weight gradient.
void ExitLinear::gather_in_pieces(ModelContext& context, const float* dy, float* dx,
                                  float* whole) const {
  const int64_t hidden = context.hidden(), size = context.groups.tensor->size();
  Buffer arrivals = context.workspace(context.tokens() * hidden);
  std::array<Pending, pieces> travelling;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const Block rows = piece_at(context, piece);
    travelling[static_cast<size_t>(piece)] = context.groups.tensor->all_gather(
        {dy + rows.first * hidden, static_cast<size_t>(rows.count * hidden)},
        {arrivals.data() + rows.first * size * hidden,
         static_cast<size_t>(rows.count * size * hidden)});
  }
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const Block rows = piece_at(context, piece);
    travelling[static_cast<size_t>(piece)].wait();
    for (int64_t rank = 0; rank < size; ++rank) {
      const float* arrived = arrivals.data() + (rows.first * size + rank * rows.count) * hidden;
      const int64_t row = rank * context.shard_tokens() + rows.first;
      context.math.copy(rows.count * hidden, arrived, whole + row * hidden);
      backward_input(rows.count, arrived, dx + row * in());
    }
  }
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
  if (overlaps_tensor(context)) {
    gather_in_pieces(context, dy, dx, kept.data());
    return;
  }
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
