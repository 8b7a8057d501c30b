// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/kernel_time.h"

// Time of one kernel on one GPU. Formulas and their domain: kernel_time.h.
//
// A GEMM's efficiency is a search, not a fit per shape: libraries choose among tiles and splits of
// k, so the model takes the best of the same choice. That gives the steps at tile and wave
// boundaries without a table. Cost: the number of tiles times at most four splits, per shape.
// Attention is a product of shares with one cause each: long loop, masked keys, softmax, blocks
// that do not fill the chip.
//
// Units: TileSearch is in plain seconds and counts, as it is the inner loop; everything else has
// unit types.

#include <algorithm>
#include <cmath>
#include <limits>

namespace triplepoint::perf {
namespace {

using spec::OpClass;

double ceil_div(double a, double b) {
  return std::ceil(a / b);
}

double norm_of(double a, double b, double p) {
  const double large = std::max(a, b), small = std::min(a, b);
  // Below this the smaller part changes nothing; most ops are clearly one-sided.
  if (small <= 1e-3 * large) return large;
  return large * std::pow(1 + std::pow(small / large, p), 1 / p);
}

/// Waves that `filled` chip-loads of equal blocks take.
/// A last wave that is not full costs between its share and a whole one. At least one wave: a lone
/// block takes its time.
double waves_of(double filled, double quantization) {
  const double whole = std::ceil(filled);
  return std::max(1.0, whole - (1 - quantization) * (whole - filled));
}

double element_bytes(spec::Precision precision) {
  if (precision == spec::Precision::nvfp4) return 0.5;
  if (spec::is_quantized(precision)) return 1;
  return precision == spec::Precision::fp32 ? 4 : 2;
}

/// What the search over tiles needs, in seconds and counts.
struct TileSearch {
  double m, n, k, count;
  double units, quantization;
  double side_step;  // of tiles, and of the slices of k that the main loop works on
  double half_tile, half_k;
  double seconds_per_cell;       // one multiply-add on one unit at the large-tile rate
  double seconds_per_split_out;  // one fp32 partial result written and read again
};

double tile_time(const TileSearch& s, double tile_m, double tile_n, double split) {
  const double tiles = ceil_div(s.m, tile_m) * ceil_div(s.n, tile_n) * s.count * split;
  // half_k: prologue and epilogue of the main loop, in elements of k.
  const double depth = ceil_div(s.k, split * s.side_step) * s.side_step + s.half_k;
  // Operands per product go with the perimeter of a tile over its area.
  const double delivery = 1 + 0.5 * s.half_tile * (1 / tile_m + 1 / tile_n);
  const double products =
      waves_of(tiles / s.units, s.quantization) * tile_m * tile_n * depth * delivery;
  const double partials = split > 1 ? split * s.m * s.n * s.count : 0;
  return products * s.seconds_per_cell + partials * s.seconds_per_split_out;
}

double best_split_time(const TileSearch& s, double tile_m, double tile_n) {
  double best = tile_time(s, tile_m, tile_n, 1);
  const double tiles = ceil_div(s.m, tile_m) * ceil_div(s.n, tile_n) * s.count;
  // Splitting k pays where the tiles alone leave units idle, or nearly so.
  for (double split = 2; split <= 8 && tiles * split <= 4 * s.units; split *= 2)
    best = std::min(best, tile_time(s, tile_m, tile_n, split));
  return best;
}

double best_tile_time(const TileSearch& s, int64_t largest_m, int64_t largest_n) {
  const auto side_step = static_cast<int64_t>(s.side_step);
  const int64_t longest = std::max(largest_m, largest_n);
  double best = std::numeric_limits<double>::infinity();
  // Both orientations: the largest tile of a library may lie along rows or columns.
  for (int64_t tile_m = side_step; tile_m <= longest; tile_m += side_step) {
    for (int64_t tile_n = side_step; tile_n <= longest; tile_n += side_step) {
      if (tile_m * tile_n > largest_m * largest_n) break;
      best = std::min(best, best_split_time(s, as_real(tile_m), as_real(tile_n)));
    }
  }
  return best;
}

double units_of(const spec::Gpu& gpu) {
  return as_real(gpu.compute_units.value_or(1));
}

Seconds streaming_time(const spec::Gpu& gpu, Bytes bytes) {
  return bytes / (*gpu.hbm_bandwidth * gpu.kernels.hbm_share);
}

/// Rate of fp32 products over that of 16 bits where other units multiply them: 1 where the same do,
/// and of every other precision.
double rate_of_floats(const spec::Gpu& gpu, spec::Precision precision) {
  const auto wide = gpu.peak(spec::Precision::bf16) ? gpu.peak(spec::Precision::bf16)
                                                    : gpu.peak(spec::Precision::fp16);
  if (precision != spec::Precision::fp32 || !wide) return 1;
  return std::min(1.0, *gpu.peak(precision) / *wide);
}

/// Of the dense peak of this precision, large shapes.
double peak_share(const spec::KernelCoefficients& kernels, spec::Precision precision) {
  switch (precision) {
    case spec::Precision::fp8:
      return kernels.gemm_fp8_share;
    case spec::Precision::mxfp8:
      return kernels.gemm_mxfp8_share.value_or(kernels.gemm_fp8_share);
    case spec::Precision::nvfp4:
      return kernels.gemm_fp4_share.value_or(kernels.gemm_fp8_share);
    default:
      return kernels.gemm_peak_share;
  }
}

TileSearch tile_search(const spec::Gpu& gpu, const spec::GemmShape& shape,
                       spec::Precision precision) {
  const spec::KernelCoefficients& kernels = gpu.kernels;
  const FlopsPerSecond unit_rate =
      *gpu.peak(precision) * peak_share(kernels, precision) / units_of(gpu);
  // Floats, written by one kernel and read by the one that adds them.
  constexpr Bytes partial = 2 * 4 * unit::B;
  // A core's products are made of smaller pieces than any GPU's.
  const int64_t side_step = std::min<int64_t>({64, kernels.tile_m, kernels.tile_n});
  // What takes its time beside the products is, in products, less where they are slow: floats on
  // CUDA cores of twice the bytes at an eighth of the rate.
  const double floats = rate_of_floats(gpu, precision);
  return {.m = as_real(shape.m),
          .n = as_real(shape.n),
          .k = as_real(shape.k),
          .count = as_real(shape.count),
          .units = units_of(gpu),
          .quantization = kernels.wave_quantization,
          .side_step = as_real(side_step),
          .half_tile = kernels.gemm_half_tile * (floats < 1 ? 2 * floats : 1),
          // A prologue fills shared memory with bytes: narrow elements need more of them.
          .half_k = kernels.gemm_half_k * (floats < 1 ? floats : 2 / element_bytes(precision)),
          .seconds_per_cell = (2 * unit::FLOP / unit_rate) / unit::s,
          .seconds_per_split_out = streaming_time(gpu, partial) / unit::s};
}

/// Products that one launch of this op works on together.
spec::GemmShape shape_of_one_launch(const spec::Op& op) {
  spec::GemmShape shape = op.gemm;
  shape.count = std::max<int64_t>(1, shape.count / std::max(1, op.kernels));
  return shape;
}

double gemm_share(const spec::Gpu& gpu, const spec::Op& op) {
  const double share = gemm_efficiency(gpu, shape_of_one_launch(op), op.precision);
  return op.op_class == OpClass::grouped_gemm ? share * gpu.kernels.grouped_gemm_share : share;
}

/// (d0/d)^3: softmax over products in the norm that joins them. Backward has five products instead
/// of two, and twice the work of softmax.
double softmax_weight(const spec::Gpu& gpu, const spec::AttentionShape& shape, bool backward) {
  constexpr double work = 2, products = 5.0 / 2;
  const double head_dim = as_real(std::max<int64_t>(1, shape.head_dim));
  const double half = gpu.kernels.attention_half_head_dim * (backward ? work / products : 1);
  return std::pow(half / head_dim, 3);
}

/// Attention in 8 bits over the same in 16, long keys.
double narrow_speed(const spec::Gpu& gpu, const spec::Op& op) {
  if (!spec::is_quantized(op.precision)) return 1;
  const double products = *gpu.peak(spec::Precision::bf16) / *gpu.peak(op.precision);
  const double softmax = softmax_weight(gpu, op.attention, op.backward);
  return std::cbrt((1 + softmax) / (std::pow(products, 3) + softmax));
}

bool looks_back_a_window(const spec::AttentionShape& shape) {
  return shape.causal && shape.window > 0 && shape.window < shape.key_length;
}

/// Keys that a query sees, on the mean.
double keys_in_window(const spec::AttentionShape& shape) {
  const double window = as_real(shape.window);
  return window - window * (window - 1) / (2 * as_real(shape.key_length));
}

/// Of all keys, as far as the kernel runs over them for a block of queries.
struct KeyLoop {
  double seen;    // by a query, on the mean
  double masked;  // beside them: computed for its block all the same
};

KeyLoop key_loop(const spec::Gpu& gpu, const spec::AttentionShape& shape) {
  const double keys = as_real(std::max<int64_t>(1, shape.key_length));
  const double half_block = 0.5 * as_real(gpu.kernels.attention_tile);
  // Half of the block on the diagonal is masked, and as much at the far end of a window.
  if (looks_back_a_window(shape)) return {keys_in_window(shape), 2 * half_block};
  return shape.causal ? KeyLoop{0.5 * keys, half_block} : KeyLoop{keys, 0};
}

/// The longest block of query rows over a mean one.
/// Work of n causal blocks is 1, 2 .. n: mean (n + 1) / 2, longest n.
double longest_block(const spec::AttentionShape& shape, double of_a_head) {
  if (!shape.causal) return 1;
  const double longest = 2 * of_a_head / (of_a_head + 1);
  if (!looks_back_a_window(shape)) return longest;
  return std::min(longest, as_real(shape.window) / keys_in_window(shape));
}

/// How much of the chip the blocks of query rows keep busy, until the last one ends.
double filled_share(const spec::Gpu& gpu, const spec::AttentionShape& shape) {
  // One query a sequence: kernels split the keys over the chip instead (Flash-Decoding).
  if (shape.query_length == 1 && !shape.causal) return 1;
  // While the longest block runs alone the rest of the chip is idle; with many blocks per unit this
  // end is a small part of the whole.
  const double drain = gpu.kernels.attention_wave_quantization;
  const double of_a_head =
      std::max(1.0, ceil_div(as_real(shape.query_length), as_real(gpu.kernels.attention_tile)));
  const double loads =
      std::max(1.0, as_real(shape.batch * shape.heads) * of_a_head) / units_of(gpu);
  const double longest = longest_block(shape, of_a_head);
  return loads / std::max((1 - drain) * longest, loads + drain * longest);
}

/// Of the 16-bit peak, by a kernel whose long loop is faster by `speed`; what a block begins and
/// ends with takes its time all the same.
double attention_share(const spec::Gpu& gpu, const spec::AttentionShape& shape, bool backward,
                       double speed) {
  const spec::KernelCoefficients& kernels = gpu.kernels;
  const KeyLoop loop = key_loop(gpu, shape);
  const double share =
      backward ? kernels.attention_backward_share : kernels.attention_forward_share;
  // Begin and end of a block stay as long when the loop is faster, so that part is multiplied by
  // `speed` to stand beside the loop's keys.
  return speed * share * loop.seen /
         (loop.seen + loop.masked + speed * kernels.attention_half_length) /
         std::cbrt(1 + softmax_weight(gpu, shape, backward)) * filled_share(gpu, shape);
}

double compute_share(const spec::Gpu& gpu, const spec::Op& op) {
  if (op.op_class != OpClass::attention) return gemm_share(gpu, op);
  return attention_share(gpu, op.attention, op.backward, narrow_speed(gpu, op));
}

/// Of a backward kernel's two companions. One reads the output and its gradient and sums their
/// product for each row; one clears and later narrows the gradient of the queries, which blocks of
/// keys add up in 32 bits.
Seconds around_the_backward(const spec::Gpu& gpu, const spec::Op& op) {
  if (!op.backward) return {};
  constexpr Bytes of_an_element = (2 + 2 + 4 + 4 + 2) * unit::B;
  const spec::AttentionShape& shape = op.attention;
  return as_real(shape.batch * shape.query_length * shape.heads * shape.head_dim) *
         streaming_time(gpu, of_an_element);
}

}  // namespace

spec::Precision rated_precision(const spec::Op& op) {
  const bool attention = op.op_class == spec::OpClass::attention;
  return attention && spec::is_quantized(op.precision) ? spec::Precision::bf16 : op.precision;
}

Seconds KernelTime::at(double clock_ratio) const {
  const Seconds computing = compute * ((1 - insensitive) / clock_ratio + insensitive);
  const Seconds working = norm_of(computing / unit::s, memory / unit::s, norm) * unit::s;
  return std::max(working + start, floor);
}

double gemm_efficiency(const spec::Gpu& gpu, const spec::GemmShape& shape,
                       spec::Precision precision) {
  if (shape.m <= 0 || shape.n <= 0 || shape.k <= 0) return peak_share(gpu.kernels, precision);
  const TileSearch search = tile_search(gpu, shape, precision);
  const double best = best_tile_time(search, gpu.kernels.tile_m, gpu.kernels.tile_n);
  const Flops flops = 2 * search.m * search.n * search.k * search.count * unit::FLOP;
  return (flops / *gpu.peak(precision)) / unit::s / best;
}

double attention_efficiency(const spec::Gpu& gpu, const spec::AttentionShape& shape,
                            bool backward) {
  return attention_share(gpu, shape, backward, 1);
}

KernelTime kernel_time(const spec::Gpu& gpu, const spec::Op& op) {
  const spec::KernelCoefficients& kernels = gpu.kernels;
  const double launches = std::max(1, op.kernels);
  KernelTime time{.memory = streaming_time(gpu, op.hbm_bytes),
                  .floor = launches * kernels.kernel_floor,
                  .norm = kernels.roofline_norm,
                  .insensitive = kernels.clock_insensitive_share,
                  .start = launches * kernels.kernel_start};
  if (op.op_class == OpClass::attention)
    time.start = launches * kernels.attention_start + around_the_backward(gpu, op);
  if (op.is_matrix_work()) {
    time.compute = op.flops / (*gpu.peak(rated_precision(op)) * compute_share(gpu, op));
    return time;
  }
  // Split so that the norm gives the streaming time at max clock.
  // A streaming kernel issues its loads by the SMs: below the knee they, not the memory, limit the
  // rate.
  const double knee = kernels.memory_clock_knee;
  time.memory /= norm_of(1, knee, time.norm);
  time.compute = knee * time.memory;
  return time;
}

// Flops by which a kernel's energy counts, where they are not those of its result.
//
// Tensor cores multiply whole tiles, so rows of padding take energy, too. Half of them is counted:
// (rows + tile) / 2 rows in all. Attention counts the flops that the peak would deliver in its
// compute time, because exponentials, masks and blocks that are not full take energy as they take
// time. Source: docs/models/power.md.

namespace {

constexpr int64_t rows_of_a_tile = 128;

/// Energy of a tile with few rows over that of as many rows of a full one.
double padding(const spec::Gpu& gpu, int64_t rows) {
  const int64_t tile = std::min(rows_of_a_tile, gpu.kernels.tile_m);
  if (rows <= 0 || rows >= tile) return 1;
  return 0.5 * (1 + as_real(tile) / as_real(rows));
}

/// One query a sequence: the heads that share keys and values are the rows.
bool is_lone_query(const spec::AttentionShape& shape) {
  return shape.query_length == 1 && !shape.causal && shape.query_groups > 0;
}

}  // namespace

Flops energy_flops(const spec::Gpu& gpu, const spec::Op& op) {
  const bool product =
      op.op_class == spec::OpClass::gemm || op.op_class == spec::OpClass::grouped_gemm;
  if (product && !op.backward) return padding(gpu, op.gemm.m) * op.flops;
  if (op.op_class != spec::OpClass::attention) return op.flops;
  if (is_lone_query(op.attention))
    return padding(gpu, op.attention.heads / op.attention.query_groups) * op.flops;
  return *gpu.peak(rated_precision(op)) * kernel_time(gpu, op).compute;
}

}  // namespace triplepoint::perf
