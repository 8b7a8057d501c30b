// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

namespace triplepoint::calibrate {
namespace {

using spec::Sharding;

/// First match wins; the last one, whose word is in every text, is for everybody else. What may run
/// inside of another (Primus and ROCm's Megatron drive torchtitan, MaxText or Megatron) stands
/// after what it drives, if that says more.
constexpr std::array rules = {
    FrameworkRule{"torchtitan", "torchtitan", "fsdp_adamw", Sharding::parameters, true, false,
                  false, false, false, false, "", "", true},
    FrameworkRule{"llm-foundry", "llm-foundry", "fsdp_adamw", Sharding::parameters, false, false,
                  false, false},
    FrameworkRule{"Composer", "llm-foundry", "fsdp_adamw", Sharding::parameters, false, false,
                  false, false},
    FrameworkRule{"MaxText", "jax-xla", "fsdp_adamw", Sharding::parameters, true, true, true, true},
    FrameworkRule{"JAX", "jax-xla", "fsdp_adamw", Sharding::parameters, true, true, true, true},
    FrameworkRule{"Paxml", "jax-xla", "fsdp_adamw", Sharding::parameters, true, true, true, true},
    FrameworkRule{"Primus", "primus", "megatron_distributed_optim", Sharding::optimizer, true,
                  false, true, false},
    FrameworkRule{"ROCm", "primus", "megatron_distributed_optim", Sharding::optimizer, true, false,
                  true, false},
    FrameworkRule{"NeMo 25.", "megatron-bridge-25", "distributed_fused_adam_bf16",
                  Sharding::optimizer, true, true, true, true},
    FrameworkRule{"NeMo 26.02", "megatron-bridge-25", "distributed_fused_adam_bf16",
                  Sharding::optimizer, true, true, true, true},
    FrameworkRule{"NeMo 26.04", "megatron-bridge-25", "distributed_fused_adam_bf16",
                  Sharding::optimizer, true, true, true, true},
    FrameworkRule{"Megatron-Bridge", "megatron-bridge", "distributed_fused_adam_bf16",
                  Sharding::optimizer, true, true, true, true, false, false, "", "", false,
                  "megatron-bridge-25"},
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
    FrameworkRule{"fms-fsdp", "torchtitan", "fsdp_fused_adam", Sharding::parameters, false, false,
                  false, false},
    FrameworkRule{"FSDP+TP", "torchtitan", "fsdp_adamw", Sharding::gradients, true, true, true,
                  true},
    FrameworkRule{"nanotron after", "nanotron-2025", "nanotron_adam", Sharding::none, false, false,
                  false, false, true, true, "nanotron_zero1"},
    FrameworkRule{"nanotron", "nanotron", "nanotron_adam", Sharding::none, false, false, false,
                  false, true, true, "nanotron_zero1"},
    FrameworkRule{"InternEvo", "megatron-llama", "mcore_distributed_optim", Sharding::optimizer,
                  false, false, true, false},
    // Whoever writes the loop himself, compiled or as it comes.
    FrameworkRule{"compile", "torchtitan", "fsdp_adamw", Sharding::none, false, false, false,
                  false},
    FrameworkRule{"DeepSpeed", "eager-pytorch", "mcore_distributed_optim", Sharding::optimizer,
                  false, false, true, false},
    FrameworkRule{"FSDP", "eager-pytorch", "fsdp_adamw", Sharding::parameters, false, false, false,
                  false},
    FrameworkRule{"PyTorch", "eager-pytorch", "fsdp_adamw", Sharding::none, false, false, false,
                  false},
    FrameworkRule{"Transformer", "eager-pytorch", "fsdp_adamw", Sharding::none, false, false, false,
                  false},
    FrameworkRule{"", "megatron-core", "megatron_distributed_optim", Sharding::optimizer, true,
                  false, true, false},
};

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

size_t find_word(std::string_view text, std::string_view word) {
  if (word.empty()) return 0;
  const auto at = std::search(text.begin(), text.end(), word.begin(), word.end(),
                              [](char a, char b) { return lower(a) == lower(b); });
  return at == text.end() ? std::string_view::npos : static_cast<size_t>(at - text.begin());
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
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

std::string_view stack_on(const FrameworkRule& rule, const spec::Gpu& gpu) {
  const bool amd = gpu.vendor == "amd", blackwell = gpu.peak(spec::Precision::nvfp4).has_value();
  if (amd && !rule.stack_on_amd.empty()) return rule.stack_on_amd;
  if (!amd && !blackwell && !rule.stack_on_hopper.empty()) return rule.stack_on_hopper;
  return rule.stack;
}

bool sends_every_copy(const TrainingRow& row, const spec::Job& job) {
  constexpr std::array models = {std::string_view("qwen3-235b-a22b"),
                                 std::string_view("gpt-oss-120b")};
  constexpr int64_t node = 8;
  return mentions(row.framework, "Megatron-Bridge") && job.cluster.scale_up.domain_size <= node &&
         std::find(models.begin(), models.end(), job.model.name) != models.end();
}

spec::Precision precision_of(const TrainingRow& row) {
  if (mentions(row.precision, "FP4")) return spec::Precision::nvfp4;
  if (has_block_scales(row.precision)) return spec::Precision::mxfp8;
  const bool in_8_bits = mentions(row.precision, "FP8") || mentions(row.precision, "float8");
  if (in_8_bits || mentions(row.extra, "float8")) return spec::Precision::fp8;
  if (mentions(row.precision, "FP16")) return spec::Precision::fp16;
  const bool mlperf = mentions(row.framework, "MLPerf") && row.precision.empty();
  return mlperf ? spec::Precision::fp8 : spec::Precision::bf16;
}

bool was_trained_in_4_bits(const TrainingRow& row) {
  if (!row.precision.empty() || !mentions(row.notes, "FP4")) return false;
  const bool names_recipe = mentions(row.source, ".sh") && !mentions(row.source, "config_MI3");
  return !names_recipe || mentions(row.source, "_fp4");
}

std::optional<Zero> zero_of(std::string_view text) {
  for (size_t at = find_word(text, "zero"); at != std::string_view::npos;
       at = find_word(text, "zero")) {
    text.remove_prefix(at + 4);
    std::string_view rest = text;
    const auto skip = [&](std::string_view word) {
      if (find_word(rest, word) == 0) rest.remove_prefix(word.size());
    };
    const auto skip_marks = [&] {
      while (!rest.empty() &&
             std::string_view(" -_=:").find(rest.front()) != std::string_view::npos)
        rest.remove_prefix(1);
    };
    skip_marks();
    skip("stage");
    skip_marks();
    if (rest.empty() || rest.front() < '0' || rest.front() > '3') continue;
    Zero zero{.stage = rest.front() - '0'};
    rest.remove_prefix(1);
    if (!rest.empty() && is_digit(rest.front())) continue;
    if (!rest.empty() && rest.front() == '=') zero.ranks = number_after(rest, "=").value_or(0);
    zero.ranks = std::max<int64_t>(0, zero.ranks);
    return zero;
  }
  return std::nullopt;
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
