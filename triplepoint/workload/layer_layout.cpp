// SPDX-License-Identifier: Apache-2.0
// Which layers a stage holds, and how many parameters of them one rank has.
//
// Layers are counted by kind, because kinds decide the work and numbers do not: equal chunks share
// it (ChunkLayers::same_work). Parameters are told apart by the group that holds copies of them,
// since that group reduces their gradients and shards their states.
#include "triplepoint/workload/layer_layout.h"

#include "triplepoint/base/result.h"

namespace triplepoint::workload {
namespace {

int64_t layers_of_part(const spec::Job& job, int64_t part, int64_t parts) {
  const auto& given = job.plan.layers_per_stage;
  if (given.empty()) {
    const int64_t even = job.model.num_layers / parts;
    const int64_t rest = job.model.num_layers % parts;
    return even + (part >= parts - rest ? 1 : 0);
  }
  if (static_cast<int64_t>(given.size()) == parts) return given[as_size(part)];
  // Given per stage, run in chunks: a stage's layers are dealt over its chunks.
  const int64_t stages = job.plan.pipeline_parallel_size, chunks = parts / stages;
  const int64_t whole = given[as_size(part % stages)];
  const int64_t chunk = part / stages;
  return whole / chunks + (chunk < whole % chunks ? 1 : 0);
}

/// Hidden units of the MLP that LoRA adapts: of a layer of experts, the shared one only.
int64_t adapted_ffn(const spec::Model& model, LayerKind kind) {
  if (spec::has_experts(kind)) return model.moe->shared_expert_ffn_hidden_size;
  return spec::has_dense_mlp(kind) ? model.ffn_hidden_size : 0;
}

/// In + out of the matrix a LoRA target names; 0 where the layer has no such matrix. Latent
/// attention has several in the place of one; they are not adapted.
double adapted_width(const spec::Model& model, std::string_view target, LayerKind kind) {
  const double hidden = real(model.hidden_size), ffn = real(adapted_ffn(model, kind));
  const double query = real(model.num_attention_heads * model.kv_channels);
  const double key_value = real(2 * model.num_query_groups * model.kv_channels);
  const double gates = model.activation == spec::Activation::swiglu ? 2 : 1;
  const bool attends = spec::has_attention(kind) && !model.latent_attention;
  if (target == "attention_qkv" && attends) return hidden + query + key_value;
  if (target == "attention_dense" && attends) return query + hidden;
  if (target == "mlp_fc1" && ffn > 0) return hidden + gates * ffn;
  if (target == "mlp_fc2" && ffn > 0) return ffn + hidden;
  return 0;
}

/// Parameters of LoRA's two matrices beside each adapted one.
double adapter_parameters(const spec::Job& job, const RankShare& share, LayerKind kind) {
  if (!job.plan.lora) return 0;
  double width = 0;
  for (const std::string& target : job.plan.lora->targets)
    width += adapted_width(job.model, target, kind);
  return real(job.plan.lora->rank) * width / real(share.tensor);
}

void mark_trained(RankParameters& parameters, const RankShare& share, double adapters) {
  parameters.trained_dense = share.frozen ? adapters : parameters.dense;
  parameters.trained_experts = share.frozen ? 0 : parameters.experts;
  parameters.dense += share.frozen ? adapters : 0;
}

LayerCounts kinds_between(const spec::Model& model, int64_t first, int64_t end) {
  LayerCounts count;
  for (int64_t layer = first; layer < end; ++layer)
    ++count[spec::kind_of_layer(model, layer)];
  return count;
}

}  // namespace

std::string_view name_of_layer(LayerKind kind) {
  static constexpr std::array<std::string_view, spec::layer_kind_count> names = {
      "layer",           "moe_layer", "window_layer", "window_moe_layer", "state_space_layer",
      "attention_layer", "mlp_layer", "experts_layer"};
  return names[as_size(kind)];
}

std::vector<std::vector<ChunkLayers>> lay_out_layers(const spec::Job& job) {
  const int64_t stages = job.plan.pipeline_parallel_size;
  const int64_t chunks = job.plan.virtual_pipeline_size, parts = stages * chunks;
  std::vector<std::vector<ChunkLayers>> layout(as_size(stages),
                                               std::vector<ChunkLayers>(as_size(chunks)));
  int64_t first = 0;
  for (int64_t part = 0; part < parts; ++part) {
    ChunkLayers& chunk = layout[as_size(part % stages)][as_size(part / stages)];
    const int64_t layers = layers_of_part(job, part, parts);
    chunk.first_layer = first;
    chunk.count = kinds_between(job.model, first, first + layers);
    chunk.has_embedding = part == 0;
    chunk.has_head = part == parts - 1;
    if (chunk.has_head && !spec::is_inference(job.task))
      chunk.predictions = job.model.prediction_depths();
    first += layers;
  }
  TPT_EXPECT(first == job.model.num_layers);
  return layout;
}

ChunkLayers whole_model(const spec::Job& job) {
  ChunkLayers all{.count = kinds_between(job.model, 0, job.model.num_layers),
                  .has_embedding = true,
                  .has_head = true};
  if (!spec::is_inference(job.task)) all.predictions = job.model.prediction_depths();
  return all;
}

LayerCounts recomputed_layers(const spec::Job& job, const ChunkLayers& chunk) {
  if (job.plan.recompute != spec::Recompute::full) return {};
  const int64_t asked = job.plan.recompute_layers.value_or(chunk.layers());
  if (asked >= chunk.layers()) return chunk.count;
  return kinds_between(job.model, chunk.first_layer, chunk.first_layer + asked);
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

RankParameters layer_parameters(const spec::Job& job, const RankShare& share, LayerKind kind) {
  const spec::LayerParameters whole = spec::count_layer_parameters(job.model, kind);
  RankParameters parameters;
  parameters.unsplit = whole.norms + whole.router + whole.latent;
  parameters.dense =
      (whole.attention + whole.mlp + whole.shared_expert + whole.state_space) / real(share.tensor) +
      parameters.unsplit;
  parameters.experts = whole.experts / real(share.expert * share.expert_tensor);
  mark_trained(parameters, share, adapter_parameters(job, share, kind));
  return parameters;
}

RankParameters layer_parameters(const spec::Job& job, const RankShare& share, int64_t layer) {
  return layer_parameters(job, share, spec::kind_of_layer(job.model, layer));
}

RankParameters prediction_parameters(const spec::Job& job, const RankShare& share) {
  const spec::PredictionParameters joined = spec::count_prediction_parameters(job.model);
  RankParameters parameters;
  parameters.unsplit = joined.norms;
  parameters.dense = joined.projection / real(share.tensor) + joined.norms;
  mark_trained(parameters, share, 0);
  for (const LayerKind kind : spec::kinds_of_prediction(job.model))
    parameters += layer_parameters(job, share, kind);
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
  // Tied weights on one stage are the embedding's; on their own stage they are a copy.
  const bool shares_storage = job.model.tied_embeddings && job.plan.pipeline_parallel_size == 1;
  const double matrix = shares_storage ? 0 : real(share.vocabulary * share.hidden);
  parameters.dense = matrix + parameters.unsplit;
  mark_trained(parameters, share, 0);
  return parameters;
}

RankParameters chunk_parameters(const spec::Job& job, const RankShare& share,
                                const ChunkLayers& chunk) {
  RankParameters parameters;
  for (const LayerKind kind : all_layer_kinds)
    if (chunk.count[kind] > 0)
      parameters += real(chunk.count[kind]) * layer_parameters(job, share, kind);
  if (chunk.predictions > 0) {
    parameters += real(chunk.predictions) * prediction_parameters(job, share);
    // They look tokens up as the first stage does: their own stage holds a copy.
    if (!chunk.has_embedding) parameters += embedding_parameters(job, share);
  }
  if (chunk.has_embedding) parameters += embedding_parameters(job, share);
  if (chunk.has_head) parameters += head_parameters(job, share);
  return parameters;
}

}  // namespace triplepoint::workload
