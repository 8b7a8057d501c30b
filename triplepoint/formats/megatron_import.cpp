// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <utility>

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
    if (!is_value || open->key != "tokenizer-model") continue;
    // Of a tokenizer's path the last part counts. Where it is needed and not known, that is told.
    const std::string path(trimmed(word.text, "/"));
    open->words = {path.substr(path.rfind('/') + 1)};
    if (open->words.front().find_first_of("$`") != path.npos) open.reset();
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
constexpr std::string_view gpus_key = "gpus";  // of srun

/// How launchers call a number of nodes, of processes of a node, and of all processes.
std::string_view meaning_of(std::string_view option, bool mpi) {
  struct Meaning {
    std::string_view key, options;
  };
  constexpr std::array meanings{
      Meaning{nodes_key, " --nnodes --nodes -N --num-nodes --num-machines -nnodes "},
      Meaning{devices_key,
              " --nproc-per-node --nproc --gpus-per-node --ntasks-per-node --tasks-per-node "
              "--npernode -npernode --num-gpus -ppn --ppn --gpus_per_node --local-worker-num "},
      Meaning{total_key, " -np --np -n --ntasks --num-processes --worker-num "},
      Meaning{gpus_key, " -G --gpus --gpus-per-task --gres --tres-per-node --ntasks-per-gpu "}};
  if (mpi && option == "-N") return devices_key;  // of a node
  for (const Meaning& each : meanings)
    if (contains(each.options, fmt::format(" {} ", option))) return each.key;
  return {};
}

enum class Starter { nothing, torchrun, deepspeed, srun, mpi };

/// What starts one process a GPU: torchrun and the like, whatever starts them on each node.
Starter starter_of(const ShellCommand& command) {
  constexpr std::string_view of_mpi =
      " mpirun mpiexec mpiexec.hydra jsrun aprun ibrun prun flux msrun ";
  Starter found = Starter::nothing;
  for (std::size_t i = 0; i < command.first_argument(); ++i) {
    const std::string& text = command.words[i].text;
    const std::string name = text.substr(text.rfind('/') + 1);
    if (name.ends_with("torchrun") || name.starts_with("torch.distributed"))
      return Starter::torchrun;
    if (name.ends_with("deepspeed") || name == "accelerate") return Starter::deepspeed;
    if (name == "srun") found = Starter::srun;
    if (contains(of_mpi, fmt::format(" {} ", name))) found = Starter::mpi;
  }
  return found;
}

/// What srun asks for in front of the program, over what its batch lines ask for. Returns the word
/// behind its options; 0 without srun.
std::size_t read_srun(const ShellCommand& command, Settings& settings, ImportHints& hints) {
  const std::size_t end = command.first_argument();
  std::size_t first = 0;
  for (std::size_t i = 0; i < end; ++i)
    if (command.words[i].text == "srun" || command.words[i].text.ends_with("/srun")) first = i + 1;
  if (first == 0) return 0;
  std::vector<OptionWord> words;
  constexpr const char* unsure = "--not-certain";  // told where it matters
  for (std::size_t i = first; i < end; ++i) {
    const auto& [text, line, doubt] = command.words[i];
    const bool option = text.starts_with('-');
    if (!doubt.empty() && !option && !words.empty() && words.back().text.starts_with('-'))
      words.back().text = unsure;
    words.push_back({!doubt.empty() && option ? std::string(unsure) + "=" : text,
                     fmt::format("{}:{}: ", settings.file(), line)});
  }
  const std::vector<BatchOption> options = options_of(words, "srun");
  if (options.empty()) return first;
  if (!hints.job_script) hints.job_script.emplace();
  BatchRequest& step = *hints.job_script;
  const auto before = step.num_nodes;
  const auto gives = [&](const char* name) {
    return std::ranges::find(options, name, &BatchOption::name) != options.end();
  };
  if ((gives("nodes") || gives("ntasks-per-node")) && !gives("ntasks")) step.num_tasks.reset();
  read_options(words, "srun", step);
  if (gives("nodes") && step.num_nodes)
    settings.add(
        {std::string(nodes_key), {std::to_string(*step.num_nodes)}, command.words[first].line});
  if (before && step.num_nodes < before)
    settings.assume(fmt::format("srun starts {} of the {} nodes that the batch lines ask for",
                                *step.num_nodes, *before));
  return first + options.back().last + 1;
}

/// DeepSpeed's --include host:0,1@other:0,1: GPUs of each node, and nodes.
void read_included(const ShellWord& word, const std::string& hosts, Settings& settings) {
  const std::vector<std::string> each = split(hosts, '@');
  std::set<int64_t> devices;
  for (const std::string& host : each)
    devices.insert(contains(host, ':') ? std::ranges::count(host, ',') + 1 : 0);
  if (devices.size() > 1)
    return settings.note(DiagnosisCode::inconsistent, Severity::error, devices_key,
                         "--include takes more GPUs of one node than of another, which is not "
                         "modelled; take equally many");
  if (*devices.begin() > 0)
    settings.add({std::string(devices_key), {std::to_string(*devices.begin())}, word.line});
  if (each.size() > 1)
    settings.add({std::string(nodes_key), {std::to_string(each.size())}, word.line});
}

/// torchrun without a number of nodes trains on one, wherever srun starts it.
void check_one_node(Settings& settings, const ShellCommand& command, const ImportHints& hints) {
  const auto asked = hints.job_script ? hints.job_script->num_nodes : std::nullopt;
  if (asked.value_or(1) == 1 || hints.num_nodes || settings.has(nodes_key) ||
      command.variable("PET_NNODES"))
    return;
  settings.note(DiagnosisCode::node_count_mismatch, Severity::error, nodes_key,
                fmt::format("torchrun has no --nnodes, so that each trains on one node, but the "
                            "batch lines ask for {}; add it, or give --nodes",
                            *asked));
}

/// Nodes and devices from torchrun, srun, mpirun, deepspeed or jsrun in front of the program.
void add_launcher(const ShellCommand& command, Settings& settings, ImportHints& hints,
                  std::vector<Doubtful>& doubtful) {
  const std::size_t behind_srun = read_srun(command, settings, hints);
  const Starter starter = starter_of(command);
  // Of flux -N are nodes, of the others processes of a node.
  const bool mpi = starter == Starter::mpi && command.words.front().text != "flux";
  for (std::size_t i = 0; i < command.first_argument(); ++i) {
    const ShellWord& word = command.words[i];
    const std::size_t equals = word.text.find('=');
    const bool assigns = equals != word.text.npos;
    const bool whole = assigns && word.text.starts_with('-');  // --nnodes=4
    std::string name = whole ? word.text.substr(0, equals) : i > 0 ? command.words[i - 1].text : "";
    const std::string value = whole ? word.text.substr(equals + 1) : word.text;
    const bool is_value = (assigns || name.starts_with('-')) && !holds_arguments(word);
    if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
    const bool of_hosts = starter == Starter::deepspeed && i > 0;
    const bool included = of_hosts && (name == "--include" || name == "-i");
    const std::string key(included ? devices_key : meaning_of(name, mpi));
    if (of_hosts && (name == "--exclude" || name == "-e"))
      settings.note(DiagnosisCode::unsupported, Severity::error, devices_key,
                    "--exclude leaves out GPUs of hosts that are not known here; write --num_nodes "
                    "and --num_gpus in its place");
    const bool counts = word.doubt == counts_gpus || value == "gpu" || value == "auto";
    if (key == devices_key && counts) {
      settings.assume("--nproc-per-node counts the GPUs of the machine: all that it may use");
      settings.add({key, {"gpu"}, word.line});
      continue;
    }
    if (!word.doubt.empty() && (!is_value || !key.empty()))
      doubtful.push_back({is_value ? key : "", &word});
    if (included && word.doubt.empty()) read_included(word, value, settings);
    const auto per_node = value.starts_with("ppr:") && value.ends_with(":node")
                              ? whole_number(value.substr(4, value.size() - 9))
                              : std::nullopt;
    if (per_node && name == "--map-by")
      settings.add({std::string(devices_key), {std::to_string(*per_node)}, word.line});
    if (key.empty() || key == gpus_key || included || i < behind_srun || value == "auto") continue;
    const std::string fewest = value.substr(0, value.find(':'));  // "2:4"
    if (fewest != value && value != fmt::format("{0}:{0}", fewest))
      settings.assume(
          fmt::format("{} {}: the fewest, {}; give --nodes for more", name, value, fewest));
    settings.add({key, {fewest}, word.line});
  }
  if (starter == Starter::torchrun) check_one_node(settings, command, hints);
}

/// Of the environment, or in front of the program; "" where it is not set.
std::string environment_of(const ShellCommand& command, const std::string& name) {
  std::string value = command.variable(name).value_or("");
  for (const ShellWord& word : command.words)
    if (word.doubt.empty() && word.text.starts_with(name + "="))
      value = word.text.substr(name.size() + 1);
  return value;
}

/// GPUs that the environment leaves to the processes of a node.
std::optional<int64_t> visible_gpus(const ShellCommand& command) {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}) {
    const std::string value = environment_of(command, name);
    if (!value.empty() && value != "all" && !value.starts_with('-'))
      return std::ranges::count(value, ',') + 1;
  }
  return std::nullopt;
}

/// Processes of a node where no number is given: torchrun starts one, a program alone is one.
std::optional<int64_t> usual_processes(Settings& s, const ShellCommand& command,
                                       const ImportHints& hints) {
  const Starter starter = starter_of(command);
  if (starter == Starter::torchrun) {
    const auto usual = whole_number(command.variable("PET_NPROC_PER_NODE").value_or("1"));
    s.assume(fmt::format("without --nproc-per-node torchrun starts {} process{} a node",
                         usual.value_or(1), usual.value_or(1) == 1 ? "" : "es"));
    return usual.value_or(1);
  }
  if (starter != Starter::nothing || command.first_argument() == 0) return std::nullopt;
  int64_t ranks = 1;
  for (const char* size :
       {"tensor-model-parallel-size", "pipeline-model-parallel-size", "context-parallel-size"})
    if (s.text(size) != "1" && s.text(size)) ranks = 2;
  const auto& script = hints.job_script;
  const bool batch = script && (script->gpus_per_node || script->num_gpus || script->num_nodes);
  const bool given = hints.cluster || hints.num_nodes;
  const std::string first(command.words.front().text);
  const bool plain = contains(first, "python") || contains(first, '=') || first.ends_with(".py");
  s.assume(fmt::format("no launcher {}starts the program: {}",
                       plain ? "" : fmt::format("that is known ({}) ", first),
                       batch       ? "one process on each GPU of the batch lines"
                       : given     ? "one process on each GPU of the nodes given"
                       : ranks > 1 ? "as its layout takes several GPUs, one process on each"
                                   : "one process, on one GPU; give --nodes for more"));
  return batch || given || ranks > 1 ? std::nullopt : std::optional<int64_t>(1);
}

/// Processes of a node, as its launcher starts them.
std::optional<int64_t> processes_of_node(Settings& s, const ShellCommand& command,
                                         const ImportHints& hints) {
  const Starter starter = starter_of(command);
  const bool shares = starter != Starter::srun && starter != Starter::mpi;  // one list for all
  const auto visible = shares ? visible_gpus(command) : std::nullopt;
  const bool counts = s.has(devices_key) && s.text(devices_key) == "gpu";
  if (s.has(devices_key) && !counts) {
    const auto stated = s.count(devices_key, 1, most_ranks);
    if (stated && visible && *stated > *visible)
      s.note(DiagnosisCode::inconsistent, Severity::error, devices_key,
             fmt::format("{} processes a node, but CUDA_VISIBLE_DEVICES leaves them {} GPUs (each "
                         "process has one); make them equal",
                         *stated, *visible));
    return stated;
  }
  if (starter == Starter::srun || s.has(total_key)) return std::nullopt;
  if (!counts && starter != Starter::deepspeed) return usual_processes(s, command, hints);
  if (visible) s.assume(fmt::format("CUDA_VISIBLE_DEVICES leaves {} GPUs", *visible));
  return visible;
}

/// All processes, where the launcher counts them and no other launcher starts one a device below.
std::optional<int64_t> all_processes(Settings& s, const ShellCommand& command,
                                     const ImportHints& hints) {
  const auto total = s.count(total_key, 1, most_ranks);
  const Starter starter = starter_of(command);
  if (starter == Starter::srun && hints.job_script) return hints.job_script->num_tasks;
  const bool below =
      starter == Starter::torchrun || std::ranges::any_of(command.words, [](const ShellWord& word) {
        return word.text.ends_with("deepspeed");
      });
  if (!total || below) return std::nullopt;
  int64_t each = 1;
  for (std::size_t i = 0; i + 1 < command.first_argument(); ++i)
    if (command.words.front().text.ends_with("jsrun") && command.words[i].text == "-a")
      each = whole_number(command.words[i + 1].text).value_or(1);
  return *total * each;
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
void read_attention(Settings& s, const ShellCommand& command, spec::Job& job) {
  constexpr std::array<std::string_view, 5> known{"flash", "fused", "unfused", "local", "auto"};
  const auto backend = s.one_of("attention-backend", known);
  const bool first = s.flag("use-flash-attn"), second = s.flag("use-flash-attn-v2");
  const bool flash = first || second;
  constexpr std::array<std::string_view, 3> layers{"local", "transformer_engine",
                                                   "inference_optimized"};
  const bool local = s.one_of("transformer-impl", layers) == "local";
  // Transformer Engine has both unless they are switched off; with a backend Megatron-LM sets them.
  const bool neither = backend.value_or("auto") == "auto" &&
                       environment_of(command, "NVTE_FLASH_ATTN") == "0" &&
                       environment_of(command, "NVTE_FUSED_ATTN") == "0";
  using spec::AttentionKernels;
  AttentionKernels& kernels = job.stack.attention_kernels;
  const std::string& gpu = job.cluster.gpu.name;
  if (contains(lower_case(gpu), "v100")) {
    if (kernels != AttentionKernels::unfused)
      s.assume(
          fmt::format("attention is not fused: no such kernel of Megatron-LM runs on {}", gpu));
    kernels = AttentionKernels::unfused;
  } else if (backend == "unfused" || backend == "local" || (local && !flash && !backend) ||
             neither) {
    kernels = AttentionKernels::unfused;
    s.assume(
        fmt::format("attention is not fused, as {}: its scores are kept",
                    neither ? "NVTE_FLASH_ATTN and NVTE_FUSED_ATTN are 0" : "the arguments say"));
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

MachineFacts read_machines(Settings& s, const ShellCommand& command, const ImportHints& hints) {
  MachineFacts facts;
  facts.cluster = command.variable("TRIPLEPOINT_CLUSTER");
  facts.stack = command.variable("TRIPLEPOINT_STACK");
  facts.num_nodes = s.count(nodes_key, 1, most_ranks);
  facts.gpus_per_node = processes_of_node(s, command, hints);
  facts.processes = all_processes(s, command, hints);
  const Starter starter = starter_of(command);
  facts.has_tasks = starter != Starter::torchrun && starter != Starter::deepspeed;
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

bool has_word(const spec::TomlValue& group, const std::string& name) {
  return std::ranges::any_of(words_of(name),
                             [&](const std::string& word) { return fits(group, "words", word); });
}

/// What a program is that trains no GPT, by its name or command.
std::optional<std::string> other_program(const KeyTable& table, const std::string& path) {
  const ProgramName name = program_name(path);
  const spec::TomlValue* programs = table.file().find("other_program");
  if (programs == nullptr || fits(table.file(), "certain", name.file)) return std::nullopt;
  for (const spec::TomlValue& group : programs->items)
    if (has_word(group, name.file) || fits(group, "names", name.file) ||
        fits(group, "folders", name.folder))
      return group.find("why")->text;
  return std::nullopt;
}

/// What to give in place of the launch of a program that takes its sizes from elsewhere; nothing
/// where its arguments, or flags, have some of Megatron's.
std::optional<std::string> launch_without_sizes(const ShellCommand& command, const Settings& s) {
  const std::size_t first = command.first_argument();
  if (first == 0 || s.is_by_flags("num-layers")) return std::nullopt;
  constexpr std::array<std::string_view, 4> sizes{"--num-layers", "--hidden-size",
                                                  "--num-attention-heads", "--micro-batch-size"};
  std::string instead = "give the model by --model (a config.json) and its plan by flags";
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].text;
    std::string name = word.substr(0, word.find('='));
    std::ranges::replace(name, '_', '-');
    if (holds(sizes, name)) return std::nullopt;
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
      "{}:{}: {} is {}; give the launch of a GPT's training, or --ignore {} if it "
      "is one",
      s.file(), program.line, program.text.substr(0, 100), *other, name);
}

/// Arguments without a program are a model's: what only a run has is assumed.
void complete_arguments(const ShellCommand& command, Settings& s) {
  if (!command.only_arguments) return;
  s.assume("the file holds arguments and launches nothing: it is read as one job");
  const auto usual = [&](const char* key, const std::vector<std::string>& value) {
    if (s.has(key) || s.is_by_flags(key)) return;
    s.add({.key = key, .words = value, .is_usual = true});
    s.assume(fmt::format("--{}{}: the file has none", key, value.empty() ? "" : " " + value[0]));
  };
  usual("micro-batch-size", {"1"});
  constexpr int64_t usual_length = 4096;  // as of a config.json
  const int64_t longest = s.count("max-position-embeddings").value_or(usual_length);
  usual("seq-length", {fmt::format("{}", std::min(longest, usual_length))});
  if (!s.has("fp16")) usual("bf16", {});
}

}  // namespace

Result<Imported> import_megatron(LibraryCache& cache, const std::string& text,
                                 const std::string& path, const ImportHints& given) {
  const KeyTable table = TPT_TRY(KeyTable::load(cache.library(), "megatron"));
  ImportHints hints = with_own_script(given, text, path);
  ScriptWorld world = hints.script;
  if (hints.job_script) world.variables.merge(variables_of_slurm(*hints.job_script));
  const ShellCommand command =
      TPT_TRY(hints.run_script ? choose_launch(TPT_TRY(hints.run_script(path, world)), path)
                               : find_command(text, path, world));
  if (command.words.empty())
    return error(
        "{}: the script ran and launched no training; see what it needs with "
        "bash -x, and give it by -- ARGS or --env NAME=VALUE",
        path);
  Settings settings(path, "--");
  settings.set_by_flags(hints.by_flags);
  settings.set_ignored(hints.ignored);
  TPT_TRY(check_program(table, command, settings));
  std::vector<Doubtful> doubtful = add_arguments(command, settings);
  add_launcher(command, settings, hints, doubtful);
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
  TPT_TRY(set_cluster_and_stack(cache, settings, hints, read_machines(settings, command, hints),
                                stated));
  read_graphs(settings, job.stack);
  read_attention(settings, command, job);
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
