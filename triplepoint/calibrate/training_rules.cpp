// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

namespace triplepoint::calibrate {
namespace {

using spec::Sharding;

/// NVIDIA's tuned training: everything is hidden that can be.
constexpr FrameworkRule nvidia(std::string_view word, std::string_view stack) {
  return {.word = word,
          .stack = stack,
          .optimizer = "distributed_fused_adam_bf16",
          .overlaps_tensor = true,
          .overlaps_data = true,
          .overlaps_pipeline = true};
}

constexpr FrameworkRule megatron_bridge(std::string_view word, std::string_view stack) {
  FrameworkRule rule = nvidia(word, stack);
  rule.recipes = "megatron-bridge";
  rule.recomputes_modules = true;
  return rule;
}

/// NeMo's containers of 2025, whose experts' scales by tensor cost time of their own.
constexpr FrameworkRule nemo_25() {
  FrameworkRule rule = megatron_bridge("NeMo 25.", "megatron-bridge-25");
  rule.stack_of_scaled_experts = "megatron-bridge-25-scaled";
  return rule;
}

constexpr FrameworkRule newest_megatron_bridge() {
  FrameworkRule rule = megatron_bridge("Megatron-Bridge", "megatron-bridge");
  rule.stack_on_hopper = "megatron-bridge-25";
  return rule;
}

/// First match wins; the last one, whose word is in every text, is for everybody else. What may run
/// inside of another (Primus and ROCm's Megatron drive torchtitan, MaxText or Megatron) stands
/// after what it drives, if that says more.
constexpr std::array rules = {
    FrameworkRule{.word = "torchtitan",
                  .stack = "torchtitan",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::parameters,
                  .selects_operations = true},
    FrameworkRule{.word = "llm-foundry",
                  .stack = "llm-foundry",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::parameters,
                  .sequence_parallel = false},
    FrameworkRule{.word = "Composer",
                  .stack = "llm-foundry",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::parameters,
                  .sequence_parallel = false},
    FrameworkRule{.word = "MaxText",
                  .stack = "jax-xla",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::parameters,
                  .overlaps_tensor = true,
                  .overlaps_data = true,
                  .overlaps_pipeline = true},
    FrameworkRule{.word = "Pax (",
                  .stack = "jax-xla",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::parameters,
                  .overlaps_tensor = true,
                  .overlaps_data = true,
                  .overlaps_pipeline = true,
                  .stack_without_te = "jax-xla-plain"},
    FrameworkRule{.word = "JAX",
                  .stack = "jax-xla",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::parameters,
                  .overlaps_tensor = true,
                  .overlaps_data = true,
                  .overlaps_pipeline = true},
    FrameworkRule{.word = "Paxml",
                  .stack = "jax-xla",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::parameters,
                  .overlaps_tensor = true,
                  .overlaps_data = true,
                  .overlaps_pipeline = true},
    FrameworkRule{.word = "Primus",
                  .stack = "primus",
                  .optimizer = "megatron_distributed_optim",
                  .overlaps_data = true},
    FrameworkRule{.word = "ROCm",
                  .stack = "primus",
                  .optimizer = "megatron_distributed_optim",
                  .overlaps_data = true},
    nemo_25(),
    megatron_bridge("NeMo 26.02", "megatron-bridge-25"),
    megatron_bridge("NeMo 26.04", "megatron-bridge-25"),
    newest_megatron_bridge(),
    FrameworkRule{.word = "BigNLP",
                  .stack = "nemo-2022",
                  .optimizer = "distributed_fused_adam",
                  .overlaps_data = true,
                  .overlaps_pipeline = true},
    nvidia("NeMo 24.07", "nemo-2407"),
    FrameworkRule{.word = "NeMo",
                  .stack = "nemo",
                  .optimizer = "distributed_fused_adam_bf16",
                  .overlaps_tensor = true,
                  .overlaps_data = true,
                  .overlaps_pipeline = true,
                  .release = "recipes, 25.04 release",
                  .stack_of_release = "nemo-2504"},
    FrameworkRule{.word = "MLPerf",
                  .stack = "mlperf",
                  .optimizer = "distributed_fused_adam_bf16",
                  .overlaps_tensor = true,
                  .overlaps_data = true,
                  .overlaps_pipeline = true,
                  .stack_on_amd = "mlperf-rocm",
                  .stack_of_adapters = "mlperf-lora",
                  .release = "MLPerf Training v5.1",
                  .stack_of_release = "mlperf-lora-51",
                  .recipes = "mlperf"},
    FrameworkRule{.word = "Megatron-DeepSpeed",
                  .stack = "megatron-deepspeed",
                  .optimizer = "mcore_distributed_optim",
                  .sequence_parallel = false},
    FrameworkRule{.word = "Megatron-LLaMA",
                  .stack = "megatron-llama",
                  .optimizer = "megatron_distributed_optim"},
    FrameworkRule{.word = "Megatron-Core",
                  .stack = "megatron-core",
                  .optimizer = "mcore_distributed_optim",
                  .overlaps_tensor = true,
                  .overlaps_data = true,
                  .overlaps_pipeline = true},
    FrameworkRule{.word = "Megatron-LM 0",
                  .stack = "megatron-lm-2025",
                  .optimizer = "megatron_distributed_optim"},
    FrameworkRule{.word = "Megatron-LM",
                  .stack = "megatron-lm",
                  .optimizer = "fused_adam",
                  .sharding = Sharding::none,
                  .sequence_parallel = false},
    FrameworkRule{.word = "MegaScale",
                  .stack = "megatron-core",
                  .optimizer = "mcore_distributed_optim",
                  .overlaps_tensor = true,
                  .overlaps_data = true,
                  .overlaps_pipeline = true},
    FrameworkRule{.word = "fms-fsdp",
                  .stack = "torchtitan",
                  .optimizer = "fsdp_fused_adam",
                  .sharding = Sharding::parameters,
                  .sequence_parallel = false},
    FrameworkRule{.word = "FSDP+TP",
                  .stack = "torchtitan",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::gradients,
                  .overlaps_tensor = true,
                  .overlaps_data = true,
                  .overlaps_pipeline = true},
    FrameworkRule{.word = "nanotron after",
                  .stack = "nanotron-2025",
                  .optimizer = "nanotron_adam",
                  .sharding = Sharding::none,
                  .sequence_parallel = false,
                  .balances_stages = true,
                  .reduces_like_ddp = true,
                  .sharded_optimizer = "nanotron_zero1"},
    FrameworkRule{.word = "nanotron",
                  .stack = "nanotron",
                  .optimizer = "nanotron_adam",
                  .sharding = Sharding::none,
                  .sequence_parallel = false,
                  .balances_stages = true,
                  .reduces_like_ddp = true,
                  .sharded_optimizer = "nanotron_zero1"},
    FrameworkRule{.word = "InternEvo",
                  .stack = "megatron-llama",
                  .optimizer = "mcore_distributed_optim",
                  .sequence_parallel = false,
                  .overlaps_data = true},
    // Whoever writes the loop himself, compiled or as it comes.
    FrameworkRule{.word = "compile",
                  .stack = "torchtitan",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::none,
                  .sequence_parallel = false},
    FrameworkRule{.word = "DeepSpeed",
                  .stack = "eager-pytorch",
                  .optimizer = "mcore_distributed_optim",
                  .sequence_parallel = false,
                  .overlaps_data = true},
    FrameworkRule{.word = "FSDP",
                  .stack = "eager-pytorch",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::parameters,
                  .sequence_parallel = false},
    FrameworkRule{.word = "PyTorch",
                  .stack = "eager-pytorch",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::none,
                  .sequence_parallel = false},
    FrameworkRule{.word = "Transformer",
                  .stack = "eager-pytorch",
                  .optimizer = "fsdp_adamw",
                  .sharding = Sharding::none,
                  .sequence_parallel = false},
    FrameworkRule{.word = "",
                  .stack = "megatron-core",
                  .optimizer = "megatron_distributed_optim",
                  .overlaps_data = true},
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

bool says(const TrainingRow& row, std::string_view words) {
  return mentions(fmt::format("{}; {}; {}; {}; {}", row.framework, row.sharding, row.recompute,
                              row.extra, row.notes),
                  words);
}

const FrameworkRule& rule_of(std::string_view framework) {
  return *std::find_if(rules.begin(), rules.end(),
                       [&](const FrameworkRule& rule) { return mentions(framework, rule.word); });
}

std::string_view stack_of(const FrameworkRule& rule, const TrainingRow& row, const spec::Job& job) {
  const spec::Gpu& gpu = job.cluster.gpu;
  const bool amd = gpu.vendor == "amd", blackwell = gpu.peak(spec::Precision::nvfp4).has_value();
  if (amd && !rule.stack_on_amd.empty()) return rule.stack_on_amd;
  const bool released = !rule.release.empty() && mentions(row.title, rule.release);
  if (!rule.stack_of_adapters.empty()) {
    if (row.workload != "lora") return rule.stack;
    return released && blackwell ? rule.stack_of_release : rule.stack_of_adapters;
  }
  if (!amd && !blackwell && !rule.stack_on_hopper.empty()) return rule.stack_on_hopper;
  const bool by_tensor = job.plan.precision == spec::Precision::fp8;
  if (by_tensor && job.model.moe && !rule.stack_of_scaled_experts.empty())
    return rule.stack_of_scaled_experts;
  if (released) return rule.stack_of_release;
  // Eight bits come from the engine.
  const bool engine = by_tensor || mentions(row.precision, "TE ");
  if (!engine && !rule.stack_without_te.empty()) return rule.stack_without_te;
  return rule.stack;
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
  return names_recipe ? mentions(row.source, "_fp4") : row.workload != "lora";
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
