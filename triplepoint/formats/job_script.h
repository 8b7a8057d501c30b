// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

namespace triplepoint::formats {

/// What the Slurm script that starts a job says about it; all else in it is left aside.
struct JobScript {
  std::string path;
  std::optional<int64_t> num_nodes;      // #SBATCH --nodes, -N
  std::optional<int64_t> gpus_per_node;  // --gpus-per-node, --gres=gpu:8, --ntasks-per-node
  std::optional<std::string> gpu_type;   // --constraint or -C, or the type in --gres=gpu:h100:8
  std::optional<std::string> entry;      // the program: "megatron_gpt_generate.py"
};

/// Nothing if the text has no #SBATCH line.
std::optional<JobScript> read_job_script(std::string_view text, std::string path);

/// The script that belongs to a configuration: name.sh beside name.yaml, or in a folder beside it.
Result<std::optional<JobScript>> job_script_beside(const Path& configuration);

}  // namespace triplepoint::formats
