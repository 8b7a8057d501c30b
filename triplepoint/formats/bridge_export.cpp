// SPDX-License-Identifier: Apache-2.0
// Megatron-Bridge's configuration: the arguments of Megatron-LM under their sections.
#include <algorithm>
#include <array>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/export.h"
#include "triplepoint/formats/yaml_writer.h"

namespace triplepoint::formats {
namespace {

struct Section {
  std::string_view name, arguments;
};
constexpr std::array sections{
    Section{"train", " micro-batch-size global-batch-size train-iters "},
    Section{"optimizer",
            " optimizer lr min-lr use-precision-aware-optimizer main-grads-dtype main-params-dtype "
            "exp-avg-dtype exp-avg-sq-dtype "},
    Section{"ddp",
            " use-distributed-optimizer overlap-grad-reduce overlap-param-gather ddp-bucket-size "
            "accumulate-allreduce-grads-in-fp32 grad-reduce-in-bf16 use-megatron-fsdp "
            "data-parallel-sharding-strategy num-distributed-optimizer-instances "},
    Section{"comm_overlap", " tp-comm-overlap "}};

// Written in other words below, or of pretrain_gpt.py alone.
constexpr std::string_view left_out =
    " bf16 fp16 swiglu disable-bias-linear untie-embeddings-and-output-weights "
    "group-query-attention num-query-groups tokenizer-type vocab-size max-position-embeddings "
    "split mock-data wandb-exp-name eval-iters log-interval log-throughput ";

bool has_word(std::string_view words, std::string_view word) {
  return contains(words, fmt::format(" {} ", word));
}

std::string key_of(std::string_view argument) {
  std::string key(argument == "num-experts" ? "num_moe_experts"
                  : argument == "num-virtual-stages-per-pipeline-rank"
                      ? "virtual_pipeline_model_parallel_size"
                  : argument == "fp8-format"      ? "fp8"
                  : argument == "ddp-bucket-size" ? "bucket_size"
                                                  : argument);
  std::ranges::replace(key, '-', '_');
  const auto section = std::ranges::find_if(
      sections, [&](const Section& each) { return has_word(each.arguments, argument); });
  return fmt::format("{}.{}", section == sections.end() ? "model" : section->name, key);
}

void write_value(YamlWriter& yaml, const std::string& key, const std::vector<std::string>& words) {
  if (words.empty()) return yaml.boolean(key, true);
  if (words.size() > 1) return yaml.list(key, words);
  if (const auto count = whole_number(words.front())) return yaml.count(key, *count);
  yaml.text(key, words.front());
}

void write_model_words(YamlWriter& yaml, const spec::Model& model) {
  yaml.text("model._target_", "megatron.bridge.models.gpt_provider.GPTModelProvider");
  yaml.count("model.vocab_size", model.vocabulary_size);
  yaml.count("model.num_query_groups", model.num_query_groups);
  yaml.boolean("model.gated_linear_unit", model.activation == spec::Activation::swiglu);
  yaml.boolean("model.add_bias_linear", model.biases);
  yaml.boolean("model.share_embeddings_and_output_weights", model.tied_embeddings);
}

}  // namespace

Exported export_bridge_yaml(const spec::Job& job) {
  Exported result;
  YamlWriter yaml;
  write_model_words(yaml, job.model);
  for (const auto& [name, words] : megatron_arguments(job, result.unsupported_settings))
    if (!has_word(left_out, name)) write_value(yaml, key_of(name), words);
  const spec::Precision precision = job.plan.precision;
  if (precision != spec::Precision::fp32)
    yaml.text("mixed_precision", precision == spec::Precision::fp16 ? "16-mixed" : "bf16_mixed");
  result.text =
      fmt::format("# For {} x {} GPUs, in Megatron-Bridge.\n{}{}", job.cluster.num_nodes,
                  job.cluster.gpus_per_node, comments_of(result.unsupported_settings), yaml.str());
  return result;
}

}  // namespace triplepoint::formats
