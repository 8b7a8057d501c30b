// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "triplepoint/spec/job.h"

namespace triplepoint::workload {

/// One rank's share of a microbatch and of a layer: what every maker of ops reads.
///
/// Under sequence parallelism norms, dropout and residuals see `sharded_tokens`, everything between
/// an all-gather and a reduce-scatter sees `tokens`. Without it the two are equal.
/// Uneven divisions round up: the rank with most work sets the pace.
struct RankShare {
  int64_t tensor = 1, context = 1, expert = 1, expert_tensor = 1, data = 1, expert_data = 1;
  int64_t shard = 1;  // ranks that share one copy of sharded dense states

  int64_t sequences = 1;       // of one microbatch
  int64_t query_length = 0;    // of one sequence on this rank: sequence / CP; 1 when decoding
  int64_t key_length = 0;      // whole sequence
  int64_t tokens = 0;          // sequences * query_length
  int64_t sharded_tokens = 0;  // tokens / TP under sequence parallelism
  bool sequence_parallel = false;

  int64_t hidden = 0;
  int64_t heads = 0, query_groups = 0, head_dim = 0;  // of this rank
  int64_t vocabulary = 0;                             // of this rank
  int64_t ffn = 0;                                    // dense MLP, of this rank
  int64_t gates = 1;  // 2 with SwiGLU: up and gate product in one GEMM

  double element = 2;   // bytes of an activation
  double residual = 2;  // bytes of an element of the trunk, between the layers
  bool training = true;
  bool frozen = false;  // LoRA: the base has no weight gradient
};

RankShare share_of_rank(const spec::Job& job);

/// ceil(a / b) for positive counts.
constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

constexpr double real(int64_t count) {
  return static_cast<double>(count);
}

}  // namespace triplepoint::workload
