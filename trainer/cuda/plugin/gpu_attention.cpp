// SPDX-License-Identifier: Apache-2.0
// Two ways to attend. In bf16, with sizes that tensor cores like: blocks of queries against all
// keys before them, by matrix products of all heads at once, as the processor does it head by head.
// For everything else the kernels that keep a tile of scores in a multiprocessor's memory.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trainer/cuda/plugin/gpu_math.h"

namespace triplepoint::trainer::cuda {
namespace {

constexpr int64_t most_queries = 1024;  // of a block: half of its last square is wasted
constexpr int64_t tensor_core_sizes = 8;

int64_t tiles(int64_t n, int64_t tile) {
  return (n + tile - 1) / tile;
}

AttentionPlace place_of(const Attention& shape) {
  return {shape, 1.0F / std::sqrt(static_cast<float>(shape.head_dim))};
}

/// Heads that are multiplied at once: all where each has its own keys, else those of a group.
int64_t heads_at_once(const Attention& shape) {
  return shape.groups == shape.heads ? shape.heads : shape.heads / shape.groups;
}

/// Calls body for every block of queries of such heads.
template <class Body>
void for_each_block(const Attention& shape, const Body& body) {
  for (int64_t sequence = 0; sequence < shape.sequences; ++sequence)
    for (int64_t head = 0; head < shape.heads; head += heads_at_once(shape))
      for (int64_t first = 0; first < shape.length; first += most_queries) {
        const int64_t rows = std::min(most_queries, shape.length - first);
        body(ScoreBlock{place_of(shape), sequence, head, first, rows, first + rows});
      }
}

/// Where the matrices of a block lie in qkv and in the outputs.
struct BlockPlaces {
  explicit BlockPlaces(const ScoreBlock& block)
      : query(block.at.query(block.sequence, block.first_head, block.first)),
        key(block.at.key(block.sequence, group_of(block), 0)),
        value(block.at.value(block.sequence, group_of(block), 0)),
        output(block.at.output(block.sequence, block.first_head, block.first)),
        heads(heads_at_once(block.at.shape)),
        key_step(block.at.shape.groups == block.at.shape.heads ? block.at.shape.head_dim : 0) {}
  static int64_t group_of(const ScoreBlock& block) {
    return block.first_head / (block.at.shape.heads / block.at.shape.groups);
  }
  int64_t query, key, value, output, heads, key_step;
};

/// Strides of [rows, keys] and of one head's rows.
struct Strides {
  explicit Strides(const ScoreBlock& block)
      : scores(block.keys),
        each(block.rows * block.keys),
        qkv(block.at.shape.width()),
        out(block.at.shape.heads * block.at.shape.head_dim) {}
  int64_t scores, each, qkv, out;
};

/// scores = rows x keys^T.
Gemm score_product(const ScoreBlock& block, int64_t row_stride, int64_t key_stride) {
  return {.m = block.rows,
          .n = block.keys,
          .k = block.at.shape.head_dim,
          .a_stride = row_stride,
          .b_stride = key_stride,
          .b_transposed = true,
          .c_stride = block.keys};
}

/// rows = scores x keys.
Gemm row_product(const ScoreBlock& block, int64_t key_stride, int64_t row_stride) {
  return {.m = block.rows,
          .n = block.at.shape.head_dim,
          .k = block.keys,
          .a_stride = block.keys,
          .b_stride = key_stride,
          .c_stride = row_stride};
}

/// keys += scores^T x rows, [keys, head_dim] packed.
Gemm key_product(const ScoreBlock& block, int64_t row_stride) {
  return {.m = block.keys,
          .n = block.at.shape.head_dim,
          .k = block.rows,
          .a_stride = block.keys,
          .a_transposed = true,
          .b_stride = row_stride,
          .c_stride = block.at.shape.head_dim,
          .beta = 1};
}

/// What the kernels without tensor cores keep of a tile, at most.
int64_t tile_bytes(int64_t head_dim) {
  return std::max({AttentionForward::memory(head_dim), AttentionQueries::memory(head_dim),
                   AttentionKeys::memory(head_dim)});
}

}  // namespace

bool GpuMath::has_blocks(const Attention& shape, bool bf16) const {
  return bf16 && shape.head_dim % tensor_core_sizes == 0 && shape.length % tensor_core_sizes == 0;
}

Result<void> GpuMath::check_attention(const Attention& shape) const {
  const int64_t there = gpu_.shared_bytes(), needed = tile_bytes(shape.head_dim);
  if (has_blocks(shape, rounds_) || needed <= there) return {};
  int64_t largest = 0;
  while (tile_bytes(largest + 1) <= there)
    ++largest;
  return error(fmt::format(
      "attention heads of {} channels in {} need {} kB of a multiprocessor's memory and this GPU "
      "has {} kB; supported here: kv_channels 1 to {} with any sequence length, and in bf16 every "
      "multiple of {} where the sequence length is one, too. Change kv_channels or precision, set "
      "attention_kernels = \"unfused\" in the stack, or use --device cpu",
      shape.head_dim, rounds_ ? "bf16" : "fp32", needed / 1024, there / 1024, largest,
      tensor_core_sizes));
}

void GpuMath::attend_in_blocks(const Attention& shape, const Array& qkv, const Array& out,
                               float* sums) {
  const int64_t most = heads_at_once(shape) * std::min(most_queries, shape.length) * shape.length;
  const Array scores = scores_.at_least(most, false), kept = kept_.at_least(most, true);
  for_each_block(shape, [&](const ScoreBlock& block) {
    const BlockPlaces place(block);
    const Strides stride(block);
    multiplier_.multiply(score_product(block, stride.qkv, stride.qkv), qkv.from(place.query),
                         qkv.from(place.key), scores,
                         {place.heads, shape.head_dim, place.key_step, stride.each});
    gpu_.blocks(kernels().BlockSoftmax, BlockSoftmax{block, scores, kept, sums},
                {block.rows, place.heads});
    multiplier_.multiply(row_product(block, stride.qkv, stride.out), kept, qkv.from(place.value),
                         out.from(place.output),
                         {place.heads, stride.each, place.key_step, shape.head_dim});
  });
}

void GpuMath::attend_in_blocks_backward(const Attention& shape, const Array& qkv,
                                        const Array& out_gradient, const float* sums,
                                        const float* along) {
  const int64_t d = shape.head_dim, part = shape.length * d;
  const int64_t heads = heads_at_once(shape), groups = shape.groups == shape.heads ? heads : 1;
  const int64_t most = heads * std::min(most_queries, shape.length) * shape.length;
  const Array scores = scores_.at_least(most, false), dots = more_scores_.at_least(most, false);
  const Array kept = kept_.at_least(most, true), slopes = more_kept_.at_least(most, true);
  const Array keys = slopes_.at_least(2 * groups * part, false), values = keys.from(groups * part);
  for_each_block(shape, [&](const ScoreBlock& block) {
    const BlockPlaces place(block);
    const Strides stride(block);
    const AttentionSlopes to{block.at, qkv, out_gradient, {}, sums, along};
    if (block.first == 0)
      gpu_.libraries().check(
          gpu_.driver().fill(keys.data, 0, static_cast<size_t>(8 * groups * part), gpu_.stream()),
          "clear memory");
    multiplier_.multiply(score_product(block, stride.qkv, stride.qkv), qkv.from(place.query),
                         qkv.from(place.key), scores, {heads, d, place.key_step, stride.each});
    multiplier_.multiply(score_product(block, stride.out, stride.qkv),
                         out_gradient.from(place.output), qkv.from(place.value), dots,
                         {heads, d, place.key_step, stride.each});
    gpu_.blocks(kernels().BlockSlopes, BlockSlopes{block, to, scores, dots, kept, slopes},
                {block.rows, heads});
    // Heads of a group add up in its keys, one after the other.
    const int64_t times = heads / groups;
    for (int64_t head = 0; head < times; ++head) {
      const Multiplier::Batch batch{groups, stride.each, d, part};
      multiplier_.multiply(key_product(block, stride.out), kept.from(head * stride.each),
                           out_gradient.from(place.output + head * d), values, batch);
      multiplier_.multiply(key_product(block, stride.qkv), slopes.from(head * stride.each),
                           qkv.from(place.query + head * d), keys, batch);
    }
    // Over the queries, which are no longer needed.
    multiplier_.multiply(row_product(block, stride.qkv, stride.qkv), slopes, qkv.from(place.key),
                         qkv.from(place.query), {heads, stride.each, place.key_step, d});
    if (block.first + block.rows < shape.length) return;
    for (int64_t group = 0; group < groups; ++group) {
      gpu_.each(kernels().Copy,
                Copy{keys.from(group * part), qkv.from(place.key + group * d), d, stride.qkv},
                shape.length, d);
      gpu_.each(kernels().Copy,
                Copy{values.from(group * part), qkv.from(place.value + group * d), d, stride.qkv},
                shape.length, d);
    }
  });
}

void GpuMath::attention(const Attention& shape, const float* qkv, float* out, float* sums) {
  auto* const to = static_cast<float*>(at(sums).data);
  if (has_blocks(shape, at(qkv).bf16 != 0)) return attend_in_blocks(shape, at(qkv), at(out), to);
  gpu_.blocks(kernels().AttentionForward, AttentionForward{place_of(shape), at(qkv), at(out), to},
              {tiles(shape.length, query_tile), shape.heads, shape.sequences},
              AttentionForward::memory(shape.head_dim));
}

void GpuMath::attention_backward(const Attention& shape, float* qkv, const float* out,
                                 const float* out_gradient, const float* sums) {
  const AttentionPlace place = place_of(shape);
  const int64_t tokens = shape.sequences * shape.length;
  auto* const along = static_cast<float*>(along_.at_least(tokens * shape.heads, false).data);
  const auto* const logs = static_cast<const float*>(at(sums).data);
  gpu_.blocks(kernels().AttentionAlong, AttentionAlong{place, at(out), at(out_gradient), along},
              {shape.length, shape.heads, shape.sequences}, 0, 32);
  if (has_blocks(shape, at(qkv).bf16 != 0))
    return attend_in_blocks_backward(shape, at(qkv), at(out_gradient), logs, along);
  const Array gradient = slopes_.at_least(tokens * shape.width(), at(qkv).bf16 != 0);
  const AttentionSlopes slopes{place, at(qkv), at(out_gradient), gradient, logs, along};
  gpu_.blocks(kernels().AttentionQueries, AttentionQueries{slopes},
              {tiles(shape.length, query_tile), shape.heads, shape.sequences},
              AttentionQueries::memory(shape.head_dim));
  gpu_.blocks(kernels().AttentionKeys, AttentionKeys{slopes},
              {tiles(shape.length, key_tile), shape.groups, shape.sequences},
              AttentionKeys::memory(shape.head_dim));
  const int64_t bytes = tokens * shape.width() * (gradient.bf16 != 0 ? 2 : 4);
  gpu_.libraries().check(
      gpu_.driver().copy(at(qkv).data, gradient.data, static_cast<size_t>(bytes), gpu_.stream()),
      "copy");
}

}  // namespace triplepoint::trainer::cuda
