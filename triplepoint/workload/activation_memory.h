// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

/// Bytes that the backward pass of one layer needs of one microbatch, on one rank.
///
/// The tensors a backward kernel reads, each once (e: bytes of an element; a trunk element has
/// `residual` bytes; widths per rank; T tokens, T' those of the rank's sequence shard):
///   trunk before each norm                       2 residual T' h
///   inputs of QKV and MLP                        2 e T' h under sequence parallelism, else 2 e T h
///   q, k, v, output of the core                  e T (2 q + 2 kv)   (+ 4 T heads: log-sum-exp)
///   up product and activation                    e T (gates + 1) f
///   dropout masks                                2 T' h
///   scores, where attention is not fused         (2 e + 1) b a s_q s_k
///   experts: 4 rows of h and (gates + 1) f' per row instead of the MLP's
/// Selective recompute keeps none of what its modules write (plan.recompute_modules): norm outputs,
/// scores, latent attention's q, k, v, the experts' or the MLP's activations. In 8-bit attention q,
/// k, v and the core's output are kept in one byte.
/// For GPT without tensor parallelism: s b h (34 + 5 a s / h), which is Korthikanti et al. 2022,
/// equation 1; with it their equations 2 and 4. GEMM inputs kept in fp8 count one byte.
double layer_activation_bytes(const LayerContext&, LayerKind);

/// Bytes that one layer holds at once where nothing is kept for a backward pass: the trunk, and the
/// larger of attention and MLP.
///
///   trunk        residual T' h
///   attention    e T (h + 2 q + kv)                    norm, queries, keys, values, output
///   MLP          e T (h + (gates + 1) f)               norm, up product, activation
///   experts      e (2 S h + C (h + (gates + 1) f'))    S: rows sent, C: rows computed
double served_layer_bytes(const LayerContext&, LayerKind);

/// One depth of multi-token prediction, without its logits: the joined input and its layers.
double prediction_activation_bytes(const LayerContext&);

/// What full recompute keeps of a layer: its input.
double checkpoint_bytes(const LayerContext&);

/// One microbatch in one chunk, as plan.recompute has it; without the logits.
double chunk_activation_bytes(const LayerContext&, const ChunkLayers&);

/// What of that waits in the host's memory: plan.activation_offload of what layers keep.
double chunk_offloaded_bytes(const LayerContext&, const ChunkLayers&);

/// The same of one layer: what is copied behind its forward pass, and again behind its backward
/// pass.
double offloaded_layer_bytes(const LayerContext&, LayerKind);

/// The layer, or the modules of a layer, that recompute is just repeating (the largest of the
/// chunk); 0 without.
double recomputed_layer_bytes(const LayerContext&, const ChunkLayers&);

/// The most that a layer's backward pass adds to what its forward pass kept: the trunk's gradient
/// before and behind the branch, and that of the widest product (which is made while what it was
/// made of is still there).
///
///   MLP        2 residual T' h + e T gates f
///   experts    2 residual T' h + e (C (gates f' + h) + S h)    S: rows sent, C: rows computed
///   neither    2 residual T' h + e T (2 q + kv)
double backward_working_bytes(const LayerContext&, LayerKind);

/// What a microbatch holds more between its input gradients and the weight gradients that a
/// zero-bubble schedule has put off.
///
/// Gradients of QKV and of the up product lie where their activations lay; those of projection and
/// down (experts: of their rows) come, 2 e T h, and the trunk before the norms goes, 2 residual T'
/// h. Layers that were recomputed stay until then.
double deferred_bytes(const LayerContext&, const ChunkLayers&);

/// Keys and values of all sequences that are being served, of one layer: of the whole sequence or
/// the window it looks back; or the states of a state-space layer.
double layer_cache_bytes(const LayerContext&, LayerKind, int64_t sequences);

}  // namespace triplepoint::workload
