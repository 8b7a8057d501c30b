// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <type_traits>

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using doctest::Approx;

Model gpt(int64_t layers, int64_t hidden) {
  Model model;
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.ffn_hidden_size = 4 * hidden;
  model.num_attention_heads = model.num_query_groups = hidden / 64;
  model.kv_channels = 64;
  model.sequence_length = 1024;
  model.vocabulary_size = 50257;
  model.tied_embeddings = model.biases = true;
  return model;
}

TEST_CASE("a GPT counts as the closed form of the Megatron papers says") {
  // P = 12 l h^2 (1 + 13 / (12 h) + (V + s) / (12 l h)), Narayanan et al. SC21, equation 2. It
  // leaves out the final norm (2 h).
  for (const int64_t layers : {1, 12, 96})
    for (const int64_t hidden : {768, 12288}) {
      const Model model = gpt(layers, hidden);
      const double l = as_real(layers), h = as_real(hidden);
      const double vocabulary = as_real(padded_vocabulary(model, 1));
      const double formula =
          12 * l * h * h * (1 + 13 / (12 * h) + (vocabulary + 1024) / (12 * l * h)) + 2 * h;
      CHECK(count_parameters(model).total() == Approx(formula).epsilon(1e-12));
    }
}

TEST_CASE("the whole model is the sum of its layers, embedding, head and final norm") {
  Model model = gpt(4, 768);
  model.tied_embeddings = false;
  model.moe = MixtureOfExperts{.num_experts = 8, .router_topk = 2, .ffn_hidden_size = 512};
  model.moe->num_dense_layers = 1;
  const ParameterCount count = count_parameters(model);
  double layers = 0, experts = 0;
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    layers += count_layer_parameters(model, layer).without_experts();
    experts += count_layer_parameters(model, layer).experts;
  }
  CHECK(count.dense_layers == layers);
  CHECK(count.experts == experts);
  CHECK(count.total() == count.embedding + count.head + layers + experts + count.final_norm);
}

TEST_CASE("one token uses topk of the experts and everything else") {
  Model model = gpt(4, 768);
  model.moe = MixtureOfExperts{.num_experts = 8, .router_topk = 2, .ffn_hidden_size = 512};
  const ParameterCount count = count_parameters(model);
  CHECK(count.active_experts * 4 == Approx(count.experts));
  CHECK(count.total() - count.active() == Approx(count.experts - count.active_experts));
}

TEST_CASE("a layer is dense or has experts, never both") {
  Model model = gpt(4, 768);
  model.moe = MixtureOfExperts{.num_experts = 8, .ffn_hidden_size = 512, .num_dense_layers = 1};
  CHECK(count_layer_parameters(model, 0).mlp > 0);
  CHECK(count_layer_parameters(model, 0).experts == 0);
  CHECK(count_layer_parameters(model, 1).mlp == 0);
  CHECK(count_layer_parameters(model, 1).router == 768 * 8);
}

TEST_CASE("fewer query groups save key and value weights only") {
  Model model = gpt(1, 768);
  model.biases = false;
  const double all = count_layer_parameters(model, 0).attention;
  model.num_query_groups = 3;  // of 12
  const double saved = 2 * 768 * (12 - 3) * 64;
  CHECK(all - count_layer_parameters(model, 0).attention == saved);
}

TEST_CASE("a tied head has no separate weights") {
  Model model = gpt(1, 768);
  CHECK(count_parameters(model).head == 0);
  model.tied_embeddings = false;
  CHECK(count_parameters(model).head == as_real(padded_vocabulary(model, 1)) * 768);
}

TEST_CASE("the padded vocabulary is the smallest multiple that holds it") {
  const Model model = gpt(1, 768);
  for (const int64_t tp : {1, 2, 4, 8}) {
    const int64_t padded = padded_vocabulary(model, tp);
    CHECK(padded % (model.vocabulary_divisible_by * tp) == 0);
    CHECK(padded >= model.vocabulary_size);
    CHECK(padded - model.vocabulary_size < model.vocabulary_divisible_by * tp);
  }
}

TEST_CASE("every second layer looks back a window, the others at everything") {
  Model model = gpt(4, 768);
  model.sliding_window = SlidingWindow{.size = 128, .full_every = 2};
  CHECK(kind_of_layer(model, 0) == LayerKind::window_dense);
  CHECK(kind_of_layer(model, 1) == LayerKind::dense);
  model.sliding_window->full_every = 0;
  for (int64_t layer = 0; layer < model.num_layers; ++layer)
    CHECK(is_windowed(kind_of_layer(model, layer)));
}

TEST_CASE("a window changes no parameters") {
  Model model = gpt(4, 768);
  const double whole = count_parameters(model).total();
  model.sliding_window = SlidingWindow{.size = 128, .full_every = 2};
  CHECK(count_parameters(model).total() == whole);
}

TEST_CASE("experts in every second layer leave dense layers between them") {
  Model model = gpt(4, 768);
  model.moe = MixtureOfExperts{.num_experts = 8, .ffn_hidden_size = 512, .layer_period = 2};
  for (int64_t layer = 0; layer < model.num_layers; ++layer)
    CHECK(model.is_moe_layer(layer) == (layer % 2 == 1));
}

TEST_CASE("a transformer layer split in two by a pattern has the same parameters and no more") {
  Model whole = gpt(3, 768), split = whole;
  split.num_layers = 6;
  split.layer_pattern = "*-*-*-";
  CHECK(count_parameters(split).total() == count_parameters(whole).total());
}

TEST_CASE("experts in a narrow width pay for the way there and back") {
  Model model = gpt(1, 768);
  model.biases = false;
  model.moe = MixtureOfExperts{.num_experts = 8, .ffn_hidden_size = 512};
  const LayerParameters wide = count_layer_parameters(model, 0);
  model.moe->latent_size = 192;
  const LayerParameters narrow = count_layer_parameters(model, 0);
  CHECK(narrow.experts * 4 == wide.experts);
  CHECK(narrow.latent == 2 * 768 * 192);
  CHECK(narrow.router == wide.router);
}

TEST_CASE("the indexer of sparse attention adds its matrices and a norm to each layer") {
  const Model dense = load_model(default_library(), "deepseek-v3").value();
  const Model sparse = load_model(default_library(), "deepseek-v3.2").value();
  const double queries = 1536.0 * 64 * 128, key_and_weights = 7168.0 * (128 + 64), norm = 2 * 128;
  CHECK(count_parameters(sparse).total() - count_parameters(dense).total() ==
        Approx(61 * (queries + key_and_weights + norm)));
  CHECK(count_layer_parameters(sparse, 0).attention == count_layer_parameters(dense, 0).attention);
}

TEST_CASE("a depth of prediction adds a layer, a projection and norms, and shares the rest") {
  Model model = gpt(4, 768);
  const ParameterCount before = count_parameters(model);
  model.multi_token_prediction = MultiTokenPrediction{.depths = 2};
  const ParameterCount after = count_parameters(model);
  const double layer = count_layer_parameters(model, 3).without_experts();
  CHECK(after.prediction == 2 * (layer + 2 * 768 * 768 + 3 * 2 * 768));
  CHECK(after.total() - before.total() == after.prediction);
  model.multi_token_prediction->depths = 0;
  CHECK(count_parameters(model).total() == before.total());
}

TEST_CASE("loads add up member by member") {
  constexpr std::size_t members = sizeof(GpuLoad) / sizeof(double);
  static_assert(std::is_trivially_copyable_v<GpuLoad> &&
                members * sizeof(double) == sizeof(GpuLoad));
  std::array<double, members> ones;
  ones.fill(1);
  GpuLoad load;
  std::memcpy(static_cast<void*>(&load), ones.data(), sizeof load);
  load += load;
  std::memcpy(ones.data(), &load, sizeof load);
  for (const double member : ones)
    CHECK(member == 2);
}

template <class E>
void every_word_leads_back() {
  for (std::size_t i = 0; i < enum_names<E>.size(); ++i) {
    const E value = static_cast<E>(i);
    CHECK(enum_from_name<E>(enum_name(value)) == value);
  }
  CHECK_FALSE(enum_from_name<E>("an unknown word").has_value());
}

TEST_CASE("every enumerator has its own word") {
  every_word_leads_back<Precision>();
  every_word_leads_back<OpClass>();
  every_word_leads_back<Collective>();
  every_word_leads_back<GroupKind>();
  every_word_leads_back<Sharding>();
  every_word_leads_back<Recompute>();
  every_word_leads_back<Schedule>();
  every_word_leads_back<RankOrder>();
  every_word_leads_back<Task>();
  every_word_leads_back<DiagnosisCode>();
  CHECK(name_of(OpClass::communication) == "communication");
  CHECK(name_of(GroupKind::model) == "model");
  CHECK(name_of(DiagnosisCode::inconsistent) == "inconsistent");
}

}  // namespace
}  // namespace triplepoint::spec
