// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/workload/op_makers.h"

namespace triplepoint::workload {

/// A state-space layer (Mamba-2): norm, one product in, a short causal convolution, the scan, a
/// gated norm, one product out, residual.
///
/// Sizes of one rank: H heads of P, inner width I = H P, G groups of N states, convolution over
/// C = I + 2 G N channels, product in of 2 I + 2 G N + H outputs.
struct StateSpaceShare {
  int64_t heads = 0, head_dim = 0, groups = 0, state = 0, chunk = 0, conv_width = 0;
  int64_t inner() const { return heads * head_dim; }
  int64_t channels() const { return inner() + 2 * groups * state; }
  int64_t projected() const { return inner() + channels() + heads; }
};
/// What TP splits: heads and groups.
StateSpaceShare state_space_share(const LayerContext&);

/// The scan in chunks of Q tokens, per token and head (state-space duality), forward:
///
///   scores    C B^T, per group                 2 Q N        written in fp32, Q a token
///   states    B^T x of each chunk              2 N P        N P / Q a token, fp32
///   passing   states from chunk to chunk       -            fp32 read, bf16 written
///   output    (decay o scores) x + C state     2 (Q + N) P
///
/// Backward repeats scores, states and passing, then the gradients of states, x, B, C, scores
/// and decay: 10 N P + 6 Q P a head, 6 Q N a group. The convolution is recomputed, too: of the
/// layer only the product in, the scan's output and the gated norm's are kept.
/// Chunks of 128 or 256 tokens make it memory bound. A token decoded updates a state of 4 bytes an
/// element in place. Under context parallelism heads are exchanged for tokens before the
/// convolution and after the scan, so that a rank scans whole sequences.
/// Sources: Dao and Gu 2024 (arXiv 2405.21060), section 6; the kernels of state-spaces/mamba
/// (ops/triton/ssd_*) counted by hand; Megatron-LM, megatron/core/ssm/mamba_mixer.py.
void add_state_space(const LayerContext&, Passes&);

/// Bytes that the backward pass needs of one microbatch; what serving holds at once; and what a
/// sequence leaves behind for its next token, however long it is.
double state_space_activation_bytes(const LayerContext&);
double state_space_served_bytes(const LayerContext&);
double state_space_cache_bytes(const LayerContext&, int64_t sequences);

}  // namespace triplepoint::workload
