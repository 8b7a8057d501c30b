// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/tokenizers.h"

#include <array>

#include "triplepoint/base/text.h"

namespace triplepoint::formats {
namespace {

struct Tokenizer {
  std::string_view name;  // the part of the name that tells it, in lower case
  int64_t vocabulary = 0;
};

/// Each number is `vocab_size` of the config.json published with the model; the first that fits
/// wins, so that longer names stand before shorter ones.
constexpr std::array tokenizers{
    Tokenizer{"gpt2bpetokenizer", 50257},             // openai-community/gpt2
    Tokenizer{"meta-llama-3", 128256},                // meta-llama/Meta-Llama-3-8B
    Tokenizer{"llama-3", 128256},                     // meta-llama/Llama-3.1-8B
    Tokenizer{"llama3", 128256},                      // the same, as people name folders
    Tokenizer{"llama-2", 32000},                      // meta-llama/Llama-2-7b
    Tokenizer{"llama2tokenizer", 32000},              // meta-llama/Llama-2-7b
    Tokenizer{"mixtral-8x22b-v0.3", 32768},           // mistralai/Mixtral-8x22B-v0.3
    Tokenizer{"mixtral-8x22b-instruct-v0.1", 32768},  // mistralai/Mixtral-8x22B-Instruct-v0.1
    Tokenizer{"mixtral", 32000},                      // mistralai/Mixtral-8x7B-v0.1, -8x22B-v0.1
    Tokenizer{"mistral-7b-v0.3", 32768},              // mistralai/Mistral-7B-v0.3
    Tokenizer{"mistral-7b", 32000},                   // mistralai/Mistral-7B-v0.1
    Tokenizer{"deepseek-v3", 129280},                 // deepseek-ai/DeepSeek-V3
    Tokenizer{"deepseek-v2", 102400},                 // deepseek-ai/DeepSeek-V2
    Tokenizer{"qwen2.5", 152064},                     // Qwen/Qwen2.5-7B
    Tokenizer{"qwen3", 151936},                       // Qwen/Qwen3-8B
    Tokenizer{"gpt2", 50257},                         // openai-community/gpt2
    Tokenizer{"gpt-neox", 50432},                     // EleutherAI/gpt-neox-20b
};

}  // namespace

std::optional<int64_t> vocabulary_of(std::string_view tokenizer) {
  const std::string name = lower_case(tokenizer);
  for (const Tokenizer& each : tokenizers)
    if (name.find(each.name) != name.npos) return each.vocabulary;
  return std::nullopt;
}

}  // namespace triplepoint::formats
