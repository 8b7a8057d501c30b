// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/workload/chunk_work.h"
#include "triplepoint/workload/data_parallel.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/rank_grid.h"
#include "triplepoint/workload/schedule.h"

namespace triplepoint::workload {

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
  Flops hardware_flops = {};     // the same with recomputation (HFU's numerator)
  double parameters = 0;         // of the whole model
  int64_t tokens_per_step = 0;   // of records, without padding
  int64_t records_per_step = 0;  // sequences, where the job states no records
};

/// Expands a valid job (no errors from spec::diagnose) into work.
WorkGraph build_work_graph(const spec::Job&);

/// A job's work but for what grows with the number of microbatches (programs, memory) and what no
/// step time needs (totals): for searches that keep their own programs.
WorkGraph build_work_without_programs(const spec::Job&);

}  // namespace triplepoint::workload
