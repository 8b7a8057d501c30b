// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/formats/fixtures_testing.h"

namespace triplepoint::formats {
namespace {

ImportedModel import(const std::string& text) {
  const auto imported = import_hf_config(text, "models/gpt-small/config.json");
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

TEST_CASE("a DeepSeek config.json gives the library's mixture with latent attention") {
  const ImportedModel imported = import(fixture("deepseek.json"));
  CHECK(imported.diagnoses.empty());
  CHECK(imported.model == library_model("deepseek-v3", imported.model));
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

TEST_CASE("a config.json without a size is refused, one of an unknown family is read as a Llama") {
  const auto refused = import_hf_config(R"({"model_type": "llama"})", "config.json");
  REQUIRE_FALSE(refused.has_value());
  CHECK(
      refused.error().what ==
      "config.json: no \"num_hidden_layers\" (the config.json of a decoder has it, also as n_layer "
      "or num_layers); add it\n"
      "config.json: no \"hidden_size\" (the config.json of a decoder has it, also as n_embd or "
      "d_model); add it\n"
      "config.json: no \"num_attention_heads\" (the config.json of a decoder has it, also as "
      "n_head or num_heads); add it\n"
      "config.json: no \"vocab_size\" (the config.json of a decoder has it); add it");
  const std::string other =
      with(fixture("llama.json"), "\"model_type\": \"llama\"", "\"model_type\": \"new\"");
  CHECK(import(other).diagnoses.at(0).what ==
        "models/gpt-small/config.json: model_type 'new' is not known (its layers may differ); it "
        "is imported as a Llama");
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
  CHECK(refused.error().what.find("describes no model") != std::string::npos);
  CHECK(read_model(library, folder.path("none/config.json")).error().what.find("cannot read") !=
        std::string::npos);
}

}  // namespace
}  // namespace triplepoint::formats
