// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/calibrate/machine_names.h"
#include "triplepoint/calibrate/model_names.h"
#include "triplepoint/calibrate/training_layout.h"
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

constexpr std::string_view one_sequence = "microbatches of one sequence";

/// Fills a job from a row, step by step, and notes what the row did not say.
class Resolver {
 public:
  Resolver(const TrainingRow& row, const spec::Library& library)
      : row_(row),
        library_(library),
        rule_(rule_of(row.framework)),
        words_(fmt::format("{}; {}; {}; {}; {}", row.framework, row.sharding, row.recompute,
                           row.extra, row.notes)) {}

  Result<ResolvedRow> resolve() {
    if (!row_.fault.empty()) return cannot(row_.fault);
    TPT_TRY(check_sizes());
    TPT_TRY(take_model());
    take_prediction();
    TPT_TRY(take_cluster());
    TPT_TRY(take_stack());
    take_task();
    TPT_TRY(take_sizes());
    TPT_TRY(take_batch());
    take_sharding();
    TPT_TRY(take_sharded_optimizer());
    take_overlap();
    fill_memory();
    take_experts();
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
  void spread_sequences();
  void drop_misprinted_pipeline();
  void drop_interleaving();
  void spread_over_context();
  Step take_batch();
  void take_said_sharding();
  void take_counted_sharding(int64_t ranks);
  void take_sharding();
  Step take_sharded_optimizer();
  void take_overlap();
  void fill_memory();
  void take_experts();
  void take_prediction();
  void cut_gradients();
  Step check();
  bool take_said_recompute();
  void take_recompute();

  /// One context rank says nothing of the others.
  bool says_layout() const {
    return row_.tensor || row_.pipeline || row_.context.value_or(1) > 1 || row_.data;
  }
  bool says(std::string_view words) const { return mentions(words_, words); }
  std::optional<int64_t> printed_world() const;
  bool fits(Recompute recompute);
  bool fits_with_block();
  int64_t chunks() const {
    const Plan& p = out_.job.plan;
    return p.pipeline_parallel_size * p.virtual_pipeline_size;
  }
  bool splits_sequences() const;
  bool shards_unsaid() const;
  std::optional<int64_t> printed_recompute() const;

  const TrainingRow& row_;
  const spec::Library& library_;
  const FrameworkRule& rule_;
  const std::string words_;  // all that it says in words of how it trains
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

Resolver::Step Resolver::take_stack() {
  out_.job.stack = TPT_TRY(spec::load_stack(library_, stack_on(rule_, out_.job.cluster.gpu)));
  out_.job.stack.moe_sends_every_copy = sends_every_copy(row_, out_.job);
  if (out_.job.stack.moe_sends_every_copy) assume("rows of experts sent by all-to-all");
  const bool pure = mentions(row_.extra, "mp_mode=PURE");
  plan().optimizer = TPT_TRY(
      spec::load_optimizer(library_, pure ? std::string_view("fsdp_fused_adam") : rule_.optimizer));
  plan().precision = precision_of(row_);
  if (was_trained_in_4_bits(row_) && out_.job.cluster.gpu.peak(Precision::nvfp4))
    plan().precision = Precision::nvfp4;
  const spec::Gpu& gpu = out_.job.cluster.gpu;
  if (!gpu.peak(plan().precision))
    plan().precision = gpu.peak(Precision::bf16) ? Precision::bf16 : Precision::fp16;
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
  if (!says(" ISP") || plan().tensor_parallel_size == 1) return;
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

/// Some optimizers keep other buffers where their states are sharded.
Resolver::Step Resolver::take_sharded_optimizer() {
  // Megatron told to use PyTorch's FSDP keeps what that keeps.
  const bool torch_shards =
      plan().sharding == Sharding::parameters && rule_.optimizer == "megatron_distributed_optim";
  if (torch_shards) plan().optimizer = TPT_TRY(spec::load_optimizer(library_, "fsdp_fused_adam"));
  if (rule_.sharded_optimizer.empty() || plan().sharding == Sharding::none) return true;
  plan().optimizer = TPT_TRY(spec::load_optimizer(library_, rule_.sharded_optimizer));
  return true;
}

/// Sharding as words say it.
void Resolver::take_said_sharding() {
  const std::string& said = row_.sharding;
  const auto zero = zero_of(said);
  if (zero) plan().sharding = static_cast<Sharding>(zero->stage);
  if (zero && zero->ranks > 1 && out_.job.data_parallel_size() % zero->ranks == 0)
    plan().sharding_group_size = zero->ranks;
  if (said == "none" || said == "DDP" || said == "DP") plan().sharding = Sharding::none;
  const bool gathers_once = mentions(said, "SHARD_GRAD_OP");
  const bool whole = gathers_once || mentions(said, "FULL_SHARD") || says(" ISP");
  const bool counted = mentions(said, "FSDP=") || mentions(said, "no FSDP");
  if (whole || (mentions(said, "FSDP") && !counted) || mentions(said, "HSDP"))
    plan().sharding = Sharding::parameters;
  if (gathers_once) plan().reshard_after_forward = false;
  if (mentions(said, "HSDP")) plan().sharding_group_size = out_.job.cluster.gpus_per_node;
}

/// One rank to a shard is no sharding, to those who count ranks; to Megatron FSDP=1 is a switch.
void Resolver::take_counted_sharding(int64_t ranks) {
  const bool counts = rule_.sharding == Sharding::parameters;
  if (ranks > 1 || (ranks == 1 && !counts)) plan().sharding = Sharding::parameters;
  if (ranks <= 1 && counts) plan().sharding = Sharding::none;
  if (ranks > 1 && ranks < out_.job.data_parallel_size()) plan().sharding_group_size = ranks;
}

void Resolver::take_sharding() {
  plan().sharding = rule_.sharding;
  take_said_sharding();
  if (const auto ranks = number_after(row_.sharding, "FSDP=")) take_counted_sharding(*ranks);
  const bool alone = out_.job.data_parallel_size() * plan().context_parallel_size == 1;
  if (alone && plan().sharding != Sharding::parameters) plan().sharding = Sharding::none;
  if (mentions(row_.extra, "OverlappedDistributedOptimizer"))
    plan().overlap_gradient = plan().overlap_parameter = true;
}

/// Does what norms and dropout work on stay split? Megatron-LM got it together with selective
/// recompute; nanotron calls it by what its row-parallel layers end with.
bool Resolver::splits_sequences() const {
  if (says("no sequence paral") || says("without sequence paral")) return false;
  const bool with_selective =
      mentions(row_.framework, "Megatron-LM") && mentions(row_.recompute, "selective");
  return rule_.sequence_parallel || with_selective || says("sequence parallel") ||
         says("sequence-parallel") || says("sequence_parallel") ||
         mentions(row_.extra, "tp_mode=REDUCE_SCATTER");
}

void Resolver::take_overlap() {
  Plan& p = plan();
  p.sequence_parallel = splits_sequences() && p.tensor_parallel_size > 1;
  const bool asynchronous = says("async TP") || says("AsyncTP") || says("async-TP");
  p.overlap_tensor = (rule_.overlaps_tensor || asynchronous) && p.sequence_parallel;
  const bool replicated = out_.job.data_parallel_size() > 1;
  if (rule_.overlaps_data && replicated && p.sharding != Sharding::none)
    p.overlap_gradient = p.overlap_parameter = true;
  if (rule_.reduces_like_ddp && replicated) cut_gradients();
  p.overlap_pipeline = rule_.overlaps_pipeline && p.virtual_pipeline_size > 1;
  p.overlap_expert = p.overlap_pipeline && out_.job.model.moe && out_.job.stack.fused_moe_dispatch;
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
    if (fits(mentions(row_.recompute, "full") ? Recompute::full : Recompute::none)) continue;
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

void Resolver::cut_gradients() {
  // PyTorch's default (DistributedDataParallel, bucket_cap_mb), of gradients as they are written.
  constexpr double ddp_bucket_bytes = 25 * 1024 * 1024;
  constexpr double written_bytes = 2;
  constexpr double matrices_of_a_layer = 4;  // QKV, projection, gate and up, down
  const bool replicas = plan().sharding == Sharding::none;
  plan().overlap_gradient = replicas;
  const workload::RankParameters layer =
      workload::layer_parameters(out_.job, workload::share_of_rank(out_.job), 0);
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
  const int64_t most = out_.job.model.num_layers / chunks();
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

/// What the row says of recompute; false where it says nothing.
bool Resolver::take_said_recompute() {
  const std::string& said = row_.recompute;
  const bool selective = mentions(said, "selective") || mentions(said, "core_attn");
  const int64_t layers = out_.job.model.num_layers;
  const auto printed = printed_recompute();
  // Selective recompute of attention makes a few per cent more work: no layer is played again.
  const bool attention_only = selective && !out_.job.stack.flash_attention;
  if (printed && *printed > 0 && said != "none" && !attention_only) {
    plan().recompute = Recompute::full;
    if (*printed < layers) plan().recompute_layers = *printed;
  } else if (mentions(said, "full")) {
    plan().recompute = Recompute::full;
  } else if (rule_.selects_operations && (selective || said.empty())) {
    // Every other product is kept, with attention: half of the work, half of the memory. It is the
    // default, too, where that fits.
    plan().recompute_layers = std::max<int64_t>(1, layers / chunks() / 2);
    if (!fits(Recompute::full) && said.empty()) plan().recompute_layers.reset();
  } else if (selective) {
    plan().recompute = Recompute::selective;
  } else {
    return mentions(said, "none") || said == "no" || said == "off";
  }
  return true;
}

/// Unstated: the least recompute that fits in memory, as its authors had to choose too.
void Resolver::take_recompute() {
  if (take_said_recompute()) return;
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
