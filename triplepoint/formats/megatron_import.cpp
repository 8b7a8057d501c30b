// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/key_table.h"
#include "triplepoint/formats/readers.h"
#include "triplepoint/formats/settings.h"
#include "triplepoint/formats/shell_command.h"
#include "triplepoint/formats/shell_words.h"

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
  std::ranges::replace(setting.key, '_', '-');
  if (equals != text.npos) setting.words.emplace_back(text.substr(equals + 1));
  return setting;
}

/// A word that is not certain, and the key whose value it is; no key: it may be any argument.
struct Doubtful {
  std::string key;
  const ShellWord* word;
};

/// Whether a word by its name holds arguments and not a value: "$@", $EXTRA_ARGS, "${ARGS[@]}".
bool holds_arguments(const ShellWord& word) {
  const std::string name = upper_case(word.text);
  for (const std::string_view part : {"ARG", "OPT", "FLAG", "EXTRA", "$@", "$*", "{@", "{*", "[@]"})
    if (contains(name, part)) return true;
  return false;
}

std::vector<Doubtful> add_arguments(const ShellCommand& command, Settings& settings) {
  std::optional<Setting> open;
  std::vector<Doubtful> doubtful;
  const auto close = [&] {
    if (open) settings.add(*std::exchange(open, std::nullopt));
  };
  for (std::size_t i = command.first_argument(); i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    const bool option = is_option(word.text);
    if (option) {
      close();
      open = start_setting(word);
    } else if (open) {
      open->words.push_back(word.text);
    }
    if (word.doubt.empty()) continue;
    const bool several = open && open->key.find("data") != open->key.npos;
    const bool of_data = several && contains(upper_case(word.text), "DATA");
    const bool is_value = option || (open && (of_data || !holds_arguments(word)) &&
                                     (several || open->words.size() == 1));
    doubtful.push_back({is_value ? open->key : "", &word});
    if (!is_value && open && !option) open->words.pop_back();
    // The path of a tokenizer is no vocabulary: where its name is needed, that is told.
    if (is_value && open->key == "tokenizer-model") open.reset();
  }
  close();
  return doubtful;
}

void refuse_doubtful(const std::vector<Doubtful>& doubtful, const KeyTable& table,
                     const ShellCommand& command, Settings& settings) {
  std::set<std::string> told;
  // A file that launches nothing launches nothing in a sandbox either.
  const std::string run = command.only_arguments ? "" : fmt::format(", or {}", run_it_instead);
  for (const auto& [key, word] : doubtful) {
    if (key == "tokenizer-model" || table.without_effect(key) || settings.is_ignored(key) ||
        settings.is_by_flags(key))
      continue;
    if (!told.insert(word->doubt).second) continue;
    const std::string line = word->line > 0 ? fmt::format(":{}", word->line) : "";
    settings.diagnoses().push_back(
        {DiagnosisCode::inconsistent, Severity::error,
         fmt::format("{}{}: {} is not certain ({}); write it in its place{}", settings.file(), line,
                     key.empty() ? word->text.substr(0, 60) : settings.shown(key), word->doubt,
                     run)});
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
    if (contains(each.options, fmt::format(" {} ", option))) return each.key;
  return {};
}

/// Nodes and devices from torchrun, srun, mpirun, deepspeed or jsrun in front of the program.
void add_launcher(const ShellCommand& command, Settings& settings,
                  std::vector<Doubtful>& doubtful) {
  for (std::size_t i = 0; i < command.first_argument(); ++i) {
    const ShellWord& word = command.words[i];
    const std::size_t equals = word.text.find('=');
    const bool whole = equals != word.text.npos;  // --nnodes=4
    std::string name = whole ? word.text.substr(0, equals) : i > 0 ? command.words[i - 1].text : "";
    const std::string value = whole ? word.text.substr(equals + 1) : word.text;
    const bool is_value = (whole || name.starts_with('-')) && !holds_arguments(word);
    if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
    const std::string key(meaning_of(name));
    if (key == devices_key && word.doubt == counts_gpus) {
      settings.assume("--nproc-per-node counts the GPUs of the machine: all of a node");
      continue;
    }
    if (!word.doubt.empty() && (!is_value || !key.empty()))
      doubtful.push_back({is_value ? key : "", &word});
    if (key.empty() || value == "auto" || value == "gpu") continue;      // chosen by torchrun
    settings.add({key, {value.substr(0, value.find(':'))}, word.line});  // "2:4"
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
  if (contains(lower_case(gpu), "v100")) {
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

/// Of the path of a program, or of a module, what says what it is.
struct ProgramName {
  std::string folder, file;
};

ProgramName program_name(std::string path) {
  path = lower_case(path);
  if (!path.ends_with(".py") && !contains(path, '/')) std::ranges::replace(path, '.', '/');
  const std::filesystem::path whole(path);
  return {whole.parent_path().filename().string(), whole.filename().string()};
}

bool fits(const spec::TomlValue& group, const char* key, const std::string& name) {
  return std::ranges::any_of(words_at(group, key), [&](const std::string& pattern) {
    return matches_pattern(pattern, name);
  });
}

/// What a program is that trains no GPT, by its name or command.
std::optional<std::string> other_program(const KeyTable& table, const std::string& path) {
  const ProgramName name = program_name(path);
  const spec::TomlValue* programs = table.file().find("other_program");
  if (programs == nullptr || fits(table.file(), "certain", name.file)) return std::nullopt;
  for (const spec::TomlValue& group : programs->items)
    if (fits(group, "names", name.file) || fits(group, "folders", name.folder))
      return group.find("why")->text;
  return std::nullopt;
}

/// What to give in place of the launch of a program that takes its sizes from elsewhere; nothing
/// where its arguments, or flags, have some of Megatron's.
std::optional<std::string> launch_without_sizes(const ShellCommand& command, const Settings& s) {
  const std::size_t first = command.first_argument();
  if (first == 0 || s.is_by_flags("num-layers")) return std::nullopt;
  std::string instead = "give the model by --model (a config.json) and its plan by flags";
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].text;
    std::string name = word.substr(0, word.find('='));
    std::ranges::replace(name, '_', '-');
    if (contains(" --num-layers --hidden-size --num-attention-heads --micro-batch-size ",
                 fmt::format(" {} ", name)))
      return std::nullopt;
    const bool file = word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json");
    if (file && i > 0 && (is_option(word) || is_option(command.words[i - 1].text)))
      instead = fmt::format("import {} in its place, with --model (a config.json)",
                            word.substr(word.find('=') + 1));
  }
  const ShellWord& program = command.words[first - 1];
  return fmt::format(
      "{}:{}: {} is another program than Megatron-LM's: it has none of its sizes (--num-layers, "
      "--hidden-size), and its arguments are not read; {}",
      s.file(), program.line, program.text.substr(0, 100), instead);
}

Result<void> check_program(const KeyTable& table, const ShellCommand& command, Settings& s) {
  const std::size_t first = command.first_argument();
  const auto found = first > 0 ? command.words.begin() + static_cast<std::ptrdiff_t>(first) - 1
                               : std::ranges::find_if(command.words, [&](const ShellWord& word) {
                                   return is_option(word.text) || other_program(table, word.text);
                                 });
  if (found == command.words.end() || is_option(found->text)) return {};
  const ShellWord& program = *found;
  auto other = other_program(table, program.text);
  if (!other && fits(table.file(), "programs", program_name(program.text).file)) return {};
  const std::string name = std::filesystem::path(program.text).filename().string();
  if (s.is_ignored(name)) return {};
  if (const auto without = launch_without_sizes(command, s); without && !other)
    return error(*without);
  if (!other) other = "not known to train a GPT";
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

}  // namespace

Result<Imported> import_megatron(LibraryCache& cache, const std::string& text,
                                 const std::string& path, const ImportHints& given) {
  const KeyTable table = TPT_TRY(KeyTable::load(cache.library(), "megatron"));
  const ImportHints hints = with_own_script(given, text, path);
  ScriptWorld world = hints.script;
  if (hints.job_script) world.variables.merge(variables_of_slurm(*hints.job_script));
  const ShellCommand command =
      TPT_TRY(hints.run_script ? choose_launch(TPT_TRY(hints.run_script(path, world)), path)
                               : find_command(text, path, world));
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
  refuse_doubtful(doubtful, table, command, settings);
  const std::vector<spec::Diagnosis> doubts = settings.diagnoses();
  complete_arguments(command, settings);
  for (const std::string& remark : command.remarks)
    settings.assume(remark);
  const std::optional<std::string> refused = first_refused(settings, table);
  Result<Imported> imported = import_arguments(cache, settings, command, table, hints);
  // What is not certain, or not read, is the better reason than the value that is not there.
  if (!imported && !doubts.empty()) return error(doubts.front().what);
  if (!imported && refused) return error(*refused);
  if (const auto without = launch_without_sizes(command, settings); without && !imported)
    return error(*without);
  return imported;
}

Result<Imported> import_arguments(LibraryCache& cache, Settings& settings,
                                  const ShellCommand& command, const KeyTable& table,
                                  const ImportHints& hints, std::optional<spec::Model> model) {
  spec::StatedJob stated;
  spec::Job& job = stated.job;
  const std::string& path = settings.file();
  job.name = settings.text("wandb-exp-name").value_or(std::filesystem::path(path).stem().string());
  job.origin = path;
  if (model) {
    job.model = *std::move(model);
    job.model.sequence_length = TPT_TRY(settings.required("seq-length"));
    settings.count("max-position-embeddings");
    for (const char* choice : {"moe-grouped-gemm", "tokenizer-type", "tokenizer-model"})
      settings.has(choice);
  } else {
    job.model = TPT_TRY(read_megatron_model(cache, settings, command));
  }
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
