// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <utility>

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/readers.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using spec::Model;
using Severity = spec::Diagnosis::Severity;

struct ActivationName {
  std::string_view name;
  spec::Activation activation;
  bool exact = true;  // false: another function of the same shape
};
constexpr std::array activations{
    ActivationName{"gelu", spec::Activation::gelu},
    ActivationName{"fast-gelu", spec::Activation::gelu},
    ActivationName{"approx-gelu", spec::Activation::gelu},
    ActivationName{"openai-gelu", spec::Activation::gelu},
    ActivationName{"quick-gelu", spec::Activation::gelu},
    ActivationName{"relu", spec::Activation::gelu, false},
    ActivationName{"swiglu", spec::Activation::swiglu},
    ActivationName{"fast-swiglu", spec::Activation::swiglu},
    ActivationName{"geglu", spec::Activation::swiglu, false},
    ActivationName{"fast-geglu", spec::Activation::swiglu, false},
    ActivationName{"reglu", spec::Activation::swiglu, false},
    ActivationName{"fast-reglu", spec::Activation::swiglu, false},
    ActivationName{"squared-relu", spec::Activation::squared_relu},
};

spec::Activation read_activation(Settings& s) {
  const std::string name = s.text("model.activation").value_or("gelu");
  for (const ActivationName& each : activations) {
    if (each.name != name) continue;
    if (!each.exact) s.assume(fmt::format("activation {} costs what its relative costs", name));
    return each.activation;
  }
  s.note(DiagnosisCode::unsupported, Severity::error, "model.activation",
         fmt::format("activation '{}' is not modelled; try gelu, swiglu or squared-relu", name));
  return spec::Activation::gelu;
}

spec::Normalization read_normalization(Settings& s) {
  constexpr std::array<std::string_view, 4> known{"layernorm", "layernorm1p",
                                                  "low_precision_layernorm", "rmsnorm"};
  const auto name = s.one_of("model.normalization", known);
  return name == "rmsnorm" ? spec::Normalization::rms_norm : spec::Normalization::layer_norm;
}

spec::PositionEmbedding read_positions(Settings& s) {
  constexpr std::array<std::string_view, 6> known{"learned_absolute", "rope",    "none", "alibi",
                                                  "kerple",           "sandwich"};
  const auto name = s.one_of("model.position_embedding_type", known);
  if (!name || *name == "learned_absolute") return spec::PositionEmbedding::learned;
  if (*name == "rope") return spec::PositionEmbedding::rope;
  if (*name != "none") s.assume(fmt::format("position embedding {} costs nothing", *name));
  return spec::PositionEmbedding::none;
}

int64_t read_vocabulary(Settings& s) {
  const auto name = s.text("model.tokenizer.type");
  const auto library = s.text("model.tokenizer.library");
  const auto file = s.text("model.tokenizer.model");
  if (const auto size = s.count("model.override_vocab_size", 1, largest_dimension)) return *size;
  for (const auto& tokenizer : {name, file, library}) {
    if (!tokenizer) continue;
    if (const auto size = vocabulary_of(*tokenizer)) {
      s.assume(
          fmt::format("vocabulary of {} tokens after the tokenizer's name, {}", *size, *tokenizer));
      return *size;
    }
  }
  s.note(DiagnosisCode::unsupported, Severity::error, "model.tokenizer.type",
         fmt::format("the vocabulary of tokenizer '{}' is not known (embedding and loss depend on "
                     "its size); add model.override_vocab_size",
                     name.value_or(file.value_or("none"))));
  return 1;
}

constexpr const char* no_name = "model";

/// Names in files lead a prefix of the framework's: "megatron_llama3-70b".
std::string read_model_name(Settings& s) {
  std::string name = s.text("exp_manager.name").value_or(s.text("name").value_or(no_name));
  constexpr std::string_view prefix = "megatron_";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

constexpr std::string_view from_checkpoint = ", or take it from the checkpoint's own configuration";

Result<void> read_dimensions(Settings& s, Model& model) {
  model.num_layers = TPT_TRY(s.required("model.num_layers", from_checkpoint));
  model.hidden_size = TPT_TRY(s.required("model.hidden_size", from_checkpoint));
  model.num_attention_heads = TPT_TRY(s.required("model.num_attention_heads", from_checkpoint));
  model.ffn_hidden_size =
      s.count("model.ffn_hidden_size", 1, largest_dimension).value_or(4 * model.hidden_size);
  model.num_query_groups =
      s.count("model.num_query_groups", 1, largest_dimension).value_or(model.num_attention_heads);
  const auto kv_channels = s.count("model.kv_channels", 1, largest_dimension);
  model.kv_channels =
      kv_channels.value_or(std::max<int64_t>(1, model.hidden_size / model.num_attention_heads));
  if (!kv_channels && model.hidden_size % model.num_attention_heads != 0)
    s.note(DiagnosisCode::inconsistent, Severity::error, "model.num_attention_heads",
           fmt::format("num_attention_heads {} does not divide hidden_size {} (each head gets an "
                       "equal share); change one, or set kv_channels",
                       model.num_attention_heads, model.hidden_size));
  return {};
}

void read_length(Settings& s, const std::string& data, Model& model) {
  const auto encoder = s.count("model.encoder_seq_length");
  const auto plain = s.count("model.data.seq_length");
  const auto positions = s.count("model.max_position_embeddings");
  const auto own = data.empty() ? std::nullopt : s.count(data + "max_seq_length");
  const bool padded = !data.empty() && s.boolean(data + "pad_to_max_length").value_or(false);
  model.sequence_length = own ? *own : plain ? *plain : encoder.value_or(2048);
  if (own && !padded)
    s.assume(fmt::format(
        "every sample is {} tokens long ({}max_seq_length); shorter ones take less", *own, data));
  if (!own && !plain && !encoder) s.assume("sequences of 2048 tokens: the file names no length");
  const bool learned = model.position_embedding == spec::PositionEmbedding::learned;
  if (learned && positions && model.sequence_length > *positions)
    s.note(DiagnosisCode::inconsistent, Severity::error, "model.max_position_embeddings",
           fmt::format("sequences of {} tokens, but max_position_embeddings is {} (learned "
                       "positions end there); raise it",
                       model.sequence_length, *positions));
}

void read_experts(Settings& s, Model& model) {
  const auto experts = s.count("model.num_moe_experts", 1, largest_dimension);
  const auto topk = s.count("model.moe_router_topk", 1, largest_dimension);
  const auto ffn = s.count("model.moe_ffn_hidden_size", 1, largest_dimension);
  const auto shared = s.count("model.moe_shared_expert_intermediate_size", 0, largest_dimension);
  const auto capacity = s.number("model.moe_expert_capacity_factor");
  const auto padded = s.boolean("model.moe_pad_expert_input_to_capacity");
  const auto grouped = s.boolean("model.moe_grouped_gemm");
  constexpr std::array<std::string_view, 4> dispatchers{"allgather", "alltoall", "alltoall_seq",
                                                        "flex"};
  const auto dispatcher = s.one_of("model.moe_token_dispatcher_type", dispatchers);
  if (!experts) return read_expert_layers(s, "model.moe_layer_freq", model);
  model.moe = spec::MixtureOfExperts{.num_experts = *experts,
                                     .router_topk = topk.value_or(2),
                                     .ffn_hidden_size = ffn.value_or(model.ffn_hidden_size),
                                     .capacity_factor = capacity,
                                     .pad_to_capacity = padded.value_or(false),
                                     .grouped_gemm = grouped.value_or(false),
                                     .shared_expert_ffn_hidden_size = shared.value_or(0)};
  read_expert_layers(s, "model.moe_layer_freq", model);
  if (dispatcher.value_or("allgather") != "alltoall")
    s.assume(fmt::format("tokens reach their experts by all-to-all, not by {}",
                         dispatcher.value_or("allgather")));
}

void read_details(Settings& s, Model& model) {
  model.vocabulary_size = read_vocabulary(s);
  model.vocabulary_divisible_by =
      s.count("model.make_vocab_size_divisible_by", 1, largest_dimension).value_or(128);
  model.activation = read_activation(s);
  model.normalization = read_normalization(s);
  model.position_embedding = read_positions(s);
  model.tied_embeddings = s.boolean("model.share_embeddings_and_output_weights").value_or(true);
  model.biases = s.boolean("model.bias").value_or(true);
  model.dropout = s.fraction("model.hidden_dropout").value_or(usual_dropout);
  const auto attention_dropout = s.fraction("model.attention_dropout");
  if (attention_dropout && *attention_dropout != model.dropout)
    s.assume(fmt::format("one dropout of {} (the attention's own, {}, is inside its kernel)",
                         model.dropout, *attention_dropout));
  if (s.has("model.window_size"))
    s.note(DiagnosisCode::unsupported, Severity::warning, "model.window_size",
           "window_size: sliding windows are not modelled: attention is over the whole sequence");
}

/// A job that calls itself after a model of the library but has other dimensions is a slip.
void compare_with_library(LibraryCache& cache, Settings& s, const Model& model) {
  const auto known = cache.model(model.name);
  if (!known) return;
  struct Dimension {
    std::string_view key;
    int64_t mine, theirs;
  };
  const std::array dimensions{
      Dimension{"num_layers", model.num_layers, known->num_layers},
      Dimension{"hidden_size", model.hidden_size, known->hidden_size},
      Dimension{"ffn_hidden_size", model.ffn_hidden_size, known->ffn_hidden_size},
      Dimension{"num_attention_heads", model.num_attention_heads, known->num_attention_heads}};
  for (const Dimension& each : dimensions)
    if (each.mine != each.theirs)
      s.assume(fmt::format("{0} {1} is meant, though {2}, after which the job is named, has {3}",
                           each.key, each.mine, model.name, each.theirs));
}

}  // namespace

Result<Model> read_nemo_model(LibraryCache& cache, Settings& s, const std::string& data,
                              const std::string& place) {
  Model model;
  model.name = read_model_name(s);
  TPT_TRY(read_dimensions(s, model));
  read_details(s, model);
  read_length(s, data, model);
  read_experts(s, model);
  if (model.name == no_name)
    if (auto known = model_of_shape(cache, model, place)) model = *std::move(known);
  compare_with_library(cache, s, model);
  return model;
}

}  // namespace triplepoint::formats
