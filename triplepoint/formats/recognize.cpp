// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/import.h"

namespace triplepoint::formats {
namespace {

bool has_line_starting(std::string_view text, std::string_view head) {
  const std::vector<std::string_view> lines = lines_of(text);
  return std::any_of(lines.begin(), lines.end(),
                     [&](std::string_view line) { return line.starts_with(head); });
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

/// Two of the arguments without which Megatron does not start.
bool has_megatron_arguments(std::string_view text) {
  constexpr std::array<std::string_view, 4> needed{"--num-layers", "--hidden-size",
                                                   "--num-attention-heads", "--micro-batch-size"};
  return std::count_if(needed.begin(), needed.end(),
                       [&](std::string_view each) { return contains(text, each); }) >= 2;
}

bool is_hf_config(std::string_view text) {
  return trimmed(text).starts_with('{') &&
         (contains(text, "\"model_type\"") || contains(text, "\"architectures\"")) &&
         (contains(text, "\"hidden_size\"") || contains(text, "\"n_embd\""));
}

}  // namespace

std::string_view name_of(FileKind kind) {
  constexpr std::array<std::string_view, 5> names{"NeMo YAML", "Megatron arguments",
                                                  "Hugging Face config", "Slurm script", "unknown"};
  return names[static_cast<std::size_t>(kind)];
}

FileKind recognize(std::string_view text) {
  if (is_hf_config(text)) return FileKind::hf_config;
  if (has_line_starting(text, "model:") && has_line_starting(text, "trainer:"))
    return FileKind::nemo_yaml;
  if (has_megatron_arguments(text)) return FileKind::megatron_args;
  return has_line_starting(text, "#SBATCH") ? FileKind::job_script : FileKind::unknown;
}

}  // namespace triplepoint::formats
