// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace triplepoint::calibrate {
namespace {

using spec::Sharding;

/// First match wins; the last one, whose word is in every text, is for everybody else.
constexpr std::array rules = {
    FrameworkRule{"NeMo 25.", "megatron-bridge-25", "distributed_fused_adam_bf16",
                  Sharding::optimizer, true, true, true, true},
    FrameworkRule{"NeMo 26.02", "megatron-bridge-25", "distributed_fused_adam_bf16",
                  Sharding::optimizer, true, true, true, true},
    FrameworkRule{"NeMo 26.04", "megatron-bridge-25", "distributed_fused_adam_bf16",
                  Sharding::optimizer, true, true, true, true},
    FrameworkRule{"Megatron-Bridge", "megatron-bridge", "distributed_fused_adam_bf16",
                  Sharding::optimizer, true, true, true, true},
    FrameworkRule{"BigNLP", "nemo-2022", "distributed_fused_adam", Sharding::optimizer, true, false,
                  true, true},
    FrameworkRule{"NeMo 24.07", "nemo-2407", "distributed_fused_adam_bf16", Sharding::optimizer,
                  true, true, true, true},
    FrameworkRule{"NeMo", "nemo", "distributed_fused_adam_bf16", Sharding::optimizer, true, true,
                  true, true},
    FrameworkRule{"MLPerf", "mlperf", "distributed_fused_adam_bf16", Sharding::optimizer, true,
                  true, true, true, false, false, "", "mlperf-rocm"},
    FrameworkRule{"Megatron-DeepSpeed", "megatron-deepspeed", "mcore_distributed_optim",
                  Sharding::optimizer, false, false, false, false},
    FrameworkRule{"Megatron-LLaMA", "megatron-llama", "megatron_distributed_optim",
                  Sharding::optimizer, true, false, false, false},
    FrameworkRule{"Megatron-Core", "megatron-core", "mcore_distributed_optim", Sharding::optimizer,
                  true, true, true, true},
    FrameworkRule{"Megatron-LM 0", "megatron-lm-2025", "megatron_distributed_optim",
                  Sharding::optimizer, true, false, false, false},
    FrameworkRule{"Megatron-LM", "megatron-lm", "fused_adam", Sharding::none, false, false, false,
                  false},
    FrameworkRule{"MegaScale", "megatron-core", "mcore_distributed_optim", Sharding::optimizer,
                  true, true, true, true},
    FrameworkRule{"Primus", "megatron-core", "megatron_distributed_optim", Sharding::optimizer,
                  true, false, true, false},
    FrameworkRule{"llm-foundry", "llm-foundry", "fsdp_adamw", Sharding::parameters, false, false,
                  false, false},
    FrameworkRule{"fms-fsdp", "torchtitan", "fsdp_fused_adam", Sharding::parameters, false, false,
                  false, false},
    FrameworkRule{"torchtitan", "torchtitan", "fsdp_adamw", Sharding::parameters, true, false,
                  false, false},
    FrameworkRule{"FSDP+TP", "torchtitan", "fsdp_adamw", Sharding::gradients, true, true, true,
                  true},
    FrameworkRule{"JAX", "jax-xla", "fsdp_adamw", Sharding::parameters, true, true, true, true},
    FrameworkRule{"nanotron after", "nanotron-2025", "nanotron_adam", Sharding::none, false, false,
                  false, false, true, true, "nanotron_zero1"},
    FrameworkRule{"nanotron", "nanotron", "nanotron_adam", Sharding::none, false, false, false,
                  false, true, true, "nanotron_zero1"},
    FrameworkRule{"InternEvo", "megatron-core", "megatron_distributed_optim", Sharding::optimizer,
                  true, false, true, false},
    FrameworkRule{"", "megatron-core", "megatron_distributed_optim", Sharding::optimizer, true,
                  false, true, false},
};

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

size_t find_word(std::string_view text, std::string_view word) {
  const auto at = std::search(text.begin(), text.end(), word.begin(), word.end(),
                              [](char a, char b) { return lower(a) == lower(b); });
  return at == text.end() ? std::string_view::npos : static_cast<size_t>(at - text.begin());
}

bool has_block_scales(std::string_view precision) {
  return mentions(precision, "MXFP8") || mentions(precision, "FP8-MX") ||
         mentions(precision, "finer-granularity");
}

}  // namespace

bool mentions(std::string_view text, std::string_view word) {
  return find_word(text, word) != std::string_view::npos;
}

const FrameworkRule& rule_of(std::string_view framework) {
  return *std::find_if(rules.begin(), rules.end(),
                       [&](const FrameworkRule& rule) { return mentions(framework, rule.word); });
}

spec::Precision precision_of(const TrainingRow& row) {
  if (mentions(row.precision, "FP4")) return spec::Precision::nvfp4;
  if (has_block_scales(row.precision)) return spec::Precision::mxfp8;
  if (mentions(row.precision, "FP8")) return spec::Precision::fp8;
  if (mentions(row.precision, "FP16")) return spec::Precision::fp16;
  const bool mlperf = mentions(row.framework, "MLPerf") && row.precision.empty();
  return mlperf ? spec::Precision::fp8 : spec::Precision::bf16;
}

bool was_trained_in_4_bits(const TrainingRow& row) {
  if (!row.precision.empty() || !mentions(row.notes, "FP4")) return false;
  const bool names_recipe = mentions(row.source, ".sh") && !mentions(row.source, "config_MI3");
  return !names_recipe || mentions(row.source, "_fp4");
}

std::optional<int64_t> number_after(std::string_view text, std::string_view key) {
  for (size_t at = find_word(text, key); at != std::string_view::npos; at = find_word(text, key)) {
    text.remove_prefix(at + key.size());
    int64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (fault == std::errc()) return number;
  }
  return std::nullopt;
}

std::optional<double> number_before(std::string_view text, std::string_view unit) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (size_t at = text.find(unit); at != std::string_view::npos; at = text.find(unit, at + 1)) {
    size_t end = at;
    while (end > 0 && text[end - 1] == ' ')
      --end;
    size_t begin = end;
    while (begin > 0 && is_digit(text[begin - 1]))
      --begin;
    if (begin == end) continue;
    double number = 0;
    std::from_chars(text.data() + begin, text.data() + end, number);
    return number;
  }
  return std::nullopt;
}

}  // namespace triplepoint::calibrate
