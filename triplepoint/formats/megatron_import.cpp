// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/readers.h"
#include "triplepoint/formats/settings.h"
#include "triplepoint/formats/shell_command.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using Severity = spec::Diagnosis::Severity;

constexpr std::array key_of_code{
    KeyOfCode{DiagnosisCode::layers_not_divisible, "pipeline-model-parallel-size"},
    KeyOfCode{DiagnosisCode::world_not_divisible, "pipeline-model-parallel-size"},
    KeyOfCode{DiagnosisCode::batch_not_divisible, "global-batch-size"},
    KeyOfCode{DiagnosisCode::experts_not_divisible, "expert-model-parallel-size"},
    KeyOfCode{DiagnosisCode::heads_not_divisible, "tensor-model-parallel-size"},
    KeyOfCode{DiagnosisCode::head_dimension, "num-attention-heads"},
    KeyOfCode{DiagnosisCode::tensor_overlap_without_sequence_parallel, "tp-comm-overlap"},
};

// From words to settings ----------------------------------------------------------------------

bool is_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--");
}

/// "--num-layers=96" is a key with a value; "--num_layers" means --num-layers.
Setting start_setting(const ShellWord& word) {
  const std::string_view text = std::string_view(word.text).substr(2);
  const std::size_t equals = text.find('=');
  Setting setting{std::string(text.substr(0, equals)), {}, word.line};
  std::replace(setting.key.begin(), setting.key.end(), '_', '-');
  if (equals != text.npos) setting.words.emplace_back(text.substr(equals + 1));
  return setting;
}

/// Everything after the program is its own; without a program (a file of arguments) all is.
std::size_t first_argument(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].text.ends_with(".py")) return i + 1;
  return 0;
}

/// A word that the script does not say and that holds arguments, not a value: "$@", $EXTRA_ARGS,
/// "${ARGS[@]}", $(cat more.txt) behind a value.
bool holds_unknown_arguments(std::string_view word, const std::optional<Setting>& open) {
  const auto has = [](std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
  };
  if (!word.starts_with('$') || word.size() < 2) return false;
  if (word[1] == '@' || word[1] == '*' || word.starts_with("${@") || word.starts_with("${*"))
    return true;
  if (has(word, "[@]") || has(word, "[*]")) return true;
  const std::string name = upper_case(word);
  for (const std::string_view part : {"ARGS", "ARGUMENTS", "OPTS", "OPTIONS", "FLAGS", "EXTRA"})
    if (has(name, part)) return true;
  const bool of_data = open && has(open->key, "data");
  return !open || (!open->words.empty() && !of_data);
}

void refuse_unknown_arguments(const ShellWord& word, Settings& settings) {
  const std::string text = word.text.substr(0, 60);
  settings.diagnoses().push_back(
      {DiagnosisCode::inconsistent, Severity::error,
       fmt::format("{}:{}: {} has no value in this file (the arguments in it would be missing); "
                   "write them in its place, set it above, or take it out",
                   settings.file(), word.line, text)});
}

void add_arguments(const ShellCommand& command, Settings& settings) {
  std::optional<Setting> open;
  const auto close = [&] {
    if (open) settings.add(*std::exchange(open, std::nullopt));
  };
  for (std::size_t i = first_argument(command.words); i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    if (is_option(word.text)) {
      close();
      open = start_setting(word);
    } else if (holds_unknown_arguments(word.text, open)) {
      refuse_unknown_arguments(word, settings);
    } else if (open) {
      open->words.push_back(word.text);
    }
  }
  close();
}

// What starts the program ---------------------------------------------------------------------

constexpr std::string_view nodes_key = "nnodes", devices_key = "nproc-per-node";

/// Nodes and devices from torchrun, srun or mpirun in front of the program, by torchrun's names.
void add_launcher_option(std::string name, std::string value, int line, Settings& settings) {
  std::replace(name.begin(), name.end(), '_', '-');
  if (name == "--nnodes" || name == "--nodes" || name == "-N")
    settings.add({std::string(nodes_key), {value.substr(0, value.find(':'))}, line});  // "2:4"
  const bool chosen_by_torchrun = value == "auto" || value == "gpu";
  if (!chosen_by_torchrun &&
      (name == "--nproc-per-node" || name == "--gpus-per-node" || name == "--ntasks-per-node" ||
       name == "--npernode" || name == "-npernode"))
    settings.add({std::string(devices_key), {std::move(value)}, line});
}

void add_launcher(const ShellCommand& command, Settings& settings) {
  const std::size_t end = first_argument(command.words);
  for (std::size_t i = 0; i < end; ++i) {
    const std::string& word = command.words[i].text;
    const int line = command.words[i].line;
    const std::size_t equals = word.find('=');
    if (equals != word.npos)
      add_launcher_option(word.substr(0, equals), word.substr(equals + 1), line, settings);
    else if (i + 1 < end)
      add_launcher_option(word, command.words[i + 1].text, line, settings);
  }
}

MachineFacts read_machines(Settings& s, const ShellCommand& command) {
  MachineFacts facts;
  facts.cluster = command.variable("TRIPLEPOINT_CLUSTER");
  facts.stack = command.variable("TRIPLEPOINT_STACK");
  facts.num_nodes = s.count(nodes_key, 1, most_ranks);
  facts.gpus_per_node = s.count(devices_key, 1, most_ranks);
  facts.nodes_key = nodes_key;
  facts.gpus_key = devices_key;
  facts.plain_stack = facts.profiled_stack = "megatron-core";
  const bool profiled = s.flag("profile"), pytorch = s.flag("use-pytorch-profiler");
  if (profiled || pytorch) s.assume("the profiler costs nothing; profiled steps take longer");
  return facts;
}

/// CUDA graphs change the stack: the host no longer launches every kernel.
void read_graphs(Settings& s, spec::Stack& stack) {
  const bool old = s.flag("enable-cuda-graph"), external = s.flag("external-cuda-graph");
  constexpr std::array<std::string_view, 3> known{"none", "local", "transformer_engine"};
  const std::string implementation = s.one_of("cuda-graph-impl", known).value_or("none");
  if (old || external || implementation != "none") stack.cuda_graphs = true;
}

/// Slurm's own lines in the same script are as good as a script beside it.
ImportHints with_own_script(const ImportHints& hints, const std::string& text,
                            const std::string& path) {
  ImportHints all = hints;
  if (!all.job_script) all.job_script = read_job_script(text, path);
  return all;
}

/// With one connection FSDP gathers less ahead; more of them change nothing.
void read_connections(const ShellCommand& command, spec::Plan& plan) {
  const bool one = command.variable("CUDA_DEVICE_MAX_CONNECTIONS") == "1";
  if (one && plan.sharding == spec::Sharding::parameters) plan.cuda_device_max_connections = 1;
}

}  // namespace

Result<Imported> import_megatron(LibraryCache& cache, const std::string& text,
                                 const std::string& path, const ImportHints& hints) {
  const ShellCommand command = TPT_TRY(find_command(text, path));
  Settings settings(path, "--");
  settings.set_by_flags(hints.by_flags);
  add_launcher(command, settings);
  add_arguments(command, settings);
  spec::StatedJob stated;
  spec::Job& job = stated.job;
  job.name = settings.text("wandb-exp-name").value_or(std::filesystem::path(path).stem().string());
  job.origin = path;
  job.model = TPT_TRY(read_megatron_model(cache, settings, command));
  TPT_TRY(set_cluster_and_stack(cache, settings, with_own_script(hints, text, path),
                                read_machines(settings, command), stated));
  read_graphs(settings, job.stack);
  TPT_TRY(read_megatron_plan(cache, settings, stated));
  read_connections(command, job.plan);
  adopt_names(cache, command.variable("TRIPLEPOINT_OPTIMIZER"), job);
  report_unknown_keys(settings, "--", is_irrelevant_megatron_argument,
                      irrelevant_megatron_arguments());
  return assemble(settings, cache.library(), std::move(stated), key_of_code);
}

Result<Imported> import_megatron_args(const spec::Library& library, const std::string& text,
                                      const std::string& path, const ImportHints& hints) {
  LibraryCache cache(library);
  return import_megatron(cache, text, path, hints);
}

}  // namespace triplepoint::formats
