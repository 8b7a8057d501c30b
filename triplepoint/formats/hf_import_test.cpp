// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

#include "triplepoint/formats/fixtures_testing.h"

namespace triplepoint::formats {
namespace {

ImportedModel import(const std::string& text) {
  const auto imported =
      import_hf_config(spec::default_library(), text, "models/gpt-small/config.json");
  REQUIRE_MESSAGE(imported.has_value(), (imported ? "" : imported.error().what));
  return *imported;
}

/// The library's model of that name, with what a config.json cannot say.
spec::Model library_model(const std::string& name, const spec::Model& like) {
  spec::Model model = spec::load_model(spec::default_library(), name).value();
  model.name = like.name;
  model.sequence_length = like.sequence_length;
  model.published_parameters = model.published_active_parameters = std::nullopt;
  return model;
}

TEST_CASE("a Llama config.json gives the library's Llama") {
  const ImportedModel imported = import(fixture("llama.json"));
  CHECK(imported.diagnoses.empty());
  CHECK(imported.model.name == "llama-3.1-8b");
  CHECK(imported.model.sequence_length == 131072);
  CHECK(imported.model == library_model("llama3-8b", imported.model));
}

TEST_CASE("what families of 2023 say of their software passes, and the longer of two lengths") {
  const ImportedModel imported = import(with(
      fixture("llama.json"), "{",
      R"({"offset_alibi": 100, "skip_bias_add": true, "masked_softmax_fusion": true, "rotary": true,
          "inference_runner": 0, "post_layer_norm": true, "seq_length": 262144,)"));
  CHECK(imported.diagnoses.empty());
  CHECK(imported.model.sequence_length == 262144);
  CHECK(import(with(fixture("llama.json"), "{", "{\"enable_bias\": true,")).model.biases);
}

TEST_CASE("a DeepSeek config.json gives the library's mixture with latent attention") {
  const ImportedModel imported = import(fixture("deepseek.json"));
  CHECK(imported.diagnoses.empty());
  CHECK(imported.model == library_model("deepseek-v3", imported.model));
}

TEST_CASE("a DeepSeek config.json with an indexer gives sparse attention, or says what lacks") {
  const auto sparse = [](const std::string& more) {
    return import(
        with(fixture("deepseek.json"), "{",
             R"({"index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, )" + more));
  };
  const ImportedModel imported = sparse("");
  CHECK(imported.diagnoses.empty());
  CHECK(imported.model == library_model("deepseek-v3.2", imported.model));
  const ImportedModel parts = import(with(fixture("deepseek.json"), "{", "{\"index_topk\": 2048,"));
  REQUIRE(parts.diagnoses.size() == 1);
  CHECK(contains(parts.diagnoses[0].what, "go together"));
  const ImportedModel shared = sparse(R"("index_topk_freq": 4, )");
  REQUIRE(shared.diagnoses.size() == 1);
  CHECK(contains(shared.diagnoses[0].what, "the indexer of another chose"));
}

TEST_CASE("a Nemotron-H config.json gives the library's hybrid") {
  const ImportedModel imported = import(
      R"({"model_type": "nemotron_h", "num_hidden_layers": 52, "hidden_size": 4096,
          "intermediate_size": 21504, "num_attention_heads": 32, "num_key_value_heads": 8,
          "head_dim": 128, "vocab_size": 131072, "mlp_hidden_act": "relu2", "mamba_num_heads": 128,
          "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
          "chunk_size": 128, "hybrid_override_pattern":
          "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"})");
  CHECK(imported.diagnoses.empty());
  CHECK(imported.model == library_model("nemotron-h-8b", imported.model));
}

TEST_CASE("windows are read, and which layers look at everything") {
  const auto with_window = [](const char* type, const char* window) {
    return import(with(with(fixture("llama.json"), "\"model_type\": \"llama\"",
                            std::string("\"model_type\": \"") + type + "\""),
                       "\"vocab_size\"", std::string(window) + "\"vocab_size\""))
        .model.sliding_window;
  };
  CHECK_FALSE(with_window("mistral", "").has_value());
  CHECK(with_window("mistral", "\"sliding_window\": 4096, ") ==
        spec::SlidingWindow{.size = 4096, .full_every = 0});
  CHECK(with_window("gpt_oss", "\"sliding_window\": 128, ") ==
        spec::SlidingWindow{.size = 128, .full_every = 2});
  CHECK_FALSE(with_window("qwen2", "\"use_sliding_window\": false, \"sliding_window\": 128, "));
}

TEST_CASE("GPT-2's own names are understood, and the folder names the model") {
  const ImportedModel imported = import(
      R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
          "vocab_size": 50257, "resid_pdrop": 0.1, "activation_function": "gelu_new"})");
  CHECK(imported.model.name == "gpt-small");
  CHECK(imported.model.ffn_hidden_size == 3072);
  CHECK(imported.model.tied_embeddings);
  CHECK(imported.model.biases);
  CHECK(imported.model.position_embedding == spec::PositionEmbedding::learned);
  // 124,439,808 of the published model, and the vocabulary's padding of 47 rows.
  CHECK(spec::count_parameters(imported.model).total() == 124439808 + 47 * 768);
}

bool told(const ImportedModel& read, std::string_view what) {
  return std::ranges::any_of(read.assumed,
                             [&](const std::string& each) { return each.starts_with(what); });
}

TEST_CASE(
    "a config.json without a size is refused, one of an unknown family says what it assumes") {
  const auto refused =
      import_hf_config(spec::default_library(), R"({"model_type": "llama"})", "config.json");
  REQUIRE_FALSE(refused.has_value());
  CHECK(
      refused.error().what ==
      "config.json: num_hidden_layers is missing (the model's size depends on it); add it, also "
      "as n_layer or n_layers or num_layers\n"
      "config.json: hidden_size is missing (the model's size depends on it); add it, also as "
      "n_embd or n_embed or d_model\n"
      "config.json: num_attention_heads is missing (the model's size depends on it); add it, also "
      "as n_head or n_heads or num_heads or attention_heads\n"
      "config.json: vocab_size is missing (the model's size depends on it); add it, also as "
      "padded_vocab_size");
  const std::string other =
      with(fixture("llama.json"), "\"model_type\": \"llama\"", "\"model_type\": \"new\"");
  CHECK(import(other).diagnoses.empty());
  CHECK(told(import(other), "model_type 'new' is in no list of ours: all keys of the file are"));
}

TEST_CASE("what a file leaves out and its family has is told, and nothing that it states") {
  const std::string gemma =
      R"({"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
          "num_hidden_layers": 34, "num_attention_heads": 8, "num_key_value_heads": 4,
          "sliding_window": 1024, "max_position_embeddings": 131072 REST})";
  CHECK(told(import(with(gemma, "REST", "")),
             "not in the file, taken as is usual for gemma3_text: vocab_size 262208, head_dim 256, "
             "tie_word_embeddings true, sliding_window_pattern 6, use_sliding_window true"));
  CHECK_FALSE(told(import(with(gemma, "REST",
                               R"(, "vocab_size": 262208, "head_dim": 256, "tie_word_embeddings":
                                  true, "sliding_window_pattern": 6, "use_sliding_window": true)")),
                   "not in the file"));
}

/// The Llama's config with further keys.
ImportedModel llama_with(const std::string& keys) {
  return import(with(fixture("llama.json"), "{", "{" + keys + ", "));
}

std::string first_problem(const std::string& keys) {
  const ImportedModel read = llama_with(keys);
  return read.diagnoses.empty() ? "none" : read.diagnoses.front().what;
}

TEST_CASE("layers of two attentions and experts that compute nothing count as what they compute") {
  const ImportedModel read = import(
      R"({"model_type": "longcat_flash", "num_layers": 28, "num_hidden_layers": 56,
          "hidden_size": 6144, "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048,
          "moe_topk": 12, "n_routed_experts": 512, "zero_expert_num": 256, "zero_expert_type":
          "identity", "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
          "qk_rope_head_dim": 64, "v_head_dim": 128, "num_attention_heads": 64,
          "vocab_size": 131072, "attention_method": "MLA", "mla_scale_q_lora": true,
          "max_position_embeddings": 131072, "tie_word_embeddings": false})");
  CHECK(read.diagnoses.empty());
  CHECK(told(read, "of 12 experts of a token 8 compute on average"));
  const spec::ParameterCount count = spec::count_parameters(read.model);
  // The published sizes: 560 billion, 18.6 to 31.3 of them active, 27 on average.
  CHECK(count.total() == doctest::Approx(560e9).epsilon(0.01));
  CHECK(count.active() == doctest::Approx(27e9).epsilon(0.04));
}

TEST_CASE("MiniCPM3's value heads share its hidden size where no key has their width") {
  const ImportedModel read = import(
      R"({"model_type": "minicpm3", "hidden_size": 2560, "intermediate_size": 6400,
          "num_hidden_layers": 62, "num_attention_heads": 40, "num_key_value_heads": 40,
          "vocab_size": 73448, "q_lora_rank": 768, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
          "qk_rope_head_dim": 32, "max_position_embeddings": 32768})");
  CHECK(read.diagnoses.empty());
  CHECK(read.model.latent_attention->value_head_dim == 2560 / 40);
  CHECK(read.model.tied_embeddings);
}

TEST_CASE("experts are found under the names that families give them") {
  for (
      const char* keys :
      {R"("num_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408)",
       R"("moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1408)",
       R"("num_experts": null, "n_routed_experts": 64, "moe_topk": 6, "expert_ffn_hidden_size": 1408)",
       R"("ffn_config": {"moe_num_experts": 64, "moe_top_k": 6}, "moe_intermediate_size": [1408, 1408])"}) {
    CAPTURE(keys);
    const ImportedModel read = llama_with(keys);
    REQUIRE(read.diagnoses.empty());
    REQUIRE(read.model.moe.has_value());
    CHECK(read.model.moe->num_experts == 64);
    CHECK(read.model.moe->router_topk == 6);
    CHECK(read.model.moe->ffn_hidden_size == 1408);
  }
  CHECK(first_problem(R"("num_experts": 64, "moe_intermediate_size": 1408)")
            .find("how many a token") != std::string::npos);
}

TEST_CASE("shared experts and dense layers are read in every spelling") {
  const std::string experts =
      R"("num_experts": 64, "num_experts_per_tok": 8, "moe_intermediate_size": 1408, )";
  for (const char* shared :
       {R"("n_shared_experts": 2)", R"("num_shared_experts": 2)",
        R"("shared_expert_intermediate_size": 2816)", R"("num_shared_expert": [2, 2])"})
    CHECK(llama_with(experts + shared).model.moe->shared_expert_ffn_hidden_size == 2816);
  CHECK(llama_with(experts + R"("first_k_dense_replace": 3)").model.moe->num_dense_layers == 3);
  CHECK(llama_with(experts + R"("mlp_only_layers": [0, 1])").model.moe->num_dense_layers == 2);
  CHECK(llama_with(experts + R"("decoder_sparse_step": 2)").model.moe->layer_period == 2);
  CHECK(first_problem(experts + R"("mlp_only_layers": [5])")
            .find("in an order that is not modelled") != std::string::npos);
}

TEST_CASE("layer_types says which layers see all tokens, and which are Mamba") {
  std::string types, mamba;
  for (int layer = 0; layer < 32; ++layer) {
    types += std::string(layer > 0 ? ", " : "") +
             (layer % 4 == 3 ? R"("full_attention")" : R"("sliding_attention")");
    mamba +=
        std::string(layer > 0 ? ", " : "") + (layer % 8 == 5 ? R"("attention")" : R"("mamba")");
  }
  CHECK(llama_with(R"("sliding_window": 4096, "layer_types": [)" + types + "]")
            .model.sliding_window == spec::SlidingWindow{.size = 4096, .full_every = 4});
  const ImportedModel hybrid =
      llama_with(R"("mamba_n_heads": 128, "layer_types": [)" + mamba + "]");
  REQUIRE(hybrid.diagnoses.empty());
  CHECK(hybrid.model.layer_pattern->substr(0, 16) == "M-M-M-M-M-*-M-M-");
  CHECK(hybrid.model.num_layers == 64);
}

TEST_CASE("a pattern of known keys passes no size, and no key of a switch that is off counts") {
  const auto first = [](const std::string& keys, const ImportHints& hints = {}) {
    const auto read =
        import_hf_config(spec::default_library(), with(fixture("llama.json"), "{", "{" + keys),
                         "x/config.json", hints);
    return !read                     ? read.error().what
           : read->diagnoses.empty() ? std::string()
                                     : read->diagnoses.front().what;
  };
  for (const char* key :
       {R"("residual_ffn_width": 512,)", R"("router_layers": [1, 2],)", R"("dt_size": 8.0,)",
        R"("image_cross_layers": [3],)", R"("scale_heads": "16",)", R"("vision_blocks": 1,)"})
    CHECK_MESSAGE(contains(first(key), "unknown key '"), key);
  for (const char* key :
       {R"("residual_multiplier": 0.22,)", R"("router_kind": "plain",)", R"("some_init": 0.02,)",
        R"("eos_token_id": [128001, 128009],)", R"("rope_theta": 500000,)",
        R"("rope_scaling": {"factor": 8.0, "section": [16, 24]},)", R"("fuse_norm": true,)",
        R"("vision_config": {"hidden_size": 1024},)", R"("final_logit_softcapping": 50,)",
        R"("use_cla": false, "cla_share_factor": 2,)", R"("cla_share_factor": 1,)",
        R"("sliding_window": -1,)"})
    CHECK_MESSAGE(first(key).empty(), key);
  CHECK(contains(first(R"("use_cla": true, "cla_share_factor": 2,)"), "share keys and values"));
  CHECK(first(R"("sliding_window": "x",)", {.ignored = {"sliding_window"}}).empty());
}

TEST_CASE("what a config.json is said to leave out is what is used") {
  const char* sizes =
      R"({"n_embd": 6144, "n_head": 48, "n_layer": 40, "n_positions": 8192, "vocab_size": 49152,)";
  const ImportedModel one =
      import(std::string(sizes) + R"("model_type": "gpt_bigcode", "multi_query": true})");
  CHECK(one.model.num_query_groups == 1);
  const char* heads_of = "not in the file, taken as is usual for gpt_bigcode: num_key_value_heads ";
  CHECK(told(one, std::string(heads_of) + "1, "));
  CHECK_FALSE(told(one, std::string(heads_of) + "48"));
  for (const char* heads : {R"("num_key_value_heads": 7, "head_dim": 128)", R"("n_inner": 8)"}) {
    const std::string uneven = fmt::format("{}{}}}", with(sizes, "48", "45"), heads);
    CHECK_FALSE(import(with(uneven, "{", R"({"model_type": "llama",)")).diagnoses.empty());
  }
}

TEST_CASE("of several sizes in a name any that fits is taken") {
  const auto says = [](const char* name) {
    return told(import(with(fixture("llama.json"), "meta-llama/Llama-3.1-8B", name)),
                "the name says");
  };
  CHECK_FALSE(says("moe-1b-8b"));
  CHECK_FALSE(says("some-8b-1b"));
  CHECK(says("some-1b-3b"));
}

TEST_CASE("a dense MLP beside the experts counts as a shared expert") {
  const ImportedModel read = llama_with(
      R"("num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1024,)"
      R"("residual_moe": true)");
  CHECK(read.model.moe->shared_expert_ffn_hidden_size == read.model.ffn_hidden_size);
}

TEST_CASE("what the model of work lacks is refused by what it is") {
  const auto refused = [](const char* type) {
    const auto read = import_hf_config(
        spec::default_library(),
        with(fixture("llama.json"), "\"llama\"", "\"" + std::string(type) + "\""), "config.json");
    return read ? "none" : read.error().what;
  };
  CHECK(contains(refused("bert"), "an encoder (it is trained to fill in words"));
  CHECK(contains(refused("t5"), "an encoder with a decoder"));
  CHECK(contains(refused("vit"), "no language model"));
  CHECK(contains(refused("gla"), "linear or recurrent attention"));
  CHECK(contains(first_problem(R"("index_topk": 2048)"), "sparse attention with an indexer"));
  CHECK(contains(first_problem(R"("block_configs": [{"a": 1}])"), "unequal widths"));
  CHECK(contains(first_problem(R"("num_hidden_layerz": 5)"), "did you mean"));
}

TEST_CASE("a key that the user says does not matter is told, no error") {
  ImportHints hints;
  hints.ignored = {"my_key"};
  const std::string text = with(fixture("llama.json"), "{", R"({"my_key": 5, )");
  CHECK_FALSE(import(text).diagnoses.empty());
  const auto read = import_hf_config(spec::default_library(), text, "config.json", hints);
  REQUIRE(read);
  CHECK(read->diagnoses.empty());
  CHECK(told(*read, "my_key is ignored, as asked"));
}

TEST_CASE("a size in the name or the file that the shape does not have is told") {
  CHECK(told(llama_with(R"("num_parameters": 8030261248)"), "num_parameters says") == false);
  CHECK(told(llama_with(R"("num_parameters": 7000000000)"), "num_parameters says 7.00 billion"));
  CHECK(told(import(with(fixture("llama.json"), "8B", "9B")), "the name says 9.00 billion"));
}

TEST_CASE("a model is found by name, by file, by config.json and by the folder of one") {
  const spec::Library library = spec::default_library();
  const ScratchFolder folder;
  REQUIRE(make_folder(folder.folder() / "own/gpt-small"));
  const std::string config = folder.file("own/gpt-small/config.json", fixture("llama.json"));
  const auto read = [&](const std::string& name) { return read_model(library, name).value(); };
  CHECK(read("Llama3.1-8B").model.name == "llama3-8b");
  CHECK(read(config).model == read(folder.path("own/gpt-small")).model);
  const std::string toml = folder.file("x.toml", "[model]\nbase = \"llama3-8b\"\n");
  CHECK(read(toml).model.num_layers == 32);
  const auto refused = read_model(library, folder.file("job.sh", "torchrun pretrain_gpt.py\n"));
  CHECK(contains(refused.error().what, "describes no model"));
  CHECK(read_model(library, folder.path("none/config.json")).error().what.find("cannot read") !=
        std::string::npos);
}

TEST_CASE("what is no decoder with the vocabulary's head is refused by name") {
  const auto refused = [](const char* what, const char* instead) {
    const auto read =
        import_hf_config(spec::default_library(), with(fixture("llama.json"), what, instead), "x");
    return read ? (read->diagnoses.empty() ? "" : read->diagnoses.front().what) : read.error().what;
  };
  for (const char* head : {"LlamaForSequenceClassification", "LlamaModel", "LlamaForMaskedLM",
                           "LlamaForCausalLMEagle3", "Qwen2ForProcessRewardModel"})
    CHECK_MESSAGE(contains(refused("LlamaForCausalLM", head), head), head);
  for (const char* fine : {"GPT2LMHeadModel", "LlavaForConditionalGeneration"})
    CHECK_MESSAGE(refused("LlamaForCausalLM", fine).empty(), fine);
  constexpr const char* type = "\"model_type\": \"llama\"";
  const auto beside = [&](const std::string& key) {
    return refused(type, (type + (", " + key)).c_str());
  };
  CHECK(contains(beside("\"is_causal\": false"), "both directions"));
  CHECK(contains(beside("\"use_bidirectional_attention\": true"), "use_bidirectional"));
  CHECK(beside("\"is_causal\": true, \"use_bidirectional_attention\": \"vision\"").empty());
}

}  // namespace
}  // namespace triplepoint::formats
