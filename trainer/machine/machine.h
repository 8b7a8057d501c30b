// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "trainer/math/math.h"

namespace triplepoint::trainer {

/// Seconds here are CPU seconds of the thread, independent of other load at
/// work. That is what ranks which share cores pay, and it hardly depends on how busy the machine
/// is.
struct GemmRow {
  int64_t m = 0, n = 0, k = 0;
  double seconds = 0;  // mean over forward, input and weight gradient's ways of lying
};

struct AttentionRow {
  Attention shape;
  bool backward = false;
  double flops = 0, seconds = 0;
};

/// One collective in a node. `wall_seconds`: of all ranks, best of some.
struct LinkRow {
  std::string collective;
  int ranks = 0;
  double bytes = 0;         // payload, as nccl-tests count
  double core_seconds = 0;  // of one rank
  double wall_seconds = 0;
};

/// One training step of one rank.
struct TrainingRow {
  std::string model;
  int64_t micro_batch_size = 1, global_batch_size = 1;
  double core_seconds = 0, wall_seconds = 0;
};

struct MachineRows {
  std::string processor;
  int64_t cores = 1;
  double memory_bytes = 0;
  double call_seconds = 0;           // of an operation on next to nothing
  double copy_bytes_per_second = 0;  // read and written, out of the caches
  std::vector<GemmRow> gemms;
  std::vector<AttentionRow> attentions;
  std::vector<LinkRow> links;
  std::vector<TrainingRow> trainings;
};

/// How long each row is repeated.
struct MachineEffort {
  double seconds = 0.03;
  int64_t steps = 6;
};

std::vector<GemmRow> measure_gemms(Math&, const MachineEffort&);
std::vector<AttentionRow> measure_attention(Math&, const MachineEffort&);
double measure_call(Math&);
double measure_copy(const MachineEffort&);
std::vector<LinkRow> measure_links(const MachineEffort&);
Result<std::vector<TrainingRow>> measure_trainings(const MachineEffort&);

/// All of it: some ten seconds.
Result<MachineRows> measure_machine(const MachineEffort&);
Json json_of(const MachineRows&);

/// Of the calling thread, and of the whole process.
double thread_core_seconds();
double process_core_seconds();

}  // namespace triplepoint::trainer
