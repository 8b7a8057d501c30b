// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <tuple>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/formats/library_cache.h"
#include "triplepoint/formats/settings.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using spec::Model;
using Severity = spec::Diagnosis::Severity;

/// Reads a config.json by the names that model families give to one thing. A value that cannot be
/// read is noted, and counts as absent.
class Config {
 public:
  Config(const Json& json, std::string_view text, std::string path)
      : json_(json), text_(text), path_(std::move(path)) {}

  using Names = std::initializer_list<const char*>;

  std::optional<int64_t> count(Names names, int64_t least = 0) {
    const auto value = found(names);
    if (!value) return std::nullopt;
    const double number = value->json->is_number() ? value->json->get<double>() : std::nan("");
    const bool plausible = std::trunc(number) == number && number >= static_cast<double>(least) &&
                           number <= static_cast<double>(largest_dimension);
    if (plausible) return static_cast<int64_t>(number);
    unreadable(*value, fmt::format("a whole number from {} to {}", least, largest_dimension));
    return std::nullopt;
  }
  std::optional<double> fraction(Names names) {
    const auto value = found(names);
    if (!value) return std::nullopt;
    const double number = value->json->is_number() ? value->json->get<double>() : -1;
    if (number >= 0 && number < 1) return number;
    unreadable(*value, "a number from 0 to below 1");
    return std::nullopt;
  }
  std::optional<bool> boolean(Names names) {
    const auto value = found(names);
    if (!value) return std::nullopt;
    if (value->json->is_boolean()) return value->json->get<bool>();
    unreadable(*value, "true or false");
    return std::nullopt;
  }
  std::optional<std::string> text(Names names) {
    const auto value = found(names);
    if (!value) return std::nullopt;
    if (value->json->is_string()) return value->json->get<std::string>();
    unreadable(*value, "a text");
    return std::nullopt;
  }
  bool has(Names names) { return found(names).has_value(); }

  Result<int64_t> required(Names names) {
    if (const auto value = count(names); value && *value > 0) return *value;
    if (const auto value = found(names))
      return error(sentence(*value, fmt::format("a whole number from 1 to {}", largest_dimension)));
    return error(fmt::format("{}: no \"{}\" (the config.json of a decoder has it{}); add it", path_,
                             *names.begin(), other_names(names)));
  }

  void unreadable_text(Names names, std::string_view expected) {
    if (const auto value = found(names)) unreadable(*value, expected);
  }

  std::vector<std::string>& problems() { return problems_; }
  std::set<std::string, std::less<>>& keys() { return keys_; }

 private:
  struct Value {
    std::string key;
    const Json* json;
  };

  static std::string other_names(Names names) {
    if (names.size() == 1) return {};
    return fmt::format(", also as {}", fmt::join(names.begin() + 1, names.end(), " or "));
  }

  std::optional<Value> found(Names names) {
    for (const char* name : names) {
      keys_.insert(name);
      const auto place = json_.find(name);
      if (place != json_.end() && !place->is_null()) return Value{name, &*place};
    }
    return std::nullopt;
  }

  /// ":7" where the key stands in one line of the file only.
  std::string line_of(std::string_view key) const {
    const std::string quoted = fmt::format("\"{}\"", key);
    const std::size_t place = text_.find(quoted);
    if (place == text_.npos || text_.find(quoted, place + 1) != text_.npos) return {};
    const std::string_view before = text_.substr(0, place);
    return fmt::format(":{}", 1 + std::count(before.begin(), before.end(), '\n'));
  }

  std::string sentence(const Value& value, std::string_view expected) const {
    return fmt::format("{}{}: \"{}\" is {} (it must be {}); correct the value", path_,
                       line_of(value.key), value.key, json_text(*value.json, -1).substr(0, 60),
                       expected);
  }

  void unreadable(const Value& value, std::string_view expected) {
    problems_.push_back(sentence(value, expected));
  }

  const Json& json_;
  std::string_view text_;
  std::string path_;
  std::vector<std::string> problems_;
  std::set<std::string, std::less<>> keys_;
};

/// What a family does without saying so in its config.
struct Family {
  std::string_view type;  // model_type
  spec::Activation activation;
  spec::Normalization normalization;
  spec::PositionEmbedding positions;
  bool tied, biases;
};
using spec::Activation;
using spec::Normalization;
using spec::PositionEmbedding;
constexpr std::array families{
    Family{"gpt2", Activation::gelu, Normalization::layer_norm, PositionEmbedding::learned, true,
           true},
    Family{"gpt_neox", Activation::gelu, Normalization::layer_norm, PositionEmbedding::rope, false,
           true},
    Family{"gptj", Activation::gelu, Normalization::layer_norm, PositionEmbedding::rope, false,
           true},
    Family{"opt", Activation::gelu, Normalization::layer_norm, PositionEmbedding::learned, true,
           true},
    Family{"bloom", Activation::gelu, Normalization::layer_norm, PositionEmbedding::none, true,
           true},
    Family{"falcon", Activation::gelu, Normalization::layer_norm, PositionEmbedding::rope, true,
           false},
    Family{"nemotron", Activation::squared_relu, Normalization::layer_norm, PositionEmbedding::rope,
           false, false},
    Family{"nemotron_h", Activation::squared_relu, Normalization::rms_norm, PositionEmbedding::none,
           false, false},
    Family{"gpt_oss", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, false,
           true},
    Family{"llama", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, false,
           false},
    Family{"mistral", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, false,
           false},
    Family{"mixtral", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, false,
           false},
    Family{"qwen2", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, false,
           false},
    Family{"qwen2_moe", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, false,
           false},
    Family{"qwen3", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, false,
           false},
    Family{"qwen3_moe", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, false,
           false},
    Family{"gemma", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, true,
           false},
    Family{"gemma2", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, true,
           false},
    Family{"phi3", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope, false,
           false},
    Family{"deepseek_v2", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope,
           false, false},
    Family{"deepseek_v3", Activation::swiglu, Normalization::rms_norm, PositionEmbedding::rope,
           false, false},
};

class Reader {
 public:
  Reader(const Json& json, std::string_view text, const std::string& path)
      : config_(json, text, path), path_(path) {}

  Result<ImportedModel> read() {
    TPT_TRY(read_dimensions());
    read_family();
    read_experts();
    read_latent_attention();
    read_hybrid();
    read_window();
    note_what_is_left_out();
    for (std::string& problem : config_.problems())
      result_.diagnoses.push_back(
          {DiagnosisCode::inconsistent, Severity::error, std::move(problem)});
    result_.keys = std::move(config_.keys());
    return std::move(result_);
  }

 private:
  Model& model() { return result_.model; }
  void assume(std::string what) { result_.assumed.push_back(std::move(what)); }
  void warn(std::string what) {
    result_.diagnoses.push_back(
        {DiagnosisCode::unsupported, Severity::warning, fmt::format("{}: {}", path_, what)});
  }

  /// "meta-llama/Llama-3.1-8B" is llama-3.1-8b; without a name, the folder of the file.
  std::string name() {
    const auto published = config_.text({"_name_or_path", "name_or_path"});
    const std::filesystem::path file(path_);
    std::string name = published && !published->empty() ? *published
                       : file.stem() == "config"        ? file.parent_path().filename().string()
                                                        : file.stem().string();
    name = lower_case(std::filesystem::path(name).filename().string());
    return name.empty() ? config_.text({"model_type"}).value_or("model") : name;
  }

  Result<void> read_dimensions() {
    Model& m = model();
    m.name = name();
    std::vector<std::string> problems;
    const auto required = [&](Config::Names names) {
      const Result<int64_t> value = config_.required(names);
      if (!value) problems.push_back(value.error().what);
      return value.value_or(0);
    };
    m.num_layers = required({"num_hidden_layers", "n_layer", "num_layers"});
    m.hidden_size = required({"hidden_size", "n_embd", "d_model"});
    m.num_attention_heads = required({"num_attention_heads", "n_head", "num_heads"});
    m.vocabulary_size = required({"vocab_size"});
    if (!problems.empty()) return error(fmt::format("{}", fmt::join(problems, "\n")));
    const auto ffn =
        config_.count({"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"}, 1);
    m.ffn_hidden_size = ffn.value_or(4 * m.hidden_size);
    if (!ffn) assume(fmt::format("feed-forward layers {} wide: 4 hidden sizes", m.ffn_hidden_size));
    m.num_query_groups = positive({"num_key_value_heads", "num_kv_heads"}, m.num_attention_heads);
    if (config_.boolean({"multi_query"}).value_or(false) && !config_.has({"num_kv_heads"}))
      m.num_query_groups = 1;
    m.kv_channels =
        positive({"head_dim"}, std::max<int64_t>(1, m.hidden_size / m.num_attention_heads));
    m.sequence_length =
        positive({"max_position_embeddings", "n_positions", "n_ctx", "seq_length"}, 2048);
    assume("vocabulary padded to a multiple of 128");
    return {};
  }

  int64_t positive(Config::Names names, int64_t otherwise) {
    return config_.count(names, 1).value_or(otherwise);
  }

  void read_family() {
    const std::string type = config_.text({"model_type"}).value_or("");
    const auto family = std::find_if(families.begin(), families.end(),
                                     [&](const Family& each) { return each.type == type; });
    const Family& taken = family != families.end() ? *family : llama();
    if (family == families.end())
      warn(fmt::format(
          "model_type '{}' is not known (its layers may differ); it is imported as a Llama",
          type.substr(0, 60)));
    Model& m = model();
    m.activation = activation(taken.activation);
    m.normalization = taken.normalization;
    m.position_embedding = taken.positions;
    m.tied_embeddings = config_.boolean({"tie_word_embeddings"}).value_or(taken.tied);
    m.biases = config_.boolean({"mlp_bias", "bias"}).value_or(taken.biases);
    m.dropout = config_.fraction({"resid_pdrop", "hidden_dropout", "dropout"}).value_or(0);
  }

  static const Family& llama() {
    return *std::find_if(families.begin(), families.end(),
                         [](const Family& each) { return each.type == "llama"; });
  }

  /// The gated families name the function inside the gate.
  Activation activation(Activation usual) {
    constexpr std::array<std::string_view, 14> known{
        "silu", "swish",     "swiglu", "gelu",        "gelu_new",   "gelu_fast",
        "relu", "gelu_tanh", "relu2",  "gelu_python", "quick_gelu", "gelu_pytorch_tanh",
        "tanh", "relu6"};
    const auto name =
        config_.text({"hidden_act", "activation_function", "hidden_activation", "mlp_hidden_act"});
    if (name && std::find(known.begin(), known.end(), *name) == known.end())
      config_.unreadable_text(
          {"hidden_act", "activation_function", "hidden_activation", "mlp_hidden_act"},
          "an activation function as transformers names it: silu, gelu, gelu_new, relu2 ...");
    if (usual == Activation::swiglu || !name) return usual;
    if (*name == "relu2") return Activation::squared_relu;
    return *name == "silu" || *name == "swiglu" ? Activation::swiglu : usual;
  }

  void read_experts() {
    const auto experts = config_.count({"num_local_experts", "n_routed_experts", "num_experts"});
    if (!experts || *experts < 2) return;
    Model& m = model();
    spec::MixtureOfExperts moe;
    moe.num_experts = *experts;
    moe.router_topk = positive({"num_experts_per_tok", "num_experts_per_token"}, 2);
    moe.ffn_hidden_size = positive({"moe_intermediate_size"}, m.ffn_hidden_size);
    const auto shared = config_.count({"n_shared_experts"});
    moe.shared_expert_ffn_hidden_size =
        config_.count({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"})
            .value_or(shared.value_or(0) * moe.ffn_hidden_size);
    moe.num_dense_layers =
        std::min(config_.count({"first_k_dense_replace"}).value_or(0), m.num_layers);
    m.moe = moe;
    const auto every =
        config_.count({"decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step"});
    if (every.value_or(1) > 1) m.moe->layer_period = every;
    assume("no token is dropped and experts are balanced");
  }

  void read_latent_attention() {
    const auto key_value = config_.count({"kv_lora_rank"});
    if (!key_value || *key_value < 1) return;
    Model& m = model();
    m.latent_attention =
        spec::LatentAttention{.query_rank = config_.count({"q_lora_rank"}).value_or(0),
                              .key_value_rank = *key_value,
                              .rope_head_dim = config_.count({"qk_rope_head_dim"}).value_or(64),
                              .value_head_dim = positive({"v_head_dim"}, 128)};
    m.kv_channels = positive({"qk_nope_head_dim"}, 128);
  }

  /// Nemotron-H: letters as Megatron-Core writes them.
  void read_hybrid() {
    Model& m = model();
    m.layer_pattern = config_.text({"hybrid_override_pattern"});
    if (m.layer_pattern && m.layer_pattern->find_first_not_of("M*-E|") != std::string::npos)
      config_.unreadable_text({"hybrid_override_pattern"}, "letters of layers: M, *, - and E");
    const auto heads = config_.count({"mamba_num_heads"});
    if (!m.layer_pattern || !heads) return;
    m.state_space = spec::StateSpace{.state_size = positive({"ssm_state_size"}, 128),
                                     .num_heads = *heads,
                                     .head_dim = positive({"mamba_head_dim"}, 64),
                                     .num_groups = positive({"n_groups"}, 8),
                                     .conv_width = positive({"conv_kernel"}, 4),
                                     .chunk_size = positive({"chunk_size"}, 128)};
    const bool experts = m.layer_pattern->find('E') != std::string::npos;
    if (!experts) m.moe.reset();
    if (m.moe) m.moe->latent_size = config_.count({"moe_latent_size"});
  }

  /// Which layers look at everything is written down by some families, and known of the others.
  void read_window() {
    const bool windows = config_.boolean({"use_sliding_window"}).value_or(true);
    const auto window = config_.count({"sliding_window"});
    if (!windows || !window || *window < 1 || *window >= model().sequence_length) return;
    const std::string type = config_.text({"model_type"}).value_or("");
    const bool alternates = type == "gpt_oss" || type == "gemma2";
    const int64_t usual = alternates ? 2 : type.starts_with("gemma3") ? 6 : 0;
    model().sliding_window = spec::SlidingWindow{
        .size = *window, .full_every = config_.count({"sliding_window_pattern"}).value_or(usual)};
  }

  void note_what_is_left_out() {
    if (config_.count({"num_nextn_predict_layers"}).value_or(0) > 0) {
      model().multi_token_prediction = spec::MultiTokenPrediction{.depths = 0};
      assume("without the layers that predict further tokens");
    }
    if (config_.has({"vision_config", "audio_config"}))
      warn("only the text decoder is read; encoders of pictures or sound are left out");
  }

  Config config_;
  std::string path_;
  ImportedModel result_;
};

// The library --------------------------------------------------------------------------------

// Tokens of a training sequence where nothing is known but that the model takes them; what most
// models of the library were trained on, and not the 131,072 that a config.json may allow.
constexpr int64_t usual_length = 4096;

/// A model without what a config.json does not say, or what training sets.
Model shape_of(Model model) {
  const Model unsaid;
  model.name = unsaid.name;
  model.sequence_length = unsaid.sequence_length;
  model.vocabulary_divisible_by = unsaid.vocabulary_divisible_by;
  model.dropout = unsaid.dropout;
  model.multi_token_prediction = unsaid.multi_token_prediction;
  model.published_parameters = model.published_active_parameters = std::nullopt;
  if (!model.moe) return model;
  const spec::MixtureOfExperts plain;
  model.moe->capacity_factor = plain.capacity_factor;
  model.moe->pad_to_capacity = plain.pad_to_capacity;
  model.moe->load_imbalance = plain.load_imbalance;
  model.moe->grouped_gemm = plain.grouped_gemm;
  return model;
}

/// Of models of one shape: the one of the same name; then without limits on experts; then the
/// longest that the read one takes.
bool is_closer(const Model& a, const Model& b, const Model& read) {
  const auto distance = [&](const Model& m) {
    const bool limited = m.moe && m.moe->capacity_factor;
    const bool fits = m.sequence_length <= read.sequence_length;
    return std::tuple(m.name != read.name, limited, fits ? -m.sequence_length : 0);
  };
  return distance(a) < distance(b);
}

std::optional<Model> library_model(LibraryCache& cache, const Model& read) {
  const Model shape = shape_of(read);
  std::optional<Model> found;
  for (const std::string& name : cache.model_names()) {
    const std::optional<Model> known = cache.model(name);
    if (!known || !(shape_of(*known) == shape)) continue;
    if (!found || is_closer(*known, *found, read)) found = known;
  }
  return found;
}

/// Puts the library's model in place of the one read, or sets a usual length. Returns where the
/// length comes from.
std::string settle_model(LibraryCache& cache, ImportedModel& read) {
  const int64_t longest = read.model.sequence_length;
  if (const auto known = library_model(cache, read.model)) {
    read.assumed.push_back(
        fmt::format("the model is the library's {} (its shape is the same)", known->name));
    read.model = *known;
    read.model.sequence_length = std::min(known->sequence_length, longest);
    return known->name + "'s";
  }
  read.model.sequence_length = std::min(usual_length, longest);
  return longest <= usual_length ? "the longest the model takes"
                                 : fmt::format("usual; the model takes up to {}", longest);
}

}  // namespace

Result<Imported> import_hf_job(const spec::Library& library, const std::string& text,
                               const std::string& path, const ImportHints& hints) {
  ImportedModel read = TPT_TRY(import_hf_config(text, path));
  LibraryCache cache(library);
  spec::StatedJob stated;
  stated.length_from = settle_model(cache, read);
  stated.job.origin = path;
  stated.job.model = std::move(read.model);
  stated.job.notes = read.assumed;
  TPT_TRY(apply_hints(library, hints, stated));
  const std::size_t of_file = read.diagnoses.size();
  return Imported{.job = TPT_TRY(spec::with_defaults(library, stated)),
                  .diagnoses = std::move(read.diagnoses),
                  .of_file = of_file,
                  .assumed = std::move(read.assumed),
                  .stated = std::move(stated.stated),
                  .length_from = std::move(stated.length_from),
                  .of_launcher = {},
                  .contested = std::move(stated.contested),
                  .keys = std::move(read.keys)};
}

std::string config_in(const std::string& path) {
  const Path config = Path(path) / "config.json";
  std::error_code ignored;
  return std::filesystem::is_regular_file(config, ignored) ? config.string() : path;
}

Result<NamedModel> read_model(const spec::Library& library, const std::string& name) {
  const std::string path = config_in(name);
  const bool is_file = !name.ends_with(".toml") && (path_exists(path) || path.ends_with(".json")) &&
                       TPT_TRY(spec::name_in_library(library, "models", name)).empty();
  if (!is_file) return NamedModel{TPT_TRY(spec::load_model(library, name))};
  const std::string text = TPT_TRY(read_file(path));
  if (recognize(text) != FileKind::hf_config)
    return error(fmt::format(
        "{}: describes no model (it is no config.json with \"model_type\", and its name "
        "does not end in .toml); a file that describes a job is given without --model",
        path));
  ImportedModel read = TPT_TRY(import_hf_config(text, path));
  NamedModel named;
  for (const spec::Diagnosis& diagnosis : read.diagnoses) {
    if (diagnosis.severity == Severity::error) return error(diagnosis.what);
    named.notes.push_back(diagnosis.what);
  }
  LibraryCache cache(library);
  named.length_from = settle_model(cache, read);
  named.model = std::move(read.model);
  named.notes.insert(named.notes.end(), read.assumed.begin(), read.assumed.end());
  return named;
}

Result<ImportedModel> import_hf_config(const std::string& text, const std::string& path) {
  const Json json = TPT_TRY(parse_json(text, path));
  if (!json.is_object())
    return error(
        fmt::format("{}: not a JSON object (a config.json is one); try another file", path));
  // Models of several kinds of input keep their decoder inside.
  const auto inner = json.find("text_config");
  return Reader(inner != json.end() && inner->is_object() ? *inner : json, text, path).read();
}

}  // namespace triplepoint::formats
