// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/training_row.h"

namespace triplepoint::calibrate {

/// How rows reach their experts: every copy by NCCL's all-to-all, or once to each node or domain.
enum class Dispatch { alltoall, deepep, hybridep };

/// What a public recipe chooses and a row of its results does not print. It is the recipe of a row
/// that has its model, GPU and precision, names one of its releases, and prints no other size of
/// its layout. Absent: it does not say.
struct Recipe {
  std::string model;                        // data/models
  std::string workload = "pretrain";        // of the row
  std::vector<std::string> gpus;            // data/gpus
  std::vector<spec::Precision> precisions;  // empty: all
  std::vector<std::string> releases;        // words of the row's framework; empty: all
  std::optional<int64_t> tensor_parallel_size, pipeline_parallel_size, virtual_pipeline_size,
      context_parallel_size, expert_parallel_size, micro_batch_size;

  std::optional<std::vector<spec::RecomputeModule>> recompute_modules;  // []: nothing
  std::optional<Dispatch> dispatch;
  std::optional<bool> overlap_expert, fp8_attention;
  std::string source;  // file and commit
};

/// The recipes of data/recipes/<name>.toml, in the order of the file.
Result<std::vector<Recipe>> load_recipes(const spec::Library&, std::string_view name);

/// The first recipe that this row may have followed; model, machine and precision of the job must
/// stand.
const Recipe* recipe_of(const std::vector<Recipe>&, const TrainingRow&, const spec::Job&);

}  // namespace triplepoint::calibrate
