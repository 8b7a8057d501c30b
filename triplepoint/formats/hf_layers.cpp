// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/hf_keys.h"

namespace triplepoint::formats {
namespace {

using Severity = spec::Diagnosis::Severity;

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

class LayerReader {
 public:
  LayerReader(HfKeys& keys, spec::Model& model) : k_(keys), m_(model) {}

  void read() {
    if (read_written_pattern() || read_parts()) return;
    std::vector<Layer> layers(as_size(m_.num_layers));
    read_mixers(layers);
    read_expert_layers(layers);
    const bool hybrid = std::ranges::any_of(layers, [](const Layer& layer) {
      return layer.mixer == Mixer::linear || layer.mixer == Mixer::mamba;
    });
    const bool parallel = k_.type == "falcon_h1";
    if (hybrid || parallel) return write_pattern(layers, parallel);
    fit_windows(layers);
    fit_experts(layers);
  }

 private:
  /// Nemotron-H: letters as Megatron-Core writes them, or words.
  bool read_written_pattern() {
    m_.layer_pattern = k_.s.text("hybrid_override_pattern");
    std::string letters;
    for (const std::string& word : k_.list("layers_block_type"))
      letters += word == "mamba"       ? 'M'
                 : word == "attention" ? '*'
                 : word == "moe"       ? 'E'
                 : word == "mlp"       ? '-'
                                       : '?';
    if (!m_.layer_pattern && !letters.empty()) m_.layer_pattern = letters;
    if (!m_.layer_pattern) return false;
    const char* key = letters.empty() ? "hybrid_override_pattern" : "layers_block_type";
    if (m_.layer_pattern->find_first_not_of("M*-E|") != std::string::npos)
      k_.s.note(spec::DiagnosisCode::inconsistent, Severity::error, key,
                fmt::format("{} is '{}' (it must be letters of layers, M, *, - and E, or mamba, "
                            "attention, mlp and moe); correct the value",
                            key, m_.layer_pattern->substr(0, 60)));
    if (!read_state_space())
      k_.refuse("mamba_num_heads", "no mamba_num_heads (the Mamba layers' size); add it");
    if (m_.layer_pattern->find('E') == std::string::npos) m_.moe.reset();
    for (const char* of_experts : {"first_k_dense_replace", "moe_layer_freq"})
      if (k_.s.has(of_experts))
        k_.s.assume(
            fmt::format("{} is not used: the pattern says which layers have experts", of_experts));
    return true;
  }

  /// LongCat-Flash: each layer has several parts, and all layers are alike.
  bool read_parts() {
    const std::string parts = k_.family_text("layer_parts");
    if (parts.empty()) return false;
    m_.layer_pattern.emplace();
    for (int64_t layer = 0; layer < m_.num_layers; ++layer)
      *m_.layer_pattern += parts;
    m_.num_layers = std::ssize(*m_.layer_pattern);
    k_.s.assume(
        fmt::format("a layer counts as {}, one behind the other (* attention, E experts, - "
                    "MLP): {} in all",
                    parts, m_.num_layers));
    return true;
  }

  bool read_state_space() {
    const auto heads = k_.count({"mamba_num_heads", "mamba_n_heads"});
    const spec::StateSpace space{
        .state_size = k_.positive({"ssm_state_size", "mamba_d_state", "mamba_state_dim"}, 128),
        .num_heads = heads.value_or(0),
        .head_dim = k_.positive({"mamba_head_dim", "mamba_d_head"}, 64),
        .num_groups = k_.positive({"n_groups", "mamba_n_groups"}, 8),
        .conv_width = k_.positive({"conv_kernel", "mamba_d_conv"}, 4),
        .chunk_size = k_.positive({"chunk_size", "mamba_chunk_size"}, 128)};
    k_.count({"mamba_d_ssm"});
    if (!heads) return false;
    m_.state_space = space;
    return true;
  }

  /// Bamba numbers its layers of attention.
  std::vector<std::string> layer_types() {
    std::vector<std::string> types = k_.list("layer_types");
    const std::vector<std::string> attention = layer_numbers("attn_layer_indices");
    if (attention.empty() || !types.empty()) return types;
    for (int64_t layer = 0; layer < m_.num_layers; ++layer)
      types.emplace_back(names(attention, layer) ? "attention" : "mamba");
    return types;
  }

  static bool names(const std::vector<std::string>& all, int64_t layer) {
    return holds(all, std::to_string(layer));
  }

  void read_mixers(std::vector<Layer>& layers) {
    const std::vector<std::string> types = layer_types();
    if (!types.empty() && types.size() != layers.size())
      k_.refuse("layer_types",
                fmt::format("layer_types has {} entries for {} layers; make them equal",
                            types.size(), layers.size()));
    const std::string_view size_key = k_.s.first({"sliding_window", "sliding_window_size"});
    const auto size = k_.s.count(size_key, -1, largest_dimension);  // -1: none
    const bool on =
        k_.boolean({"use_sliding_window"}).value_or(k_.family_truth("windows_unless_told", true));
    const auto full_first = k_.count({"max_window_layers"});
    const auto every = read_full_every();
    auto full_attention = k_.count({"full_attention_interval"});
    const bool linear = k_.count({"linear_num_value_heads"}).has_value();
    for (const std::string& kind : k_.list("attn_type_list"))
      if (kind != "1")
        return k_.refuse("attn_type_list",
                         "attn_type_list has layers of lightning attention, which is not modelled");
    if (linear && types.empty() && !full_attention)
      full_attention = k_.usual("full_attention_interval", 4);
    // A window as long as the longest sequence limits nothing.
    const bool window = on && size && *size > 0 && *size < m_.sequence_length;
    if (window) m_.sliding_window = spec::SlidingWindow{.size = *size, .full_every = 0};
    const bool by_window = window && types.empty() && !linear;
    if (by_window && every > 0 &&
        !k_.s.has(k_.s.first({"sliding_window_pattern", "layer_switch",
                              "global_attn_every_n_layers", "global_attn_every_n"})))
      k_.usual("sliding_window_pattern", every);
    if (size && *size > 0 && types.empty() && !k_.s.has("use_sliding_window"))
      k_.usual_truth("use_sliding_window", on);
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto number = static_cast<int64_t>(i) + 1;
      if (i < types.size())
        layers[i].mixer = mixer_named(types[i], window);
      else if (linear)
        layers[i].mixer = number % *full_attention == 0 ? Mixer::full : Mixer::linear;
      else if (window)
        layers[i].mixer =
            (full_first && number <= *full_first) || (every > 0 && number % every == 0)
                ? Mixer::full
                : Mixer::window;
    }
  }

  /// As a number, or in a text of letters: "LLLG".
  int64_t read_full_every() {
    const std::string_view key = k_.s.first({"sliding_window_pattern", "layer_switch",
                                             "global_attn_every_n_layers", "global_attn_every_n"});
    const auto words = k_.s.text(key);
    const int64_t usual = k_.family_number("full_every").value_or(0);
    if (!words) return usual;
    if (const auto number = whole_number(*words)) return *number;
    const bool letters = words->find_first_not_of("LG") == words->npos && words->ends_with('G') &&
                         words->find('G') + 1 == words->size();
    if (!letters)
      k_.refuse(key, fmt::format("{} is '{}' (it must be a whole number, or letters as in LLLG); "
                                 "correct the value",
                                 key, words->substr(0, 60)));
    return static_cast<int64_t>(words->size());
  }

  Mixer mixer_named(const std::string& word, bool window) {
    if (word == "full_attention" || word == "attention" || word == "global" ||
        word == "chunked_attention")
      return Mixer::full;
    if (word == "sliding_attention") return window ? Mixer::window : Mixer::full;
    if (word == "deepseek_sparse_attention" && m_.latent_attention &&
        m_.latent_attention->indexer_topk > 0)
      return Mixer::full;
    if (word == "linear_attention") return Mixer::linear;
    if (word == "mamba" || word == "mamba2") return Mixer::mamba;
    k_.refuse("layer_types",
              fmt::format("layers '{}' are not modelled (they would change the work); "
                          "known are full_attention, sliding_attention, "
                          "linear_attention, mamba and attention",
                          word.substr(0, 40)));
    return Mixer::full;
  }

  void read_expert_layers(std::vector<Layer>& layers) {
    const int64_t first = k_.count({"first_k_dense_replace", "num_dense_layers",
                                    "moe_layer_start_index", "moe_layer_num_skipped"})
                              .value_or(0);
    const auto last = k_.count({"moe_layer_end_index"});
    const int64_t step = k_.count({"decoder_sparse_step", "interleave_moe_layer_step",
                                   "moe_layer_interval", "moe_every_n_layers", "moe_frequency"},
                                  1)
                             .value_or(1);
    const std::vector<std::string> words = k_.list("mlp_layer_types");
    const std::vector<std::string> named = layer_numbers("moe_layers");
    const std::vector<std::string> dense = layer_numbers("mlp_only_layers");
    const std::vector<std::string> frequency = k_.list("moe_layer_freq");
    for (const std::string& word : words)
      if (word != "dense" && word != "sparse" && word != "moe")
        return k_.refuse(
            "mlp_layer_types",
            fmt::format("mlp_layer_types has '{}' (it must be dense, sparse or moe for each "
                        "layer); correct the value",
                        word.substr(0, 40)));
    if (!words.empty() && words.size() != layers.size())
      return k_.refuse("mlp_layer_types",
                       "mlp_layer_types has other than one entry a layer; correct it");
    const bool by_layer = frequency.size() == layers.size();
    const int64_t period = by_layer || frequency.empty() ? 1 : k_.positive({"moe_layer_freq"}, 1);
    if (!m_.moe) return;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      layers[i].experts = at >= first && (!last || at <= *last) && (at + 1) % step == 0 &&
                          at % period == 0 && !names(dense, at) &&
                          (named.empty() || names(named, at));
      if (by_layer) layers[i].experts = frequency[i] != "0";
      if (i < words.size()) layers[i].experts = words[i] == "sparse" || words[i] == "moe";
    }
  }

  std::vector<std::string> layer_numbers(std::string_view key) {
    std::vector<std::string> numbers = k_.list(key);
    for (const std::string& number : numbers)
      if (!whole_number(number) || *whole_number(number) >= m_.num_layers) {
        k_.refuse(key, fmt::format("{} has '{}' (it must be numbers of layers); correct the value",
                                   key, number.substr(0, 40)));
        return {};
      }
    return numbers;
  }

  void fit_windows(const std::vector<Layer>& layers) {
    const auto is_full = [](const Layer& layer) { return layer.mixer == Mixer::full; };
    const auto full = std::ranges::count_if(layers, is_full);
    if (!m_.sliding_window) return;
    if (full == static_cast<std::ptrdiff_t>(layers.size())) return m_.sliding_window.reset();
    if (full == 0) return;
    const auto step = step_of(layers, is_full);
    const auto number = static_cast<std::ptrdiff_t>(layers.size());
    if (!step)
      return k_.refuse(
          k_.s.has("layer_types") ? "layer_types" : "max_window_layers",
          fmt::format("{} of {} layers see all tokens, in an order that is not modelled "
                      "(every n-th layer may); --ignore sliding_window for attention over "
                      "all tokens in all layers",
                      full, number));
    m_.sliding_window->full_every = step->first;
    if (step->second != step->first - 1)
      k_.s.assume(
          fmt::format("of each {} layers the last sees all tokens, not number {}: {} layers in "
                      "place of {}",
                      step->first, step->second + 1, number / step->first, full));
  }

  void fit_experts(const std::vector<Layer>& layers) {
    if (!m_.moe) return;
    const auto has = [](const Layer& layer) { return layer.experts; };
    const auto first = std::ranges::find_if(layers, has) - layers.begin();
    if (std::all_of(layers.begin() + first, layers.end(), has)) {
      m_.moe->num_dense_layers = first;
      return;
    }
    const auto step = step_of(layers, has);
    if (step && step->second == step->first - 1) {
      m_.moe->layer_period = step->first;
      return;
    }
    k_.refuse(
        "num_hidden_layers",
        fmt::format("{} of {} layers have experts, in an order that is not modelled (dense ones "
                    "may come first, or every n-th layer has experts); give a model in TOML",
                    std::ranges::count_if(layers, has), layers.size()));
  }

  /// Each part of a layer becomes a letter.
  void write_pattern(const std::vector<Layer>& layers, bool parallel) {
    const bool mamba = parallel || holds(layers, Mixer::mamba, &Layer::mixer);
    if (mamba ? !read_state_space() : !read_delta_net())
      return k_.refuse("layer_types",
                       "the sizes of its Mamba or linear layers are missing (mamba_n_heads "
                       "or linear_num_value_heads); add them");
    std::string pattern;
    for (const Layer& layer : layers) {
      if (layer.mixer == Mixer::window || (mamba && layer.mixer == Mixer::linear))
        return k_.refuse("layer_types",
                         "windowed layers beside Mamba or linear ones are not modelled; "
                         "--ignore sliding_window for attention over all tokens");
      const bool attention = layer.mixer == Mixer::full;
      pattern += parallel ? "M*" : attention ? "*" : "M";
      pattern += layer.experts ? 'E' : '-';
    }
    m_.sliding_window.reset();
    m_.layer_pattern = pattern;
    m_.num_layers = static_cast<int64_t>(pattern.size());
    k_.s.assume(fmt::format("attention, Mamba and feed-forward parts count as separate layers: {}",
                            m_.num_layers));
    if (parallel) k_.s.assume("attention and Mamba stand behind each other, not side by side");
  }

  /// A gated delta net has the matrices of a Mamba-2 layer.
  bool read_delta_net() {
    const auto heads = k_.count({"linear_num_value_heads"}, 1);
    if (!heads) return false;
    m_.state_space = spec::StateSpace{.state_size = k_.positive({"linear_key_head_dim"}, 128),
                                      .num_heads = *heads,
                                      .head_dim = k_.positive({"linear_value_head_dim"}, 128),
                                      .num_groups = k_.positive({"linear_num_key_heads"}, *heads),
                                      .conv_width = k_.positive({"linear_conv_kernel_dim"}, 4),
                                      .chunk_size = 64};
    k_.s.assume(
        "gated delta nets count as Mamba-2 layers of their widths: the same matrices but for one "
        "of a number a head; the products that correct the state inside of a chunk are left out");
    return true;
  }

  HfKeys& k_;
  spec::Model& m_;
};

}  // namespace

void read_hf_layers(HfKeys& keys, spec::Model& model) {
  LayerReader(keys, model).read();
}

}  // namespace triplepoint::formats
