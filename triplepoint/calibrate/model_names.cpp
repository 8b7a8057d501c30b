// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/model_names.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <fmt/format.h>

namespace triplepoint::calibrate {
namespace {

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

char small(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

/// Where a number that begins at `at` ends; a point belongs to it if a digit follows.
std::size_t end_of_number(std::string_view text, std::size_t at) {
  while (at < text.size() && (is_digit(text[at]) ||
                              (text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]))))
    ++at;
  return at;
}

bool is_size_letter(std::string_view text, std::size_t at) {
  if (at >= text.size()) return false;
  const char letter = small(text[at]);
  if (letter != 'b' && letter != 'm' && letter != 't') return false;
  return at + 1 >= text.size() || !is_letter(text[at + 1]);
}

/// Pieces that must occur in this order, with anything between them; and what they mean.
struct NameRule {
  std::string_view pieces;  // separated by blanks
  std::string_view model;
};

// The first that fits wins, so what is more special stands before what is more general.
constexpr std::array rules = {
    NameRule{"gpt oss 20b", "gpt-oss-20b"},
    NameRule{"gpt oss 120b", "gpt-oss-120b"},
    NameRule{"mcore 1.7b", "mcore-1.7b"},
    NameRule{"mcore 7.1b", "mcore-7.1b"},
    NameRule{"mcore 16b", "mcore-16b"},
    NameRule{"mcore 32b", "mcore-32b"},
    NameRule{"mcore 70b", "mcore-70b"},
    NameRule{"mcore 119b", "mcore-119b"},
    NameRule{"mcore 177b", "mcore-177b"},
    NameRule{"mcore 314b", "mcore-314b"},
    NameRule{"mcore 462b", "mcore-462b"},
    NameRule{"seqsel 22b", "seqsel-22b"},
    NameRule{"seqsel 175b", "seqsel-175b"},
    NameRule{"seqsel 530b", "seqsel-530b"},
    NameRule{"seqsel 1t", "seqsel-1t"},
    NameRule{"gpt 126m", "gpt3-126m"},
    NameRule{"gpt 125m", "gpt3-126m"},
    NameRule{"gpt 1.3b", "gpt3-1.3b"},
    NameRule{"gpt 1.7b", "megatron-1.7b"},
    NameRule{"gpt 3.6b", "megatron-3.6b"},
    NameRule{"gpt 5b", "gpt3-5b"},
    NameRule{"gpt 7.1b", "mcore-7.1b"},
    NameRule{"gpt 7.5b", "megatron-7.5b"},
    NameRule{"gpt 16b", "mcore-16b"},
    NameRule{"gpt 18b", "megatron-18b"},
    NameRule{"gpt 18.4b", "megatron-18b"},
    NameRule{"gpt 20b", "gpt3-20b"},
    NameRule{"gpt 22b", "seqsel-22b"},
    NameRule{"gpt 30b", "gpt3-30b"},
    NameRule{"gpt 32b", "mcore-32b"},
    NameRule{"gpt 39b", "megatron-39b"},
    NameRule{"gpt 39.1b", "megatron-39b"},
    NameRule{"gpt 40b", "gpt3-40b"},
    NameRule{"gpt 70b", "mcore-70b"},
    NameRule{"gpt 76b", "megatron-76b"},
    NameRule{"gpt 76.1b", "megatron-76b"},
    NameRule{"gpt 119b", "mcore-119b"},
    NameRule{"gpt 145b", "megatron-145b"},
    NameRule{"gpt 145.6b", "megatron-145b"},
    NameRule{"gpt 175b", "gpt3-175b"},
    NameRule{"gpt 177b", "mcore-177b"},
    NameRule{"gpt 310b", "megatron-310b"},
    NameRule{"gpt 310.1b", "megatron-310b"},
    NameRule{"gpt 314b", "mcore-314b"},
    NameRule{"gpt 462b", "mcore-462b"},
    NameRule{"gpt 530b", "megatron-530b"},
    NameRule{"gpt 529.6b", "megatron-530b"},
    NameRule{"mt nlg", "megatron-530b"},
    NameRule{"gpt 1t", "megatron-1t"},
    NameRule{"gpt 1000b", "megatron-1t"},
    NameRule{"gpt 1008b", "megatron-1t"},
    NameRule{"nemo megatron", "gpt3-175b"},
    NameRule{"megatron 1.7b", "megatron-1.7b"},
    NameRule{"megatron 3.6b", "megatron-3.6b"},
    NameRule{"megatron 7.5b", "megatron-7.5b"},
    NameRule{"megatron 18b", "megatron-18b"},
    NameRule{"megatron 22b", "seqsel-22b"},
    NameRule{"megatron 39b", "megatron-39b"},
    NameRule{"megatron 76b", "megatron-76b"},
    NameRule{"megatron 145b", "megatron-145b"},
    NameRule{"megatron 175b", "gpt3-175b"},
    NameRule{"megatron 310b", "megatron-310b"},
    NameRule{"megatron 530b", "megatron-530b"},
    NameRule{"megatron 1t", "megatron-1t"},
    NameRule{"megascale 175b", "gpt3-175b"},
    NameRule{"nemotron h 4b", "nemotron-h-4b"},
    NameRule{"nemotron h 8b", "nemotron-h-8b"},
    NameRule{"nemotron h 47b", "nemotron-h-47b"},
    NameRule{"nemotron h 56b", "nemotron-h-56b"},
    NameRule{"nemotronh 4b", "nemotron-h-4b"},
    NameRule{"nemotronh 8b", "nemotron-h-8b"},
    NameRule{"nemotronh 47b", "nemotron-h-47b"},
    NameRule{"nemotronh 56b", "nemotron-h-56b"},
    NameRule{"nemotron 3 nano", "nemotron-3-nano-30b-a3b"},
    NameRule{"nemotron v 3 nano", "nemotron-3-nano-30b-a3b"},
    NameRule{"nemotron nano 3", "nemotron-3-nano-30b-a3b"},
    NameRule{"nemotron 3 30b", "nemotron-3-nano-30b-a3b"},
    NameRule{"nemotron nano 30b", "nemotron-3-nano-30b-a3b"},
    NameRule{"nemotron 3 super", "nemotron-3-super-120b-a12b"},
    NameRule{"nemotron v 3 super", "nemotron-3-super-120b-a12b"},
    NameRule{"nemotron 3 120b", "nemotron-3-super-120b-a12b"},
    NameRule{"nemotron super 120b", "nemotron-3-super-120b-a12b"},
    NameRule{"nemotron nano 9b", "nemotron-nano-9b-v2"},
    NameRule{"nemotron nano 12b", "nemotron-nano-12b-v2"},
    NameRule{"nemotron 4b", "nemotron3-4b"},
    NameRule{"nemotron 8b", "nemotron3-8b"},
    NameRule{"nemotron 15b", "nemotron4-15b"},
    NameRule{"nemotron 22b", "nemotron3-22b"},
    NameRule{"nemotron 340b", "nemotron4-340b"},
    NameRule{"llama 4 scout", "llama4-scout"},
    NameRule{"llama 4 maverick", "llama4-maverick"},
    NameRule{"llama 3.2 1b", "llama3.2-1b"},
    NameRule{"llama 3.2 3b", "llama3.2-3b"},
    NameRule{"llama 3 1b", "llama3.2-1b"},
    NameRule{"llama 3 3b", "llama3.2-3b"},
    NameRule{"llama 3 8b", "llama3-8b"},
    NameRule{"llama 3.1 8b", "llama3-8b"},
    NameRule{"llama 3 70b", "llama3-70b"},
    NameRule{"llama 3.1 70b", "llama3-70b"},
    NameRule{"llama 3.3 70b", "llama3-70b"},
    NameRule{"llama 3 405b", "llama3-405b"},
    NameRule{"llama 3.1 405b", "llama3-405b"},
    NameRule{"llama 3 30b", "llama3-30b"},
    NameRule{"llama 2 7b", "llama2-7b"},
    NameRule{"llama 2 13b", "llama2-13b"},
    NameRule{"llama 2 34b", "llama2-34b"},
    NameRule{"llama 2 70b", "llama2-70b"},
    NameRule{"codellama 7b", "llama2-7b"},
    NameRule{"codellama 13b", "llama2-13b"},
    NameRule{"codellama 34b", "llama2-34b"},
    NameRule{"codellama 70b", "llama2-70b"},
    NameRule{"llama 7b", "llama-7b"},
    NameRule{"llama 13b", "llama-13b"},
    NameRule{"llama 30b", "llama-33b"},
    NameRule{"llama 33b", "llama-33b"},
    NameRule{"llama 65b", "llama-65b"},
    NameRule{"llama 8b", "llama3-8b"},
    NameRule{"llama 70b", "llama3-70b"},
    NameRule{"llama 405b", "llama3-405b"},
    NameRule{"mistral 7b", "mistral-7b"},
    NameRule{"mixtral 8 x 7b", "mixtral-8x7b-dropless"},
    NameRule{"mixtral 8 x 22b", "mixtral-8x22b-dropless"},
    NameRule{"mixtral 47b", "mixtral-8x7b-dropless"},
    NameRule{"mixtral 141b", "mixtral-8x22b-dropless"},
    NameRule{"qwen 3 0.6b", "qwen3-0.6b"},
    NameRule{"qwen 3 1.7b", "qwen3-1.7b"},
    NameRule{"qwen 3 4b", "qwen3-4b"},
    NameRule{"qwen 3 8b", "qwen3-8b"},
    NameRule{"qwen 3 14b", "qwen3-14b"},
    NameRule{"qwen 3 32b", "qwen3-32b"},
    NameRule{"qwen 3 30b", "qwen3-30b-a3b"},
    NameRule{"qwen 3 235b", "qwen3-235b-a22b"},
    NameRule{"qwen 3 coder 480b", "qwen3-coder-480b-a35b"},
    NameRule{"gemma 3 12b", "gemma3-12b"},
    NameRule{"gemma 3 27b", "gemma3-27b"},
    NameRule{"qwen 2.5 7b", "qwen2.5-7b"},
    NameRule{"qwen 2.5 14b", "qwen2.5-14b"},
    NameRule{"qwen 2.5 32b", "qwen2.5-32b"},
    NameRule{"qwen 2.5 72b", "qwen2.5-72b"},
    NameRule{"qwen 2 72b", "qwen2.5-72b"},
    NameRule{"deepseek v 2 lite", "deepseek-v2-lite"},
    NameRule{"deepseek v 2 16b", "deepseek-v2-lite"},
    NameRule{"deepseek v 2", "deepseek-v2"},
    NameRule{"deepseek v 3 16b", "deepseek-v2-lite"},  // torchtitan's cut, of its shape
    NameRule{"deepseek v 3", "deepseek-v3"},
    NameRule{"deepseek v 3.1", "deepseek-v3"},  // trained on from V3, of its shape
    NameRule{"deepseekv 2 lite", "deepseek-v2-lite"},
    NameRule{"deepseekv 2", "deepseek-v2"},
    NameRule{"deepseekv 3", "deepseek-v3"},
    NameRule{"deepseek r 1", "deepseek-v3"},
    NameRule{"kimi k 2", "kimi-k2"},
    NameRule{"grok 1", "grok-1"},
    NameRule{"grok 314b", "grok-1"},
    NameRule{"mpt 125m", "mpt-125m"},
    NameRule{"mpt 350m", "mpt-350m"},
    NameRule{"mpt 760m", "mpt-760m"},
    NameRule{"mpt 1b", "mpt-1b"},
    NameRule{"mpt 3b", "mpt-3b"},
    NameRule{"mpt 7b", "mpt-7b"},
    NameRule{"mpt 13b", "mpt-13b"},
    NameRule{"mpt 30b", "mpt-30b"},
    NameRule{"mpt 70b", "mpt-70b"},
    NameRule{"bloom 176b", "bloom-176b"},
    NameRule{"bloom", "bloom-176b"},
    NameRule{"glm 130b", "glm-130b"},
    NameRule{"internlm 2 7b", "internlm2-7b"},
    NameRule{"internlm 7b", "internlm-7b"},
    NameRule{"internlm 20b", "internlm-20b"},
    NameRule{"opt 1.3b", "opt-1.3b"},
    NameRule{"opt 6.7b", "opt-6.7b"},
    NameRule{"opt 13b", "opt-13b"},
    NameRule{"opt 30b", "opt-30b"},
    NameRule{"opt 66b", "opt-66b"},
    NameRule{"opt 175b", "opt-175b"},
    NameRule{"tiny gpt", "tiny-gpt"},
    NameRule{"tiny llama", "tiny-llama"},
    NameRule{"tiny mixtral", "tiny-mixtral"},
    NameRule{"nanotron 1.34b", "nanotron-1.34b"},
    NameRule{"nanotron 8.86b", "nanotron-8.86b"},
    NameRule{"bert large", "bert-large"},
    NameRule{"bert", "bert-large"},
    NameRule{"grok", "grok-1"},
};

struct UnsupportedRule {
  std::string_view pieces, why;
};

constexpr std::string_view state_space =
    "its first-generation state-space layers (Mamba, Zamba, Jamba) are not modelled";
constexpr std::string_view long_convolutions = "its long convolutions are not modelled";
constexpr std::string_view two_towers = "an encoder beside the decoder is not modelled";
constexpr std::string_view linear_attention = "its linear-attention layers are not modelled";
constexpr std::string_view images = "a model of images or video is not modelled";

// Before the rules above: parts of these names would fit there.
constexpr std::array unsupported = {
    UnsupportedRule{"t 5", two_towers},
    UnsupportedRule{"mt 5", two_towers},
    UnsupportedRule{"ul 2", two_towers},
    UnsupportedRule{"mamba", state_space},
    UnsupportedRule{"nemotron 3 ultra", "its configuration is not in the library"},
    UnsupportedRule{"nemotron 3 nano 4b", "its configuration is not in the library"},
    UnsupportedRule{"nemotron 3 nano omni", "its vision tower is not modelled"},
    UnsupportedRule{"zamba", state_space},
    UnsupportedRule{"jamba", state_space},
    UnsupportedRule{"hyena", long_convolutions},
    UnsupportedRule{"evo 2", long_convolutions},
    UnsupportedRule{"qwen 3 next", linear_attention},
    UnsupportedRule{"qwen 3.5", linear_attention},
    UnsupportedRule{"kimi linear", linear_attention},
    UnsupportedRule{"deepseekv 4", "its compressed attention is not modelled"},
    UnsupportedRule{"deepseek v 4", "its compressed attention is not modelled"},
    UnsupportedRule{"stable diffusion", images},
    UnsupportedRule{"flux", images},
    UnsupportedRule{"wan", images},
    UnsupportedRule{"clip", images},
    UnsupportedRule{"vl", "its vision tower is not modelled"},
    UnsupportedRule{"resnet", images},
    UnsupportedRule{"dlrm", "a recommender is not modelled"},
};

std::vector<std::string_view> blanks_split(std::string_view text) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (end > 0) pieces.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

/// Whether all wanted pieces occur in their order.
bool fits(const std::vector<std::string>& pieces, std::string_view wanted) {
  auto at = pieces.begin();
  for (const std::string_view piece : blanks_split(wanted)) {
    at = std::find(at, pieces.end(), piece);
    if (at == pieces.end()) return false;
    ++at;
  }
  return true;
}

}  // namespace

std::vector<std::string> name_pieces(std::string_view spelling) {
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < spelling.size();) {
    std::size_t end = at + 1;
    if (is_digit(spelling[at])) {
      end = end_of_number(spelling, at);
      if (is_size_letter(spelling, end)) ++end;
    } else if (is_letter(spelling[at])) {
      while (end < spelling.size() && is_letter(spelling[end]))
        ++end;
    } else {
      at = end;
      continue;
    }
    std::string piece(spelling.substr(at, end - at));
    std::transform(piece.begin(), piece.end(), piece.begin(), small);
    pieces.push_back(std::move(piece));
    at = end;
  }
  return pieces;
}

Result<std::string> model_named(std::string_view spelling) {
  const std::vector<std::string> pieces = name_pieces(spelling);
  for (const UnsupportedRule& rule : unsupported) {
    if (fits(pieces, rule.pieces))
      return error(fmt::format("model \"{}\" cannot be expressed ({})", spelling, rule.why));
  }
  for (const NameRule& rule : rules) {
    if (fits(pieces, rule.pieces)) return std::string(rule.model);
  }
  return error(
      fmt::format("no model is called \"{}\" (its shape is not in the library); add "
                  "data/models/NAME.toml, or give layers, hidden and heads",
                  spelling));
}

}  // namespace triplepoint::calibrate
