// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/assemble.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/pipeline_layout.h"

namespace triplepoint::formats {
namespace {

using spec::Diagnosis;
using spec::DiagnosisCode;

std::string_view key_of(DiagnosisCode code, std::span<const KeyOfCode> keys) {
  const auto found = std::ranges::find(keys, code, &KeyOfCode::code);
  return found == keys.end() ? std::string_view() : found->key;
}

std::string_view parent_of(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return dot == key.npos ? std::string_view() : key.substr(0, dot + 1);
}

/// The closest of the keys that stand in the same section: "model." is no likeness.
std::optional<std::string> closest_key(std::string_view key,
                                       const std::vector<std::string>& known) {
  const std::string_view parent = parent_of(key);
  std::vector<std::string> leaves;
  for (const std::string& each : known)
    if (parent_of(each) == parent) leaves.push_back(each.substr(parent.size()));
  const auto leaf = closest_word(key.substr(parent.size()), leaves);
  return leaf ? std::optional(std::string(parent) + *leaf) : std::nullopt;
}

}  // namespace

Result<Imported> assemble(Settings& settings, const spec::Library& library, spec::StatedJob stated,
                          std::span<const KeyOfCode> keys) {
  Imported result;
  spec::Job job = TPT_TRY(spec::with_defaults(library, stated));
  result.diagnoses = std::move(settings.diagnoses());
  result.of_file = result.diagnoses.size();
  result.keys = settings.asked();
  for (Diagnosis& diagnosis : spec::diagnose(job)) {
    diagnosis.what = settings.place(key_of(diagnosis.code, keys)) + diagnosis.what;
    // Launchers' templates set options whether or not they have an effect: worth a note, no more.
    // A whole file that changes nothing is found by comparison with its neighbours.
    if (diagnosis.code == DiagnosisCode::inert_option)
      settings.assume(std::move(diagnosis.what));
    else
      result.diagnoses.push_back(std::move(diagnosis));
  }
  result.assumed = settings.assumed();
  std::move(settings.assumed().begin(), settings.assumed().end(), std::back_inserter(job.notes));
  result.job = std::move(job);
  result.stated = std::move(stated.stated);
  result.length_from = std::move(stated.length_from);
  result.of_launcher = std::move(stated.of_launcher);
  result.contested = std::move(stated.contested);
  return result;
}

namespace {

/// "model.hidden_size" of "model.hidden_size.a": a table stands where the reader wants one value.
std::optional<std::string> asked_table(const Settings& settings, std::string_view key) {
  for (std::size_t dot = key.rfind('.'); dot != key.npos && dot > 0; dot = key.rfind('.', dot - 1))
    if (settings.asked().contains(key.substr(0, dot))) return std::string(key.substr(0, dot));
  return std::nullopt;
}

/// Whether a value says that something is there.
bool is_on(const Setting& setting) {
  constexpr std::array<std::string_view, 9> off{"false", "False", "0", "0.0", "none",
                                                "None",  "null",  "",  "[]"};
  if (setting.is_null || setting.is_off) return false;
  if (setting.is_list) return !setting.words.empty();
  return setting.words.size() != 1 || !holds(off, setting.words.front());
}

/// Whether a value may be a size: a whole number above 0, or a list with something in it.
bool may_be_size(const Setting& setting) {
  if (setting.is_list) return !setting.words.empty();
  if (setting.words.size() != 1) return false;
  const std::string& word = setting.words.front();
  const std::string whole = word.substr(0, word.find('.'));
  if (whole.empty() || !std::ranges::all_of(whole, is_digit)) return false;
  const bool fraction = word.find_first_not_of("0.", whole.size()) != word.npos;
  return !fraction && whole != "0" && word != "1.0";
}

/// Whether a refused key means nothing: by its value, or as the switch that it belongs to is off.
bool means_nothing(const Settings& settings, const Setting& setting, const KeyTable::Group& group) {
  if (!is_on(setting) || (setting.words.size() == 1 && setting.words[0] == group.neutral))
    return true;
  return !group.off_where.empty() &&
         std::ranges::none_of(settings.all(), [&](const Setting& other) {
           return other.key == group.off_where && is_on(other);
         });
}

/// The shortest part of the key, from its front on, of which the group tells: a section, or all.
std::string reported_part(const std::string& key, const KeyTable::Group& group,
                          const KeyTable& table) {
  for (std::size_t dot = key.find('.'); dot != key.npos; dot = key.find('.', dot + 1))
    if (table.told(key.substr(0, dot)) == &group) return key.substr(0, dot);
  return key;
}

void refuse_unknown(Settings& settings, const Setting& setting, const KeyTable& table) {
  const std::vector<std::string> relevant(settings.asked().begin(), settings.asked().end());
  const auto meant = closest_key(setting.key, relevant);
  const auto idle = meant ? meant : closest_key(setting.key, table.plain_keys());
  const std::string name = setting.key.substr(0, 100);
  settings.note(
      DiagnosisCode::unsupported, Diagnosis::Severity::error, setting.key,
      fmt::format("unknown key '{}' (it may change work, memory or layout); {}--ignore {} "
                  "if it does not matter",
                  settings.shown(name),
                  idle ? fmt::format("did you mean \"{}\"? Else ", settings.shown(*idle)) : "",
                  name));
}

std::string refusal(const Settings& settings, const Setting& setting,
                    const KeyTable::Group& group) {
  return fmt::format("{}: {}{}{}", settings.shown(setting.key.substr(0, 100)), group.why,
                     group.instead.empty() ? "" : "; ", group.instead);
}

/// One letter a layer, 1 with experts; nothing for a pattern of another number of
/// layers.
std::optional<std::string> expert_layers(std::string_view pattern, int64_t num_layers) {
  auto layers = written_out(pattern, WrittenForm::lists);
  return layers && std::ssize(*layers) == num_layers ? layers : std::nullopt;
}

/// How many dense layers come first; nothing where one follows a layer with experts.
std::optional<int64_t> leading_dense_layers(std::string_view layers) {
  const std::size_t dense = std::min(layers.find('1'), layers.size());
  if (layers.find('0', dense) != layers.npos) return std::nullopt;
  return static_cast<int64_t>(dense);
}

/// n, where exactly every n-th layer has experts.
std::optional<int64_t> expert_period(std::string_view layers) {
  const std::size_t period = layers.find('1') + 1;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if ((layers[i] == '1') != (period > 0 && (i + 1) % period == 0)) return std::nullopt;
  return static_cast<int64_t>(period);
}

}  // namespace

std::optional<std::string> first_refused(const Settings& settings, const KeyTable& table) {
  for (const Setting& setting : settings.all())
    if (const KeyTable::Group* group = table.refused(setting.key))
      if (!means_nothing(settings, setting, *group) && !settings.is_ignored(setting.key))
        return settings.place(setting.key) + refusal(settings, setting, *group);
  return std::nullopt;
}

void report_unknown_keys(Settings& settings, const KeyTable& table) {
  std::set<std::string> told;
  for (const Setting& setting : settings.all()) {
    if (settings.is_ignored(setting.key)) {
      told.insert(fmt::format("{} is ignored, as asked", settings.shown(setting.key)));
      continue;
    }
    const bool empty = setting.is_list && setting.words.empty();  // a section of nothing
    if (settings.asked().contains(setting.key) || setting.is_null || empty) continue;
    const bool size = may_be_size(setting);
    if (const auto parent = asked_table(settings, setting.key)) {
      settings.note(DiagnosisCode::inconsistent, Diagnosis::Severity::error, setting.key,
                    fmt::format("{} is a table (it must be one value); correct the value",
                                settings.shown(parent->substr(0, 100))));
    } else if (const KeyTable::Group* refused = table.refused(setting.key)) {
      if (!means_nothing(settings, setting, *refused))
        settings.note(DiagnosisCode::unsupported, Diagnosis::Severity::error, setting.key,
                      refusal(settings, setting, *refused));
    } else if (const KeyTable::Group* known = table.told(setting.key, size)) {
      if (is_on(setting))
        told.insert(fmt::format("{}: {}", settings.shown(reported_part(setting.key, *known, table)),
                                known->why));
    } else if (!table.without_effect(setting.key, size)) {
      refuse_unknown(settings, setting, table);
    }
  }
  for (const std::string& sentence : told)
    settings.assume(sentence);
}

std::optional<std::vector<int64_t>> uneven_stages(int64_t num_layers, int64_t stages,
                                                  std::optional<int64_t> first,
                                                  std::optional<int64_t> last) {
  const int64_t inner = stages - (first ? 1 : 0) - (last ? 1 : 0);
  const int64_t left = num_layers - first.value_or(0) - last.value_or(0);
  if (inner < 0 || left < 0 || stages > 100'000) return std::nullopt;
  if (inner == 0 ? left != 0 : left % inner != 0) return std::nullopt;
  std::vector<int64_t> layers;
  if (first) layers.push_back(*first);
  layers.insert(layers.end(), as_size(inner), inner == 0 ? 0 : left / inner);
  if (last) layers.push_back(*last);
  return layers;
}

void read_expert_layers(Settings& settings, std::string_view key, spec::Model& model) {
  auto pattern = settings.text(key);
  if (!pattern) return;
  std::erase(*pattern, ' ');
  const auto layers = expert_layers(*pattern, model.num_layers);
  const auto dense = layers            ? leading_dense_layers(*layers)
                     : *pattern == "1" ? std::optional<int64_t>(0)
                                       : std::nullopt;
  const auto every = layers && !dense ? expert_period(*layers) : whole_number(*pattern);
  if (every.value_or(0) > 1 && model.num_layers % *every == 0) {
    if (model.moe) model.moe->layer_period = every;
  } else if (dense) {
    if (model.moe) model.moe->num_dense_layers = *dense;
  } else {
    settings.note(DiagnosisCode::unsupported, Diagnosis::Severity::error, key,
                  fmt::format("{} '{}' is not modelled (dense layers may come first, or every n-th "
                              "layer has experts); try 1 or \"([0]*n+[1]*m)\" with n + m layers",
                              settings.shown(key), pattern->substr(0, 60)));
  }
}

spec::ContextExchange read_context_exchange(Settings& settings, std::string_view key) {
  const auto kinds = settings.list(key);
  const std::string kind = kinds && !kinds->empty() ? kinds->front() : "p2p";
  if (kind == "all_gather" || kind == "allgather") return spec::ContextExchange::all_gather;
  if (kind != "p2p")
    settings.assume(fmt::format("keys and values pass around a ring, not by {} ({})", kind,
                                settings.shown(key)));
  return spec::ContextExchange::ring;
}

namespace {

using spec::OptimizerState;
using spec::Precision;

bool is_plain_adam(std::string_view name) {
  return name == "fused_adam" || name == "adam" || name == "adamw" || name == "megatron_fused_adam";
}

/// The library's name; "" for one that is not known.
std::string library_name(std::string_view name, const OptimizerContext& context) {
  if (is_plain_adam(name) && context.sharded_parameters) return "fsdp_fused_adam";
  if (is_plain_adam(name) || name == "sgd") return "fused_adam";
  if (name == "distributed_fused_adam") return "distributed_fused_adam";
  if (name != "mcore_distributed_optim") return {};
  const bool half = context.gradient_sync_bytes.value_or(4) < 4;
  return half ? "mcore_distributed_optim" : "megatron_distributed_optim";
}

OptimizerState adapted(OptimizerState state, std::string_view name,
                       const OptimizerContext& context) {
  const bool sharded_states = name == "distributed_fused_adam" || name == "mcore_distributed_optim";
  if (context.gradient_sync_bytes) {
    state.gradient_sync_bytes = *context.gradient_sync_bytes;
    if (sharded_states) state.gradient_bytes = *context.gradient_sync_bytes;
  }
  if (name == "sgd") {
    state.name = "sgd";
    state.moment_bytes = 4;
  }
  if (name == "distributed_fused_adam" && context.precision == Precision::fp16)
    state.master_bytes = 4;
  const bool fp32_weights = context.precision == Precision::fp32 || !context.half_precision_weights;
  if (fp32_weights && !context.sharded_parameters) {
    state.weight_bytes = 4;
    state.master_bytes = 0;
  }
  return state;
}

struct Tokenizer {
  std::string_view name;  // the part of the name that tells it, in lower case; * is any letters
  int64_t vocabulary = 0;
};

/// Each number is `vocab_size` of the config.json published with the model; the first that fits
/// wins, so that longer names stand before shorter ones.
constexpr std::array tokenizers{
    Tokenizer{"gpt2bpetokenizer", 50257},             // openai-community/gpt2
    Tokenizer{"meta-llama-3", 128256},                // meta-llama/Meta-Llama-3-8B
    Tokenizer{"llama-3", 128256},                     // meta-llama/Llama-3.1-8B
    Tokenizer{"llama3", 128256},                      // the same, as people name folders
    Tokenizer{"llama-2", 32000},                      // meta-llama/Llama-2-7b
    Tokenizer{"llama2tokenizer", 32000},              // meta-llama/Llama-2-7b
    Tokenizer{"mixtral-8x22b-v0.3", 32768},           // mistralai/Mixtral-8x22B-v0.3
    Tokenizer{"mixtral-8x22b-instruct-v0.1", 32768},  // mistralai/Mixtral-8x22B-Instruct-v0.1
    Tokenizer{"mixtral", 32000},                      // mistralai/Mixtral-8x7B-v0.1, -8x22B-v0.1
    Tokenizer{"mistral-7b-v0.3", 32768},              // mistralai/Mistral-7B-v0.3
    Tokenizer{"mistral-7b", 32000},                   // mistralai/Mistral-7B-v0.1
    Tokenizer{"deepseek-v3", 129280},                 // deepseek-ai/DeepSeek-V3
    Tokenizer{"deepseek-v2", 102400},                 // deepseek-ai/DeepSeek-V2
    Tokenizer{"qwen2*-0.5b", 151936},                 // Qwen/Qwen2.5-0.5B, Qwen2-0.5B
    Tokenizer{"qwen2*-1.5b", 151936},                 // Qwen/Qwen2.5-1.5B, Qwen2.5-Math-1.5B
    Tokenizer{"qwen2*-3b", 151936},                   // Qwen/Qwen2.5-3B
    Tokenizer{"qwen2-", 152064},                      // Qwen/Qwen2-7B
    Tokenizer{"qwen2.5", 152064},                     // Qwen/Qwen2.5-7B
    Tokenizer{"qwen3", 151936},                       // Qwen/Qwen3-8B
    Tokenizer{"gpt2", 50257},                         // openai-community/gpt2
    Tokenizer{"gpt-neox", 50432},                     // EleutherAI/gpt-neox-20b
};

}  // namespace

std::optional<Result<OptimizerState>> find_optimizer(LibraryCache& cache, std::string_view name,
                                                     const OptimizerContext& context) {
  const std::string known = library_name(name, context);
  if (known.empty()) return std::nullopt;
  Result<OptimizerState> state = cache.optimizer(known);
  if (state) *state = adapted(*state, name, context);
  return state;
}

std::optional<int64_t> vocabulary_of(std::string_view tokenizer) {
  const std::string name = lower_case(tokenizer);
  for (const Tokenizer& each : tokenizers)
    if (matches_pattern(fmt::format("*{}*", each.name), name)) return each.vocabulary;
  return std::nullopt;
}

}  // namespace triplepoint::formats
