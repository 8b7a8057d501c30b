// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/model_names.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/spec/load.h"

namespace triplepoint::calibrate {
namespace {

struct Spelling {
  const char *written, *model;
};

// Every spelling of the published tables that validation.md describes, and some of other papers.
const Spelling spellings[] = {
    {"Llama 3.1 405b 24.09", "llama3-405b"},
    {"LLAMA3.1_405B", "llama3-405b"},
    {"Llama3-405B", "llama3-405b"},
    {"Llama3.1-405B (layer-cut)", "llama3-405b"},
    {"Llama 3.1 70b 24.09", "llama3-70b"},
    {"Llama3 70b Finetuning LORA", "llama3-70b"},
    {"Llama3-70B (layer-cut)", "llama3-70b"},
    {"LLAMA3_70B", "llama3-70b"},
    {"Llama 3.1 8b", "llama3-8b"},
    {"Llama3.1-8B", "llama3-8b"},
    {"meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b"},
    {"Llama2-70B LoRA", "llama2-70b"},
    {"LLAMA2-7B", "llama2-7b"},
    {"Llama-2-13b-hf", "llama2-13b"},
    {"Llama2-34B", "llama2-34b"},
    {"LLaMA-13B", "llama-13b"},
    {"NeMo Megatron 24.11", "gpt3-175b"},
    {"Paxml GPT175B 24.11", "gpt3-175b"},
    {"GPT-3 175B", "gpt3-175b"},
    {"GPT-175B", "gpt3-175b"},
    {"Paxml GPT5B", "gpt3-5b"},
    {"GPT-3 5B", "gpt3-5b"},
    {"GPT3-20B", "gpt3-20b"},
    {"GPT-126M", "gpt3-126m"},
    {"GPT-530B", "megatron-530b"},
    {"GPT-1T", "megatron-1t"},
    {"GPT-462B", "mcore-462b"},
    {"Nemotron4 15b 24.11", "nemotron4-15b"},
    {"Nemotron-22B", "nemotron3-22b"},
    {"Nemotron4-340b", "nemotron4-340b"},
    {"Nemotron_3_Nano", "nemotron-3-nano-30b-a3b"},
    {"Nemotron-3 Nano 30B-A3B", "nemotron-3-nano-30b-a3b"},
    {"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano-30b-a3b"},
    {"nemotron_3_nano", "nemotron-3-nano-30b-a3b"},
    {"NEMOTRON3_NANO_30B_a3B", "nemotron-3-nano-30b-a3b"},
    {"Nemotron V3 Nano 30B (26.02)", "nemotron-3-nano-30b-a3b"},
    {"Nemotron 3 Super 120B", "nemotron-3-super-120b-a12b"},
    {"Nemotron_3_Super", "nemotron-3-super-120b-a12b"},
    {"NemotronH_56B", "nemotron-h-56b"},
    {"Nemotron-H 56B", "nemotron-h-56b"},
    {"NemotronH-47B", "nemotron-h-47b"},
    {"Nemotron-H-8B-Base-8K", "nemotron-h-8b"},
    {"Nemotron Nano 9B v2", "nemotron-nano-9b-v2"},
    {"Llama-4-Maverick-17B-128E", "llama4-maverick"},
    {"MPT-125m", "mpt-125m"},
    {"MPT-1b", "mpt-1b"},
    {"mpt-70b", "mpt-70b"},
    {"Qwen3_30B_a3B", "qwen3-30b-a3b"},
    {"Qwen3_235B_a22B", "qwen3-235b-a22b"},
    {"Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", "qwen3-coder-480b-a35b"},
    {"google/gemma-3-27b-it", "gemma3-27b"},
    {"deepseek-ai/DeepSeek-V3.1", "deepseek-v3"},
    {"Qwen3-8B", "qwen3-8b"},
    {"Qwen2.5-72B", "qwen2.5-72b"},
    {"DeepSeek-V3 671B (37B active)", "deepseek-v3"},
    {"DeepSeekV3", "deepseek-v3"},
    {"DeepSeek-V2 (layer-cut)", "deepseek-v2"},
    {"DeepSeek-V2-Lite", "deepseek-v2-lite"},
    {"Kimi-K2", "kimi-k2"},
    {"GPT-OSS 120B", "gpt-oss-120b"},
    {"gpt_oss_20b", "gpt-oss-20b"},
    {"Mixtral-8x7B", "mixtral-8x7b-dropless"},
    {"mixtral_8x22B", "mixtral-8x22b-dropless"},
    {"Grok-1 314B", "grok-1"},
    {"Grok1", "grok-1"},
    {"BLOOM-176B", "bloom-176b"},
    {"GLM-130B", "glm-130b"},
    {"InternLM-7B", "internlm-7b"},
    {"BERT-large", "bert-large"},
};

TEST_CASE("every usual spelling of a model finds it") {
  for (const Spelling& spelling : spellings) {
    CAPTURE(spelling.written);
    const Result<std::string> found = model_named(spelling.written);
    REQUIRE_MESSAGE(found, found.error().what);
    CHECK(*found == spelling.model);
  }
}

TEST_CASE(
    "every name a spelling leads to is in the library, and so is every name spelled as the "
    "library does") {
  const std::vector<std::string> models = spec::list_models(spec::default_library());
  for (const Spelling& spelling : spellings)
    CHECK_MESSAGE(std::count(models.begin(), models.end(), spelling.model) == 1, spelling.model);
}

TEST_CASE("the library's own names are understood") {
  for (const std::string& name : spec::list_models(spec::default_library())) {
    CAPTURE(name);
    // The two capacity-limited Mixtrals are one study's own.
    if (name == "mixtral-8x7b" || name == "mixtral-8x22b") continue;
    const Result<std::string> found = model_named(name);
    REQUIRE_MESSAGE(found, found.error().what);
    CHECK(*found == name);
  }
}

TEST_CASE("an architecture that cannot be expressed says why") {
  for (const char* name : {"T5 3B", "mT5 3B", "Qwen3-Next 80B-A3B", "Zamba 7B", "Jamba 52B",
                           "Mamba-2.8B", "Stable Diffusion v2"}) {
    CAPTURE(name);
    const Result<std::string> found = model_named(name);
    REQUIRE(!found);
    CHECK(found.error().what.find("not modelled") != std::string::npos);
  }
}

TEST_CASE("a name nobody knows is an error that names it") {
  const Result<std::string> found = model_named("Frobnicator-12B");
  REQUIRE(!found);
  CHECK(found.error().what.find("Frobnicator-12B") != std::string::npos);
  CHECK(!model_named(""));
}

TEST_CASE("numbers, words and sizes of a name are told apart") {
  using Pieces = std::vector<std::string>;
  CHECK(name_pieces("LLAMA3.1_405B") == Pieces{"llama", "3.1", "405b"});
  CHECK(name_pieces("Qwen3_30B_a3B") == Pieces{"qwen", "3", "30b", "a", "3b"});
  CHECK(name_pieces("Mixtral-8x7B") == Pieces{"mixtral", "8", "x", "7b"});
  CHECK(name_pieces("v3.") == Pieces{"v", "3"});
  CHECK(name_pieces("...") == Pieces{});
}

}  // namespace
}  // namespace triplepoint::calibrate
