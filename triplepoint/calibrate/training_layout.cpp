// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_layout.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/rank_share.h"

namespace triplepoint::calibrate {
namespace {

using spec::Plan;
using spec::Recompute;

template <class T>
void override_with(T& value, const std::optional<int64_t>& given) {
  if (given && *given > 0) value = *given;
}

/// A stage without a layer gets one of the nearest earlier stage that has two. The first keeps what
/// it has; rather than that the last is left with the head alone.
void fill_empty_stages(std::vector<int64_t>& layers) {
  const size_t last = layers.size() - 1;
  for (size_t i = last; i-- > 1;) {
    if (layers[i] > 0) continue;
    size_t giver = i;
    while (giver > 0 && layers[giver] < 2)
      --giver;
    if (giver == 0 && layers[last] > 0) giver = last;
    if (layers[giver] == 0 || (giver == 0 && layers[0] < 2)) return;
    --layers[giver], ++layers[i];
  }
}

/// Layers of a GPT with so many parameters.
std::optional<int64_t> layers_of(const TrainingRow& row, int64_t vocabulary) {
  if (row.layers) return row.layers;
  if (!row.parameters_b || !(*row.parameters_b > 0)) return std::nullopt;
  const auto h = static_cast<double>(*row.hidden);
  const double body = *row.parameters_b * 1e9 - static_cast<double>(vocabulary) * h;
  const double layers = std::round(body / (12 * h * h + 13 * h));
  if (!(layers >= 1 && layers <= 4096)) return std::nullopt;
  return static_cast<int64_t>(layers);
}

/// Heads as near to 128 dimensions as can be dealt out to this many ranks.
int64_t heads_of(int64_t hidden, int64_t ranks) {
  constexpr int64_t usual = 128, least = 32, most = 256;
  int64_t best = 1, distance = most;
  for (int64_t size = least; size <= most; ++size) {
    const bool divides = hidden % size == 0 && hidden / size % std::max<int64_t>(1, ranks) == 0;
    if (!divides || std::abs(size - usual) >= distance) continue;
    best = hidden / size;
    distance = std::abs(size - usual);
  }
  return best;
}

bool fits(spec::Job job, Recompute recompute) {
  job.plan.recompute = recompute;
  return workload::estimate_memory(job).fits();
}

/// Ranks of one replica, as batch and accumulation leave them.
std::optional<int64_t> ranks_left(const spec::Job& job, const TrainingRow& row) {
  const auto accumulation = number_after(row.extra, "grad_accum=");
  if (!row.global_batch || !accumulation || *accumulation < 1) return std::nullopt;
  const int64_t at_once = *accumulation * std::max<int64_t>(1, row.micro_batch.value_or(1));
  const int64_t replicas = *row.global_batch / at_once, world = job.world_size();
  if (replicas < 1 || world % replicas != 0) return std::nullopt;
  return world / replicas;
}

/// The largest part of a node that divides this many ranks.
int64_t part_of_node(int64_t ranks, int64_t node) {
  int64_t part = std::min(ranks, node);
  while (ranks % part != 0)
    --part;
  return part;
}

/// Splits one replica over these ranks; false where it cannot be.
bool split(spec::Job& job, int64_t ranks, int64_t stages) {
  const int64_t tensor = part_of_node(ranks / stages, job.cluster.gpus_per_node);
  if (stages > job.model.num_layers) return false;
  job.plan.tensor_parallel_size = tensor;
  job.plan.pipeline_parallel_size = stages;
  job.plan.context_parallel_size = ranks / stages / tensor;
  lay_out_chunks(job, std::nullopt);
  return true;
}

/// Context first, stages as far as memory demands; false where nothing fits.
bool split_over(spec::Job& job, int64_t ranks) {
  const int64_t rest = ranks / part_of_node(ranks, job.cluster.gpus_per_node);
  for (int64_t stages = 1; stages <= rest; stages *= 2) {
    if (rest % stages != 0 || !split(job, ranks, stages)) break;
    if (fits(job, Recompute::selective)) return true;
  }
  split(job, ranks, 1);
  return false;
}

/// The smallest split that fits: tensors within a node, then stages.
bool split_smallest(spec::Job& job, const TrainingRow& row, Recompute recompute) {
  const int64_t world = job.world_size(), node = job.cluster.gpus_per_node;
  const int64_t batch = row.global_batch.value_or(world);
  for (int64_t ranks = 1; ranks <= world && world % ranks == 0; ranks *= 2) {
    if (world / ranks > batch && 2 * ranks <= world) continue;
    const int64_t stages = ranks / part_of_node(ranks, node);
    if (!split(job, ranks, stages)) break;
    if (fits(job, recompute)) return true;
  }
  return false;
}

/// Do layers divide by the parts once embedding, head and further ends count? The first and the
/// last part may then hold an end alone; one that predicts further tokens holds a layer, too.
bool divides_with_ends(const spec::Model& model, int64_t parts) {
  const int64_t ends = model.moe ? 3 : 2, alone = model.prediction_depths() > 0 ? 0 : 2;
  for (int64_t more = 1; more <= ends; ++more)
    if ((model.num_layers + more) % parts == 0)
      return (more <= alone ? 1 : 2) * parts <= model.num_layers + more;
  return false;
}

}  // namespace

std::optional<spec::Model> gpt_of_shape(const TrainingRow& row) {
  spec::Model model;
  model.vocabulary_size = row.vocabulary.value_or(51200);
  if (!row.hidden || *row.hidden < 1) return std::nullopt;
  const auto layers = layers_of(row, model.vocabulary_size);
  if (!layers) return std::nullopt;
  model.name = row.model;
  model.num_layers = *layers;
  model.hidden_size = *row.hidden;
  model.ffn_hidden_size = row.ffn.value_or(4 * *row.hidden);
  const int64_t heads = row.heads.value_or(heads_of(*row.hidden, row.tensor.value_or(1)));
  model.num_attention_heads = std::max<int64_t>(1, heads);
  model.num_query_groups = model.num_attention_heads;
  model.kv_channels = *row.hidden / model.num_attention_heads;
  model.sequence_length = 2048;
  model.biases = true;
  return model;
}

void reshape(spec::Model& model, const TrainingRow& row) {
  override_with(model.num_layers, row.layers);
  const bool other_width = row.hidden && *row.hidden != model.hidden_size;
  const bool other_heads = row.heads && *row.heads > 0 && *row.heads != model.num_attention_heads;
  if (other_width) {
    model.hidden_size = *row.hidden;
    model.ffn_hidden_size = 4 * *row.hidden;
  }
  if (!model.latent_attention && (other_width || other_heads)) {
    const bool each_its_own = model.num_query_groups == model.num_attention_heads;
    override_with(model.num_attention_heads, row.heads);
    if (each_its_own) model.num_query_groups = model.num_attention_heads;
    model.kv_channels = std::max<int64_t>(1, model.hidden_size / model.num_attention_heads);
  }
  override_with(model.ffn_hidden_size, row.ffn);
  override_with(model.vocabulary_size, row.vocabulary);
  const auto layers = static_cast<size_t>(model.num_layers);
  if (model.layer_pattern && layers < model.layer_pattern->size())
    model.layer_pattern->resize(layers);
  // A model cut to a few layers keeps one of its leading dense layers.
  if (row.layers && model.moe && *row.layers < 2 * model.moe->num_dense_layers + 2)
    model.moe->num_dense_layers = std::min<int64_t>(1, model.moe->num_dense_layers);
}

std::vector<std::string> lay_out_chunks(spec::Job& job, std::optional<int64_t> wanted) {
  Plan& plan = job.plan;
  std::vector<std::string> assumed;
  const int64_t layers = job.model.num_layers, stages = plan.pipeline_parallel_size;
  int64_t chunks = stages > 1 ? std::max<int64_t>(1, wanted.value_or(1)) : 1;
  while (chunks > 1 && layers % (stages * chunks) != 0 &&
         !divides_with_ends(job.model, stages * chunks))
    --chunks;
  plan.virtual_pipeline_size = chunks;
  plan.schedule = chunks > 1 ? spec::Schedule::interleaved : spec::Schedule::one_f_one_b;
  plan.layers_per_stage.clear();
  if (wanted && chunks < *wanted && stages > 1)
    assumed.push_back(fmt::format("{} chunks a stage", chunks));
  if (layers % (stages * chunks) == 0) return assumed;
  const int64_t parts = stages * chunks, each = (layers + parts - 1) / parts;
  plan.layers_per_stage.assign(static_cast<size_t>(parts), each);
  // What is too much is taken from the last part, the first, then those beside them. A last part
  // that predicts further tokens gives all it has but one, as Megatron-Bridge's layouts do.
  int64_t spare = each * parts - layers;
  const bool predicts = job.model.prediction_depths() > 0;
  const int64_t given = predicts ? std::min(spare, each - 1) : 0;
  plan.layers_per_stage.back() -= given;
  spare -= given;
  for (size_t i = predicts ? 1 : 0; spare > 0; ++i, --spare) {
    const size_t at = i / 2 % static_cast<size_t>(parts);
    --plan.layers_per_stage[i % 2 == 0 ? static_cast<size_t>(parts) - 1 - at : at];
  }
  assumed.emplace_back("embedding and head count as layers");
  return assumed;
}

void balance_stages(spec::Job& job) {
  const spec::Model& model = job.model;
  const int64_t stages = job.plan.pipeline_parallel_size;
  const double head = workload::real(model.hidden_size) * workload::real(model.vocabulary_size);
  const auto cost = [&](int64_t layer) {
    const spec::LayerParameters parameters = spec::count_layer_parameters(model, layer);
    return parameters.attention + parameters.mlp;
  };
  double total = head;
  for (int64_t layer = 0; layer < model.num_layers; ++layer)
    total += cost(layer);
  std::vector<int64_t> counts(static_cast<size_t>(stages), 0);
  double sum = 0;
  size_t stage = 0;
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    ++counts[stage];
    sum += cost(layer);
    const double share = total * static_cast<double>(stage + 1) / static_cast<double>(stages);
    if (stage + 1 < counts.size() && sum >= share) ++stage;
  }
  fill_empty_stages(counts);
  job.plan.layers_per_stage = std::move(counts);
}

std::string guess_model_parallel(spec::Job& job, const TrainingRow& row,
                                 const FrameworkRule& rule) {
  Plan& plan = job.plan;
  plan.sharding = rule.sharding;
  plan.sequence_parallel = true;
  plan.global_batch_size = job.world_size();
  const auto ranks = ranks_left(job, row);
  if (ranks && *ranks > 1 && split_over(job, *ranks)) {
    // As batch and accumulation say.
  } else if (!split_smallest(job, row, Recompute::selective) &&
             !split_smallest(job, row, Recompute::full)) {
    split(job, part_of_node(job.world_size(), job.cluster.gpus_per_node), 1);
  }
  const int64_t context = plan.context_parallel_size;
  return fmt::format("TP {} x PP {}{}", plan.tensor_parallel_size, plan.pipeline_parallel_size,
                     context > 1 ? fmt::format(" x CP {}", context) : "");
}

std::string guess_expert_parallel(spec::Job& job) {
  if (!job.model.moe) return {};
  Plan& plan = job.plan;
  const int64_t experts = job.model.moe->num_experts;
  const int64_t room = job.world_size() / plan.pipeline_parallel_size;
  int64_t last = 1;
  for (int64_t ranks = 1; ranks <= room; ranks *= 2) {
    if (experts % ranks != 0 || room % ranks != 0) continue;
    plan.expert_parallel_size = last = ranks;
    if (fits(job, Recompute::selective)) break;
  }
  plan.expert_parallel_size = last;
  return fmt::format("EP {}", last);
}

}  // namespace triplepoint::calibrate
