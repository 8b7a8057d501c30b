// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/readers.h"
#include "triplepoint/formats/settings.h"
#include "triplepoint/formats/yaml_document.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using spec::Task;
using Severity = spec::Diagnosis::Severity;

/// Where a diagnosis of the job points to in the file.
constexpr std::array key_of_code{
    KeyOfCode{DiagnosisCode::layers_not_divisible, "model.pipeline_model_parallel_size"},
    KeyOfCode{DiagnosisCode::world_not_divisible, "trainer.num_nodes"},
    KeyOfCode{DiagnosisCode::batch_not_divisible, "model.micro_batch_size"},
    KeyOfCode{DiagnosisCode::experts_not_divisible, "model.expert_model_parallel_size"},
    KeyOfCode{DiagnosisCode::heads_not_divisible, "model.tensor_model_parallel_size"},
    KeyOfCode{DiagnosisCode::head_dimension, "model.hidden_size"},
    KeyOfCode{DiagnosisCode::tensor_overlap_without_sequence_parallel, "model.ub_tp_comm_overlap"},
};

// What the job does ---------------------------------------------------------------------------

bool has_section(const Settings& s, std::string_view prefix) {
  return std::ranges::any_of(
      s.all(), [&](const Setting& setting) { return setting.key.starts_with(prefix); });
}

/// The entry script decides if it is known; else what only its configuration has.
Task read_task(Settings& s, const ImportHints& hints) {
  const bool skip_train = s.boolean("model.skip_train").value_or(false);
  const bool lora = s.text("model.peft.peft_scheme").value_or("none") == "lora";
  const std::string entry =
      hints.job_script && hints.job_script->entry ? *hints.job_script->entry : std::string();
  if (contains(entry, "generate") || contains(entry, "eval")) return Task::prefill;
  if (contains(entry, "pretraining")) return Task::pretrain;
  if (entry.empty() && (skip_train || has_section(s, "inference."))) return Task::prefill;
  // hparams.yaml of megatron_gpt_generate.py, which keeps nothing of the inference section.
  const bool is_whole = has_section(s, "trainer.");
  if (entry.empty() && !is_whole && !lora && has_section(s, "model.data.test_ds."))
    return Task::prefill;
  return lora ? Task::lora : Task::pretrain;
}

void check_task(Settings& s, Task task) {
  const std::vector<std::string> words = words_of(s.file());
  if (task == Task::lora && holds(words, "inference"))
    s.note(DiagnosisCode::inconsistent, Severity::warning, "model.peft.peft_scheme",
           "the path says inference, but the job trains (peft_scheme is lora, with no inference "
           "section and no skip_train); it is read as LoRA fine-tuning");
  if (task == Task::prefill) {
    const auto tokens = s.count("model.data.test_ds.tokens_to_generate", 0);
    s.assume(
        fmt::format("inference is the prompt's pass through the model; the {}tokens generated "
                    "after it are not counted",
                    tokens ? fmt::format("{} ", *tokens) : ""));
  }
  constexpr std::array<std::string_view, 3> schemes{"lora", "none", "null"};
  s.one_of("model.peft.peft_scheme", schemes);
}

/// The section that sets batch and length: fine-tuning and inference have their own data sets.
std::string data_section(const Settings& s, Task task) {
  std::string section = task == Task::prefill ? "model.data.test_ds." : "model.data.train_ds.";
  return has_section(s, section) ? section : std::string();
}

// The machines --------------------------------------------------------------------------------

MachineFacts read_machines(LibraryCache& cache, Settings& s) {
  MachineFacts facts;
  facts.cluster = s.text("run.cluster");
  facts.stack = s.text("run.stack");
  facts.num_nodes = s.count("trainer.num_nodes", 1, most_ranks);
  facts.nodes_key = "trainer.num_nodes";
  facts.gpus_key = "trainer.devices";
  const auto devices = s.text("trainer.devices");
  if (devices && *devices != "-1" && *devices != "auto")
    facts.gpus_per_node = s.count("trainer.devices", 1, 10'000);
  facts.profiled = s.boolean("model.chakra_profile.enabled").value_or(false) ||
                   s.boolean("model.nsys_profile.enabled").value_or(false);
  facts.plain_stack = "megatron-core";
  facts.profiled_stack = "nemo-profiled";
  facts.optimizer = s.text("run.optimizer");
  if (facts.optimizer && !cache.optimizer(*facts.optimizer))
    s.note(DiagnosisCode::unsupported, Severity::warning, "run.optimizer",
           fmt::format("run.optimizer '{}' is not known (it is ignored); see triplepoint show "
                       "optimizers",
                       facts.optimizer->substr(0, 60)));
  return facts;
}

/// hparams.yaml holds the model's part of a configuration as "cfg".
void name_model_section(YamlNode& document) {
  const auto named = [&](const char* key) {
    return std::ranges::find(document.entries, key, &YamlEntry::key);
  };
  const auto cfg = named("cfg");
  if (cfg != document.entries.end() && named("model") == document.entries.end()) cfg->key = "model";
}

// Hydra's defaults ----------------------------------------------------------------------------

/// Puts one file's keys over another's: tables by key, all else whole.
void merge(YamlNode& into, YamlNode over) {
  if (into.kind != YamlNode::Kind::table || over.kind != YamlNode::Kind::table)
    return void(into = std::move(over));
  for (YamlEntry& entry : over.entries) {
    const auto known = std::ranges::find(into.entries, entry.key, &YamlEntry::key);
    if (known == into.entries.end())
      into.entries.push_back(std::move(entry));
    else
      merge(known->value, std::move(entry.value));
  }
}

/// Lines of another file are no lines of this one.
void forget_lines(YamlNode& node) {
  node.line = 0;
  for (YamlNode& item : node.items)
    forget_lines(item);
  for (YamlEntry& entry : node.entries)
    forget_lines(entry.value);
}

/// Entries of a defaults list that choose nothing of the job: Hydra's own, and groups left empty.
bool chooses_nothing(const YamlNode& item) {
  if (item.kind != YamlNode::Kind::table || item.entries.size() != 1) return false;
  const auto& [group, choice] = item.entries.front();
  return choice.scalar.empty() || choice.scalar == "null" || group.starts_with("hydra/") ||
         group.starts_with("override hydra/");
}

/// The file with those beside it that its defaults name merged, in their order; itself last,
/// unless _self_ has a place. Groups and packages are refused.
Result<YamlNode> with_merged_defaults(YamlNode document, const Path& file, Settings& settings,
                                      int depth = 0) {
  const auto list = std::ranges::find(document.entries, "defaults", &YamlEntry::key);
  if (list == document.entries.end() || settings.is_ignored("defaults")) return document;
  const YamlNode defaults = std::move(list->value);
  document.entries.erase(list);
  YamlNode all;
  all.kind = YamlNode::Kind::table;
  bool is_in = false;
  for (const YamlNode& item : defaults.items) {
    if (chooses_nothing(item)) continue;
    is_in = is_in || item.scalar == "_self_";
    if (item.scalar == "_self_") {
      merge(all, document);
      continue;
    }
    const std::string name = item.entries.empty() ? item.scalar : item.entries.front().key;
    const Path other = file.parent_path() / (item.scalar + ".yaml");
    const bool plain = !item.scalar.empty() && item.scalar.find_first_of("/@$ ") == name.npos;
    if (!plain || depth > 8 || !path_exists(other.string()))
      return error(
          "{}:{}: defaults takes values from '{}', which is no file beside this one; "
          "write them in their place, or --ignore defaults",
          file.string(), item.line, name.substr(0, 100));
    YamlNode part = TPT_TRY(parse_yaml(TPT_TRY(read_file(other)), other.string()));
    forget_lines(part);
    merge(all, TPT_TRY(with_merged_defaults(std::move(part), other, settings, depth + 1)));
    settings.assume(fmt::format("{} is merged, as defaults says", other.filename().string()));
  }
  if (!is_in) merge(all, std::move(document));
  return all;
}

std::string job_name(Settings& s) {
  if (auto name = s.text("run.name")) return *name;
  return std::filesystem::path(s.file()).stem().string();
}

}  // namespace

Result<Imported> import_nemo(LibraryCache& cache, const std::string& text, const std::string& path,
                             const ImportHints& hints) {
  YamlNode document = TPT_TRY(parse_yaml(text, path));
  name_model_section(document);
  Settings settings(path);
  settings.set_by_flags(hints.by_flags);
  settings.set_ignored(hints.ignored);
  settings.add_tree(TPT_TRY(with_merged_defaults(std::move(document), path, settings)));
  spec::StatedJob stated;
  spec::Job& job = stated.job;
  job.name = job_name(settings);
  job.origin = path;
  job.task = read_task(settings, hints);
  check_task(settings, job.task);
  const std::string data = data_section(settings, job.task);
  job.model = TPT_TRY(read_nemo_model(cache, settings, data, settings.file()));
  const MachineFacts facts = read_machines(cache, settings);
  TPT_TRY(set_cluster_and_stack(cache, settings, hints, facts, stated));
  TPT_TRY(read_nemo_plan(cache, settings, data, stated));
  // With one connection FSDP gathers less ahead; more of them change nothing.
  if (hints.job_script && hints.job_script->cuda_device_max_connections == 1 &&
      job.plan.sharding == spec::Sharding::parameters)
    job.plan.cuda_device_max_connections = 1;
  adopt_names(cache, facts.optimizer, job);
  report_unknown_keys(settings, TPT_TRY(KeyTable::load(cache.library(), "nemo")));
  auto keys = key_of_code;
  const std::string batch_key = data + "micro_batch_size";
  if (!data.empty() && settings.line(batch_key) > 0)
    for (KeyOfCode& each : keys)
      if (each.code == DiagnosisCode::batch_not_divisible) each.key = batch_key;
  return assemble(settings, cache.library(), std::move(stated), keys);
}

Result<Imported> import_nemo_yaml(const spec::Library& library, const std::string& text,
                                  const std::string& path, const ImportHints& hints) {
  LibraryCache cache(library);
  return import_nemo(cache, text, path, hints);
}

}  // namespace triplepoint::formats
