// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/calibrate/machine_names.h"
#include "triplepoint/calibrate/model_names.h"
#include "triplepoint/calibrate/training_row.h"
#include "triplepoint/calibrate/training_rules.h"
#include "triplepoint/workload/layer_layout.h"
#include "triplepoint/workload/memory.h"
#include "triplepoint/workload/rank_share.h"

namespace triplepoint::calibrate {
namespace {

using spec::Plan;
using spec::Precision;
using spec::Recompute;
using spec::Sharding;

/// A stage without a layer gets one of the nearest earlier stage that has two.
void fill_empty_stages(std::vector<int64_t>& layers) {
  for (size_t i = layers.size(); i-- > 0;) {
    if (layers[i] > 0) continue;
    size_t giver = i;
    while (giver > 0 && layers[giver] < 2)
      --giver;
    if (layers[giver] < 2) return;
    --layers[giver], ++layers[i];
  }
}

/// Fills a job from a row, step by step, and notes what the row did not say.
class Resolver {
 public:
  Resolver(const TrainingRow& row, const spec::Library& library)
      : row_(row), library_(library), rule_(rule_of(row.framework)) {}

  Result<ResolvedRow> resolve() {
    TPT_TRY(check_sizes());
    TPT_TRY(take_model());
    TPT_TRY(take_cluster());
    TPT_TRY(take_stack());
    take_task();
    TPT_TRY(take_sizes());
    TPT_TRY(take_batch());
    take_sharding();
    TPT_TRY(take_sharded_optimizer());
    take_overlap();
    TPT_TRY(check());
    take_recompute();
    return std::move(out_);
  }

 private:
  using Step = Result<bool>;

  Plan& plan() { return out_.job.plan; }
  void assume(std::string what) { out_.assumptions.push_back(std::move(what)); }
  tl::unexpected<Error> cannot(std::string why) const {
    return error(fmt::format("row {} cannot be predicted ({})", row_.row_id, why));
  }

  Step check_sizes() const;
  Step take_model();
  Step take_cluster();
  Step take_stack();
  void take_task();
  void take_room();
  Step take_sizes();
  void guess_model_parallel();
  void drop_misprinted_pipeline();
  void lay_out_chunks();
  void balance_stages();
  void spread_over_context();
  Step take_batch();
  void take_sharding();
  Step take_sharded_optimizer();
  void take_overlap();
  void cut_gradients();
  Step check();
  void take_recompute();

  bool says_layout() const { return row_.tensor || row_.pipeline || row_.context || row_.data; }
  bool fits(Recompute recompute);
  bool fits_with_block();
  bool shards_unsaid() const;
  std::optional<int64_t> printed_recompute() const;

  const TrainingRow& row_;
  const spec::Library& library_;
  const FrameworkRule& rule_;
  ResolvedRow out_;
};

template <class T>
void override_with(T& value, const std::optional<int64_t>& given) {
  if (given) value = *given;
}

/// A GPT of the shape that the row prints, where its model has no name we know.
spec::Model gpt_of(const TrainingRow& row) {
  spec::Model model;
  model.name = row.model;
  model.ffn_hidden_size = 4 * *row.hidden;
  model.num_query_groups = model.num_attention_heads = *row.heads;
  model.kv_channels = *row.hidden / std::max<int64_t>(1, *row.heads);
  model.hidden_size = *row.hidden;
  model.vocabulary_size = 51200;
  model.sequence_length = 2048;
  model.biases = true;
  return model;
}

/// Sizes whose products fit a number and a machine's memory; nothing that was ever trained is near.
Resolver::Step Resolver::check_sizes() const {
  struct Size {
    std::string_view name;
    const std::optional<int64_t>& value;
    int64_t most;
  };
  constexpr int64_t ranks = int64_t{1} << 20, split = 4096, width = 100'000'000;
  for (const Size& size :
       {Size{"n_gpus", row_.gpus, ranks}, Size{"dp", row_.data, ranks},
        Size{"tp", row_.tensor, split}, Size{"pp", row_.pipeline, split},
        Size{"vp", row_.virtual_pipeline, split}, Size{"cp", row_.context, split},
        Size{"ep", row_.expert, split}, Size{"layers", row_.layers, 10 * split},
        Size{"hidden", row_.hidden, width}, Size{"ffn", row_.ffn, width},
        Size{"heads", row_.heads, width}, Size{"vocab", row_.vocabulary, width},
        Size{"seq", row_.sequence, width}, Size{"mbs", row_.micro_batch, ranks},
        Size{"gbs", row_.global_batch, width}})
    if (size.value && (*size.value < 0 || *size.value > size.most))
      return cannot(fmt::format("{} is {}, more than {}", size.name, *size.value, size.most));
  return true;
}

Resolver::Step Resolver::take_model() {
  spec::Model& model = out_.job.model;
  const auto name = model_named(row_.model);
  if (name) {
    model = TPT_TRY(spec::load_model(library_, *name));
  } else if (row_.layers && row_.hidden && row_.heads) {
    model = gpt_of(row_);
    assume("a GPT of the shape printed");
  } else {
    return tl::unexpected(name.error());
  }
  override_with(model.num_layers, row_.layers);
  if (row_.hidden && *row_.hidden != model.hidden_size) {
    model.hidden_size = *row_.hidden;
    model.ffn_hidden_size = 4 * *row_.hidden;
  }
  override_with(model.ffn_hidden_size, row_.ffn);
  override_with(model.vocabulary_size, row_.vocabulary);
  const auto noted = number_after(row_.notes, "seq ");
  model.sequence_length = row_.sequence.value_or(noted.value_or(model.sequence_length));
  if (!row_.sequence) assume(fmt::format("sequences of {}", model.sequence_length));
  // A model cut to a few layers keeps one of its leading dense layers.
  if (row_.layers && model.moe && *row_.layers < 2 * model.moe->num_dense_layers + 2)
    model.moe->num_dense_layers = std::min<int64_t>(1, model.moe->num_dense_layers);
  return true;
}

Resolver::Step Resolver::take_cluster() {
  if (!row_.gpus) return cannot("it does not say how many GPUs");
  MachineChoice machine = TPT_TRY(machine_of(library_, row_.gpu, row_.gpu_note, *row_.gpus));
  out_.job.cluster = std::move(machine.cluster);
  take_room();
  return true;
}

/// Cooling and power limit, as the row's note on the machine says them.
void Resolver::take_room() {
  spec::Job& job = out_.job;
  const std::string& note = row_.gpu_note;
  const bool liquid = mentions(note, "liquid") || mentions(note, "water") ||
                      mentions(note, "DLC") || mentions(note, "immersion");
  if (liquid && job.cluster.liquid_chassis) job.environment.cooling = spec::Cooling::liquid;
  if (const auto watts = number_before(note, "W"); watts && *watts >= 200 && *watts <= 2000)
    job.environment.power_limit = *watts * unit::W;
}

Resolver::Step Resolver::take_stack() {
  const bool on_amd = out_.job.cluster.gpu.vendor == "amd" && !rule_.stack_on_amd.empty();
  out_.job.stack =
      TPT_TRY(spec::load_stack(library_, on_amd ? rule_.stack_on_amd : rule_.stack));
  const bool pure = mentions(row_.extra, "mp_mode=PURE");
  plan().optimizer = TPT_TRY(
      spec::load_optimizer(library_, pure ? std::string_view("fsdp_fused_adam") : rule_.optimizer));
  plan().precision = precision_of(row_);
  if (was_trained_in_4_bits(row_) && out_.job.cluster.gpu.peak(Precision::nvfp4))
    plan().precision = Precision::nvfp4;
  if (!out_.job.cluster.gpu.peak(plan().precision)) plan().precision = spec::Precision::bf16;
  if (row_.precision.empty()) assume(fmt::format("precision {}", spec::name_of(plan().precision)));
  return true;
}

/// Fine-tuning of NeMo and MaxText packs short question-and-answer documents; MLPerf's documents
/// fill their sequences.
void Resolver::take_task() {
  constexpr int64_t squad_document = 256;
  const bool lora = row_.workload == "lora";
  if (lora) {
    out_.job.task = spec::Task::lora;
    plan().lora = spec::Lora{.rank = 16, .targets = {"attention_qkv", "attention_dense"}};
  }
  const bool tuned = lora || row_.workload == "sft";
  if (!tuned || mentions(row_.framework, "MLPerf")) return;
  plan().packed_length = squad_document;
  assume("packed documents of 256 tokens");
}

Resolver::Step Resolver::take_sizes() {
  plan().tensor_parallel_size = row_.tensor.value_or(1);
  plan().pipeline_parallel_size = row_.pipeline.value_or(1);
  plan().context_parallel_size = row_.context.value_or(1);
  plan().expert_parallel_size = row_.expert.value_or(1);
  if (out_.job.model.moe) plan().expert_tensor_parallel_size = 1;
  if (!says_layout() && rule_.sharding != Sharding::parameters) guess_model_parallel();
  drop_misprinted_pipeline();
  const int64_t world = out_.job.world_size();
  if (plan().model_parallel_size() < 1 || world % plan().model_parallel_size() != 0)
    return cannot(fmt::format("{} GPUs cannot be split by TP {} x PP {} x CP {}", world,
                              plan().tensor_parallel_size, plan().pipeline_parallel_size,
                              plan().context_parallel_size));
  lay_out_chunks();
  return true;
}

/// A stage count that cannot be (41 stages on 8 GPUs) is a misprint of a table that has several
/// columns of numbers; without stages the rest of the row holds.
void Resolver::drop_misprinted_pipeline() {
  const int64_t stages = plan().pipeline_parallel_size;
  if (out_.job.world_size() % plan().model_parallel_size() == 0 || stages == 1) return;
  if (stages <= out_.job.model.num_layers && out_.job.world_size() >= stages) return;
  plan().pipeline_parallel_size = 1;
  assume(fmt::format("one stage ({} cannot be)", stages));
}

/// Chunks of stages: as many as the row says, if the layers can be dealt out so. Megatron counts
/// embedding and head as a layer each where layers do not divide by the chunks.
void Resolver::lay_out_chunks() {
  const int64_t layers = out_.job.model.num_layers, stages = plan().pipeline_parallel_size;
  int64_t chunks = stages > 1 ? std::max<int64_t>(1, row_.virtual_pipeline.value_or(1)) : 1;
  const auto divides = [&](int64_t total) { return total % (stages * chunks) == 0; };
  const auto divides_with_ends = [&] {
    return 2 * stages * chunks <= layers && (divides(layers + 1) || divides(layers + 2));
  };
  while (chunks > 1 && !divides(layers) && !divides_with_ends())
    --chunks;
  plan().virtual_pipeline_size = chunks;
  if (chunks > 1) plan().schedule = spec::Schedule::interleaved;
  if (row_.virtual_pipeline && chunks < *row_.virtual_pipeline && stages > 1)
    assume(fmt::format("{} chunks a stage", chunks));
  if (rule_.balances_stages && stages > 1) return balance_stages();
  if (divides(layers)) return;
  const int64_t parts = stages * chunks, each = (layers + parts - 1) / parts;
  plan().layers_per_stage.assign(static_cast<size_t>(parts), each);
  // What is too much is taken from the last part, the first, then those beside them.
  int64_t spare = each * parts - layers;
  for (size_t i = 0; spare > 0; ++i, --spare) {
    const size_t at = i / 2 % static_cast<size_t>(parts);
    --plan().layers_per_stage[i % 2 == 0 ? static_cast<size_t>(parts) - 1 - at : at];
  }
  assume("embedding and head count as layers");
}

/// nanotron deals out blocks front to back: stage s ends with the first block at which the matrices
/// so far reach the (s + 1)-th part of all, the head's included. Our stages hold a layer at least.
/// Source: nanotron, src/nanotron/models/base.py (build_model) and the models' block costs.
void Resolver::balance_stages() {
  const spec::Model& model = out_.job.model;
  const int64_t stages = plan().pipeline_parallel_size;
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
    while (stage + 1 < counts.size() &&
           sum >= total * static_cast<double>(stage + 1) / static_cast<double>(stages))
      ++stage;
  }
  fill_empty_stages(counts);
  plan().layers_per_stage = std::move(counts);
}

/// Nothing is said of the layout: what batch and accumulation leave, or the smallest that fits:
/// tensors within a node, then stages.
void Resolver::guess_model_parallel() {
  const spec::Job& job = out_.job;
  const auto accumulation = number_after(row_.extra, "grad_accum=");
  const int64_t world = job.world_size();
  int64_t ranks = 0;
  if (row_.global_batch && accumulation && *accumulation > 0) {
    const int64_t replicas = *row_.global_batch / (*accumulation * row_.micro_batch.value_or(1));
    if (replicas > 0 && world % replicas == 0) ranks = world / replicas;
  }
  const int64_t node = job.cluster.gpus_per_node;
  const auto split = [&](int64_t model_ranks) {
    plan().tensor_parallel_size = std::min(model_ranks, node);
    plan().pipeline_parallel_size = model_ranks / plan().tensor_parallel_size;
  };
  // Who tunes a long sequence in few microbatches splits it rather than the layers.
  if (ranks > 0) {
    plan().tensor_parallel_size = std::min(ranks, node);
    plan().context_parallel_size = ranks / plan().tensor_parallel_size;
  }
  plan().sharding = rule_.sharding;
  plan().sequence_parallel = true;
  plan().global_batch_size = world;
  for (ranks = 1; plan().model_parallel_size() == 1 && ranks <= world; ranks *= 2) {
    if (world % ranks != 0) break;
    split(ranks);
    if (job.model.num_layers % plan().pipeline_parallel_size == 0 && fits(Recompute::selective))
      break;
    if (2 * ranks <= world) split(1);
  }
  assume(fmt::format("TP {} x PP {}", plan().tensor_parallel_size, plan().pipeline_parallel_size));
}

/// Fewer sequences than replicas: the rest of the ranks shares them by context.
void Resolver::spread_over_context() {
  const int64_t micro = row_.micro_batch.value_or(1);
  if (!row_.global_batch || *row_.global_batch % micro != 0) return;
  const int64_t sequences = *row_.global_batch / micro, replicas = out_.job.data_parallel_size();
  if (sequences >= replicas || replicas % sequences != 0) return;
  plan().context_parallel_size *= replicas / sequences;
  assume(fmt::format("CP {}", plan().context_parallel_size));
}

Resolver::Step Resolver::take_batch() {
  spread_over_context();
  const int64_t replicas = out_.job.data_parallel_size();
  if (replicas < 1) return cannot("one replica of the model needs more GPUs than the row has");
  const auto accumulation = row_.extra.find("micro_batch_count=") != std::string::npos
                                ? number_after(row_.extra, "micro_batch_count=")
                                : number_after(row_.extra, "grad_accum=");
  int64_t micro = row_.micro_batch.value_or(0);
  if (micro == 0 && row_.global_batch && accumulation && *accumulation > 0)
    micro = *row_.global_batch / (replicas * *accumulation);
  if (micro < 1) {
    micro = 1;
    assume("microbatches of one sequence");
  }
  const int64_t at_once = std::max<int64_t>(1, micro * replicas);
  int64_t batch = row_.global_batch.value_or(0);
  if (batch == 0 && (accumulation || row_.micro_batch)) batch = at_once * accumulation.value_or(1);
  if (batch == 0) {
    constexpr int64_t tokens = int64_t{1} << 22;
    const int64_t rows = tokens / out_.job.model.sequence_length;
    batch = std::max(at_once, rows - rows % at_once);
    assume(fmt::format("a batch of {} sequences (4M tokens)", batch));
  }
  plan().micro_batch_size = micro;
  plan().global_batch_size = batch;
  if (batch % at_once != 0)
    return cannot(
        fmt::format("a batch of {} is no multiple of {} x {} replicas", batch, micro, replicas));
  return true;
}

/// Some optimizers keep other buffers where their states are sharded.
Resolver::Step Resolver::take_sharded_optimizer() {
  if (rule_.sharded_optimizer.empty() || plan().sharding == Sharding::none) return true;
  plan().optimizer = TPT_TRY(spec::load_optimizer(library_, rule_.sharded_optimizer));
  return true;
}

void Resolver::take_sharding() {
  const std::string& said = row_.sharding;
  plan().sharding = rule_.sharding;
  if (const auto zero = number_after(said, "zero_stage="); zero && *zero >= 0 && *zero <= 3)
    plan().sharding = static_cast<Sharding>(*zero);
  if (mentions(said, "FULL_SHARD") || said == "FSDP" || mentions(said, "HSDP"))
    plan().sharding = Sharding::parameters;
  if (mentions(said, "SHARD_GRAD_OP")) {
    plan().sharding = Sharding::parameters;
    plan().reshard_after_forward = false;
  }
  if (mentions(said, "HSDP")) plan().sharding_group_size = out_.job.cluster.gpus_per_node;
  const auto ranks = number_after(said, "FSDP=");
  if (ranks && *ranks > 1) {
    plan().sharding = Sharding::parameters;
    if (*ranks < out_.job.data_parallel_size()) plan().sharding_group_size = *ranks;
  }
  // One rank to a shard is no sharding, to those who count ranks; to Megatron FSDP=1 is a switch.
  if (ranks && *ranks <= 1 && rule_.sharding == Sharding::parameters)
    plan().sharding = Sharding::none;
  else if (ranks && *ranks == 1)
    plan().sharding = Sharding::parameters;
  const bool alone = out_.job.data_parallel_size() * plan().context_parallel_size == 1;
  if (alone && plan().sharding != Sharding::parameters) plan().sharding = Sharding::none;
  if (mentions(row_.extra, "OverlappedDistributedOptimizer"))
    plan().overlap_gradient = plan().overlap_parameter = true;
}

void Resolver::take_overlap() {
  Plan& p = plan();
  // nanotron calls it by what its row-parallel layers end with.
  const bool scatters = mentions(row_.extra, "tp_mode=REDUCE_SCATTER");
  p.sequence_parallel = (rule_.sequence_parallel || scatters) && p.tensor_parallel_size > 1;
  p.overlap_tensor = rule_.overlaps_tensor && p.sequence_parallel;
  const bool replicated = out_.job.data_parallel_size() > 1;
  if (rule_.overlaps_data && replicated && p.sharding != Sharding::none)
    p.overlap_gradient = p.overlap_parameter = true;
  if (rule_.reduces_like_ddp && replicated) cut_gradients();
  p.overlap_pipeline = rule_.overlaps_pipeline && p.virtual_pipeline_size > 1;
  p.overlap_expert = p.overlap_pipeline && out_.job.model.moe && out_.job.stack.fused_moe_dispatch;
}

void Resolver::cut_gradients() {
  // PyTorch's default (DistributedDataParallel, bucket_cap_mb), of gradients as they are written.
  constexpr double ddp_bucket_bytes = 25 * 1024 * 1024;
  constexpr double written_bytes = 2;
  constexpr double matrices_of_a_layer = 4;  // QKV, projection, gate and up, down
  const bool replicas = plan().sharding == Sharding::none;
  plan().overlap_gradient = replicas;
  const workload::RankParameters layer =
      workload::layer_parameters(out_.job, workload::share_of_rank(out_.job), false);
  const double matrix = layer.dense / matrices_of_a_layer;
  const double parameters = replicas ? ddp_bucket_bytes / written_bytes : matrix;
  plan().gradient_bucket = parameters * plan().optimizer.gradient_sync_bytes * unit::B;
}

Resolver::Step Resolver::check() {
  out_.job.name = row_.row_id;
  out_.job.origin = "row " + row_.row_id;
  for (const spec::Diagnosis& diagnosis : spec::diagnose(out_.job))
    if (diagnosis.severity == spec::Diagnosis::Severity::error) return cannot(diagnosis.what);
  return true;
}

bool Resolver::fits(Recompute recompute) {
  plan().recompute = recompute;
  return workload::estimate_memory(out_.job).fits();
}

/// Layers whose forward pass is played twice, if executed over model FLOPs are printed: all of
/// them make a third more.
std::optional<int64_t> Resolver::printed_recompute() const {
  if (!row_.mfu_pct || !row_.hfu_pct || *row_.mfu_pct <= 0) return std::nullopt;
  const double share = std::clamp(3 * (*row_.hfu_pct / *row_.mfu_pct - 1), 0.0, 1.0);
  return std::llround(share * static_cast<double>(out_.job.model.num_layers));
}

/// As few layers of each chunk as make the rest fit.
bool Resolver::fits_with_block() {
  const int64_t parts = plan().pipeline_parallel_size * plan().virtual_pipeline_size;
  const int64_t most = out_.job.model.num_layers / parts;
  for (int64_t layers = 1; layers < most; layers += std::max<int64_t>(1, most / 16)) {
    plan().recompute_layers = layers;
    if (fits(Recompute::full)) return true;
  }
  plan().recompute_layers.reset();
  return false;
}

/// May the row have sharded its parameters without saying so?
bool Resolver::shards_unsaid() const {
  const bool unsaid = row_.sharding.empty() || row_.sharding == "FSDP=0";
  return unsaid && out_.job.plan.pipeline_parallel_size == 1 &&
         out_.job.plan.sharding != Sharding::parameters && out_.job.data_parallel_size() > 1;
}

/// Unstated: the least recompute that fits in memory, as its authors had to choose too.
void Resolver::take_recompute() {
  if (const auto layers = printed_recompute(); layers && *layers > 0 && row_.recompute != "none") {
    plan().recompute = Recompute::full;
    if (*layers < out_.job.model.num_layers) plan().recompute_layers = *layers;
    return;
  }
  if (mentions(row_.recompute, "full")) {
    plan().recompute = Recompute::full;
    return;
  }
  if (mentions(row_.recompute, "selective")) {
    plan().recompute = Recompute::selective;
    return;
  }
  if (mentions(row_.recompute, "none")) return;
  if (fits(Recompute::none)) return assume("no recompute");
  if (!out_.job.stack.flash_attention && fits(Recompute::selective))
    return assume("selective recompute");
  if (fits_with_block())
    return assume(fmt::format("recompute of {} layers a chunk", *plan().recompute_layers));
  plan().recompute = Recompute::full;
  if (fits(Recompute::full) || !shards_unsaid()) return assume("full recompute");
  plan().sharding = Sharding::parameters;
  assume("FSDP, since nothing else fits");
  take_recompute();
}

}  // namespace

Result<ResolvedRow> resolve(const TrainingRow& row, const spec::Library& library) {
  return Resolver(row, library).resolve();
}

}  // namespace triplepoint::calibrate
