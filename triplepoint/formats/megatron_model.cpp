// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/readers.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using spec::Model;
using Severity = spec::Diagnosis::Severity;

spec::Activation read_activation(Settings& s) {
  const bool squared = s.flag("squared-relu"), swiglu = s.flag("swiglu");
  const bool geglu = s.flag("quick-geglu"), old_geglu = s.flag("geglu"), reglu = s.flag("reglu");
  if (geglu || old_geglu || reglu) s.assume("a gated activation costs what SwiGLU costs");
  if (swiglu || geglu || old_geglu || reglu) return spec::Activation::swiglu;
  return squared ? spec::Activation::squared_relu : spec::Activation::gelu;
}

spec::PositionEmbedding read_positions(Settings& s) {
  constexpr std::array<std::string_view, 6> known{
      "learned_absolute", "rope", "mrope", "yarn", "none", "relative"};
  const auto name = s.one_of("position-embedding-type", known);
  const bool rotary = s.flag("use-rotary-position-embeddings");
  const bool off = s.flag("no-position-embedding");
  if (rotary || name == "rope" || name == "mrope" || name == "yarn")
    return spec::PositionEmbedding::rope;
  if (off || name == "none" || name == "relative") return spec::PositionEmbedding::none;
  return spec::PositionEmbedding::learned;
}

int64_t read_vocabulary(Settings& s) {
  const auto padded = s.count("padded-vocab-size", 1, largest_dimension);
  const auto plain = s.count("vocab-size", 1, largest_dimension);
  const auto patch = s.text("patch-tokenizer-type");  // PAI's, with what fills up to the model's
  s.count("extra-vocab-size", 0, largest_dimension);
  const std::string type = s.text("tokenizer-type").value_or(patch.value_or("GPT2BPETokenizer"));
  const auto file = s.text("tokenizer-model");
  if (padded) return *padded;
  // The null tokenizer adds a token that ends documents.
  if (plain) return *plain + (type == "NullTokenizer" ? 1 : 0);
  // A class for any SentencePiece model: Llama's own is called tokenizer.model.
  const std::string path = lower_case(file.value_or(""));
  const bool any_model = type == "Llama2Tokenizer" && file && !contains(path, "llama") &&
                         !path.ends_with("tokenizer.model");
  for (const std::string& name : {file.value_or(""), any_model ? "" : type})
    if (const auto size = vocabulary_of(name)) {
      s.assume(
          fmt::format("vocabulary of {} tokens after the tokenizer's name, {}{}", *size, name,
                      s.has("tokenizer-type") || patch || file ? "" : ", which stands for none"));
      return *size;
    }
  s.note(DiagnosisCode::unsupported, Severity::error, "tokenizer-type",
         fmt::format("the vocabulary of tokenizer '{}' is not known (embedding and loss depend on "
                     "its size); add --vocab-size",
                     (any_model ? *file : type).substr(0, 100)));
  return 1;
}

/// Without --ffn-hidden-size Megatron takes 4 h, and 2/3 of it in steps of 64 for SwiGLU.
int64_t default_ffn(Settings& s, const Model& model) {
  if (!s.has("swiglu")) return 4 * model.hidden_size;  // of other gated ones, too
  return std::max<int64_t>(64, model.hidden_size * 4 * 2 / 3 / 64 * 64);
}

void read_latent_attention(Settings& s, Model& model) {
  const bool on = s.flag("multi-latent-attention");
  const auto query = s.count("q-lora-rank", 0, largest_dimension);
  const auto key_value = s.count("kv-lora-rank", 1, largest_dimension);
  const auto head = s.count("qk-head-dim", 1, largest_dimension);
  const auto rope = s.count("qk-pos-emb-head-dim", 0, largest_dimension);
  const auto value = s.count("v-head-dim", 1, largest_dimension);
  if (!on) return;
  constexpr std::array<std::string_view, 1> sparse{"dsa"};
  const bool indexed = s.one_of("experimental-attention-variant", sparse).has_value();
  const auto indexer = [&](std::string_view key) {
    return indexed ? s.count(key, 1, largest_dimension).value_or(0) : 0;
  };
  model.latent_attention =
      spec::LatentAttention{.query_rank = query.value_or(0),
                            .key_value_rank = key_value.value_or(32),
                            .rope_head_dim = rope.value_or(64),
                            .value_head_dim = value.value_or(128),
                            .indexer_heads = indexer("dsa-indexer-n-heads"),
                            .indexer_head_dim = indexer("dsa-indexer-head-dim"),
                            .indexer_topk = indexer("dsa-indexer-topk")};
  model.kv_channels = head.value_or(128);
}

Result<void> read_dimensions(Settings& s, Model& model) {
  model.num_layers = TPT_TRY(s.required("num-layers"));
  model.hidden_size = TPT_TRY(s.required("hidden-size"));
  model.num_attention_heads = TPT_TRY(s.required("num-attention-heads"));
  model.sequence_length = TPT_TRY(s.required("seq-length"));
  model.activation = read_activation(s);
  model.ffn_hidden_size =
      s.count("ffn-hidden-size", 1, largest_dimension).value_or(default_ffn(s, model));
  const bool grouped = s.flag("group-query-attention");
  const int64_t groups = s.count("num-query-groups", 1, largest_dimension).value_or(1);
  const auto key_values = s.count("num-key-value-heads", 1, largest_dimension);  // DeepSpeed's fork
  model.num_query_groups = key_values.value_or(grouped ? groups : model.num_attention_heads);
  if (!grouped && groups > 1 && groups != model.num_attention_heads)
    s.assume(
        fmt::format("num-query-groups {} has no effect without group-query-attention: every "
                    "head has its own keys and values",
                    groups));
  const auto kv_channels = s.count("kv-channels", 1, largest_dimension);
  model.kv_channels =
      kv_channels.value_or(std::max<int64_t>(1, model.hidden_size / model.num_attention_heads));
  if (!kv_channels && model.hidden_size % model.num_attention_heads != 0)
    s.note(
        DiagnosisCode::inconsistent, Severity::error, "num-attention-heads",
        fmt::format("--num-attention-heads {} does not divide --hidden-size {} (each head gets an "
                    "equal share); change one, or set --kv-channels",
                    model.num_attention_heads, model.hidden_size));
  read_latent_attention(s, model);
  return {};
}

void read_details(Settings& s, Model& model) {
  constexpr std::array<std::string_view, 2> norms{"LayerNorm", "RMSNorm"};
  model.vocabulary_size = read_vocabulary(s);
  model.vocabulary_divisible_by =
      s.count("make-vocab-size-divisible-by", 1, largest_dimension).value_or(128);
  model.normalization = s.one_of("normalization", norms) == "RMSNorm"
                            ? spec::Normalization::rms_norm
                            : spec::Normalization::layer_norm;
  model.position_embedding = read_positions(s);
  model.tied_embeddings = !s.flag("untie-embeddings-and-output-weights");
  model.biases = !s.flag("disable-bias-linear");
  if (s.flag("add-qkv-bias") && !model.biases)
    s.assume("no bias on queries, keys and values (they are a ten-thousandth of the weights)");
  model.dropout = s.fraction("hidden-dropout").value_or(usual_dropout);
  const double attention = s.fraction("attention-dropout").value_or(usual_dropout);
  if (attention != model.dropout)
    s.assume(fmt::format("one dropout of {} (the attention's own, {}, is inside its kernel)",
                         model.dropout, attention));
  const auto positions = s.count("max-position-embeddings");
  if (positions && model.sequence_length > *positions)
    s.note(
        DiagnosisCode::inconsistent, Severity::error, "max-position-embeddings",
        fmt::format("--seq-length {} is more than --max-position-embeddings {} (Megatron refuses "
                    "it); raise the latter",
                    model.sequence_length, *positions));
}

void read_experts(Settings& s, Model& model) {
  const auto experts = s.count("num-experts", 1, largest_dimension);
  const int64_t topk = s.count("moe-router-topk", 1, largest_dimension).value_or(2);
  const auto ffn = s.count("moe-ffn-hidden-size", 1, largest_dimension);
  const auto shared = s.count("moe-shared-expert-intermediate-size", 0, largest_dimension);
  const auto capacity = s.number("moe-expert-capacity-factor");
  const bool padded = s.flag("moe-pad-expert-input-to-capacity");
  const bool grouped = s.flag("moe-grouped-gemm");
  constexpr std::array<std::string_view, 4> dispatchers{"allgather", "alltoall", "alltoall_seq",
                                                        "flex"};
  const std::string dispatcher =
      s.one_of("moe-token-dispatcher-type", dispatchers).value_or("allgather");
  if (!experts) return read_expert_layers(s, "moe-layer-freq", model);
  model.moe = spec::MixtureOfExperts{.num_experts = *experts,
                                     .router_topk = topk,
                                     .ffn_hidden_size = ffn.value_or(model.ffn_hidden_size),
                                     .capacity_factor = capacity,
                                     .pad_to_capacity = padded,
                                     .grouped_gemm = grouped,
                                     .shared_expert_ffn_hidden_size = shared.value_or(0)};
  read_expert_layers(s, "moe-layer-freq", model);
  if (dispatcher == "allgather")
    s.assume("tokens reach their experts by all-to-all, not by allgather");
}

/// --window-size 127,0 sees itself and 127 before; every n-th layer may see all.
void read_window(Settings& s, Model& model) {
  const auto words = s.list("window-size");
  const auto every = s.count("window-attn-skip-freq", 0, largest_dimension);
  if (!words) return;
  std::string text = fmt::format("{}", fmt::join(*words, ","));
  std::erase_if(text, [](char c) { return c == '(' || c == ')' || c == ' '; });
  const auto before = whole_number(text.substr(0, text.find(',')));
  if (before)
    model.sliding_window =
        spec::SlidingWindow{.size = *before + 1, .full_every = every.value_or(0)};
  else
    s.note(DiagnosisCode::inconsistent, Severity::error, "window-size",
           fmt::format("--window-size is '{}' (it must be two numbers, as in 127,0); correct the "
                       "value",
                       text.substr(0, 60)));
}

void read_prediction(Settings& s, Model& model) {
  const auto depths = s.count("mtp-num-layers", 0, 100);
  if (depths.value_or(0) > 0)
    model.multi_token_prediction = spec::MultiTokenPrediction{.depths = *depths};
}

/// Which model of the library this is, by its dimensions.
bool same_shape(const Model& a, const Model& b) {
  const auto experts = [](const Model& m) { return m.moe ? m.moe->num_experts : 0; };
  return a.num_layers == b.num_layers && a.hidden_size == b.hidden_size &&
         a.ffn_hidden_size == b.ffn_hidden_size && a.num_attention_heads == b.num_attention_heads &&
         a.num_query_groups == b.num_query_groups && experts(a) == experts(b) &&
         a.latent_attention == b.latent_attention &&
         spec::padded_vocabulary(a, 1) == spec::padded_vocabulary(b, 1);
}

std::string model_name(LibraryCache& cache, const ShellCommand& command, const Model& model) {
  if (const auto name = command.variable("TRIPLEPOINT_MODEL")) return *name;
  for (const std::string& name : cache.model_names()) {
    const auto known = cache.model(name);
    if (known && same_shape(*known, model)) return name;
  }
  return fmt::format("{}-layers-{}-wide", model.num_layers, model.hidden_size);
}

}  // namespace

Result<Model> read_megatron_model(LibraryCache& cache, Settings& s, const ShellCommand& command) {
  Model model;
  TPT_TRY(read_dimensions(s, model));
  read_details(s, model);
  read_experts(s, model);
  read_window(s, model);
  read_prediction(s, model);
  s.flag("qk-layernorm");
  model.name = model_name(cache, command, model);
  return model;
}

}  // namespace triplepoint::formats
