// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/config_tree.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/formats/key_table.h"
#include "triplepoint/formats/library_cache.h"
#include "triplepoint/formats/readers.h"
#include "triplepoint/formats/settings.h"

namespace triplepoint::formats {
namespace {

using spec::Activation;
using spec::DiagnosisCode;
using spec::Model;
using spec::TomlValue;
using Severity = spec::Diagnosis::Severity;
using Names = std::initializer_list<std::string_view>;

/// The family of a model_type in a list of data/readers/hf.toml, or null.
const TomlValue* family_in(const TomlValue& file, std::string_view list, std::string_view type) {
  const TomlValue* families = file.find(list);
  if (families == nullptr) return nullptr;
  for (const TomlValue& family : families->items) {
    const std::vector<std::string> types = words_at(family, "types");
    if (std::find(types.begin(), types.end(), type) != types.end()) return &family;
  }
  return nullptr;
}

template <class Enum>
Enum word_of(const TomlValue* family, std::string_view key, Enum usual) {
  const TomlValue* value = family != nullptr ? family->find(key) : nullptr;
  return value != nullptr ? spec::enum_from_name<Enum>(value->text).value_or(usual) : usual;
}
bool truth_of(const TomlValue* family, std::string_view key, bool usual) {
  const TomlValue* value = family != nullptr ? family->find(key) : nullptr;
  return value != nullptr ? value->truth : usual;
}
std::optional<int64_t> number_of(const TomlValue* family, std::string_view key) {
  const TomlValue* value = family != nullptr ? family->find(key) : nullptr;
  return value != nullptr ? std::optional(value->integer) : std::nullopt;
}

/// What a layer mixes tokens by, and whether it has experts.
struct Layer {
  enum class Mixer { full, window, linear, mamba } mixer = Mixer::full;
  bool experts = false;
};
using Mixer = Layer::Mixer;

/// The step n and rest r so that exactly the layers with index % n == r fulfil `is`.
std::optional<std::pair<int64_t, int64_t>> step_of(const std::vector<Layer>& layers,
                                                   const std::function<bool(const Layer&)>& is,
                                                   std::size_t first = 0) {
  const std::size_t size = layers.size() - std::min(first, layers.size());
  for (std::size_t step = 1; step <= size; ++step)
    for (std::size_t rest = 0; rest < step; ++rest) {
      bool fits = true;
      for (std::size_t i = first; i < layers.size() && fits; ++i)
        fits = is(layers[i]) == (i % step == rest);
      if (fits) return std::pair(static_cast<int64_t>(step), static_cast<int64_t>(rest));
    }
  return std::nullopt;
}

class Reader {
 public:
  Reader(const KeyTable& table, Settings settings, std::string type)
      : table_(table),
        s_(std::move(settings)),
        type_(std::move(type)),
        family_(family_in(table_.file(), "family", type_)) {}

  Result<ImportedModel> read() {
    TPT_TRY(refuse_other_kinds());
    TPT_TRY(read_dimensions());
    read_family();
    read_experts();
    read_latent_attention();
    read_layers();
    settle_ffn();
    read_prediction();
    compare_with_stated_sizes();
    report_unknown_keys(s_, table_);
    result_.diagnoses = std::move(s_.diagnoses());
    result_.assumed = std::move(s_.assumed());
    result_.keys = s_.asked();
    return std::move(result_);
  }

 private:
  Model& model() { return result_.model; }
  std::optional<int64_t> count(Names names, int64_t least = 0) {
    return s_.count(s_.first(names), least, largest_dimension);
  }
  int64_t positive(Names names, int64_t otherwise) { return count(names, 1).value_or(otherwise); }
  std::optional<bool> boolean(Names names) { return s_.boolean(s_.first(names)); }
  std::vector<std::string> list(std::string_view key) {
    return s_.list(key).value_or(std::vector<std::string>());
  }
  void refuse(std::string_view key, const std::string& what) {
    s_.note(DiagnosisCode::unsupported, Severity::error, key, what);
  }

  Result<void> refuse_other_kinds() {
    s_.text("model_type");
    const TomlValue* other = family_in(table_.file(), "refused_family", type_);
    if (other == nullptr || s_.is_ignored("model_type")) return {};
    return error(fmt::format("{}model_type '{}': {}; give a decoder's config.json",
                             s_.place("model_type"), type_.substr(0, 60),
                             other->find("why")->text));
  }

  /// "meta-llama/Llama-3.1-8B" is llama-3.1-8b; without a name, the folder of the file.
  std::string name() {
    const auto published = s_.text(s_.first({"_name_or_path", "name_or_path"}));
    const std::filesystem::path file(s_.file());
    std::string name = published && !published->empty() ? *published
                       : file.stem() == "config"        ? file.parent_path().filename().string()
                                                        : file.stem().string();
    name = lower_case(std::filesystem::path(name).filename().string());
    return name.empty() ? type_ : name;
  }

  Result<void> read_dimensions() {
    Model& m = model();
    m.name = name();
    std::vector<std::string> problems;
    const auto required = [&](Names names, std::string_view usual = {}) {
      const std::string_view key = s_.first(names);
      if (!s_.has(key))
        if (const auto own = usual.empty() ? std::nullopt : number_of(family_, usual)) {
          s_.assume(fmt::format("{} {}: the default of {}", key, *own, type_));
          return *own;
        }
      const Result<int64_t> value = s_.required(key, other_names(names));
      if (!value) problems.push_back(value.error().what);
      return value.value_or(0);
    };
    const auto kinds = static_cast<int64_t>(list("layers_block_type").size());
    const Names layers{"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
    m.num_layers = kinds > 0 && !s_.has(s_.first(layers)) ? kinds : required(layers);
    m.hidden_size = required({"hidden_size", "n_embd", "n_embed", "d_model"});
    m.num_attention_heads = required({"num_attention_heads", "n_head", "n_heads", "num_heads"});
    m.vocabulary_size = required({"vocab_size", "padded_vocab_size"}, "vocabulary_size");
    if (!problems.empty()) return error(fmt::format("{}", fmt::join(problems, "\n")));
    m.num_query_groups = positive({"num_key_value_heads", "num_kv_heads", "n_head_kv",
                                   "attn_config.kv_n_heads", "num_attention_groups"},
                                  m.num_attention_heads);
    const bool several = boolean({"new_decoder_architecture"}).value_or(false);
    if (boolean({"multi_query"}).value_or(false) && !several) m.num_query_groups = 1;
    if (boolean({"multi_query_attention"}).value_or(false))
      m.num_query_groups = positive({"multi_query_group_num"}, 1);
    m.kv_channels =
        positive({"head_dim", "attention_head_dim", "kv_channels"},
                 number_of(family_, "head_dim")
                     .value_or(std::max<int64_t>(1, m.hidden_size / m.num_attention_heads)));
    constexpr int64_t longest = 1'000'000'000;
    m.sequence_length =
        s_.count(s_.first({"max_position_embeddings", "n_positions", "n_ctx", "seq_length",
                           "max_seq_len", "max_sequence_length", "model_max_length"}),
                 1, longest)
            .value_or(2048);
    s_.assume("vocabulary padded to a multiple of 128");
    return {};
  }

  static std::string other_names(Names names) {
    if (names.size() == 1) return {};
    return fmt::format(", also as {}", fmt::join(names.begin() + 1, names.end(), " or "));
  }

  void read_family() {
    if (family_ == nullptr)
      s_.assume(
          fmt::format("model_type '{}' is in no list of ours: all keys of the file are "
                      "accounted for, and what they leave unsaid is a Llama's (RMS norms, "
                      "rotary positions, a gated MLP, no biases)",
                      type_.substr(0, 60)));
    Model& m = model();
    m.activation = activation(word_of(family_, "activation", Activation::swiglu));
    m.normalization = word_of(family_, "normalization", spec::Normalization::rms_norm);
    m.position_embedding = word_of(family_, "position_embedding", spec::PositionEmbedding::rope);
    m.tied_embeddings =
        boolean({"tie_word_embeddings"}).value_or(truth_of(family_, "tied_embeddings", false));
    const auto none = boolean({"no_bias"});
    m.biases = boolean({"mlp_bias", "bias", "use_bias"})
                   .value_or(none ? !*none : truth_of(family_, "biases", false));
    m.dropout =
        s_.fraction(s_.first({"resid_pdrop", "hidden_dropout", "dropout", "residual_dropout"}))
            .value_or(0);
    read_ffn();
  }

  /// The gated families name the function inside the gate.
  Activation activation(Activation usual) {
    constexpr std::array<std::string_view, 16> known{
        "silu", "swish",     "swiglu", "gelu",        "gelu_new",   "gelu_fast",
        "relu", "gelu_tanh", "relu2",  "gelu_python", "quick_gelu", "gelu_pytorch_tanh",
        "tanh", "relu6",     "xielu",  "swigluoai"};
    const auto name = s_.one_of(s_.first({"hidden_act", "activation_function", "activation",
                                          "hidden_activation", "mlp_hidden_act"}),
                                known);
    constexpr std::array<std::string_view, 2> kinds{"default", "gated"};
    if (s_.one_of("mlp_type", kinds) == "gated") usual = Activation::swiglu;
    if (usual == Activation::swiglu && name && name->starts_with("relu"))
      s_.assume(fmt::format("{} gates the MLP, which has three matrices", *name));
    if (usual == Activation::swiglu || !name) return usual;
    if (*name == "relu2") return Activation::squared_relu;
    return *name == "silu" || *name == "swiglu" ? Activation::swiglu : usual;
  }

  void read_ffn() {
    Model& m = model();
    const TomlValue* ffn = family_ != nullptr ? family_->find("ffn") : nullptr;
    const std::string usual = ffn != nullptr ? ffn->text : std::string();
    const auto dense = count({"intermediate_size_mlp", "dense_intermediate_size"}, 1);
    const auto plain = width_at(ffn_key());
    const auto ratio = s_.number(s_.first({"expansion_ratio", "mlp_ratio"}));
    const bool shared_key = s_.has("ffn_config.ffn_hidden_size");
    m.ffn_hidden_size = dense.value_or(plain.value_or(0));
    if (usual == "both halves") m.ffn_hidden_size /= 2;
    if (ratio && m.ffn_hidden_size > 0)
      s_.assume(fmt::format("{} is not used: {} says the width",
                            s_.first({"expansion_ratio", "mlp_ratio"}), ffn_key()));
    if (m.ffn_hidden_size > 0) return;
    if (shared_key) return void(m.ffn_hidden_size = positive({"ffn_config.ffn_hidden_size"}, 1));
    m.ffn_hidden_size = 4 * m.hidden_size;
    if (ratio)
      m.ffn_hidden_size = static_cast<int64_t>(*ratio * static_cast<double>(m.hidden_size));
    if (usual == "4 hidden sizes" || ratio)
      s_.assume(fmt::format("feed-forward layers {} wide: {} hidden sizes", m.ffn_hidden_size,
                            ratio.value_or(4)));
    else
      m.ffn_hidden_size = 0;  // settle_ffn
  }

  /// Layers that all have experts need no other width.
  void settle_ffn() {
    Model& m = model();
    if (m.ffn_hidden_size > 0) return;
    bool dense = false;
    for (int64_t layer = 0; layer < m.num_layers; ++layer)
      dense = dense || spec::has_dense_mlp(spec::kind_of_layer(m, layer));
    m.ffn_hidden_size =
        m.moe && m.moe->ffn_hidden_size > 0 ? m.moe->ffn_hidden_size : 4 * m.hidden_size;
    if (dense)
      refuse(ffn_key(),
             fmt::format("no intermediate_size (the width of the feed-forward layers; {} has no "
                         "known default); add it",
                         type_.empty() ? "the file" : type_));
  }

  std::string_view ffn_key() {
    return s_.first(
        {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "inner_hidden_size"});
  }

  /// One width, or a list of equal ones.
  std::optional<int64_t> width_of_layers(Names names) { return width_at(s_.first(names)); }
  std::optional<int64_t> width_at(std::string_view key) {
    const auto words = s_.list(key);
    if (!words) return std::nullopt;
    if (!s_.is_list(key)) return s_.count(key, 0, largest_dimension);
    if (words->size() < 2) return one_of_list(key);
    if (std::adjacent_find(words->begin(), words->end(), std::not_equal_to<>()) == words->end())
      return one_of_list(key);
    refuse(key, fmt::format("{} differs from layer to layer (layers of unequal widths are not "
                            "modelled); give a model whose layers are alike",
                            key));
    return std::nullopt;
  }
  std::optional<int64_t> one_of_list(std::string_view key) {
    const auto value = whole_number(s_.list(key)->empty() ? "" : s_.list(key)->front());
    if (!value) refuse(key, fmt::format("{} is no whole number; correct the value", key));
    return value;
  }

  void read_experts() {
    Model& m = model();
    const auto experts =
        width_of_layers({"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts",
                         "num_moe_experts", "n_experts", "num_routed_experts",
                         "moe_num_routed_experts", "ffn_config.moe_num_experts"});
    const auto topk =
        width_of_layers({"num_experts_per_tok", "num_experts_per_token", "experts_per_token",
                         "moe_k", "moe_topk", "moe_top_k", "num_selected_experts", "top_k_experts",
                         "router_topk", "moe_router_topk", "router_top_k", "ffn_config.moe_top_k"});
    const auto width = width_of_layers({"moe_intermediate_size", "expert_ffn_hidden_size",
                                        "moe_ffn_hidden_size", "expert_intermediate_size",
                                        "moe_hidden_dim", "ffn_config.ffn_hidden_size"});
    const auto latent = count({"moe_latent_size", "routed_expert_hidden_size"});
    const auto shared_width = shared_expert_width(width);
    const auto block = boolean({"enable_moe_block", "use_moe"});
    if (!experts && topk.value_or(0) > 0 && block != false)
      refuse("num_experts",
             "a number of experts that a token passes, but none of all experts "
             "(num_local_experts, n_routed_experts, num_experts); add it");
    if (experts.value_or(0) > 1 && !width && s_.has("first_k_dense_replace"))
      refuse("moe_intermediate_size",
             "no moe_intermediate_size (dense layers come first, and experts have another width); "
             "add it");
    if (!experts || *experts < 2 || block == false) return;
    if (!topk)
      refuse("num_experts_per_tok",
             fmt::format("{} experts, but no num_experts_per_tok (how many a token passes); add it",
                         *experts));
    spec::MixtureOfExperts moe;
    moe.num_experts = *experts;
    moe.router_topk = topk.value_or(1);
    const bool llama4 = truth_of(family_, "shared_expert", false);
    moe.ffn_hidden_size = width && *width > 0
                              ? *width
                              : (llama4 ? positive({"intermediate_size"}, 1) : m.ffn_hidden_size);
    moe.shared_expert_ffn_hidden_size = shared_width.value_or(llama4 ? moe.ffn_hidden_size : 0);
    moe.latent_size = latent;
    m.moe = moe;
    s_.assume("no token is dropped and experts are balanced");
  }

  /// Of all shared experts together: stated, or a number of experts of the usual width.
  std::optional<int64_t> shared_expert_width(std::optional<int64_t> one) {
    const auto direct = width_of_layers(
        {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
         "share_expert_dim", "shared_intermediate_size", "moe_shared_expert_ffn_hidden_size"});
    const auto number =
        width_of_layers({"n_shared_experts", "num_shared_experts", "num_shared_expert",
                         "moe_num_shared_experts", "n_shared_expert", "shared_expert_num"});
    const int64_t by_number = number.value_or(0) * one.value_or(model().ffn_hidden_size);
    if (!direct || *direct == 0) return number ? std::optional(by_number) : direct;
    if (number.value_or(1) > 1 && *direct != by_number)
      refuse(s_.first({"n_shared_experts", "num_shared_experts", "num_shared_expert",
                       "moe_num_shared_experts"}),
             fmt::format("{} shared experts and a width of {} (of one or of all is not said); "
                         "--ignore the number if the width is of all",
                         *number, *direct));
    return direct;
  }

  void read_latent_attention() {
    const auto key_value = count({"kv_lora_rank"});
    const auto query = count({"q_lora_rank"});
    const auto nope = count({"qk_nope_head_dim"}, 1);
    const auto rope = count({"qk_rope_head_dim"});
    const auto value = count({"v_head_dim"}, 1);
    count({"qk_head_dim"});
    if (!key_value && nope)
      refuse("kv_lora_rank",
             "qk_nope_head_dim, but no kv_lora_rank (latent attention has both); add "
             "it");
    if (!key_value || *key_value < 1) return;
    Model& m = model();
    m.kv_channels = nope.value_or(128);
    m.latent_attention = spec::LatentAttention{.query_rank = query.value_or(0),
                                               .key_value_rank = *key_value,
                                               .rope_head_dim = rope.value_or(64),
                                               .value_head_dim = value.value_or(128)};
    if (query.value_or(0) > 0) return;
    const double wide = static_cast<double>(m.num_attention_heads *
                                            (m.kv_channels + m.latent_attention->rope_head_dim));
    const double narrow = static_cast<double>(m.hidden_size);
    m.latent_attention->query_rank = std::llround(wide * narrow / (wide + narrow));
    s_.assume(
        fmt::format("queries without a low rank count as one of {}, which has as many "
                    "parameters and operations",
                    m.latent_attention->query_rank));
  }

  // Layers --------------------------------------------------------------------------------------

  void read_layers() {
    if (read_written_pattern()) return;
    std::vector<Layer> layers(static_cast<std::size_t>(model().num_layers));
    read_mixers(layers);
    read_expert_layers(layers);
    const bool hybrid = std::any_of(layers.begin(), layers.end(), [](const Layer& layer) {
      return layer.mixer == Mixer::linear || layer.mixer == Mixer::mamba;
    });
    const bool parallel = type_ == "falcon_h1";
    if (hybrid || parallel) return write_pattern(layers, parallel);
    fit_windows(layers);
    fit_experts(layers);
  }

  /// Nemotron-H: letters as Megatron-Core writes them, or words.
  bool read_written_pattern() {
    Model& m = model();
    m.layer_pattern = s_.text("hybrid_override_pattern");
    std::string letters;
    for (const std::string& word : list("layers_block_type"))
      letters += word == "mamba"       ? 'M'
                 : word == "attention" ? '*'
                 : word == "moe"       ? 'E'
                 : word == "mlp"       ? '-'
                                       : '?';
    if (!m.layer_pattern && !letters.empty()) m.layer_pattern = letters;
    if (!m.layer_pattern) return false;
    const char* key = letters.empty() ? "hybrid_override_pattern" : "layers_block_type";
    if (m.layer_pattern->find_first_not_of("M*-E|") != std::string::npos)
      s_.note(DiagnosisCode::inconsistent, Severity::error, key,
              fmt::format("{} is '{}' (it must be letters of layers, M, *, - and E, or mamba, "
                          "attention, mlp and moe); correct the value",
                          key, m.layer_pattern->substr(0, 60)));
    if (!read_state_space())
      refuse("mamba_num_heads", "no mamba_num_heads (the Mamba layers' size); add it");
    if (m.layer_pattern->find('E') == std::string::npos) m.moe.reset();
    for (const char* of_experts : {"first_k_dense_replace", "moe_layer_freq"})
      if (s_.has(of_experts))
        s_.assume(
            fmt::format("{} is not used: the pattern says which layers have experts", of_experts));
    return true;
  }

  bool read_state_space() {
    const auto heads = count({"mamba_num_heads", "mamba_n_heads"});
    const spec::StateSpace space{
        .state_size = positive({"ssm_state_size", "mamba_d_state", "mamba_state_dim"}, 128),
        .num_heads = heads.value_or(0),
        .head_dim = positive({"mamba_head_dim", "mamba_d_head"}, 64),
        .num_groups = positive({"n_groups", "mamba_n_groups"}, 8),
        .conv_width = positive({"conv_kernel", "mamba_d_conv"}, 4),
        .chunk_size = positive({"chunk_size", "mamba_chunk_size"}, 128)};
    count({"mamba_d_ssm"});
    if (!heads) return false;
    model().state_space = space;
    return true;
  }

  void read_mixers(std::vector<Layer>& layers) {
    const std::vector<std::string> types = list("layer_types");
    if (!types.empty() && types.size() != layers.size())
      refuse("layer_types", fmt::format("layer_types has {} entries for {} layers; make them equal",
                                        types.size(), layers.size()));
    const auto size = count({"sliding_window", "sliding_window_size"});
    const bool on =
        boolean({"use_sliding_window"}).value_or(truth_of(family_, "windows_unless_told", true));
    const auto full_first = count({"max_window_layers"});
    const auto every = read_full_every();
    const auto full_attention = count({"full_attention_interval"});
    const bool linear = count({"linear_num_value_heads"}).has_value();
    for (const std::string& kind : list("attn_type_list"))
      if (kind != "1")
        return refuse("attn_type_list",
                      "attn_type_list has layers of lightning attention, which is not "
                      "modelled");
    // A window as long as the longest sequence limits nothing.
    const bool window = on && size && *size > 0 && *size < model().sequence_length;
    if (window) model().sliding_window = spec::SlidingWindow{.size = *size, .full_every = 0};
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto number = static_cast<int64_t>(i) + 1;
      if (i < types.size())
        layers[i].mixer = mixer_named(types[i], window);
      else if (linear)
        layers[i].mixer = number % full_attention.value_or(4) == 0 ? Mixer::full : Mixer::linear;
      else if (window)
        layers[i].mixer =
            (full_first && number <= *full_first) || (every > 0 && number % every == 0)
                ? Mixer::full
                : Mixer::window;
    }
  }

  /// As a number, or in a text of letters: "LLLG".
  int64_t read_full_every() {
    const auto words = s_.text("sliding_window_pattern");
    const int64_t usual = number_of(family_, "full_every").value_or(0);
    if (!words) return usual;
    if (const auto number = whole_number(*words)) return *number;
    const bool letters = words->find_first_not_of("LG") == words->npos && words->ends_with('G') &&
                         words->find('G') + 1 == words->size();
    if (!letters)
      refuse(
          "sliding_window_pattern",
          fmt::format("sliding_window_pattern is '{}' (it must be a whole number, or letters as in "
                      "LLLG); correct the value",
                      words->substr(0, 60)));
    return static_cast<int64_t>(words->size());
  }

  Mixer mixer_named(const std::string& word, bool window) {
    if (word == "full_attention" || word == "attention" || word == "global" ||
        word == "chunked_attention")
      return Mixer::full;
    if (word == "sliding_attention") return window ? Mixer::window : Mixer::full;
    if (word == "linear_attention") return Mixer::linear;
    if (word == "mamba" || word == "mamba2") return Mixer::mamba;
    refuse("layer_types", fmt::format("layers '{}' are not modelled (they would change the work); "
                                      "known are full_attention, sliding_attention, "
                                      "linear_attention, mamba and attention",
                                      word.substr(0, 40)));
    return Mixer::full;
  }

  void read_expert_layers(std::vector<Layer>& layers) {
    const int64_t first =
        count({"first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"}).value_or(0);
    const auto last = count({"moe_layer_end_index"});
    const int64_t step = positive({"decoder_sparse_step", "interleave_moe_layer_step",
                                   "moe_layer_interval", "moe_every_n_layers"},
                                  1);
    const std::vector<std::string> words = list("mlp_layer_types");
    const std::vector<std::string> named = layer_numbers("moe_layers");
    const std::vector<std::string> dense = layer_numbers("mlp_only_layers");
    const std::vector<std::string> frequency = list("moe_layer_freq");
    for (const std::string& word : words)
      if (word != "dense" && word != "sparse" && word != "moe")
        return refuse(
            "mlp_layer_types",
            fmt::format("mlp_layer_types has '{}' (it must be dense, sparse or moe for each "
                        "layer); correct the value",
                        word.substr(0, 40)));
    if (!words.empty() && words.size() != layers.size())
      return refuse("mlp_layer_types",
                    "mlp_layer_types has other than one entry a layer; correct it");
    const bool by_layer = frequency.size() == layers.size();
    const int64_t period = by_layer || frequency.empty() ? 1 : positive({"moe_layer_freq"}, 1);
    const auto has = [](const std::vector<std::string>& all, int64_t layer) {
      return std::find(all.begin(), all.end(), std::to_string(layer)) != all.end();
    };
    if (!model().moe) return;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      layers[i].experts = at >= first && (!last || at <= *last) && (at + 1) % step == 0 &&
                          at % period == 0 && !has(dense, at) && (named.empty() || has(named, at));
      if (by_layer) layers[i].experts = frequency[i] != "0";
      if (i < words.size()) layers[i].experts = words[i] == "sparse" || words[i] == "moe";
    }
  }

  std::vector<std::string> layer_numbers(std::string_view key) {
    std::vector<std::string> numbers = list(key);
    for (const std::string& number : numbers)
      if (!whole_number(number) || *whole_number(number) >= model().num_layers) {
        refuse(key, fmt::format("{} has '{}' (it must be numbers of layers); correct the value",
                                key, number.substr(0, 40)));
        return {};
      }
    return numbers;
  }

  void fit_windows(const std::vector<Layer>& layers) {
    const auto is_full = [](const Layer& layer) { return layer.mixer == Mixer::full; };
    const auto full = std::count_if(layers.begin(), layers.end(), is_full);
    Model& m = model();
    if (!m.sliding_window) return;
    if (full == static_cast<std::ptrdiff_t>(layers.size())) return m.sliding_window.reset();
    if (full == 0) return;
    const auto step = step_of(layers, is_full);
    const auto number = static_cast<std::ptrdiff_t>(layers.size());
    if (!step)
      return refuse(
          s_.has("layer_types") ? "layer_types" : "max_window_layers",
          fmt::format("{} of {} layers see all tokens, in an order that is not modelled "
                      "(every n-th layer may); --ignore sliding_window for attention over "
                      "all tokens in all layers",
                      full, number));
    m.sliding_window->full_every = step->first;
    if (step->second != step->first - 1)
      s_.assume(
          fmt::format("of each {} layers the last sees all tokens, not number {}: {} layers in "
                      "place of {}",
                      step->first, step->second + 1, number / step->first, full));
  }

  void fit_experts(const std::vector<Layer>& layers) {
    Model& m = model();
    if (!m.moe) return;
    const auto has = [](const Layer& layer) { return layer.experts; };
    const auto first = std::find_if(layers.begin(), layers.end(), has) - layers.begin();
    if (std::all_of(layers.begin() + first, layers.end(), has)) {
      m.moe->num_dense_layers = first;
      return;
    }
    const auto step = step_of(layers, has);
    if (step && step->second == step->first - 1) {
      m.moe->layer_period = step->first;
      return;
    }
    refuse("num_hidden_layers",
           fmt::format("{} of {} layers have experts, in an order that is not modelled (dense ones "
                       "may come first, or every n-th layer has experts); give a model in TOML",
                       std::count_if(layers.begin(), layers.end(), has), layers.size()));
  }

  /// Each part of a layer becomes a letter.
  void write_pattern(const std::vector<Layer>& layers, bool parallel) {
    Model& m = model();
    const bool mamba = parallel || std::any_of(layers.begin(), layers.end(), [](const Layer& l) {
                         return l.mixer == Mixer::mamba;
                       });
    if (mamba ? !read_state_space() : !read_delta_net())
      return refuse("layer_types",
                    "the sizes of its Mamba or linear layers are missing (mamba_n_heads "
                    "or linear_num_value_heads); add them");
    std::string pattern;
    for (const Layer& layer : layers) {
      if (layer.mixer == Mixer::window || (mamba && layer.mixer == Mixer::linear))
        return refuse("layer_types",
                      "windowed layers beside Mamba or linear ones are not modelled; "
                      "--ignore sliding_window for attention over all tokens");
      const bool attention = layer.mixer == Mixer::full;
      pattern += parallel ? "M*" : attention ? "*" : "M";
      pattern += layer.experts ? 'E' : '-';
    }
    m.sliding_window.reset();
    m.layer_pattern = pattern;
    m.num_layers = static_cast<int64_t>(pattern.size());
    s_.assume(fmt::format("attention, Mamba and feed-forward parts count as separate layers: {}",
                          m.num_layers));
    if (parallel) s_.assume("attention and Mamba stand behind each other, not side by side");
  }

  /// A gated delta net has the matrices of a Mamba-2 layer.
  bool read_delta_net() {
    const auto heads = count({"linear_num_value_heads"}, 1);
    if (!heads) return false;
    model().state_space = spec::StateSpace{.state_size = positive({"linear_key_head_dim"}, 128),
                                           .num_heads = *heads,
                                           .head_dim = positive({"linear_value_head_dim"}, 128),
                                           .num_groups = positive({"linear_num_key_heads"}, *heads),
                                           .conv_width = positive({"linear_conv_kernel_dim"}, 4),
                                           .chunk_size = 64};
    s_.assume(
        "gated delta nets count as Mamba-2 layers of their widths: the same matrices but for "
        "one of a number a head; the products that correct the state inside of a chunk are "
        "left out");
    return true;
  }

  void read_prediction() {
    const auto depths = count(
        {"num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "mtp_num_layers"});
    if (depths.value_or(0) < 1) return;
    model().multi_token_prediction = spec::MultiTokenPrediction{.depths = 0, .layer_pattern = {}};
    s_.assume("without the layers that predict further tokens");
  }

  // Stated sizes --------------------------------------------------------------------------------

  void compare(std::string_view said, double stated, double counted, std::string_view what) {
    const double off = counted / stated - 1;
    if (std::abs(off) > 0.03)
      s_.assume(fmt::format("{} says {} {} parameters, the shape has {} ({:+.0f} %)", said,
                            significant(stated / 1e9),
                            what.empty() ? "billion" : fmt::format("billion {}", what),
                            significant(counted / 1e9), 100 * off));
  }

  /// "8B" and "30B-A3B" of a name, num_parameters of the file.
  void compare_with_stated_sizes() {
    if (has_errors(s_.diagnoses())) return;
    const spec::ParameterCount counted = spec::count_parameters(model());
    const std::string_view key = s_.first({"num_parameters", "n_params", "num_params"});
    if (const auto stated = s_.number(key, 1, 1e15)) compare(key, *stated, counted.total(), "");
    for (const std::string& word : split(model().name, '-')) {
      const bool active = word.size() > 2 && lower_case(word.front()) == 'a' && is_digit(word[1]);
      const std::string_view number = std::string_view(word).substr(active ? 1 : 0);
      double value = 0;
      const auto [end, problem] =
          std::from_chars(number.data(), number.data() + number.size(), value);
      const std::string_view unit = number.substr(static_cast<std::size_t>(end - number.data()));
      if (problem != std::errc() || value <= 0 || (unit != "b" && unit != "m")) continue;
      const double stated = value * (unit == "b" ? 1e9 : 1e6);
      compare("the name", stated, active ? counted.active() : counted.total(),
              active ? "active" : "");
    }
  }

  const KeyTable& table_;
  Settings s_;
  std::string type_;
  const TomlValue* family_;
  ImportedModel result_;
};

/// The decoder's part of a model of several kinds of input, with what stands beside it.
YamlNode decoder_part(const YamlNode& whole) {
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    const YamlNode* inner = find_key(whole, key);
    if (inner == nullptr || inner->kind != YamlNode::Kind::table) continue;
    YamlNode part = decoder_part(*inner);
    for (const YamlEntry& entry : whole.entries)
      if (&entry.value != inner && find_key(part, entry.key) == nullptr)
        part.entries.push_back(entry);
    return part;
  }
  return whole;
}

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
  ImportedModel read = TPT_TRY(import_hf_config(library, text, path, hints));
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

Result<NamedModel> read_model(const spec::Library& library, const std::string& name,
                              const ImportHints& hints) {
  const std::string path = config_in(name);
  const bool is_file = !name.ends_with(".toml") && (path_exists(path) || path.ends_with(".json")) &&
                       TPT_TRY(spec::name_in_library(library, "models", name)).empty();
  if (!is_file) return NamedModel{TPT_TRY(spec::load_model(library, name)), "the model's", {}};
  const std::string text = TPT_TRY(read_file(path));
  if (recognize(text) != FileKind::hf_config)
    return error(fmt::format(
        "{}: describes no model (it is no config.json with \"model_type\", and its name "
        "does not end in .toml); a file that describes a job is given without --model",
        path));
  ImportedModel read = TPT_TRY(import_hf_config(library, text, path, hints));
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

namespace {

Result<ImportedModel> read_tree(const spec::Library& library, const YamlNode& tree,
                                const std::string& path, const ImportHints& hints) {
  const KeyTable table = TPT_TRY(KeyTable::load(library, "hf"));
  Settings settings(path);
  settings.set_by_flags(hints.by_flags);
  settings.set_ignored(hints.ignored);
  settings.add_tree(tree);
  const std::string type = settings.text("model_type").value_or("");
  return Reader(table, std::move(settings), type).read();
}

}  // namespace

Result<ImportedModel> import_hf_config(const spec::Library& library, const std::string& text,
                                       const std::string& path, const ImportHints& hints) {
  const YamlNode whole = TPT_TRY(parse_json_tree(text, path));
  if (whole.kind != YamlNode::Kind::table)
    return error(
        fmt::format("{}: not a JSON object (a config.json is one); try another file", path));
  return read_tree(library, decoder_part(whole), path, hints);
}

Result<ImportedModel> import_hf_section(LibraryCache& cache, const YamlNode& tree,
                                        std::string_view section, const std::string& path,
                                        const ImportHints& hints) {
  const YamlNode* part = &tree;
  for (const std::string& key : split(section, '.')) {
    part = find_key(*part, key);
    if (part == nullptr)
      return error(fmt::format("{}: has no {} (the sizes of its model); add it", path, section));
  }
  ImportedModel read = TPT_TRY(read_tree(cache.library(), *part, path, hints));
  settle_model(cache, read);
  return read;
}

}  // namespace triplepoint::formats
