// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/rank_grid.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::workload {

/// Ops of one rank that repeat: "dense layer" x 24, "embedding" x 1. Order is execution order.
struct OpGroup {
  std::string_view name;  // static text: "embedding", "head", "prediction", or name_of_layer()
  int64_t repeat = 1;
  bool is_layer = false;  // counts for the host's time per layer
  std::vector<spec::Op> ops;
  double host_share = 1;  // of that time: a layer of attention alone, or MLP alone, is half of one
};

/// What one rank of a stage does for one microbatch on one model chunk, pass by pass.
/// Recompute stands apart (it runs right before the backward pass of its layers).
struct ChunkWork {
  int64_t first_layer = 0, num_layers = 0;
  bool has_embedding = false, has_head = false;
  std::vector<OpGroup> forward, recompute, backward_input, backward_weight;
};

/// Once per step and stage, after (or, where `overlap` says so, behind) the microbatches.
struct StepWork {
  std::vector<spec::Op>
      gradient_sync;  // DP reductions (dense and expert groups), embedding all-reduce
  std::vector<spec::Op> gradient_norm;  // local norm and the all-reduce over the model group
  std::vector<spec::Op> optimizer;
  std::vector<spec::Op> parameter_sync;  // ZeRO-1/2 all-gather
};

/// The job as work. Everything is per rank; ranks of one stage do the same.
struct WorkGraph {
  RankGrid grid;
  int64_t stages = 1, virtual_stages = 1, microbatches = 1;
  std::vector<ChunkWork> works = {};                  // the distinct ones
  std::vector<std::vector<int64_t>> chunk_work = {};  // [stage][chunk] -> index into works
  std::vector<std::vector<int64_t>> first_layer =
      {};                                   // [stage][chunk], in the model (works are shared)
  std::vector<StepWork> step_works = {};    // the distinct ones
  std::vector<int64_t> step_work = {};      // [stage] -> index into step_works
  std::vector<StageProgram> programs = {};  // [stage]
  Bytes boundary_bytes = {};  // activation sent to the next stage, per rank and microbatch
  MemoryVerdict memory = {};

  Flops model_flops =
      {};  // one step, all ranks, without recomputation (MFU's numerator; causal attention in full)
  Flops hardware_flops = {};  // the same with recomputation (HFU's numerator)
  double parameters = 0;      // of the whole model
  int64_t tokens_per_step = 0;
};

/// Expands a valid job (no errors from spec::diagnose) into work.
WorkGraph build_work_graph(const spec::Job&);

}  // namespace triplepoint::workload
