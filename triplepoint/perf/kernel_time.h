// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/base/units.h"

#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::perf {

/// Time of one kernel, split by what sets its pace, so that any clock can be asked for cheaply.
///
///   t(f) = max( norm_p( compute * ((1 - q) f_max/f + q), memory ) + start, floor )
///
/// compute: at max clock; memory: bytes over achieved bandwidth, does not depend on the SM clock;
/// q: clock-insensitive share; p: roofline norm; start: kernels * fill and drain; floor: kernels *
/// shortest kernel. Holds for SM-clock changes at constant memory clock. Source:
/// docs/models/kernels.md.
struct KernelTime {
  Seconds compute, memory, floor;
  double norm = 4, insensitive = 0;
  Seconds start;
  Seconds at(double clock_ratio) const;  // f / f_max
};

/// Kernel time of a compute op (op_class != communication) on this GPU, before launch costs.
///
///   gemm, grouped_gemm:  compute = flops / (peak * gemm_efficiency)
///   attention:           compute = flops / (peak * attention_efficiency)
///   all others:          norm_p(compute, memory) = hbm_bytes / (hbm_bandwidth * hbm_share);
///                        compute = knee * memory: below that clock ratio the SMs set the pace
///
/// Launches of one op (`kernels`) that share `gemm.count` products run one after the other.
/// Requires: gpu.peak(precision), hbm_bandwidth, compute_units present (spec::diagnose refuses
/// others).
KernelTime kernel_time(const spec::Gpu& gpu, const spec::Op& op);

/// Share of the dense peak a GEMM reaches at max clock, unthrottled, without memory limits and
/// start-up: the best of the library's tiles and k splits.
///
///   t(tile, s) = waves * 2 tm tn (k/s + k0) / (peak * e_max / units * 1 / (1 + h (1/tm + 1/tn)/2))
///                + [s > 1] 2 s m n 4 B / (hbm_bandwidth * hbm_share)
///   waves = ceil(w) - (1 - Q) (ceil(w) - w),  w = ceil(m/tm) ceil(n/tn) count s / units
///
/// k0: gemm_half_k, in 2-byte elements (a prologue is bytes, so fp8 counts it double); h:
/// gemm_half_tile; Q: wave_quantization; tiles: sides in steps of 64 (or the largest tile's, where
/// that is smaller), area up to tile_m x tile_n; s: 1, 2, 4, 8 where tiles alone do not fill the
/// chip. Holds for m, n >= 64 or so; below, a tile is padded. Source: docs/models/kernels.md.
double gemm_efficiency(const spec::Gpu& gpu, const spec::GemmShape& shape,
                       spec::Precision precision);

/// Share of the dense peak fused (flash) attention reaches at max clock, unthrottled.
///
///   e = e_max * s / (s + M + L0) / (1 + (d0/d)^3)^(1/3) * w / max((1 - Q) b, w + Q b)
///   s = L, M = 0                                   b = 1               all keys
///   s = L/2, M = T/2                               b = 2 n / (n + 1)   causal
///   s = m = k - k (k - 1) / 2 L, M = T             b = k / m           causal, a window of k < L
///   keys
///
/// L: key length; s: keys that a query sees on the mean (flops are counted for these); M: masked
/// keys that its block computes all the same, half a block on the diagonal and half a block at a
/// window's far end; L0: what a block begins and ends with, in keys (attention_half_length); d:
/// head dimension (softmax work does not grow with it); T: attention_tile, query rows of a block;
/// w: blocks over compute units; n: blocks of one head; b: the longest block over a mean one (under
/// a causal mask the last rows see all keys, the first almost none); Q:
/// attention_wave_quantization, what of the longest block drains alone. d0 follows from the chip:
/// matrix flops per clock over 4 x special functions per clock. Backward has five products instead
/// of two and twice the softmax work: 0.8 d0; kernel_time adds the streaming of its two companions,
/// 14 bytes an element of the queries. Holds for 512 and more keys; a lone query splits them (w, b:
/// 1). Source: docs/models/kernels.md.
///
/// In 8 bits products take p = peak_bf16 / peak_fp8 of their time and softmax, in fp32, as long as
/// before: faster by ((1 + (d0/d)^3) / (p^3 + (d0/d)^3))^(1/3), but for what L0 stands for. On an
/// H100 that is 1.1, 1.5 and 1.9 for heads of 64, 128 and 256, as FlashAttention-3 (arXiv
/// 2407.08608, figures 5 and 7) has it.
double attention_efficiency(const spec::Gpu& gpu, const spec::AttentionShape& shape, bool backward);

/// Whose peak an op's efficiency is a share of: its own precision's; of attention in 8 bits,
/// bf16's.
spec::Precision rated_precision(const spec::Op&);

/// Flops by which an op's energy counts.
///
///   attention:           peak * t_compute        all others: flops
///   products of m rows, fewer than a tile has, but for gradients:  flops * (m + tile) / 2 m
///   attention of one query a sequence: the same, m: heads that share keys and values
///
/// t_compute: at maximum clock. tile: 128 rows, or the library's whole tile where that is smaller.
///
/// Fused attention draws the same power however few products it gets done: exponentials, masks and
/// half-filled blocks take energy as they take time. A B200 reads 880 to 970 W from 327 to 1300
/// TFLOP/s, for heads of 64 to 512 and keys of 512 to 10240; an H200 about 500 W from 200 to 700.
/// Counted by what the chip's peak would do in that time, both need the same energy, 0.30 and 0.31
/// J/TFLOP, with two libraries that reach 0.66 and 0.79 of their peaks. Few rows pass a whole tile
/// of weights through the tensor cores as many do; rows of zeros toggle about half. Decoding 8
/// sequences draws 430 to 540 W on H100 and 640 to 870 W on B200 while it reads weights, 140 to 155
/// pJ a byte more than waiting, of which memory is 80; 64 sequences draw a quarter more. Holds for
/// fused kernels and for tensor cores. Sources: docs/models/power.md, inference.md.
Flops energy_flops(const spec::Gpu&, const spec::Op&);

}  // namespace triplepoint::perf
