// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/perf/kernel_time.h"

#include <cmath>

#include <doctest/doctest.h>

namespace triplepoint::perf {
namespace {

using doctest::Approx;
using spec::GemmShape;
using spec::Op;
using spec::OpClass;
using spec::Precision;

/// Round numbers; not a real chip.
spec::Gpu plain_gpu() {
  spec::Gpu gpu;
  gpu.peak_bf16 = gpu.peak_fp16 = 1000 * unit::TFLOP / unit::s;
  gpu.peak_fp8 = 2000 * unit::TFLOP / unit::s;
  gpu.peak_fp32 = 500 * unit::TFLOP / unit::s;
  gpu.hbm_bandwidth = 4 * unit::TB / unit::s;
  gpu.compute_units = 100;
  gpu.kernels = {.gemm_peak_share = 0.8,
                 .gemm_fp8_share = 0.7,
                 .gemm_half_k = 64,
                 .gemm_half_tile = 40,
                 .wave_quantization = 1,
                 .tile_m = 256,
                 .tile_n = 128,
                 .attention_forward_share = 0.6,
                 .attention_backward_share = 0.5,
                 .attention_half_length = 500,
                 .attention_half_head_dim = 80,
                 .attention_tile = 128,
                 .attention_wave_quantization = 0.3,
                 .grouped_gemm_share = 0.7,
                 .hbm_share = 0.8,
                 .roofline_norm = 4,
                 .clock_insensitive_share = 0.1,
                 .memory_clock_knee = 0.5,
                 .kernel_start = 2 * unit::us,
                 .kernel_floor = 3 * unit::us};
  return gpu;
}

Op gemm(GemmShape shape, Precision precision = Precision::bf16) {
  Op op;
  op.op_class = OpClass::gemm;
  op.precision = precision;
  op.gemm = shape;
  const double m = as_real(shape.m), n = as_real(shape.n), k = as_real(shape.k),
               count = as_real(shape.count);
  op.flops = 2 * m * n * k * count * unit::FLOP;
  op.hbm_bytes = 2 * (m * k + k * n + m * n) * count * unit::B;
  return op;
}

Op streaming(OpClass op_class, Bytes bytes) {
  Op op;
  op.op_class = op_class;
  op.hbm_bytes = bytes;
  return op;
}

Op attention(int64_t length, int64_t head_dim, bool backward = false) {
  Op op;
  op.op_class = OpClass::attention;
  op.backward = backward;
  op.attention = {.batch = 4,
                  .heads = 100,
                  .query_groups = 100,
                  .query_length = length,
                  .key_length = length,
                  .head_dim = head_dim};
  const double l = as_real(length);
  op.flops = 4 * 100 * 2 * l * l * as_real(head_dim) * unit::FLOP;
  op.hbm_bytes = 4.0 * 100 * 4 * 2 * l * as_real(head_dim) * unit::B;
  return op;
}

TEST_CASE("a kernel's time is its roofline norm, its start, and at least its floor") {
  const KernelTime time{.compute = 3 * unit::us,
                        .memory = 4 * unit::us,
                        .floor = 1 * unit::us,
                        .norm = 2,
                        .insensitive = 0,
                        .start = 2 * unit::us};
  CHECK(time.at(1) / unit::us == Approx(5 + 2));
  CHECK(time.at(0.5) / unit::us == Approx(std::hypot(6, 4) + 2));
  const KernelTime short_one{
      .compute = 1 * unit::ns, .memory = 1 * unit::ns, .floor = 3 * unit::us};
  CHECK(short_one.at(1) == 3 * unit::us);
}

TEST_CASE("the clock-insensitive share does not scale with the clock") {
  const KernelTime time{.compute = 10 * unit::us, .insensitive = 0.1};
  CHECK(time.at(1) / unit::us == Approx(10));
  CHECK(time.at(0.5) / unit::us == Approx(0.9 * 20 + 1));
}

TEST_CASE("floats on slower units wait less for operands and prologues, and are never faster") {
  spec::Gpu gpu = plain_gpu();
  const spec::GemmShape small{.m = 256, .n = 256, .k = 512};
  const double wide = gemm_efficiency(gpu, small, Precision::bf16);
  gpu.peak_fp32 = 60 * unit::TFLOP / unit::s;
  const double floats = gemm_efficiency(gpu, small, Precision::fp32);
  CHECK(floats > wide);
  CHECK(60 * floats < 1000 * wide);
}

TEST_CASE("a GEMM of whole waves runs at the large-tile rate but for its prologue") {
  const spec::Gpu gpu = plain_gpu();
  const int64_t k = 8192;
  const double delivery = 1 + 0.5 * 40 * (1 / 256.0 + 1 / 128.0);
  const double expected = 0.8 / delivery * (k / (k + 64.0));
  CHECK(gemm_efficiency(gpu, {.m = 2560, .n = 1280, .k = k}, Precision::bf16) == Approx(expected));
}

TEST_CASE("one tile more than a wave costs a second wave") {
  spec::Gpu gpu = plain_gpu();
  gpu.kernels.tile_m = gpu.kernels.tile_n = 64;  // one tile size, so that none evades
  const auto time = [&](int64_t tiles) {
    const double m = as_real(64 * tiles);
    return m / gemm_efficiency(gpu, {.m = 64 * tiles, .n = 64, .k = 65536}, Precision::bf16);
  };
  CHECK(time(401) / time(400) == Approx(5 / 4.0));
  CHECK(time(500) / time(401) == Approx(1));
  gpu.kernels.wave_quantization = 0;
  CHECK(time(401) / time(400) == Approx(401 / 400.0));
}

TEST_CASE("efficiency stays above zero and below the peak for every shape") {
  const spec::Gpu gpu = plain_gpu();
  for (const int64_t m : {1, 17, 64, 1000, 4096, 100000})
    for (const int64_t n : {1, 64, 1536, 12288})
      for (const int64_t k : {1, 64, 1536, 12288}) {
        const double efficiency = gemm_efficiency(gpu, {.m = m, .n = n, .k = k}, Precision::bf16);
        CHECK(efficiency > 0);
        CHECK(efficiency <= 1);
      }
}

TEST_CASE("a deeper or larger product never takes less time") {
  const spec::Gpu gpu = plain_gpu();
  for (const int64_t side : {256, 1024, 4096}) {
    Seconds by_k, by_m;
    for (int64_t size = 64; size <= 32768; size += 448) {
      const Seconds deep = kernel_time(gpu, gemm({.m = side, .n = side, .k = size})).at(1);
      const Seconds wide = kernel_time(gpu, gemm({.m = size, .n = side, .k = side})).at(1);
      CHECK(deep >= by_k);
      CHECK(wide >= by_m);
      by_k = deep;
      by_m = wide;
    }
  }
}

TEST_CASE("a GEMM and its transpose take equally long") {
  const spec::Gpu gpu = plain_gpu();
  CHECK(gemm_efficiency(gpu, {.m = 3000, .n = 700, .k = 2048}, Precision::bf16) ==
        Approx(gemm_efficiency(gpu, {.m = 700, .n = 3000, .k = 2048}, Precision::bf16)));
}

TEST_CASE("few tiles over a long k are split along k") {
  spec::Gpu gpu = plain_gpu();
  const GemmShape shape{.m = 256, .n = 256, .k = 65536};
  // 16 tiles of 64 x 64 on 100 units would reach 16 % of the rate at most.
  CHECK(gemm_efficiency(gpu, shape, Precision::bf16) > 0.16 * gpu.kernels.gemm_peak_share);
}

TEST_CASE("fp8 halves the time of a large product up to its own efficiency") {
  const spec::Gpu gpu = plain_gpu();
  const GemmShape large{.m = 25600, .n = 12800, .k = 65536};
  const double ratio =
      kernel_time(gpu, gemm(large)).compute / kernel_time(gpu, gemm(large, Precision::fp8)).compute;
  CHECK(ratio == Approx(2 * 0.7 / 0.8).epsilon(0.002));
}

TEST_CASE("a grouped GEMM fills the chip with all its products, a loop over them does not") {
  const spec::Gpu gpu = plain_gpu();
  const GemmShape experts{.m = 256, .n = 1024, .k = 4096, .count = 8};
  Op grouped = gemm(experts);
  grouped.op_class = OpClass::grouped_gemm;
  Op loop = gemm(experts);
  loop.kernels = 8;
  CHECK(kernel_time(gpu, grouped).at(1) < kernel_time(gpu, loop).at(1));
  const GemmShape one{.m = 256, .n = 1024, .k = 4096};
  CHECK(kernel_time(gpu, loop).at(1) / kernel_time(gpu, gemm(one)).at(1) == Approx(8));
}

TEST_CASE("streaming kernels move their bytes at the achieved bandwidth, whatever the clock") {
  const spec::Gpu gpu = plain_gpu();
  for (const OpClass op_class : {OpClass::norm, OpClass::elementwise, OpClass::router,
                                 OpClass::embedding, OpClass::loss, OpClass::optimizer}) {
    const KernelTime time = kernel_time(gpu, streaming(op_class, 3.2 * unit::GB));
    CHECK(time.at(1) / unit::ms == Approx(1 + 0.002));
    CHECK(time.at(0.8) / time.at(1) < 1.05);
    CHECK(time.at(0.25) / time.at(1) > 1.5);  // far below the knee the SMs set the pace
  }
}

TEST_CASE("small kernels cost their start and floor, once per launch") {
  const spec::Gpu gpu = plain_gpu();
  Op op = streaming(OpClass::elementwise, 1 * unit::kB);
  CHECK(kernel_time(gpu, op).at(1) == 3 * unit::us);
  op.kernels = 10;
  CHECK(kernel_time(gpu, op).at(1) / unit::us == Approx(30));
}

TEST_CASE("attention gains from longer sequences and larger heads, and backward is slower") {
  const spec::Gpu gpu = plain_gpu();
  const auto rate = [&](const Op& op) { return op.flops / kernel_time(gpu, op).compute; };
  CHECK(rate(attention(8192, 128)) > rate(attention(2048, 128)));
  CHECK(rate(attention(4096, 128)) > rate(attention(4096, 64)));
  // Five products instead of two for twice the softmax: less of it in the norm.
  const double softmax = std::pow(80 / 128.0, 3);
  CHECK(rate(attention(4096, 128, true)) / rate(attention(4096, 128)) ==
        Approx(0.5 / 0.6 * std::cbrt((1 + softmax) / (1 + 0.512 * softmax))));
  CHECK(rate(attention(1 << 20, 128)) / *gpu.peak_bf16 ==
        Approx(0.6 / std::cbrt(1 + 0.625 * 0.625 * 0.625)).epsilon(0.002));
}

TEST_CASE("causal attention of one head waits for the rows that see all keys") {
  const spec::Gpu gpu = plain_gpu();
  const auto time = [&](bool causal, int64_t heads) {
    spec::AttentionShape shape{.batch = 1, .heads = heads, .query_groups = heads};
    shape.query_length = shape.key_length = 8192;
    shape.head_dim = 128;
    shape.causal = causal;
    return (causal ? 1 : 2) / attention_efficiency(gpu, shape, false) * as_real(heads);
  };
  CHECK(time(true, 1) / time(false, 1) > 0.7);  // half the work, but the longest block counts
  // Of many heads: half the keys, half a block that is masked, the same begin and end.
  CHECK(time(true, 4096) / time(false, 4096) ==
        Approx((4096 + 64 + 500) / (8192 + 500.0)).epsilon(0.01));
}

TEST_CASE("the companions of a backward cost by its queries, however many keys these see") {
  const spec::Gpu gpu = plain_gpu();
  const auto start = [&](int64_t length, bool backward) {
    return kernel_time(gpu, attention(length, 128, backward)).start;
  };
  CHECK(start(4096, false) == start(8192, false));
  const Seconds streamed = 14 * unit::B * (4.0 * 100 * 4096 * 128) / (3.2 * (unit::TB / unit::s));
  CHECK((start(4096, true) - start(4096, false)) / streamed == Approx(1));
  Op fewer = attention(4096, 128, true);
  fewer.attention.key_length = 512;
  CHECK(kernel_time(gpu, fewer).start == start(4096, true));
}

TEST_CASE("eight bits speed attention up by more for wider heads, twice at most") {
  const spec::Gpu gpu = plain_gpu();
  double before = 1;
  for (const int64_t head_dim : {32, 64, 128, 256, 512})
    for (const bool backward : {false, true}) {
      Op narrow = attention(4096, head_dim, backward);
      narrow.precision = Precision::fp8;
      const double speed = kernel_time(gpu, attention(4096, head_dim, backward)).compute /
                           kernel_time(gpu, narrow).compute;
      CHECK(speed > before);
      CHECK(speed < 2);
      before = speed;
    }
}

Seconds windowed_time(int64_t window) {
  constexpr int64_t keys = 8192;
  Op op = attention(keys, 128);
  const double all = as_real(keys), seen = as_real(window);
  // What is computed: a query sees its window, the first ones less.
  if (window > 0 && window < keys) op.flops *= (seen - seen * (seen - 1) / (2 * all)) / (all / 2);
  op.attention.causal = true;
  op.attention.window = window;
  return kernel_time(plain_gpu(), op).compute;
}

TEST_CASE("a window as long as the keys costs what causal attention does") {
  CHECK(windowed_time(8192) == windowed_time(0));
  CHECK(windowed_time(8191) / windowed_time(8192) == Approx(1).epsilon(0.03));
}

TEST_CASE("a narrower window takes less time, but more than its share of the keys") {
  for (int64_t window = 128; window < 4096; window *= 2) {
    const double narrow = windowed_time(window) / windowed_time(8192);
    CHECK(narrow < windowed_time(2 * window) / windowed_time(8192));
    CHECK(narrow > as_real(window) / 4096 * (1 - as_real(window) / 16384));
  }
}

TEST_CASE("more heads never make attention faster, and many make it take as much longer") {
  const spec::Gpu gpu = plain_gpu();
  const auto time = [&](int64_t heads) {
    Op op = attention(4096, 128);
    op.flops = op.flops / as_real(op.attention.heads) * as_real(heads);
    op.attention.heads = op.attention.query_groups = heads;
    return kernel_time(gpu, op).compute;
  };
  for (int64_t heads = 1; heads < 64; ++heads)
    CHECK(time(heads + 1) >= 0.9999 * time(heads));
  CHECK(time(8192) / time(4096) == Approx(2).epsilon(0.01));
}

}  // namespace
}  // namespace triplepoint::perf
