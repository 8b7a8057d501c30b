// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace triplepoint::formats {

/// What the lines of a batch script, or the options of srun, ask a scheduler for.
struct BatchRequest {
  std::optional<int64_t> num_nodes;
  std::optional<int64_t> gpus_per_node;  // stated, or GPUs of all tasks or all nodes, shared evenly
  std::optional<int64_t> num_gpus;       // of all nodes, where their number is not stated
  std::optional<int64_t> num_tasks, tasks_per_node;
  std::optional<std::string> gpu_type;  // the type in --gres=gpu:h100:8
  std::string constraint, partition;    // which may name the GPUs as well

  /// What cannot be read or contradicts another, and of what: "run.sh:3: --nodes is 'x' (...)".
  struct Problem {
    std::string what;
    bool of_nodes = false, of_devices = false;
  };
  std::vector<Problem> problems;
  std::vector<std::string> remarks;
};

/// A word of a #SBATCH line, without its quotes, or of srun's options.
struct OptionWord {
  std::string text, place;  // "run.sh:3: "
};

/// The words of a line of directives as sbatch cuts them: quotes, backslashes, # for a comment.
std::vector<std::string> directive_words(std::string_view line);

struct BatchOption {
  std::string name, value;         // "nodes" of "--nodes=4", "-N 4" and "-N4"; "" of other letters
  std::size_t word = 0, last = 0;  // where the option stands, and where its value does
  bool bears = false;              // on number or kind of GPUs
};
/// Options with their values, as getopt cuts them. `program`: "sbatch" or "srun", whose words end
/// at the program that it starts.
std::vector<BatchOption> options_of(std::span<const OptionWord> words, std::string_view program);

/// Reads options as sbatch and srun do, the later one over the earlier, and shares out GPUs.
void read_options(std::span<const OptionWord> words, std::string_view program,
                  BatchRequest& request);

/// #PBS -l select=4:ngpus=8:gpu_model=a100, -l nodes=4:gpus=8.
void read_pbs(std::string_view line, const std::string& place, BatchRequest& request);
/// #BSUB -nnodes 4, -gpu "num=6".
void read_bsub(std::string_view line, const std::string& place, BatchRequest& request);

}  // namespace triplepoint::formats
