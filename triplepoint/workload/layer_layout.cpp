// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/layer_layout.h"

#include <algorithm>
#include <string_view>

#include "triplepoint/base/expect.h"

namespace triplepoint::workload {
namespace {

int64_t layers_of_part(const spec::Job& job, int64_t part, int64_t parts) {
  const auto& given = job.plan.layers_per_stage;
  if (given.empty()) {
    const int64_t even = job.model.num_layers / parts;
    const int64_t rest = job.model.num_layers % parts;
    return even + (part >= parts - rest ? 1 : 0);
  }
  if (static_cast<int64_t>(given.size()) == parts) return given[static_cast<size_t>(part)];
  // Given per stage, played in chunks: a stage's layers are dealt over its chunks.
  const int64_t stages = job.plan.pipeline_parallel_size, chunks = parts / stages;
  const int64_t whole = given[static_cast<size_t>(part % stages)];
  const int64_t chunk = part / stages;
  return whole / chunks + (chunk < whole % chunks ? 1 : 0);
}

/// Hidden units of the MLP that LoRA adapts: of a layer of experts, the shared one only.
int64_t adapted_ffn(const spec::Model& model, bool moe_layer) {
  return moe_layer ? model.moe->shared_expert_ffn_hidden_size : model.ffn_hidden_size;
}

/// In + out of the matrix a LoRA target names; 0 where the layer has no such matrix. Latent
/// attention has several in the place of one; they are not adapted.
double adapted_width(const spec::Model& model, std::string_view target, bool moe_layer) {
  const double hidden = real(model.hidden_size), ffn = real(adapted_ffn(model, moe_layer));
  const double query = real(model.num_attention_heads * model.kv_channels);
  const double key_value = real(2 * model.num_query_groups * model.kv_channels);
  const double gates = model.activation == spec::Activation::swiglu ? 2 : 1;
  if (target == "attention_qkv" && !model.latent_attention) return hidden + query + key_value;
  if (target == "attention_dense" && !model.latent_attention) return query + hidden;
  if (target == "mlp_fc1" && ffn > 0) return hidden + gates * ffn;
  if (target == "mlp_fc2" && ffn > 0) return ffn + hidden;
  return 0;
}

/// Parameters of LoRA's two matrices beside each adapted one.
double adapter_parameters(const spec::Job& job, const RankShare& share, bool moe_layer) {
  if (!job.plan.lora) return 0;
  double width = 0;
  for (const std::string& target : job.plan.lora->targets)
    width += adapted_width(job.model, target, moe_layer);
  return real(job.plan.lora->rank) * width / real(share.tensor);
}

void mark_trained(RankParameters& parameters, const RankShare& share, double adapters) {
  parameters.trained_dense = share.frozen ? adapters : parameters.dense;
  parameters.trained_experts = share.frozen ? 0 : parameters.experts;
  parameters.dense += share.frozen ? adapters : 0;
}

}  // namespace

std::vector<std::vector<ChunkLayers>> lay_out_layers(const spec::Job& job) {
  const int64_t stages = job.plan.pipeline_parallel_size;
  const int64_t chunks = job.plan.virtual_pipeline_size, parts = stages * chunks;
  std::vector<std::vector<ChunkLayers>> layout(
      static_cast<size_t>(stages), std::vector<ChunkLayers>(static_cast<size_t>(chunks)));
  int64_t first = 0;
  for (int64_t part = 0; part < parts; ++part) {
    ChunkLayers& chunk =
        layout[static_cast<size_t>(part % stages)][static_cast<size_t>(part / stages)];
    const int64_t layers = layers_of_part(job, part, parts);
    const int64_t dense_until = job.model.moe ? job.model.moe->num_dense_layers : first + layers;
    chunk.first_layer = first;
    chunk.dense = std::clamp<int64_t>(dense_until - first, 0, layers);
    chunk.moe = layers - chunk.dense;
    chunk.has_embedding = part == 0;
    chunk.has_head = part == parts - 1;
    first += layers;
  }
  TPT_EXPECT(first == job.model.num_layers);
  return layout;
}

RecomputedLayers recomputed_layers(const spec::Plan& plan, const ChunkLayers& chunk) {
  if (plan.recompute != spec::Recompute::full) return {};
  const int64_t asked = std::min(plan.recompute_layers.value_or(chunk.layers()), chunk.layers());
  const int64_t dense = std::min(asked, chunk.dense);
  return {dense, asked - dense};
}

RankParameters& RankParameters::operator+=(const RankParameters& other) {
  dense += other.dense;
  experts += other.experts;
  unsplit += other.unsplit;
  trained_dense += other.trained_dense;
  trained_experts += other.trained_experts;
  return *this;
}

RankParameters operator*(double count, RankParameters one) {
  one.dense *= count;
  one.experts *= count;
  one.unsplit *= count;
  one.trained_dense *= count;
  one.trained_experts *= count;
  return one;
}

RankParameters layer_parameters(const spec::Job& job, const RankShare& share, bool moe_layer) {
  const int64_t layer = moe_layer && job.model.moe ? job.model.moe->num_dense_layers : 0;
  const spec::LayerParameters whole = spec::count_layer_parameters(job.model, layer);
  RankParameters parameters;
  parameters.unsplit = whole.norms + whole.router;
  parameters.dense =
      (whole.attention + whole.mlp + whole.shared_expert) / real(share.tensor) + parameters.unsplit;
  parameters.experts = whole.experts / real(share.expert * share.expert_tensor);
  mark_trained(parameters, share, adapter_parameters(job, share, moe_layer));
  return parameters;
}

RankParameters embedding_parameters(const spec::Job& job, const RankShare& share) {
  RankParameters parameters;
  if (job.model.position_embedding == spec::PositionEmbedding::learned)
    parameters.unsplit = real(job.model.sequence_length * share.hidden);
  parameters.dense = real(share.vocabulary * share.hidden) + parameters.unsplit;
  mark_trained(parameters, share, 0);
  return parameters;
}

RankParameters head_parameters(const spec::Job& job, const RankShare& share) {
  RankParameters parameters;
  const bool layer_norm = job.model.normalization == spec::Normalization::layer_norm;
  parameters.unsplit = real(share.hidden) * (layer_norm ? 2 : 1);
  // Tied weights on one stage are the embedding's; on a stage of their own they are a copy.
  const bool shares_storage = job.model.tied_embeddings && job.plan.pipeline_parallel_size == 1;
  const double matrix = shares_storage ? 0 : real(share.vocabulary * share.hidden);
  parameters.dense = matrix + parameters.unsplit;
  mark_trained(parameters, share, 0);
  return parameters;
}

RankParameters chunk_parameters(const spec::Job& job, const RankShare& share,
                                const ChunkLayers& chunk) {
  RankParameters parameters;
  if (chunk.dense > 0) parameters += real(chunk.dense) * layer_parameters(job, share, false);
  if (chunk.moe > 0) parameters += real(chunk.moe) * layer_parameters(job, share, true);
  if (chunk.has_embedding) parameters += embedding_parameters(job, share);
  if (chunk.has_head) parameters += head_parameters(job, share);
  return parameters;
}

}  // namespace triplepoint::workload
