// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

/// QKV, rotary embedding, attention core, projection, with what surrounds them: norm before,
/// bias, dropout and residual after; tensor- and context-parallel communication.
///
/// Grouped queries: QKV has (heads + 2 groups) d outputs. Latent attention (DeepSeek-V2, section
/// 2.1): down to the ranks, norms, up again; its core is modelled with one head size, the mean of
/// the query's (d + rope) and the value's, which keeps flops and bytes.
void add_attention(const LayerContext&, Passes&);

/// The core and the exchange of keys and values under context parallelism. Its forward is what
/// selective recompute repeats.
///
///   forward flops 4 b a d s_q s_k, half of it where causal and fused; backward 5/2 of that (flash
///   computes the scores again), 2 where the scores were kept.
///
/// Under context parallelism each rank has s/CP queries, dealt out so that causal work is equal.
/// A window of w keys: a query at position p sees min(w, p), on the mean w - w (w - 1) / 2 s, which
/// takes the place of s/2; unfused scores are computed whole and masked.
///
/// PyTorch's context_parallel (stack.context_attention merged_blocks; e: bytes of an activation,
/// q: elements of this rank's queries): keys and values of a block are 2 q elements, since models
/// repeat them for every query head before; they are gathered at once or rotated CP - 1 times,
/// backward again, and their gradients CP times in floats. Traced collectives are waited for where
/// they stand, so none hides. Merging a block reads and writes (e + 8) q bytes, CP - 1 times
/// forward; backward 3 (e + 8) q, CP times.
/// Source: PyTorch, torch/distributed/tensor/experimental/_attention.py
/// (_templated_ring_attention and its backward, _SDPAMerger, _maybe_wait); torchtitan, repeat_kv.
///
/// Sparse attention (indexer_topk k) reads min(k, p) keys, counted as a window of k. Its indexer
/// first scores all p with H small heads of D: forward 2 t H D s/2, backward twice that of the
/// min(k, p); not split by tensor parallelism. Keys of the indexer are not exchanged under context
/// parallelism (D of 2 a d numbers a token). Kernels that read the latent vectors as they are do
/// (rank + rope/2) / d times the core's products; that is not counted.
/// Source: DeepSeek-AI 2025 (DeepSeek-V3.2), section 2.1.
/// Source: Dao et al. 2022 and 2023 (FlashAttention); Korthikanti et al. 2022 for the unfused core.
void add_attention_core(const LayerContext&, Passes&);

/// Head size that gives the core's flops: d, or for latent attention (query + value) / 2.
int64_t core_head_dim(const spec::Model&);

/// Keys that sparse attention reads for a query; 0: it is not sparse.
int64_t indexer_topk(const spec::Model&);

/// Mean number of keys that a causal query sees in a sequence: half of them, or fewer
/// where a window ends before.
double mean_keys(int64_t key_length, int64_t window);

/// Keys and values of one token on one rank, in elements (of all its query groups).
double key_value_width(const LayerContext&);

}  // namespace triplepoint::workload
