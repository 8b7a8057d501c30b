// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::workload {

enum class Phase { warmup, steady, cooldown };

/// backward = input and weight gradient together; zero-bubble schedules split them.
enum class ActionKind { forward, backward, backward_input, backward_weight };

/// One entry of a stage's program: run `kind` of `microbatch` on model chunk `chunk` (0 without
/// VPP).
struct Action {
  ActionKind kind = ActionKind::forward;
  int32_t microbatch = 0;
  int32_t chunk = 0;
  Phase phase = Phase::steady;
  friend bool operator==(const Action&, const Action&) = default;
};

/// The order in which one pipeline stage works. Dependencies are implied: forward of (microbatch,
/// chunk) needs the previous chunk's forward; backward needs the next chunk's backward (and its own
/// forward).
using StageProgram = std::vector<Action>;

/// One program per stage.
///
/// GPipe: all forwards, then all backwards. 1F1B (PipeDream-flush): warm-up of min(p - stage - 1,
/// m) forwards, then alternating. Interleaved: Megatron's order with v chunks (m must be a multiple
/// of p). ZB-H1: 1F1B with the weight gradient delayed into the cool-down bubble. Sources:
/// Narayanan et al. SC'21; Qi et al. 2024 (Zero Bubble).
std::vector<StageProgram> build_schedule(spec::Schedule, int64_t stages, int64_t microbatches,
                                         int64_t virtual_stages);

/// Inference: every stage runs the forwards, microbatch by microbatch (with chunks: in Megatron's
/// order).
std::vector<StageProgram> build_forward_schedule(int64_t stages, int64_t microbatches,
                                                 int64_t virtual_stages);

/// What the stages of a job run: plan.schedule in training, forwards alone in inference. Where
/// microbatches are sent together, the schedule's unit is that number of them, one behind the
/// other.
std::vector<StageProgram> build_programs(const spec::Job& job);

/// Closed forms, the oracles of the event simulation. Equal stages, forward f, backward b, no
/// communication.
///   bubble_fraction = idle / total;   1F1B and GPipe: (p-1)/(m+p-1);   interleaved: (p-1)/(v m +
///   p-1) ZB-H1, where forward, input and weight gradient take equally long and m >= p: (p-1)/(3 m
///   + p-1)
double bubble_fraction(spec::Schedule, int64_t stages, int64_t microbatches,
                       int64_t virtual_stages);

}  // namespace triplepoint::workload
