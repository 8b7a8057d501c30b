// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "triplepoint/calibrate/machine_names.h"
#include "triplepoint/calibrate/model_names.h"
#include "triplepoint/calibrate/training_layout.h"
#include "triplepoint/calibrate/training_recipes.h"
#include "triplepoint/calibrate/training_recompute.h"
#include "triplepoint/calibrate/training_row.h"
#include "triplepoint/calibrate/training_rules.h"
#include "triplepoint/calibrate/training_sharding.h"

namespace triplepoint::calibrate {
namespace {

using spec::Plan;
using spec::Precision;
using spec::Recompute;
using spec::Sharding;

constexpr std::string_view one_sequence = "microbatches of one sequence";

/// Fills a job from a row, step by step, and notes what the row did not say.
class Resolver {
 public:
  Resolver(const TrainingRow& row, const spec::Library& library)
      : row_(row), library_(library), rule_(rule_of(row.framework)) {}

  Result<ResolvedRow> resolve() {
    if (!row_.fault.empty()) return cannot(row_.fault);
    TPT_TRY(check_sizes());
    TPT_TRY(take_model());
    take_prediction();
    TPT_TRY(take_cluster());
    take_precision();
    TPT_TRY(take_stack());
    TPT_TRY(take_recipe());
    take_task();
    TPT_TRY(take_sizes());
    TPT_TRY(take_batch());
    if (auto sharded = take_sharding(out_.job, row_, rule_, library_); !sharded)
      return tl::unexpected(sharded.error());
    take_overlap(out_.job, row_, rule_);
    overlap_by_recipe();
    fill_memory();
    take_experts();
    TPT_TRY(check());
    for (std::string& note : take_recompute(out_.job, row_, rule_, recompute_of_recipe()))
      assume(std::move(note));
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
  void take_precision();
  Step take_stack();
  Step take_recipe();
  void overlap_by_recipe();
  const std::vector<spec::RecomputeModule>* recompute_of_recipe() const {
    return recipe_ && recipe_->recompute_modules ? &*recipe_->recompute_modules : nullptr;
  }
  void take_task();
  void take_room();
  Step take_sizes();
  void spread_sequences();
  void drop_misprinted_pipeline();
  void drop_interleaving();
  void spread_over_context();
  Step take_batch();
  void fill_memory();
  void take_experts();
  void take_prediction();
  Step check();

  /// One context rank says nothing of the others.
  bool says_layout() const {
    return row_.tensor || row_.pipeline || row_.context.value_or(1) > 1 || row_.data;
  }
  std::optional<int64_t> printed_world() const;

  const TrainingRow& row_;
  const spec::Library& library_;
  const FrameworkRule& rule_;
  std::optional<Recipe> recipe_;
  ResolvedRow out_;
};

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
  const auto shape = gpt_of_shape(row_);
  if (name) {
    model = TPT_TRY(spec::load_model(library_, *name));
    reshape(model, row_);
  } else if (shape && name.error().what.find("cannot be expressed") == std::string::npos) {
    model = *shape;
    assume(row_.layers ? "a GPT of the shape printed"
                       : fmt::format("a GPT of {} layers", model.num_layers));
  } else {
    return tl::unexpected(name.error());
  }
  const auto noted = number_after(row_.notes, "seq ");
  model.sequence_length = row_.sequence.value_or(noted.value_or(model.sequence_length));
  if (!row_.sequence) assume(fmt::format("sequences of {}", model.sequence_length));
  return true;
}

Resolver::Step Resolver::take_cluster() {
  const auto gpus = row_.gpus ? row_.gpus : printed_world();
  if (!gpus) return cannot("it does not say how many GPUs");
  MachineChoice machine = TPT_TRY(machine_of(library_, row_.gpu, row_.gpu_note, *gpus));
  out_.job.cluster = std::move(machine.cluster);
  take_room();
  return true;
}

/// Ranks of a layout that is printed whole.
std::optional<int64_t> Resolver::printed_world() const {
  if (!row_.data || !row_.tensor || !row_.pipeline) return std::nullopt;
  const int64_t inner = *row_.tensor * *row_.pipeline * row_.context.value_or(1);
  constexpr int64_t most = int64_t{1} << 20;
  if (*row_.data < 1 || inner < 1 || inner > most / *row_.data) return std::nullopt;
  return *row_.data * inner;
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

void Resolver::take_precision() {
  plan().precision = precision_of(row_);
  const spec::Gpu& gpu = out_.job.cluster.gpu;
  if (was_trained_in_4_bits(row_) && gpu.peak(Precision::nvfp4))
    plan().precision = Precision::nvfp4;
  if (!gpu.peak(plan().precision))
    plan().precision = gpu.peak(Precision::bf16) ? Precision::bf16 : Precision::fp16;
  if (row_.precision.empty()) assume(fmt::format("precision {}", spec::name_of(plan().precision)));
}

Resolver::Step Resolver::take_stack() {
  out_.job.stack = TPT_TRY(spec::load_stack(library_, stack_of(rule_, row_, out_.job)));
  const bool pure = mentions(row_.extra, "mp_mode=PURE");
  plan().optimizer = TPT_TRY(
      spec::load_optimizer(library_, pure ? std::string_view("fsdp_fused_adam") : rule_.optimizer));
  return true;
}

/// What its public recipe chooses and the row does not print.
Resolver::Step Resolver::take_recipe() {
  if (rule_.recipes.empty()) return true;
  const std::vector<Recipe> recipes = TPT_TRY(load_recipes(library_, rule_.recipes));
  const Recipe* found = recipe_of(recipes, row_, out_.job);
  if (found == nullptr) return true;
  recipe_ = *found;
  if (recipe_->dispatch)
    out_.job.stack.moe_sends_every_copy = *recipe_->dispatch == Dispatch::alltoall;
  if (out_.job.stack.moe_sends_every_copy) assume("rows of experts sent by all-to-all");
  plan().fp8_attention = recipe_->fp8_attention.value_or(false);
  if (plan().attends_in_fp8()) assume("attention in 8 bits");
  return true;
}

/// Traffic of experts runs behind another microbatch where the recipe asks for it.
void Resolver::overlap_by_recipe() {
  if (!recipe_ || !recipe_->overlap_expert) return;
  const bool another =
      plan().global_batch_size > plan().micro_batch_size * out_.job.data_parallel_size();
  plan().overlap_expert = *recipe_->overlap_expert && another && out_.job.model.moe;
  assume(plan().overlap_expert ? "experts' traffic overlapped" : "experts' traffic not overlapped");
}

/// Fine-tuning of NeMo and MaxText packs short question-and-answer documents, Pax where its rows
/// say so (without Transformer Engine it masks the rest, and saves nothing); MLPerf's documents
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
  const bool says = mentions(row_.notes, "packed");
  const bool plain = out_.job.stack.name == rule_.stack_without_te;
  if (!rule_.stack_without_te.empty() && (!says || plain)) return;
  plan().packed_length = squad_document;
  assume("packed documents of 256 tokens");
}

Resolver::Step Resolver::take_sizes() {
  plan().tensor_parallel_size = row_.tensor.value_or(1);
  plan().pipeline_parallel_size = row_.pipeline.value_or(1);
  plan().context_parallel_size = row_.context.value_or(1);
  if (out_.job.model.moe) {
    plan().expert_parallel_size = row_.expert.value_or(1);
    plan().expert_tensor_parallel_size = 1;
  }
  if (!says_layout() && rule_.sharding != Sharding::parameters) {
    assume(guess_model_parallel(out_.job, row_, rule_));
    return true;
  }
  spread_sequences();
  drop_misprinted_pipeline();
  const int64_t world = out_.job.world_size();
  if (plan().model_parallel_size() < 1 || world % plan().model_parallel_size() != 0)
    return cannot(fmt::format("{} GPUs cannot be split by TP {} x PP {} x CP {}", world,
                              plan().tensor_parallel_size, plan().pipeline_parallel_size,
                              plan().context_parallel_size));
  for (std::string& note : lay_out_chunks(out_.job, row_.virtual_pipeline))
    assume(std::move(note));
  if (rule_.balances_stages && plan().pipeline_parallel_size > 1) balance_stages(out_.job);
  return true;
}

/// InternEvo's sequence parallelism splits sequences over what its tables call tensor ranks, and
/// gathers weights layer by layer.
void Resolver::spread_sequences() {
  if (!says(row_, " ISP") || plan().tensor_parallel_size == 1) return;
  plan().context_parallel_size *= plan().tensor_parallel_size;
  plan().tensor_parallel_size = 1;
  assume(fmt::format("CP {}, weights gathered (ISP)", plan().context_parallel_size));
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
    assume(std::string(one_sequence));
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
  drop_interleaving();
  if (batch % at_once != 0)
    return cannot(
        fmt::format("a batch of {} is no multiple of {} x {} replicas", batch, micro, replicas));
  return true;
}

/// Interleaved chunks are played in rounds of a microbatch a stage; a row that has not so many did
/// without, whatever it prints.
void Resolver::drop_interleaving() {
  Plan& p = plan();
  const int64_t at_once = p.micro_batch_size * out_.job.data_parallel_size();
  if (p.virtual_pipeline_size == 1 || at_once < 1) return;
  if (p.global_batch_size / at_once % p.pipeline_parallel_size == 0) return;
  lay_out_chunks(out_.job, std::nullopt);
  assume("1 chunk a stage (its microbatches make no whole rounds)");
}

/// Who shards everything and says neither batch nor microbatch fills the memory with sequences.
void Resolver::fill_memory() {
  constexpr int64_t most = 64;
  const bool free = !row_.micro_batch && !row_.global_batch;
  if (!free || rule_.sharding != Sharding::parameters) return;
  Plan& p = plan();
  const spec::Recompute kept = p.recompute;
  while (p.micro_batch_size < most &&
         p.global_batch_size % (2 * p.micro_batch_size * out_.job.data_parallel_size()) == 0) {
    p.micro_batch_size *= 2;
    const bool full = mentions(row_.recompute, "full");
    if (fits_with(out_.job, full ? Recompute::full : Recompute::none)) continue;
    p.micro_batch_size /= 2;
    break;
  }
  p.recompute = kept;
  auto& notes = out_.assumptions;
  notes.erase(std::remove(notes.begin(), notes.end(), one_sequence), notes.end());
  assume(fmt::format("microbatches of {}, as fit", p.micro_batch_size));
}

/// Experts that the row does not say how to split.
void Resolver::take_experts() {
  if (out_.job.model.moe && !row_.expert) assume(guess_expert_parallel(out_.job));
}

/// Whether further tokens were predicted is not said, but the printed FLOPs count it.
void Resolver::take_prediction() {
  const auto depths = printed_prediction_depths(row_, out_.job);
  if (!depths || *depths == out_.job.model.prediction_depths()) return;
  out_.job.model.multi_token_prediction->depths = *depths;
  assume(fmt::format("{} tokens predicted beside the next, as its FLOPs count", *depths));
}

Resolver::Step Resolver::check() {
  out_.job.name = row_.row_id;
  out_.job.origin = "row " + row_.row_id;
  for (const spec::Diagnosis& diagnosis : spec::diagnose(out_.job))
    if (diagnosis.severity == spec::Diagnosis::Severity::error) return cannot(diagnosis.what);
  return true;
}

}  // namespace

Result<ResolvedRow> resolve(const TrainingRow& row, const spec::Library& library) {
  return Resolver(row, library).resolve();
}

}  // namespace triplepoint::calibrate
