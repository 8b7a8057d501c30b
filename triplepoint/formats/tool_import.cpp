// SPDX-License-Identifier: Apache-2.0
// Launch files of tools whose keys map to a job one by one: data/readers/tools.toml says how.
#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "triplepoint/base/quoting.h"
#include "triplepoint/base/text.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/config_tree.h"
#include "triplepoint/formats/key_table.h"
#include "triplepoint/formats/readers.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using spec::TomlValue;
using Severity = spec::Diagnosis::Severity;

std::vector<TomlValue> items_of(const TomlValue& table, std::string_view key) {
  const TomlValue* value = table.find(key);
  return value != nullptr ? value->items : std::vector<TomlValue>();
}

/// Whether the file has each of the tool's marks.
bool has_marks(const TomlValue& tool, const Settings& settings) {
  const auto has = [&](const std::string& pattern) {
    return std::ranges::any_of(settings.all(), [&](const Setting& setting) {
      return matches_pattern(pattern, setting.key);
    });
  };
  const std::vector<std::string> marks = words_at(tool, "marks");
  return std::ranges::all_of(marks, [&](const std::string& mark) {
    const std::vector<std::string> either = split(mark, '|');
    return std::ranges::any_of(either, has);
  });
}

const TomlValue* tool_with(const TomlValue& file, const Settings& settings) {
  const TomlValue* tools = file.find("tool");
  if (tools == nullptr) return nullptr;
  return find_where(tools->items, [&](const TomlValue& tool) { return has_marks(tool, settings); });
}

// Keys of a job -------------------------------------------------------------------------------

/// What the file says, in keys of job.toml and a few more.
using Said = std::map<std::string, std::string>;

void refuse_value(const std::string& key, const std::string& value, const std::string& instead,
                  Settings& settings) {
  settings.note(
      DiagnosisCode::unsupported, Severity::error, key,
      fmt::format("{} is '{}', which is not read; {}, or give it by a flag with --ignore {}", key,
                  value.substr(0, 60), instead, key));
}

/// A list in our words, by the parts of it that are known: "q_proj+k_proj+v_proj=attention_qkv".
std::optional<std::string> parts_in_our_words(const TomlValue& rule, const std::string& key,
                                              Settings& settings) {
  std::vector<std::string> left, ours;
  for (const std::string& word : settings.list(key).value_or(std::vector<std::string>()))
    for (const std::string& part : split(word, ','))
      for (const std::string& each : split(part, ' '))
        if (!trimmed(each, " []'\"").empty()) left.emplace_back(trimmed(each, " []'\""));
  if (left.empty()) return std::nullopt;
  const std::string all = fmt::format("{}", fmt::join(left, ","));
  for (const std::string& each : words_at(rule, "parts")) {
    const std::size_t equals = each.rfind('=');
    const std::vector<std::string> theirs = split(each.substr(0, equals), '+');
    const auto is_part = [&](const std::string& word) { return holds(theirs, word); };
    if (std::ranges::count_if(left, is_part) != std::ssize(theirs)) continue;
    std::erase_if(left, is_part);
    if (each.substr(equals + 1) != "-") ours.push_back(each.substr(equals + 1));
  }
  if (!left.empty() || ours.empty()) {
    refuse_value(key, all, "only whole groups are: " + text_at(rule, "parts"), settings);
    return std::nullopt;
  }
  if (!text_at(rule, "sets").starts_with("plan.lora.")) return ours.front();
  return fmt::format("['{}']", fmt::join(ours, "','"));
}

/// The value in our words; nothing where it sets nothing, or is not known.
std::optional<std::string> in_our_words(const TomlValue& rule, const std::string& key,
                                        const std::string& value, Settings& settings) {
  const std::vector<std::string> values = words_at(rule, "values");
  if (values.empty()) return value;
  std::vector<std::string> known;
  for (const std::string& each : values) {
    const std::size_t equals = each.rfind('=');
    const std::string theirs = each.substr(0, equals), ours = each.substr(equals + 1);
    if (theirs == "auto" && lower_case(value) == theirs && ours != "-")
      settings.assume(
          fmt::format("{} is auto, which another program sets; {} is taken", key, ours));
    if (matches_pattern(lower_case(theirs), lower_case(value)))
      return ours == "-" ? std::nullopt : std::optional(ours == "*" ? value : ours);
    known.push_back(theirs);
  }
  refuse_value(key, value, fmt::format("known are {}", fmt::join(known, ", ")), settings);
  return std::nullopt;
}

/// Whether a rule counts, by the value of another key that its keys belong to.
bool counts(const TomlValue& rule, Settings& settings) {
  const std::string only = text_at(rule, "only"), key = only.substr(0, only.find('='));
  const auto value = only.empty() ? std::nullopt : settings.text(key);
  return !value || fmt::format("{}={}", key, *value) == only;
}

bool has_adapters(const Said& said) {
  const auto task = said.find("task");
  return task != said.end() && task->second == "lora";
}

/// What no key says is as the tool's own default has it.
void tell_defaults(const TomlValue& tool, Settings& settings, Said& said) {
  std::vector<std::string> taken;
  for (const TomlValue& rule : items_of(tool, "key")) {
    const std::string usual = text_at(rule, "absent"), ours = text_at(rule, "sets");
    if (ours.starts_with("plan.lora.") && !has_adapters(said)) continue;
    if (usual.empty() || said.contains(ours)) continue;
    // Of the three parts of a batch DeepSpeed takes the one that is left out from the others.
    if (ours == "accumulation" &&
        (said.contains("plan.global_batch_size") || !said.contains("plan.micro_batch_size")))
      continue;
    if (usual == "?") {  // nothing usual: it stands elsewhere, or is a choice of the tool by model
      if (!settings.is_by_flags(ours))
        settings.note(DiagnosisCode::unsupported, Severity::error, {},
                      fmt::format("the file has no {}, and nothing is usual; add it, or give it by "
                                  "a flag of simulate and plan",
                                  text_at(rule, "name")));
      continue;
    }
    said[ours] = usual;
    if (ours == "sequence_length") said["length_from"] = text_at(tool, "name") + "'s default";
    taken.push_back(fmt::format("{} ({})", usual, text_at(rule, "name")));
  }
  if (!taken.empty())
    settings.assume(fmt::format("not in the file, taken as {} does by default: {}",
                                text_at(tool, "name"), fmt::join(taken, ", ")));
}

Said read_keys(const TomlValue& tool, Settings& settings) {
  Said said;
  for (const TomlValue& rule : items_of(tool, "key")) {
    for (const std::string& key : split(text_at(rule, "name"), '|')) {
      if (!settings.has(key) || settings.is_ignored(key)) continue;
      if (!counts(rule, settings)) {
        settings.assume(fmt::format("{} has no effect without {}", key, text_at(rule, "only")));
        continue;
      }
      std::optional<std::string> ours;
      if (!text_at(rule, "parts").empty()) {
        ours = parts_in_our_words(rule, key, settings);
      } else if (auto value = settings.text(key)) {
        if (value->find_first_not_of("0123456789_") == value->npos)
          std::erase(*value, '_');  // YAML
        ours = in_our_words(rule, key, *value, settings);
      }
      const std::string sets = text_at(rule, "sets"), needs = text_at(rule, "needs");
      if (ours && !needs.empty() && !settings.has(needs))
        settings.note(DiagnosisCode::inconsistent, Severity::error, key,
                      fmt::format("{0} without {1} (the program refuses it); add {1}, or leave {0} "
                                  "out",
                                  key, needs));
      if (ours && sets.ends_with("_size") && !whole_number(*ours))
        settings.count(key, 1, largest_dimension);  // which tells what it must be
      else if (ours)
        said[sets] = *ours;
    }
  }
  tell_defaults(tool, settings, said);
  if (const std::string tells = text_at(tool, "tells"); !tells.empty()) settings.assume(tells);
  // Ranks that stand in a file without adapters are left over.
  if (!has_adapters(said))
    std::erase_if(said, [](const auto& each) { return each.first.starts_with("plan.lora."); });
  return said;
}

std::optional<int64_t> number_said(const Said& said, const std::string& key, Settings& settings) {
  const auto value = said.find(key);
  if (value == said.end()) return std::nullopt;
  const auto number = whole_number(value->second);
  if (number && *number > 0) return number;
  settings.note(DiagnosisCode::inconsistent, Severity::error, {},
                fmt::format("{} is '{}' (it must be a whole number from 1 on); correct the value",
                            key, value->second.substr(0, 60)));
  return std::nullopt;
}

/// The library's name for "meta-llama/Meta-Llama-3.1-8B-Instruct"; "" if it has none.
Result<std::string> library_name(const spec::Library& library, const std::string& published) {
  std::string name = lower_case(std::filesystem::path(published).filename().string());
  std::ranges::replace(name, '_', '-');
  for (const char* part : {"meta-", "-instruct", "-base", "-chat", "-hf", "-it", "-pt"})
    if (const std::size_t at = name.find(part); at != name.npos)
      name.erase(at, std::string_view(part).size());
  return spec::name_in_library(library, "models", name);
}

/// Adapters stand beside attention's plain matrices and shared experts; elsewhere they would be
/// left out.
void refuse_adapters(const Said& said, const spec::Model& model, Settings& settings) {
  if (!has_adapters(said) || (!model.moe && !model.latent_attention)) return;
  const std::string all = value_at(said, "plan.lora.targets").value_or("");
  const bool experts = model.moe && contains(all, "mlp");
  if (experts || (model.latent_attention && contains(all, "attention")))
    settings.note(DiagnosisCode::unsupported, Severity::error, {},
                  fmt::format("adapters on {} are not modelled; give a model without",
                              experts ? "experts" : "latent attention"));
}

/// A model by the name or folder that the file gives.
Result<spec::Model> model_said(LibraryCache& cache, Settings& settings, const Said& said,
                               const TomlValue& tool, const ImportHints& hints) {
  std::string name;
  if (const auto whole = said.find("model"); whole != said.end()) name = whole->second;
  if (const auto family = said.find("model.family"); family != said.end()) {
    const auto size = said.find("model.size");
    name = family->second + (size == said.end() ? "" : "-" + lower_case(size->second));
  }
  if (settings.is_by_flags("model")) return TPT_TRY(spec::load_model(cache.library(), "tiny-gpt"));
  if (name.empty())
    return error("{}: this file of {} names no model; add --model NAME or --model config.json",
                 settings.file(), text_at(tool, "name"));
  const std::string known = TPT_TRY(library_name(cache.library(), name));
  if (!known.empty()) {
    settings.assume(fmt::format("the model is the library's {}, after the name {}", known, name));
    return spec::load_model(cache.library(), known);
  }
  std::error_code ignored;
  if (std::filesystem::exists(config_in(name), ignored))
    return TPT_TRY(read_model(cache.library(), name, hints)).model;
  return error("{}: the model {} is not in the library; give its config.json by --model",
               settings.file(), name);
}

/// The keys that job.toml has, as one; model and cluster take the place of these afterwards.
std::string job_text(const Said& said) {
  std::string text = "model = \"tiny-gpt\"\ncluster = \"hgx-h200\"\n";
  for (const auto& [key, value] : said) {
    if (key != "task" && key != "sequence_length" && !key.starts_with("plan.")) continue;
    const bool plain = value.find_first_not_of("0123456789.") == value.npos || value == "true" ||
                       value == "false" || value.starts_with('[');
    text += fmt::format("{} = {}\n", key, plain ? value : toml_text(value));
  }
  return text;
}

/// Data-parallel ranks: stated, or what the parts of the batch or of the parameters come to.
std::optional<int64_t> ranks_said(const Said& said, Settings& settings) {
  if (const auto ranks = number_said(said, "data_parallel", settings)) return ranks;
  if (const auto shards = number_said(said, "shards", settings))
    return *shards * number_said(said, "replicas", settings).value_or(1);
  for (const char* size : {"global-batch-size", "micro-batch-size", "nodes"})
    if (settings.is_by_flags(size)) return std::nullopt;
  const auto global = number_said(said, "plan.global_batch_size", settings);
  const auto micro = number_said(said, "plan.micro_batch_size", settings);
  const auto accumulation = number_said(said, "accumulation", settings);
  if (!global || !micro || !accumulation) return std::nullopt;
  if (*global % (*micro * *accumulation) != 0)
    settings.note(DiagnosisCode::inconsistent, Severity::error, {},
                  fmt::format("a batch of {} is no multiple of {} sequences in {} steps of "
                              "accumulation (each rank has as many); make them fit",
                              *global, *micro, *accumulation));
  return std::max<int64_t>(1, *global / (*micro * *accumulation));
}

/// Sizes that depend on how many data-parallel ranks there are.
void settle_batch(const Said& said, std::optional<int64_t> ranks, Settings& settings,
                  spec::StatedJob& stated) {
  spec::Job& job = stated.job;
  spec::Plan& plan = job.plan;
  const auto local = number_said(said, "local_batch", settings);
  const auto accumulation = number_said(said, "accumulation", settings);
  if (local) plan.micro_batch_size = *local;
  const auto stage = number_said(said, "stage_batch", settings);
  if (local && plan.pipeline_parallel_size > 1) plan.micro_batch_size = stage.value_or(1);
  if (local) stated.stated.insert(spec::JobSetting::micro_batch_size);
  if (ranks && !stated.states(spec::JobSetting::nodes)) {
    const int64_t all = *ranks * plan.model_parallel_size();
    job.cluster.num_nodes = std::max<int64_t>(1, all / job.cluster.gpus_per_node);
    if (all < job.cluster.gpus_per_node) spec::use_devices(job.cluster, all);
    stated.stated.insert(spec::JobSetting::nodes);
  }
  const int64_t data = std::max<int64_t>(1, job.data_parallel_size());
  if (ranks && *ranks != data)
    settings.note(DiagnosisCode::inconsistent, Severity::error, {},
                  fmt::format("{} data-parallel ranks, but {} GPUs give {}; choose other --nodes",
                              *ranks, job.world_size(), data));
  if (const auto replicas = number_said(said, "replicas", settings); replicas && *replicas > 1)
    plan.sharding_group_size = std::max<int64_t>(1, data / *replicas);
  if (said.contains("shard_inside_nodes"))
    plan.sharding_group_size = std::min(data, job.cluster.gpus_per_node);
  if (stated.states(spec::JobSetting::global_batch_size) || (!local && !accumulation)) return;
  plan.global_batch_size = local ? *local * data : plan.micro_batch_size * *accumulation * data;
  stated.stated.insert(spec::JobSetting::global_batch_size);
}

Result<Imported> import_job_keys(LibraryCache& cache, Settings& settings, const TomlValue& tool,
                                 const YamlNode& tree, const ImportHints& hints) {
  const Said said = read_keys(tool, settings);
  std::optional<spec::Model> model;
  const std::string section = text_at(tool, "hf_model");
  if (!section.empty()) {
    ImportedModel read = TPT_TRY(import_hf_section(cache, tree, section, settings.file(), hints));
    for (const Setting& setting : settings.all())
      if (setting.key.starts_with(section + ".")) settings.has(setting.key);
    for (spec::Diagnosis& diagnosis : read.diagnoses)
      settings.diagnoses().push_back(std::move(diagnosis));
    for (std::string& each : read.assumed)
      settings.assume(std::move(each));
    model = std::move(read.model);
  } else {
    model = TPT_TRY(model_said(cache, settings, said, tool, hints));
  }
  refuse_adapters(said, *model, settings);
  spec::StatedJob stated =
      TPT_TRY(spec::parse_stated_job(cache.library(), job_text(said), settings.file()));
  if (const auto length = number_said(said, "sequence_length", settings))
    model->sequence_length = *length;
  if (const auto from = value_at(said, "length_from")) {
    stated.stated.erase(spec::JobSetting::sequence_length);
    stated.length_from = *from;
  }
  stated.job.model = *std::move(model);
  const auto ranks = ranks_said(said, settings);
  MachineFacts facts{.has_ranks = ranks.has_value()};
  facts.num_nodes = number_said(said, "nodes", settings);
  facts.gpus_per_node = number_said(said, "devices", settings);
  facts.processes = number_said(said, "processes", settings);
  if (facts.processes && facts.num_nodes)
    facts.gpus_per_node = *std::exchange(facts.processes, std::nullopt) / *facts.num_nodes;
  const std::string usual = value_at(said, "stack").value_or(text_at(tool, "stack"));
  facts.plain_stack = facts.profiled_stack = usual;
  TPT_TRY(set_cluster_and_stack(cache, settings, hints, facts, stated));
  settle_batch(said, ranks, settings, stated);
  report_unknown_keys(settings, KeyTable::of(tool));
  return assemble(settings, cache.library(), std::move(stated), {});
}

// Megatron's arguments as keys ----------------------------------------------------------------

std::string argument_name(std::string_view leaf) {
  std::string name(trimmed(leaf, "-"));
  std::ranges::replace(name, '_', '-');
  return name;
}

const TomlValue* rule_for(const std::vector<TomlValue>& rules, std::string_view leaf) {
  return find_where(rules, [&](const TomlValue& rule) { return text_at(rule, "name") == leaf; });
}

/// "bf16_with_mxfp8_mixed", Megatron-Bridge's name of a recipe: what it adds to bf16.
void add_low_precision(const Setting& setting, std::string_view recipe, Settings& arguments) {
  const auto has = [&](std::string_view part) { return contains(recipe, part); };
  const auto add = [&](const char* name, const char* value) {
    Setting argument = setting;
    argument.key = name;
    argument.words = {value};
    arguments.add(std::move(argument));
  };
  if (has("fp4")) add("fp4-format", "e2m1");
  if (!has("fp8")) return;
  add("fp8-format", "hybrid");
  add("fp8-recipe", has("mxfp8")                            ? "mxfp8"
                    : has("current")                        ? "tensorwise"
                    : has("subchannel") || has("blockwise") ? "blockwise"
                                                            : "delayed");
}

/// One key as an argument; a switch that is off is none.
void add_argument(const Setting& setting, std::string_view leaf,
                  const std::vector<TomlValue>& rules, Settings& arguments) {
  if (setting.is_null) return;
  const TomlValue* rule = rule_for(rules, leaf);
  const TomlValue* negates = rule != nullptr ? rule->find("negates") : nullptr;
  Setting argument = setting;
  if (!setting.is_list && setting.words.size() == 1) {
    std::string word = lower_case(setting.words.front());
    if (rule != nullptr && rule->find("switch") != nullptr && (word == "1" || word == "0"))
      word = word == "1" ? "true" : "false";
    if (word == "true" || word == "false") {
      argument.is_off = (word == "true") == (negates != nullptr && negates->truth);
      argument.words.clear();
    }
    // Precisions are names here, and switches there.
    if (leaf == "precision" || leaf == "mixed_precision") {
      if (contains(word, "bf16_with")) add_low_precision(setting, word, arguments);
      argument.key = contains(word, "bf16")                                           ? "bf16"
                     : word.starts_with("fp16") || word == "16" || word == "16-mixed" ? "fp16"
                                                                                      : word;
      argument.words.clear();
      return arguments.add(std::move(argument));
    }
  }
  if (rule == nullptr) {
    argument.key = argument_name(leaf);
    return arguments.add(std::move(argument));
  }
  bool first = true;
  for (const std::string& name : words_at(*rule, "sets")) {
    if (name == "-") continue;
    Setting each = argument;
    each.key = name;
    if (!std::exchange(first, false)) each.words.clear();
    arguments.add(std::move(each));
  }
}

/// The library's model that a file names, where a file of the tool's own holds its sizes.
Result<std::optional<spec::Model>> model_of_argument_keys(LibraryCache& cache,
                                                          const TomlValue& tool,
                                                          const std::vector<TomlValue>& rules,
                                                          Settings& settings, Settings& arguments) {
  for (const TomlValue& rule : rules) {
    const std::string key = text_at(rule, "name");
    if (text_at(rule, "sets") != "model" || !settings.has(key) || arguments.has("num-layers") ||
        arguments.is_by_flags("num-layers"))
      continue;
    const std::string stated = settings.text(key).value_or("");
    const auto name = in_our_words(rule, key, stated, settings);
    if (!name)
      return error(
          "{}{} takes the model's sizes from another file, {}, which is not read; "
          "give them by --model",
          settings.place(key), key, stated);
    settings.assume(fmt::format("the model is the library's {}, as {} has it in {}", *name,
                                text_at(tool, "name"), stated));
    return TPT_TRY(spec::load_model(cache.library(), *name));
  }
  return std::optional<spec::Model>();
}

/// What the tool's own files set where this one says nothing.
void add_usual_arguments(const TomlValue& tool, const std::vector<TomlValue>& rules,
                         Settings& arguments) {
  std::vector<std::string> taken;
  for (const TomlValue& rule : rules) {
    const std::string usual = text_at(rule, "absent"), leaf = text_at(rule, "name");
    if (usual.empty() || arguments.line(argument_name(words_at(rule, "sets").front())) > 0)
      continue;
    if (usual == "?") {
      arguments.note(DiagnosisCode::unsupported, Severity::error, {},
                     fmt::format("the file has no {}, and nothing is usual; add it", leaf));
      continue;
    }
    add_argument({.key = leaf, .words = {usual}, .is_usual = true}, leaf, rules, arguments);
    taken.push_back(fmt::format("{} {}", leaf, usual));
  }
  if (!taken.empty())
    arguments.assume(fmt::format("not in the file, taken as {} does by default: {}",
                                 text_at(tool, "name"), fmt::join(taken, ", ")));
}

Result<Imported> import_argument_keys(LibraryCache& cache, Settings& settings,
                                      const TomlValue& tool, const ImportHints& hints) {
  const std::vector<TomlValue> rules = items_of(tool, "key");
  for (const std::string& each : words_at(tool, "needs")) {
    const std::string key = each.substr(0, each.find('='));
    if (const auto value = settings.text(key); value && *value != each.substr(key.size() + 1))
      refuse_value(key, *value, "only " + each, settings);
  }
  Settings arguments(settings.file());
  arguments.set_by_flags(hints.by_flags);
  arguments.set_ignored(hints.ignored);
  const KeyTable table = KeyTable::of(tool);
  for (const Setting& setting : settings.all()) {
    if (table.without_effect(setting.key) || table.refused(setting.key) || table.told(setting.key))
      continue;
    for (const std::string& section : words_at(tool, "sections")) {
      const bool is_whole = setting.key + "." == section;
      if (!is_whole && !setting.key.starts_with(section)) continue;
      settings.has(setting.key);
      add_argument(setting, std::string_view(setting.key).substr(is_whole ? 0 : section.size()),
                   rules, arguments);
      break;
    }
  }
  const std::optional<spec::Model> model =
      TPT_TRY(model_of_argument_keys(cache, tool, rules, settings, arguments));
  add_usual_arguments(tool, rules, arguments);
  for (const std::string& key : words_at(tool, "complete"))
    if (!std::ranges::any_of(
            settings.all(),
            [&](const Setting& setting) { return setting.key.ends_with("." + key); }) &&
        !arguments.is_by_flags("model"))
      return error(
          "{}: {} is left to the default of a class of {} (_target_), which is not "
          "known; write it down, or give the model by --model",
          settings.file(), key, text_at(tool, "name"));
  report_unknown_keys(settings, table);
  for (spec::Diagnosis& diagnosis : settings.diagnoses())
    arguments.diagnoses().push_back(std::move(diagnosis));
  for (std::string& each : settings.assumed())
    arguments.assume(std::move(each));
  return import_arguments(cache, arguments, {},
                          TPT_TRY(KeyTable::load(cache.library(), "megatron")), hints, model);
}

}  // namespace

Result<YamlNode> parse_any(std::string_view text, const std::string& name) {
  if (trimmed(text).starts_with("{{"))
    return error("{}: a template, whose values stand elsewhere; give the file that is made from it",
                 name);
  if (trimmed(text).starts_with('{')) {
    Result<YamlNode> json = parse_json_tree(text, name);
    if (json) return json;
    Result<YamlNode> yaml = parse_yaml(text, name);
    return yaml && yaml->kind == YamlNode::Kind::table ? yaml : json;
  }
  for (const std::string_view line : lines_of(text))
    if (line.starts_with('[') && trimmed(line).ends_with(']')) return parse_toml_tree(text, name);
  return parse_yaml(text, name);
}

std::string tool_of(std::string_view text) {
  constexpr std::size_t largest = std::size_t{1} << 20;  // no launch file is larger
  if (text.size() > largest) return {};
  const auto tree = parse_any(text, "file");
  const auto table = KeyTable::load(spec::default_library(), "tools");
  if (!tree || !table) return {};
  Settings settings("file");
  settings.add_tree(*tree);
  const TomlValue* tool = tool_with(table->file(), settings);
  return tool != nullptr ? text_at(*tool, "name") : std::string();
}

Result<Imported> import_tool(LibraryCache& cache, const std::string& text, const std::string& path,
                             const ImportHints& hints) {
  const YamlNode tree = TPT_TRY(parse_any(text, path));
  const KeyTable table = TPT_TRY(KeyTable::load(cache.library(), "tools"));
  Settings settings(path);
  settings.set_by_flags(hints.by_flags);
  settings.set_ignored(hints.ignored);
  settings.add_tree(tree);
  const TomlValue* tool = tool_with(table.file(), settings);
  const std::string reads = tool != nullptr ? text_at(*tool, "reads") : std::string();
  if (reads == "job") return import_job_keys(cache, settings, *tool, tree, hints);
  if (reads == "megatron") return import_argument_keys(cache, settings, *tool, hints);
  return error("{}: a file of {}, which is not read yet; give instead {}", path,
               tool != nullptr ? text_at(*tool, "name") : "another tool",
               tool != nullptr ? text_at(*tool, "instead") : "a job.toml");
}

}  // namespace triplepoint::formats
