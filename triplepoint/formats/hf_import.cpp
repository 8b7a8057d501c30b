// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <tuple>

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/config_tree.h"
#include "triplepoint/formats/hf_keys.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/formats/key_table.h"
#include "triplepoint/formats/library_cache.h"
#include "triplepoint/formats/readers.h"
#include "triplepoint/formats/settings.h"

namespace triplepoint::formats {
namespace {

using spec::Activation;
using spec::Model;
using Severity = spec::Diagnosis::Severity;

bool fits_one(const std::vector<std::string>& patterns, std::string_view word) {
  return std::ranges::any_of(
      patterns, [&](const std::string& pattern) { return matches_pattern(pattern, word); });
}

class Reader {
 public:
  Reader(const KeyTable& table, Settings settings, std::string type)
      : table_(table), k_(table, std::move(settings), std::move(type)) {}

  Result<ImportedModel> read() {
    TPT_TRY(refuse_other_kinds());
    if (const Result<void> read = read_dimensions(); !read)
      return error(first_refused(k_.s, table_).value_or(read.error().what));
    read_family();
    read_experts();
    read_latent_attention();
    read_hf_layers(k_, model());
    settle_ffn();
    read_prediction();
    compare_with_stated_sizes();
    k_.tell_usual();
    report_unknown_keys(k_.s, table_);
    result_.diagnoses = std::move(k_.s.diagnoses());
    result_.assumed = std::move(k_.s.assumed());
    result_.keys = k_.s.asked();
    return std::move(result_);
  }

 private:
  using Names = HfKeys::Names;

  Model& model() { return result_.model; }

  Result<void> refuse_other_kinds() {
    k_.s.text("model_type");
    const spec::TomlValue* other = family_in(table_.file(), "refused_family", k_.type);
    if (other != nullptr && !k_.s.is_ignored("model_type"))
      return error("{}model_type '{}': {}; give a decoder's config.json", k_.s.place("model_type"),
                   k_.type.substr(0, 60), text_at(*other, "why"));
    for (const std::string& name : k_.list("architectures"))
      for (const spec::TomlValue& head : table_.file().find("refused_architecture")->items)
        if (fits_one(words_at(head, "names"), name) && !k_.s.is_ignored("architectures") &&
            !fits_one(words_at(head, "but"), name))
          return error(
              "{}architecture '{}': {}; --ignore architectures reads it as a "
              "decoder that predicts the next token",
              k_.s.place("architectures"), name.substr(0, 60), text_at(head, "why"));
    constexpr std::array<std::string_view, 2> one_way{"false", "vision"};  // of pictures alone
    k_.s.one_of("use_bidirectional_attention", one_way);
    if (k_.boolean({"is_causal"}) == false)
      k_.refuse("is_causal",
                "is_causal is false: attention in both directions is not modelled; "
                "--ignore is_causal counts what a decoder does");
    return {};
  }

  /// "meta-llama/Llama-3.1-8B" is llama-3.1-8b; without a name, the folder of the file.
  std::string name() {
    const auto published = k_.s.text(k_.s.first({"_name_or_path", "name_or_path"}));
    const std::filesystem::path file(k_.s.file());
    std::string name = published && !published->empty() ? *published
                       : file.stem() == "config"        ? file.parent_path().filename().string()
                                                        : file.stem().string();
    name = lower_case(std::filesystem::path(name).filename().string());
    return name.empty() ? k_.type : name;
  }

  Result<void> read_dimensions() {
    Model& m = model();
    m.name = name();
    std::vector<std::string> problems;
    const auto required = [&](Names names, std::string_view usual = {}) {
      const std::string_view key = k_.s.first(names);
      if (!k_.s.has(key))
        if (const auto own = usual.empty() ? std::nullopt : k_.family_number(usual))
          return k_.usual(key, *own);
      const Result<int64_t> value = k_.s.required(key, other_names(names));
      if (!value) problems.push_back(value.error().what);
      return value.value_or(0);
    };
    const auto kinds = static_cast<int64_t>(k_.list("layers_block_type").size());
    const Names layers{"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
    // Where layers have parts, num_hidden_layers may count each attention.
    if (!k_.family_text("layer_parts").empty() && k_.s.has("num_layers"))
      m.num_layers = required({"num_layers"}), k_.s.has("num_hidden_layers");
    else
      m.num_layers = kinds > 0 && !k_.s.has(k_.s.first(layers)) ? kinds : required(layers);
    m.hidden_size = required({"hidden_size", "n_embd", "n_embed", "d_model"});
    m.num_attention_heads =
        required({"num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"});
    m.vocabulary_size = required({"vocab_size", "padded_vocab_size"}, "vocabulary_size");
    if (!problems.empty()) return error("{}", fmt::join(problems, "\n"));
    read_query_groups();
    const Names heads{"head_dim", "attention_head_dim", "kv_channels"};
    const bool latent = is_latent();
    if (!latent && !k_.count(heads) && !k_.family_number("head_dim") &&
        m.hidden_size % m.num_attention_heads != 0)
      k_.refuse(k_.s.first(heads),
                fmt::format("{} heads do not divide the hidden size {}, and the file has no "
                            "head_dim; add it",
                            m.num_attention_heads, m.hidden_size));
    m.kv_channels = latent && !k_.count(heads)
                        ? 1
                        : k_.positive(heads, k_.family_number("head_dim")
                                                 .value_or(std::max<int64_t>(
                                                     1, m.hidden_size / m.num_attention_heads)));
    // Those of training and of positions that are stretched differ; the longer one is possible.
    const Names lengths{"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"};
    const Names trained_lengths{"seq_length", "max_sequence_length", "model_max_length"};
    const auto positions = k_.s.count(k_.s.first(lengths), 1, 1'000'000'000);
    const auto trained = k_.s.count(k_.s.first(trained_lengths), 1, 1'000'000'000);
    m.sequence_length = positions || trained ? std::max(positions.value_or(1), trained.value_or(1))
                                             : k_.usual(k_.s.first(lengths), 2048);
    if (k_.count({"word_embed_proj_dim"}).value_or(m.hidden_size) != m.hidden_size)
      k_.refuse("word_embed_proj_dim",
                "word_embed_proj_dim is not the width of the layers (embeddings of another width "
                "are not modelled)");
    k_.s.assume("vocabulary padded to a multiple of 128");
    return {};
  }

  /// As many heads of keys and values as the file says, or one where all queries share it.
  void read_query_groups() {
    Model& m = model();
    const Names groups{"num_key_value_heads", "num_kv_heads", "n_head_kv", "attn_config.kv_n_heads",
                       "num_attention_groups"};
    const bool several = k_.boolean({"new_decoder_architecture"}).value_or(false);
    if (k_.boolean({"multi_query_attention"}).value_or(false))
      m.num_query_groups = k_.positive({"multi_query_group_num"}, 1);
    else if (k_.boolean({"multi_query"}).value_or(false) && !several)
      m.num_query_groups = k_.count(groups) ? 1 : k_.usual(k_.s.first(groups), 1);
    else
      m.num_query_groups = k_.positive(groups, m.num_attention_heads);
    if (m.num_attention_heads % m.num_query_groups != 0)
      k_.refuse(k_.s.first(groups),
                fmt::format("{} heads do not share {} heads of keys and values evenly; correct "
                            "the numbers",
                            m.num_attention_heads, m.num_query_groups));
  }

  bool is_latent() {
    return k_.boolean({"use_mla"}).value_or(true) && k_.count({"kv_lora_rank"}).value_or(0) > 0;
  }

  static std::string other_names(Names names) {
    if (names.size() == 1) return {};
    return fmt::format(", also as {}", fmt::join(names.begin() + 1, names.end(), " or "));
  }

  void read_family() {
    if (!k_.knows_family())
      k_.s.assume(fmt::format(
          "model_type '{}' is in no list of ours: all keys of the file are accounted for, and what "
          "they leave unsaid is a Llama's (RMS norms, rotary positions, a gated MLP, no biases)",
          k_.type.substr(0, 60)));
    Model& m = model();
    m.activation = activation(k_.family_word("activation", Activation::swiglu));
    m.normalization = k_.family_word("normalization", spec::Normalization::rms_norm);
    m.position_embedding = k_.family_word("position_embedding", spec::PositionEmbedding::rope);
    constexpr std::array<std::string_view, 4> positions{"rope", "nope", "rope_gptj", "alibi"};
    const auto position = k_.s.one_of("position_embedding_type", positions);
    if (position == "nope" || position == "alibi")
      m.position_embedding = spec::PositionEmbedding::none;
    const auto tied = k_.boolean({"tie_word_embeddings"});
    const bool ties = k_.family_truth("tied_embeddings", false);
    m.tied_embeddings = tied ? *tied : k_.usual_truth("tie_word_embeddings", ties);
    const auto none = k_.boolean({"no_bias"}),
               some =
                   k_.boolean({"mlp_bias", "bias", "use_bias", "add_bias_linear", "enable_bias"});
    m.biases = some.value_or(none ? !*none : k_.family_truth("biases", false));
    if (!some && !none && m.biases) k_.usual_truth("bias", true);
    m.dropout =
        k_.s.fraction(k_.s.first({"resid_pdrop", "hidden_dropout", "dropout", "residual_dropout"}))
            .value_or(0);
    read_ffn();
  }

  /// The gated families name the function inside the gate.
  Activation activation(Activation usual) {
    constexpr std::array<std::string_view, 16> known{
        "silu", "swish",     "swiglu", "gelu",        "gelu_new",   "gelu_fast",
        "relu", "gelu_tanh", "relu2",  "gelu_python", "quick_gelu", "gelu_pytorch_tanh",
        "tanh", "relu6",     "xielu",  "swigluoai"};
    const auto name = k_.s.one_of(k_.s.first({"hidden_act", "activation_function", "activation",
                                              "hidden_activation", "mlp_hidden_act"}),
                                  known);
    constexpr std::array<std::string_view, 2> kinds{"default", "gated"};
    if (k_.s.one_of("mlp_type", kinds) == "gated") usual = Activation::swiglu;
    if (usual == Activation::swiglu && name && name->starts_with("relu"))
      k_.s.assume(fmt::format("{} gates the MLP, which has three matrices", *name));
    if (usual == Activation::swiglu || !name) return usual;
    if (*name == "relu2") return Activation::squared_relu;
    return *name == "silu" || *name == "swiglu" ? Activation::swiglu : usual;
  }

  void read_ffn() {
    Model& m = model();
    const std::string usual = k_.family_text("ffn");
    const auto dense = k_.count({"intermediate_size_mlp", "dense_intermediate_size"}, 1);
    const auto plain = k_.width_at(ffn_key());
    const auto ratio = k_.s.number(k_.s.first({"expansion_ratio", "mlp_ratio"}));
    const bool shared_key = k_.s.has("ffn_config.ffn_hidden_size");
    m.ffn_hidden_size = dense.value_or(plain.value_or(0));
    if (usual == "both halves") m.ffn_hidden_size /= 2;
    if (ratio && m.ffn_hidden_size > 0)
      k_.s.assume(fmt::format("{} is not used: {} says the width",
                              k_.s.first({"expansion_ratio", "mlp_ratio"}), ffn_key()));
    if (m.ffn_hidden_size > 0) return;
    if (shared_key) return void(m.ffn_hidden_size = k_.positive({"ffn_config.ffn_hidden_size"}, 1));
    m.ffn_hidden_size = 4 * m.hidden_size;
    if (ratio) m.ffn_hidden_size = static_cast<int64_t>(*ratio * as_real(m.hidden_size));
    if (usual == "4 hidden sizes" || ratio)
      k_.s.assume(fmt::format("feed-forward layers {} wide: {} hidden sizes", m.ffn_hidden_size,
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
      k_.refuse(ffn_key(), fmt::format("no intermediate_size (the width of the feed-forward "
                                       "layers; {} has no known default); add it",
                                       k_.type.empty() ? "the file" : k_.type));
  }

  std::string_view ffn_key() {
    return k_.s.first(
        {"intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "inner_hidden_size"});
  }

  void read_experts() {
    Model& m = model();
    const auto experts =
        k_.width({"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts",
                  "num_moe_experts", "n_experts", "num_routed_experts", "moe_num_routed_experts",
                  "ffn_config.moe_num_experts"});
    const auto topk =
        k_.width({"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k",
                  "moe_topk", "moe_top_k", "num_selected_experts", "top_k_experts", "router_topk",
                  "moe_router_topk", "router_top_k", "ffn_config.moe_top_k"});
    const auto width =
        k_.width({"moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size",
                  "expert_intermediate_size", "moe_hidden_dim", "ffn_config.ffn_hidden_size"});
    const auto latent = k_.count({"moe_latent_size", "routed_expert_hidden_size"});
    const auto shared_width = shared_expert_width(width);
    const auto block = k_.boolean({"enable_moe_block", "use_moe"});
    if (!experts && topk.value_or(0) > 0 && block != false)
      k_.refuse("num_experts",
                "a number of experts that a token passes, but none of all experts "
                "(num_local_experts, n_routed_experts, num_experts); add it");
    if (experts.value_or(0) > 1 && !width && k_.s.has("first_k_dense_replace"))
      k_.refuse("moe_intermediate_size",
                "no moe_intermediate_size (dense layers come first, and experts have another "
                "width); add it");
    if (!experts || *experts < 2 || block == false) return;
    if (!topk)
      k_.refuse(
          "num_experts_per_tok",
          fmt::format("{} experts, but no num_experts_per_tok (how many a token passes); add it",
                      *experts));
    spec::MixtureOfExperts moe;
    moe.num_experts = *experts;
    moe.router_topk = topk.value_or(1);
    if (const auto idle = k_.count({"zero_expert_num"}); idle.value_or(0) > 0)
      moe.router_topk = used_of(moe.router_topk, *experts, *idle);
    const bool llama4 = k_.family_truth("shared_expert", false);
    moe.ffn_hidden_size =
        width && *width > 0 ? *width
                            : (llama4 ? k_.positive({"intermediate_size"}, 1) : m.ffn_hidden_size);
    if (moe.ffn_hidden_size == 0)
      k_.refuse("moe_intermediate_size",
                "no width of the experts (moe_intermediate_size, or intermediate_size); add it");
    moe.shared_expert_ffn_hidden_size = shared_width.value_or(llama4 ? moe.ffn_hidden_size : 0);
    if (k_.boolean({"residual_moe"}).value_or(false)) {
      moe.shared_expert_ffn_hidden_size += m.ffn_hidden_size;
      k_.s.assume("the MLP beside the experts (residual_moe) counts as a shared expert");
    }
    moe.latent_size = latent;
    m.moe = moe;
    k_.s.assume("no token is dropped and experts are balanced");
  }

  /// Of a token's experts, those that compute: as many as if all were chosen alike.
  int64_t used_of(int64_t topk, int64_t experts, int64_t idle) {
    constexpr std::array<std::string_view, 1> kinds{"identity"};
    k_.s.one_of("zero_expert_type", kinds);
    const double share = as_real(experts) / as_real(experts + idle);
    const int64_t used = std::llround(as_real(topk) * share);
    k_.s.assume(fmt::format(
        "of {} experts of a token {} compute on average: {} of {} pass it on (zero_expert_num)",
        topk, used, idle, experts + idle));
    return std::max<int64_t>(1, used);
  }

  /// Of all shared experts together: stated, or a number of experts of the usual width.
  std::optional<int64_t> shared_expert_width(std::optional<int64_t> one) {
    const auto direct = k_.width({"shared_expert_intermediate_size",
                                  "moe_shared_expert_intermediate_size", "share_expert_dim",
                                  "shared_intermediate_size", "moe_shared_expert_ffn_hidden_size"});
    const auto number =
        k_.width({"n_shared_experts", "num_shared_experts", "num_shared_expert",
                  "moe_num_shared_experts", "n_shared_expert", "shared_expert_num"});
    const int64_t by_number = number.value_or(0) * one.value_or(model().ffn_hidden_size);
    if (k_.boolean({"use_mixed_mlp_moe"}) == false) return 0;
    if (!direct || *direct == 0) return number ? std::optional(by_number) : direct;
    if (number.value_or(1) > 1 && *direct != by_number)
      k_.refuse(k_.s.first({"n_shared_experts", "num_shared_experts", "num_shared_expert",
                            "moe_num_shared_experts"}),
                fmt::format("{} shared experts and a width of {} (of one or of all is not said); "
                            "--ignore the number if the width is of all",
                            *number, *direct));
    return direct;
  }

  void read_latent_attention() {
    const auto key_value = k_.count({"kv_lora_rank"});
    const auto query = k_.count({"q_lora_rank"});
    const auto nope = k_.count({"qk_nope_head_dim"}, 1);
    const auto rope = k_.count({"qk_rope_head_dim"});
    k_.count({"v_head_dim"}, 1);
    k_.count({"qk_head_dim"});
    if (!key_value && nope)
      k_.refuse("kv_lora_rank",
                "qk_nope_head_dim, but no kv_lora_rank (latent attention has both); add it");
    if (!is_latent()) return;
    if (!k_.knows_family() && !k_.s.has("v_head_dim"))
      k_.refuse("v_head_dim",
                "latent attention without v_head_dim (its usual value is not known "
                "for this family); add it");
    Model& m = model();
    const bool split = k_.family_text("value_heads") == "hidden size";
    const int64_t value = split ? m.hidden_size / std::max<int64_t>(1, m.num_attention_heads) : 128;
    m.kv_channels = k_.positive({"qk_nope_head_dim"}, 128);
    m.latent_attention =
        spec::LatentAttention{.query_rank = query.value_or(0),
                              .key_value_rank = *key_value,
                              .rope_head_dim = rope ? *rope : k_.usual("qk_rope_head_dim", 64),
                              .value_head_dim = k_.positive({"v_head_dim"}, value),
                              .indexer_heads = k_.count({"index_n_heads"}).value_or(0),
                              .indexer_head_dim = k_.count({"index_head_dim"}).value_or(0),
                              .indexer_topk = k_.count({"index_topk"}).value_or(0)};
    const spec::LatentAttention& latent = *m.latent_attention;
    const auto sizes = {latent.indexer_heads, latent.indexer_head_dim, latent.indexer_topk};
    if (std::min(sizes) == 0 && std::max(sizes) > 0)
      k_.refuse("index_topk",
                "index_n_heads, index_head_dim and index_topk go together (sparse attention has "
                "all three); add what is missing");
    const std::vector<std::string> types = k_.list("indexer_types");
    if (k_.count({"index_topk_freq"}).value_or(1) > 1 ||
        std::ranges::count(types, "full") != std::ssize(types))
      k_.refuse("indexer_types",
                "some layers attend to the keys that the indexer of another chose "
                "(index_topk_freq, indexer_types), which is not modelled");
    if (query.value_or(0) > 0) return;
    const double wide =
        as_real(m.num_attention_heads * (m.kv_channels + m.latent_attention->rope_head_dim));
    const double narrow = as_real(m.hidden_size);
    m.latent_attention->query_rank = std::llround(wide * narrow / (wide + narrow));
    k_.s.assume(
        fmt::format("queries without a low rank count as one of {}, which has as many "
                    "parameters and operations",
                    m.latent_attention->query_rank));
  }

  void read_prediction() {
    const auto depths = k_.count(
        {"num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "mtp_num_layers"});
    if (depths.value_or(0) < 1) return;
    model().multi_token_prediction = spec::MultiTokenPrediction{.depths = 0};
    k_.s.assume("without the layers that predict further tokens");
  }

  // Stated sizes --------------------------------------------------------------------------------

  void compare(std::string_view said, double stated, double counted, std::string_view what) {
    const double off = counted / stated - 1;
    if (std::abs(off) > 0.03)
      k_.s.assume(fmt::format("{} says {} {} parameters, the shape has {} ({:+.0f} %)", said,
                              significant(stated / 1e9),
                              what.empty() ? "billion" : fmt::format("billion {}", what),
                              significant(counted / 1e9), 100 * off));
  }

  /// "8B" and "30B-A3B" of a name, num_parameters of the file.
  void compare_with_stated_sizes() {
    if (has_errors(k_.s.diagnoses())) return;
    const spec::ParameterCount counted = spec::count_parameters(model());
    const std::string_view key = k_.s.first({"num_parameters", "n_params", "num_params"});
    if (const auto stated = k_.s.number(key, 1, 1e15)) compare(key, *stated, counted.total(), "");
    const auto fits = [](double stated, double found) {
      return std::abs(found / stated - 1) < 0.03;
    };
    std::optional<double> total;  // of several sizes in a name, one that fits, else the first
    for (const std::string& word : split(model().name, '-')) {
      const bool active = word.size() > 2 && lower_case(word.front()) == 'a' && is_digit(word[1]);
      const std::string_view number = std::string_view(word).substr(active ? 1 : 0);
      double value = 0;
      const auto [end, problem] =
          std::from_chars(number.data(), number.data() + number.size(), value);
      const std::string_view unit = number.substr(as_size(end - number.data()));
      if (problem != std::errc() || value <= 0 || (unit != "b" && unit != "m")) continue;
      const double stated = value * (unit == "b" ? 1e9 : 1e6);
      // Some names (17B-128E) say what a token passes.
      if (active)
        compare("the name", stated, counted.active(), "active");
      else if (!total || fits(stated, counted.total()) || fits(stated, counted.active()))
        total = stated;
    }
    if (total && !fits(*total, counted.active())) compare("the name", *total, counted.total(), "");
  }

  const KeyTable& table_;
  HfKeys k_;
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
    return error(
        "{}: describes no model (it is no config.json with \"model_type\", and its name "
        "does not end in .toml); a file that describes a job is given without --model",
        path);
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

Result<ImportedModel> import_hf_config(const spec::Library& library, const std::string& text,
                                       const std::string& path, const ImportHints& hints) {
  const YamlNode whole = TPT_TRY(parse_json_tree(text, path));
  if (whole.kind != YamlNode::Kind::table)
    return error("{}: not a JSON object (a config.json is one); try another file", path);
  return read_tree(library, decoder_part(whole), path, hints);
}

Result<ImportedModel> import_hf_section(LibraryCache& cache, const YamlNode& tree,
                                        std::string_view section, const std::string& path,
                                        const ImportHints& hints) {
  const YamlNode* part = &tree;
  for (const std::string& key : split(section, '.')) {
    part = find_key(*part, key);
    if (part == nullptr)
      return error("{}: has no {} (the sizes of its model); add it", path, section);
  }
  ImportedModel read = TPT_TRY(read_tree(cache.library(), *part, path, hints));
  settle_model(cache, read);
  return read;
}

}  // namespace triplepoint::formats
