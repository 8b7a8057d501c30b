// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Layouts in which every pair of features occurs.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::trainer::test {

/// One value per feature, as an index.
inline constexpr size_t feature_count = 10;
using Choice = std::array<int, feature_count>;

/// The job of a choice: what it trains is decided by the features `model` and `tied`.
spec::Job job_of(const Choice&);
/// "gpt tp2 sp pp4-1f1b dp2 zero3 ..."
std::string describe(const Choice&);
/// The same training on one rank.
spec::Job alone(const Choice&);
/// Choices that train the same have the same key.
int training_of(const Choice&);

/// A covering array, found greedily with a fixed seed: every pair of values that a valid job of at
/// most `largest` ranks can have occurs in one of them. Small jobs are preferred: ranks are threads
/// that share the cores.
std::vector<Choice> pairwise_layouts(int64_t largest);

/// `count` further layouts of exactly this size.
std::vector<Choice> layouts_of_size(int64_t ranks, size_t count);

/// Tiny jobs for the tests of the trainer, built in code so that no file is needed.

inline spec::Model tiny_gpt() {
  spec::Model model;
  model.name = "tiny-gpt";
  model.num_layers = 4;
  model.hidden_size = 32;
  model.ffn_hidden_size = 64;
  model.num_attention_heads = 4;
  model.num_query_groups = 4;
  model.kv_channels = 8;
  model.sequence_length = 16;
  model.vocabulary_size = 60;
  model.vocabulary_divisible_by = 16;
  model.biases = true;
  return model;
}

inline spec::Model tiny_llama() {
  spec::Model model = tiny_gpt();
  model.name = "tiny-llama";
  model.num_attention_heads = 8;
  model.kv_channels = 4;
  model.activation = spec::Activation::swiglu;
  model.normalization = spec::Normalization::rms_norm;
  model.position_embedding = spec::PositionEmbedding::rope;
  model.biases = false;
  return model;
}

/// Numbers in fp32, states as the trainer holds them, memory without a reserve.
inline spec::Job tiny_job(spec::Model model, int64_t ranks) {
  spec::Job job;
  job.name = model.name;
  job.model = std::move(model);
  job.cluster.num_nodes = ranks > 4 ? ranks / 4 : 1;
  job.cluster.gpus_per_node = ranks > 4 ? 4 : ranks;
  spec::Slot slot;
  slot.upstream_heating.assign(as_size(job.cluster.gpus_per_node), 0);
  job.cluster.chassis.slots.assign(slot.upstream_heating.size(), slot);
  job.stack.memory_fragmentation = 1;
  // As data/stacks/triplepoint-train.toml has it.
  job.stack.gradients_in_place = true;
  job.plan.precision = spec::Precision::fp32;
  job.plan.global_batch_size = 16;
  job.plan.optimizer = {.name = "fp32_adamw",
                        .weight_bytes = 4,
                        .gradient_bytes = 4,
                        .moment_bytes = 8,
                        .master_bytes = 0,
                        .gradient_sync_bytes = 4};
  return job;
}

}  // namespace triplepoint::trainer::test
