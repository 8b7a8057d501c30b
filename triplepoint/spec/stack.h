// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/units.h"

namespace triplepoint::spec {

/// Attention kernels that a stack calls: scores written to memory by separate kernels; the first
/// FlashAttention (and Triton's of its time); the second, built from instructions every chip since
/// the A100 has; kernels written for the chip at hand (cuDNN, FlashAttention 3, CK).
enum class AttentionKernels { unfused, flash_1, flash_2, native };

/// How a stack computes cross entropy, by what it holds (workload/memory.cpp) and moves
/// (workload/chunk_work.cpp) of each logit: one kernel over 16-bit logits (FlashAttention's, apex',
/// Liger's, inductor's); Megatron's over vocabulary shards, chains fused by the jit or not; logits
/// and gradient in floats (XLA); PyTorch's operations one by one in floats; none: head and loss are
/// taken in chunks of logits that the backward pass makes again (prime-rl, cut cross entropy).
enum class LossKernels { fused, megatron_fused, megatron, floats, op_by_op, none };

/// Where sharded parameters lie while they compute (FSDP, ZeRO-3): where the collectives read and
/// write them (XLA, Megatron); as views of one tensor per unit (PyTorch's FSDP1); as separate
/// tensors, copied out of what was gathered and into what is reduced (its fully_shard, DeepSpeed).
/// Bytes and sources: workload/data_parallel.h.
enum class ShardedTensors { in_place, flat, per_parameter };

/// Attention under context parallelism: exchange of keys and values behind the kernels
/// (Transformer Engine, XLA); or block by block, each exchange waited for and outputs merged in
/// floats (PyTorch's context_parallel). Bytes and source: workload/attention.h.
enum class ContextAttention { overlapped, merged_blocks };

/// The software that runs the job. Its costs are properties of the software, never of one job.
struct Stack {
  std::string name;       // "nemo-profiled"
  std::string framework;  // "NeMo"
  std::string version;    // release, or the year
  std::string optimizer;  // data/optimizers/: what its recipes train with, where a job says nothing
  bool cuda_graphs = false;     // kernels of a step are launched as graphs
  bool profiled = false;        // profiler and execution-trace observer run in the measured step
  Seconds kernel_launch;        // host time per kernel
  Seconds layer_forward_host;   // further host time per layer and forward (or recompute) pass
  Seconds layer_backward_host;  // the same of a backward pass
  // Further host time per tensor-parallel collective and rank of its group: Python that handles a
  // list of pieces, one per peer.
  Seconds tensor_collective_host;
  Seconds microbatch_gap;  // host gap per pipeline exchange
  Seconds step_overhead;   // data, logging, start and stop of the measured window
  double tensor_overlap_compute_loss =
      0;  // seconds of GEMM lost per second of collective hidden by userbuffers
  double overlap_compute_loss = 0;      // seconds of GEMM lost per second of overlapped collective
  double overlap_transfer_stretch = 0;  // collective lengthening per second of overlapped GEMM
  double memory_fragmentation = 1.03;   // allocated over needed
  Bytes framework_reserve;              // CUDA context, NCCL buffers, workspace
  // What computes the cross entropy, and so its traffic and memory: fused 16-bit logits, Megatron's
  // fused by the jit or not, floats (XLA), op by op (PyTorch), or none that makes logits.
  LossKernels loss_kernels = LossKernels::fused;
  // Gradients are written over the activations they belong to and added where they stay: no
  // autograd hands tensors on.
  bool gradients_in_place = false;
  AttentionKernels attention_kernels =
      AttentionKernels::native;  // native: written for the chip at hand
  Seconds moe_layer_host;        // further host time per MoE layer and pass: the dispatcher waits
                                 // for the device to learn how many tokens go where
  Seconds moe_expert_host;  // and per expert of this rank: kernels that are launched one by one
  bool fused_norms = true, fused_activations = true;  // one kernel each, not one per operation
  // Casts to 8 and 4 bits are fused with what comes before or among themselves, and those of
  // weights are kept for a step (Transformer Engine).
  bool fused_casts = true;
  // 8-bit products scale each row and column (float8 rowwise), which slices of both layouts ask
  // for.
  bool rowwise_scales = false;
  // MoE rows travel once to each node (or rank, inside of one NVLink domain) that has an expert for
  // them, are sorted on the way, and only what the experts multiply is kept (DeepEP, HybridEP).
  bool fused_moe_dispatch = false;
  // The same, but an all-to-all of NCCL's carries each row to every one of its experts.
  bool moe_sends_every_copy = false;
  // Of quantized linear layers: frozen weights are kept in 8 bits only, and so is what the gate of
  // an MLP reads, for the backward pass.
  bool fp8_frozen_weights = false, fp8_gate_inputs = false;
  // Full recompute ends once all is there that the backward pass reads: a dense layer's last
  // product, its reduction and residual are not run again (PyTorch's non-reentrant checkpoint).
  bool recompute_stops_early = false;
  // What tensor-parallel ranks hold alike stays outside of FSDP, in fp32 (NeMo without O2): biases
  // and positions then promote the residual stream.
  bool fsdp_promotes_residual = false;
  ShardedTensors sharded_tensors = ShardedTensors::in_place;
  ContextAttention context_attention = ContextAttention::overlapped;
  bool gradient_sync_accumulates = false;  // ZeRO-2 reduces each microbatch
  bool has_flash_attention() const { return attention_kernels != AttentionKernels::unfused; }
  friend bool operator==(const Stack&, const Stack&) = default;
};

}  // namespace triplepoint::spec
