// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/key_table.h"
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

/// A word that the script does not say and that holds arguments, not a value: "$@", $EXTRA_ARGS,
/// "${ARGS[@]}", $(cat more.txt) behind a value.
bool holds_unknown_arguments(std::string_view word, const std::optional<Setting>& open) {
  const auto has = [](std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
  };
  if (!word.starts_with('$') || word.size() < 2) return false;
  if (word[1] == '@' || word[1] == '*' || word.starts_with("${@") || word.starts_with("${*"))
    return true;
  const bool of_data = open && has(open->key, "data");
  if ((has(word, "[@]") || has(word, "[*]")) && !of_data) return true;
  const std::string name = upper_case(word);
  for (const std::string_view part : {"ARGS", "ARGUMENTS", "OPTS", "OPTIONS", "FLAGS", "EXTRA"})
    if (has(name, part)) return true;
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

/// A value that the script sets under conditions or in ways that are not read, for a key that
/// matters.
struct Doubtful {
  std::string key, why;
};

std::vector<Doubtful> add_arguments(const ShellCommand& command, Settings& settings) {
  std::optional<Setting> open;
  std::vector<Doubtful> doubtful;
  const auto close = [&] {
    if (open) settings.add(*std::exchange(open, std::nullopt));
  };
  for (std::size_t i = command.first_argument(); i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    if (is_option(word.text)) {
      close();
      open = start_setting(word);
    } else if (word.doubt.empty() && holds_unknown_arguments(word.text, open)) {
      refuse_unknown_arguments(word, settings);
    } else if (open) {
      open->words.push_back(word.text);
    }
    if (!word.doubt.empty()) doubtful.push_back({open ? open->key : "", word.doubt});
  }
  close();
  return doubtful;
}

void refuse_doubtful(const std::vector<Doubtful>& doubtful, const KeyTable& table,
                     Settings& settings) {
  std::set<std::string> told;
  for (const Doubtful& each : doubtful) {
    if (table.without_effect(each.key) || settings.is_ignored(each.key)) continue;
    if (!told.insert(each.why).second) continue;
    settings.note(DiagnosisCode::inconsistent, Severity::error, each.key,
                  fmt::format("{} is not certain ({}); {}",
                              each.key.empty() ? "an argument" : settings.shown(each.key), each.why,
                              run_it_instead));
  }
}

// What starts the program ---------------------------------------------------------------------

constexpr std::string_view nodes_key = "nnodes", devices_key = "nproc-per-node", total_key = "np";

/// How launchers call a number of nodes, of processes of a node, and of all processes.
std::string_view meaning_of(std::string_view option) {
  struct Meaning {
    std::string_view key, options;
  };
  constexpr std::array meanings{
      Meaning{nodes_key, " --nnodes --nodes -N --num-nodes --num-machines -nnodes "},
      Meaning{devices_key,
              " --nproc-per-node --gpus-per-node --ntasks-per-node --tasks-per-node --npernode "
              "-npernode --num-gpus -ppn --ppn --gpus_per_node "},
      Meaning{total_key, " -np --np -n --ntasks --num-processes "}};
  for (const Meaning& each : meanings)
    if (each.options.find(fmt::format(" {} ", option)) != each.options.npos) return each.key;
  return {};
}

void add_launcher_option(std::string name, std::string value, const ShellWord& word,
                         Settings& settings, std::vector<Doubtful>& doubtful) {
  if (name.starts_with("--")) std::replace(name.begin(), name.end(), '_', '-');
  const std::string_view key = meaning_of(name);
  if (key.empty() || value == "auto" || value == "gpu") return;  // chosen by torchrun
  if (!word.doubt.empty()) doubtful.push_back({std::string(key), word.doubt});
  settings.add({std::string(key), {value.substr(0, value.find(':'))}, word.line});  // "2:4"
}

/// Nodes and devices from torchrun, srun, mpirun, deepspeed or jsrun in front of the program.
void add_launcher(const ShellCommand& command, Settings& settings,
                  std::vector<Doubtful>& doubtful) {
  const std::size_t end = command.first_argument();
  for (std::size_t i = 0; i < end; ++i) {
    const ShellWord& word = command.words[i];
    const std::size_t equals = word.text.find('=');
    if (equals != word.text.npos)
      add_launcher_option(word.text.substr(0, equals), word.text.substr(equals + 1), word, settings,
                          doubtful);
    else if (i + 1 < end)
      add_launcher_option(word.text, command.words[i + 1].text, command.words[i + 1], settings,
                          doubtful);
  }
}

/// All processes, where the launcher counts them and no other launcher starts one a device below.
std::optional<int64_t> all_processes(Settings& s, const ShellCommand& command) {
  const auto total = s.count(total_key, 1, most_ranks);
  const std::size_t end = command.first_argument();
  int64_t each = 1;
  for (std::size_t i = 0; i < end; ++i) {
    const std::string& word = command.words[i].text;
    if (word.ends_with("torchrun") || word.starts_with("torch.distributed") ||
        word.ends_with("deepspeed"))
      return std::nullopt;
    if (command.words.front().text.ends_with("jsrun") && word == "-a" && i + 1 < end)
      each = whole_number(command.words[i + 1].text).value_or(1);
  }
  return total ? std::optional(*total * each) : std::nullopt;
}

/// Arguments that Megatron-LM dropped by 2023, when its attention was not fused.
std::string_view stack_of_time(Settings& s) {
  for (const std::string_view old :
       {"DDP-impl", "checkpoint-activations", "activations-checkpoint-method",
        "checkpoint-num-layers", "data-impl", "deepspeed", "distribute-checkpointed-activations",
        "no-contiguous-buffers-in-local-ddp"})
    if (s.line(old) > 0) {
      s.assume(
          fmt::format("stack megatron-apex: --{} is of Megatron-LM before 2023; give --stack "
                      "for another",
                      old));
      return "megatron-apex";
    }
  return "megatron-core";
}

/// The attention kernels that the arguments choose, as far as the GPU can run them.
void read_attention(Settings& s, spec::Job& job) {
  constexpr std::array<std::string_view, 5> known{"flash", "fused", "unfused", "local", "auto"};
  const auto backend = s.one_of("attention-backend", known);
  const bool first = s.flag("use-flash-attn"), second = s.flag("use-flash-attn-v2");
  const bool flash = first || second;
  constexpr std::array<std::string_view, 3> layers{"local", "transformer_engine",
                                                   "inference_optimized"};
  const bool local = s.one_of("transformer-impl", layers) == "local";
  using spec::AttentionKernels;
  AttentionKernels& kernels = job.stack.attention_kernels;
  const std::string& gpu = job.cluster.gpu.name;
  if (lower_case(gpu).find("v100") != std::string::npos) {
    if (kernels != AttentionKernels::unfused)
      s.assume(
          fmt::format("attention is not fused: no such kernel of Megatron-LM runs on {}", gpu));
    kernels = AttentionKernels::unfused;
  } else if (backend == "unfused" || backend == "local" || (local && !flash && !backend)) {
    kernels = AttentionKernels::unfused;
    s.assume("attention is not fused, as the arguments say: its scores are kept");
  } else if (flash && kernels == AttentionKernels::unfused) {
    kernels = AttentionKernels::flash_2;
  }
}

/// DeepEP and HybridEP send a row once to each node that has an expert for it.
void read_dispatch(Settings& s, spec::Job& job) {
  constexpr std::array<std::string_view, 2> known{"deepep", "hybridep"};
  const auto backend = s.one_of("moe-flex-dispatcher-backend", known);
  const bool old = s.flag("moe-enable-deepep");
  const bool flex = s.text("moe-token-dispatcher-type") == "flex";
  if (!job.model.moe || !(flex || old)) return;
  job.stack.fused_moe_dispatch = true;
  s.assume(fmt::format("rows go once to each node with an expert for them, as {} sends them",
                       backend == "hybridep" ? "HybridEP" : "DeepEP"));
}

MachineFacts read_machines(Settings& s, const ShellCommand& command) {
  MachineFacts facts;
  facts.cluster = command.variable("TRIPLEPOINT_CLUSTER");
  facts.stack = command.variable("TRIPLEPOINT_STACK");
  facts.num_nodes = s.count(nodes_key, 1, most_ranks);
  facts.gpus_per_node = s.count(devices_key, 1, most_ranks);
  facts.processes = all_processes(s, command);
  facts.nodes_key = nodes_key;
  facts.gpus_key = devices_key;
  facts.plain_stack = facts.profiled_stack = stack_of_time(s);
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

namespace {

/// What the program is, by its path; nothing where it trains a GPT.
std::optional<std::string> other_program(const KeyTable& table, const ShellCommand& command) {
  const std::size_t first = command.first_argument();
  if (first == 0) return std::nullopt;
  const std::string path = lower_case(command.words[first - 1].text);
  if (const spec::TomlValue* programs = table.file().find("other_program"))
    for (const spec::TomlValue& group : programs->items)
      for (const std::string& pattern : words_at(group, "names"))
        if (matches_pattern(pattern, path)) return group.find("why")->text;
  for (const std::string& pattern : words_at(table.file(), "programs"))
    if (matches_pattern(pattern, path)) return std::nullopt;
  return "not known to train a GPT";
}

Result<void> check_program(const KeyTable& table, const ShellCommand& command, Settings& s) {
  const auto other = other_program(table, command);
  if (!other) return {};
  const ShellWord& program = command.words[command.first_argument() - 1];
  const std::string name = std::filesystem::path(program.text).filename().string();
  if (s.is_ignored(name)) return {};
  return error(
      fmt::format("{}:{}: {} is {}; give the launch of a GPT's training, or --ignore {} if it "
                  "is one",
                  s.file(), program.line, program.text.substr(0, 100), *other, name));
}

/// Arguments without a program are a model's: what only a run has is assumed.
void complete_arguments(const ShellCommand& command, Settings& s) {
  if (!command.only_arguments) return;
  s.assume("the file holds arguments and launches nothing: it is read as one job");
  const auto usual = [&](const char* key, const std::string& value) {
    if (s.has(key) || s.is_by_flags(key)) return;
    s.add({key, {value}, 0});
    s.assume(fmt::format("--{} {}: the file has none", key, value));
  };
  usual("micro-batch-size", "1");
  usual("seq-length", s.text("max-position-embeddings").value_or("4096"));
}

/// What Slurm sets in a script, by its own lines.
std::map<std::string, std::string> scheduler_variables(const ImportHints& hints) {
  std::map<std::string, std::string> all;
  if (!hints.job_script) return all;
  const JobScript& script = *hints.job_script;
  const auto set = [&](std::initializer_list<const char*> names, std::optional<int64_t> value) {
    for (const char* name : names)
      if (value) all[name] = fmt::format("{}", *value);
  };
  set({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, script.num_nodes);
  set({"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}, script.gpus_per_node);
  set({"SLURM_NTASKS_PER_NODE"}, script.tasks_per_node);
  if (script.num_nodes && script.tasks_per_node)
    all["SLURM_TASKS_PER_NODE"] = fmt::format("{}(x{})", *script.tasks_per_node, *script.num_nodes);
  if (script.num_nodes)
    set({"SLURM_NTASKS", "SLURM_NPROCS"}, *script.num_nodes * script.tasks_per_node.value_or(1));
  set({"SLURM_JOB_ID", "SLURM_JOBID"}, 1);
  set({"SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"}, 0);
  return all;
}

/// Files that a script sources or starts; of a usual size, so that no device is read.
std::optional<std::string> script_at(const std::string& path) {
  constexpr std::uintmax_t largest = std::uintmax_t{1} << 20;
  std::error_code problem;
  if (!std::filesystem::is_regular_file(path, problem) ||
      std::filesystem::file_size(path, problem) > largest)
    return std::nullopt;
  const auto text = read_file(path);
  return text ? std::optional(*text) : std::nullopt;
}

ScriptWorld world_of(const ImportHints& hints) {
  ScriptWorld world{scheduler_variables(hints), hints.script_arguments, script_at};
  for (const auto& [name, value] : hints.script_variables)
    world.variables[name] = value;
  return world;
}

}  // namespace

bool starts_training(const std::string& text, const std::string& path, const ImportHints& hints) {
  const auto command = find_command(text, path, world_of(with_own_script(hints, text, path)));
  return command && command->is_training();
}

Result<Imported> import_megatron(LibraryCache& cache, const std::string& text,
                                 const std::string& path, const ImportHints& given) {
  const KeyTable table = TPT_TRY(KeyTable::load(cache.library(), "megatron"));
  const ImportHints hints = with_own_script(given, text, path);
  const ShellCommand command =
      TPT_TRY(hints.run_script ? choose_launch(TPT_TRY(hints.run_script(path)), path)
                               : find_command(text, path, world_of(hints)));
  if (command.words.empty())
    return error(
        fmt::format("{}: the script ran and launched no training; see what it needs with "
                    "bash -x, and give it by -- ARGS or --env NAME=VALUE",
                    path));
  Settings settings(path, "--");
  settings.set_by_flags(hints.by_flags);
  settings.set_ignored(hints.ignored);
  TPT_TRY(check_program(table, command, settings));
  std::vector<Doubtful> doubtful = add_arguments(command, settings);
  add_launcher(command, settings, doubtful);
  refuse_doubtful(doubtful, table, settings);
  const std::vector<spec::Diagnosis> doubts = settings.diagnoses();
  complete_arguments(command, settings);
  for (const std::string& remark : command.remarks)
    settings.assume(remark);
  Result<Imported> imported = import_arguments(cache, settings, command, table, hints);
  // What is not certain is the better reason than the value that is not there.
  if (!imported && !doubts.empty()) return error(doubts.front().what);
  return imported;
}

Result<Imported> import_arguments(LibraryCache& cache, Settings& settings,
                                  const ShellCommand& command, const KeyTable& table,
                                  const ImportHints& hints) {
  spec::StatedJob stated;
  spec::Job& job = stated.job;
  const std::string& path = settings.file();
  job.name = settings.text("wandb-exp-name").value_or(std::filesystem::path(path).stem().string());
  job.origin = path;
  job.model = TPT_TRY(read_megatron_model(cache, settings, command));
  TPT_TRY(set_cluster_and_stack(cache, settings, hints, read_machines(settings, command), stated));
  read_graphs(settings, job.stack);
  read_attention(settings, job);
  read_dispatch(settings, job);
  TPT_TRY(read_megatron_plan(cache, settings, stated));
  read_connections(command, job.plan);
  adopt_names(cache, command.variable("TRIPLEPOINT_OPTIMIZER"), job);
  report_unknown_keys(settings, table);
  return assemble(settings, cache.library(), std::move(stated), key_of_code);
}

Result<Imported> import_megatron_args(const spec::Library& library, const std::string& text,
                                      const std::string& path, const ImportHints& hints) {
  LibraryCache cache(library);
  return import_megatron(cache, text, path, hints);
}

}  // namespace triplepoint::formats
