// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "triplepoint/base/units.h"

namespace triplepoint::spec {

/// What the linear layers compute in. fp8: one scale per tensor; mxfp8, nvfp4: one per block of 32
/// or 16 elements, in hardware. Everything else runs in bf16 under the last three and fp8.
enum class Precision { bf16, fp16, fp8, fp32, mxfp8, nvfp4 };

/// Linear layers in fewer than 16 bits: operands are cast before each product.
constexpr bool is_quantized(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::mxfp8 ||
         precision == Precision::nvfp4;
}

/// What a piece of work is, as kernel times, energy and reports tell them apart.
enum class OpClass {
  gemm,          // dense matrix product
  grouped_gemm,  // one product per expert
  attention,     // fused attention core (flash)
  norm,
  elementwise,  // bias, activation, dropout, residual, RoPE, casts
  router,       // MoE gate, top-k, permutation of tokens
  embedding,
  loss,  // softmax cross-entropy on logits
  optimizer,
  communication
};
inline constexpr int op_class_count = 10;

/// Spelled as NCCL and nccl-tests do. send_recv is one point-to-point transfer.
enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send_recv };
inline constexpr int collective_count = 6;

/// Which ranks take part. `model` is TP x PP: the group of the gradient-norm all-reduce. `data` is
/// DP x CP: ranks with equal dense parameters. `embedding`: first and last stage (tied weights).
/// `shard`, `replica`: the two levels of hybrid sharding inside `data`.
enum class GroupKind {
  tensor,
  context,
  expert,
  expert_tensor,
  data,
  expert_data,
  pipeline,
  model,
  embedding,
  shard,
  replica
};
inline constexpr int group_kind_count = 11;

/// How a communication may hide behind computation.
enum class Overlap {
  none,       // the stream waits for it
  tensor,     // userbuffers: hides behind the GEMM it feeds or follows
  prefetch,   // FSDP: may start as early as the prefetch depth allows
  gradient,   // DP buckets: run behind the rest of the backward pass
  parameter,  // DP parameter all-gather: runs behind the next forward pass
  copy        // between device and host memory, by a copy engine: beside kernels and collectives
};

/// C[m, n] += A[m, k] B[k, n], `count` independent products of the same shape (experts, batches).
struct GemmShape {
  int64_t m = 0, n = 0, k = 0, count = 1;
  friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

/// Attention core of one rank. Causal work is half of the full square.
struct AttentionShape {
  int64_t batch = 0, heads = 0, query_groups = 0;
  int64_t query_length = 0, key_length = 0, head_dim = 0;
  bool causal = true;
  int64_t window = 0;  // keys that a causal query sees at most; 0: all before it
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

/// One unit of work on one rank: a kernel (or a few alike), or one collective.
struct Op {
  std::string_view name;  // static text: "qkv", "mlp_up", "tp_all_gather", ...
  OpClass op_class = OpClass::elementwise;
  Precision precision = Precision::bf16;
  Flops flops;               // really executed (causal attention counts the half)
  Bytes hbm_bytes;           // read plus written
  int kernels = 1;           // launches
  bool scan = false;         // of a state-space layer: Triton's kernels (mamba_ssm)
  bool backward = false;     // attention backward and wgrad have their own efficiencies
  GemmShape gemm;            // op_class gemm, grouped_gemm
  AttentionShape attention;  // op_class attention

  // op_class communication only
  Collective collective = Collective::all_reduce;
  GroupKind group = GroupKind::tensor;
  Bytes payload;  // S of nccl-tests: bytes of the whole array; for send_recv, of the message
  Overlap overlap = Overlap::none;

  bool is_communication() const { return op_class == OpClass::communication; }
  /// `payload` moves to or from the host's memory; no other rank takes part.
  bool is_host_copy() const { return is_communication() && overlap == Overlap::copy; }
  /// Runs on the matrix units.
  bool is_matrix_work() const {
    return op_class == OpClass::gemm || op_class == OpClass::grouped_gemm ||
           op_class == OpClass::attention;
  }
};

/// Work of one GPU over a time span, as the power model sees it. Amounts, not rates.
struct GpuLoad {
  Seconds duration;
  std::array<Flops, op_class_count> flops{};
  Flops fp8_flops;  // the part of (grouped) gemm flops done with fp8 operands
  Flops fp4_flops;  // the same with 4-bit operands
  Bytes hbm_bytes;
  Bytes scale_up_bytes;             // sent over NVLink / xGMI
  Bytes scale_out_bytes;            // sent over the NIC
  Seconds computing;                // some compute kernel runs
  Seconds communicating;            // a collective kernel moves data
  Seconds communicating_scale_out;  // the part of that which goes over the NIC
  Seconds waiting;                  // a collective kernel spins for a peer

  GpuLoad& operator+=(const GpuLoad& other);
};
GpuLoad operator*(double times, GpuLoad load);

std::string_view name_of(OpClass);
std::string_view name_of(Collective);
std::string_view name_of(GroupKind);
std::string_view name_of(Precision);

}  // namespace triplepoint::spec
