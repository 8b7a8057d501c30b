// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>

#include "triplepoint/spec/diagnose_parts.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;

/// Head dimensions which published models use and fused attention kernels are built for.
constexpr std::array<int64_t, 12> usual_head_dimensions = {32, 40,  48,  64,  72,  80,
                                                           96, 112, 120, 128, 160, 256};

// Beyond these a job is a typing error, and would only exhaust memory.
constexpr int64_t most_layers = 10'000;
constexpr int64_t most_gpus = 10'000'000;
constexpr int64_t most_microbatches = 1'000'000;
constexpr int64_t most_passes = 10'000'000;
constexpr int64_t most_tokens = 100'000'000;  // in a sequence
constexpr int64_t most_width = 10'000'000;    // of a matrix

class Examination : Findings {
 public:
  /// `suggests`: values with which the whole job is sound, for which others are examined.
  Examination(const Job& job, bool suggests)
      : job_(job), plan_(job.plan), model_(job.model), suggests_(suggests) {}

  std::vector<Diagnosis> run() {
    sizes_are_positive();
    if (!none()) return all();  // nothing can be divided by zero
    sizes_are_plausible();
    if (!none()) return all();  // products of such sizes overflow
    add(diagnose_model(job_));
    if (!none()) return all();
    const bool fits = world_is_divisible();
    layers_fit_stages();
    heads_fit_tensor_group();
    if (fits)
      batch_is_divisible(), passes_are_plausible(), experts_fit(), sharding_fits(),
          inert_overlaps();
    connections_are_possible();
    offload_is_modelled();
    sequence_fits();
    schedule_fits();
    task_is_modelled();
    for (const auto examine : {diagnose_cluster, diagnose_fabric, diagnose_environment,
                               diagnose_options, diagnose_records, diagnose_sends})
      add(examine(job_));
    return all();
  }

 private:
  using Setting = int64_t& (*)(Job&);
  static int64_t& tensor_size(Job& job) { return job.plan.tensor_parallel_size; }
  static int64_t& pipeline_size(Job& job) { return job.plan.pipeline_parallel_size; }
  static int64_t& context_size(Job& job) { return job.plan.context_parallel_size; }
  static int64_t& expert_size(Job& job) { return job.plan.expert_parallel_size; }

  /// "try 8 or 16": the nearest divisors of `whole` with which the whole job is sound.
  std::string divisors_to_try(int64_t whole, Setting setting) const {
    const std::string values = sound_divisors(whole, setting);
    return values.empty() ? "choose another layout" : "try " + values;
  }

  /// "8 or 16"; empty if there are none.
  std::string sound_divisors(int64_t whole, Setting setting) const {
    if (!suggests_) return "";
    Job other = job_;
    const int64_t size = setting(other);
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= whole / d; ++d)
      if (whole % d == 0) divisors.insert(divisors.end(), {d, whole / d});
    std::ranges::sort(divisors);
    const auto is_sound = [&](int64_t divisor) {
      setting(other) = divisor;
      return !has_errors(Examination(other, false).run());
    };
    const auto above = std::ranges::upper_bound(divisors, size);
    const auto greater = std::find_if(above, divisors.end(), is_sound);
    const auto less = std::find_if(std::make_reverse_iterator(above), divisors.rend(), is_sound);
    std::string text = less == divisors.rend() ? "" : std::to_string(*less);
    if (greater != divisors.end()) text += (text.empty() ? "" : " or ") + std::to_string(*greater);
    return text;
  }

  void positive(std::string_view key, int64_t value) {
    if (value >= 1) return;
    error(Code::inconsistent, "{} is {} (it counts what has to be there); set it to 1 or more", key,
          value);
  }

  void sizes_are_positive() {
    positive("tensor_parallel_size", plan_.tensor_parallel_size);
    positive("pipeline_parallel_size", plan_.pipeline_parallel_size);
    positive("context_parallel_size", plan_.context_parallel_size);
    positive("expert_parallel_size", plan_.expert_parallel_size);
    positive("expert_tensor_parallel_size", plan_.expert_tensor_size());
    positive("virtual_pipeline_size", plan_.virtual_pipeline_size);
    positive("micro_batch_size", plan_.micro_batch_size);
    positive("global_batch_size", plan_.global_batch_size);
    positive("num_nodes", job_.cluster.num_nodes);
    positive("gpus_per_node", job_.cluster.gpus_per_node);
    positive("dies_per_package", job_.cluster.gpu.dies_per_package);
    positive("scale_up.domain_size", job_.cluster.scale_up.domain_size);
    positive("scale_out.nics_per_node", job_.cluster.scale_out.nics_per_node);
    positive("scale_out.nodes_per_leaf", job_.cluster.scale_out.nodes_per_leaf);
    if (plan_.lora) positive("lora.rank", plan_.lora->rank);
    model_sizes_are_positive();
  }

  void model_sizes_are_positive() {
    positive("num_layers", model_.num_layers);
    positive("hidden_size", model_.hidden_size);
    positive("ffn_hidden_size", model_.ffn_hidden_size);
    positive("num_attention_heads", model_.num_attention_heads);
    positive("num_query_groups", model_.num_query_groups);
    positive("kv_channels", model_.kv_channels);
    positive("sequence_length", model_.sequence_length);
    positive("vocabulary_size", model_.vocabulary_size);
    positive("vocabulary_divisible_by", model_.vocabulary_divisible_by);
    if (!model_.moe) return;
    positive("moe.num_experts", model_.moe->num_experts);
    positive("moe.router_topk", model_.moe->router_topk);
    positive("moe.ffn_hidden_size", model_.moe->ffn_hidden_size);
  }

  void plausible(std::string_view key, double value, int64_t most) {
    if (value <= as_real(most)) return;
    error(Code::inconsistent,
          "{} is {:.4g} (beyond {} it is surely a typing error); make it smaller", key, value,
          most);
  }

  void sizes_are_plausible() {
    plausible("num_layers", as_real(model_.num_layers), most_layers);
    plausible("num_nodes x gpus_per_node",
              as_real(job_.cluster.num_nodes) * as_real(job_.cluster.gpus_per_node), most_gpus);
    plausible("global_batch_size", as_real(plan_.global_batch_size), most_microbatches);
    plausible("virtual_pipeline_size", as_real(plan_.virtual_pipeline_size), most_layers);
    plausible("expert_tensor_parallel_size", as_real(plan_.expert_tensor_size()), most_gpus);
    plausible("sequence_length", as_real(model_.sequence_length), most_tokens);
    plausible("hidden_size", as_real(model_.hidden_size), most_width);
    plausible("ffn_hidden_size", as_real(model_.ffn_hidden_size), most_width);
    plausible("num_attention_heads", as_real(model_.num_attention_heads), most_width);
    plausible("num_query_groups", as_real(model_.num_query_groups), most_width);
    plausible("kv_channels", as_real(model_.kv_channels), most_width);
    plausible("vocabulary_size", as_real(model_.vocabulary_size), most_width);
    if (plan_.lora) plausible("lora.rank", as_real(plan_.lora->rank), most_width);
    if (!(model_.dropout >= 0 && model_.dropout < 1))
      error(Code::inconsistent,
            "dropout {} is not in [0, 1) (it is the share of numbers that are set to 0); use 0 to "
            "0.5",
            model_.dropout);
    if (const int64_t n = plan_.recompute_layers.value_or(0); n < 0 || n > model_.num_layers)
      error(
          Code::inconsistent,
          "recompute_layers is {} (it counts layers of a stage's chunk, of {} in all); set it to 0 "
          "or more of these, or leave it out",
          n, model_.num_layers);
  }

  /// A pass of a microbatch through a chunk takes about 300 bytes and a microsecond to simulate.
  void passes_are_plausible() {
    if (plan_.micro_batch_size * job_.data_parallel_size() > plan_.global_batch_size) return;
    const double passes = 2 * as_real(job_.num_microbatches()) *
                          as_real(plan_.pipeline_parallel_size) *
                          as_real(plan_.virtual_pipeline_size);
    if (passes <= as_real(most_passes)) return;
    error(
        Code::inconsistent,
        "a step has {:.4g} passes of microbatches through stages ({} at most are simulated); raise "
        "micro_batch_size or lower global_batch_size",
        passes, most_passes);
  }

  bool world_is_divisible() {
    const double ranks = as_real(plan_.tensor_parallel_size) *
                         as_real(plan_.pipeline_parallel_size) *
                         as_real(plan_.context_parallel_size);
    const int64_t world = job_.world_size();
    if (ranks <= as_real(world) && world % plan_.model_parallel_size() == 0) return true;
    error(Code::world_not_divisible,
          "tensor_parallel_size {} x pipeline_parallel_size {} x context_parallel_size {} = {} "
          "does not divide {} GPUs (every GPU holds a part of one replica); {}",
          plan_.tensor_parallel_size, plan_.pipeline_parallel_size, plan_.context_parallel_size,
          ranks, world, way_out_of_world(ranks, world));
    return false;
  }

  std::string way_out_of_world(double ranks, int64_t world) const {
    if (ranks > as_real(world))
      return fmt::format("take at least {} GPUs or smaller groups", ranks);
    struct Size {
      const char* name;
      Setting setting;
      int64_t size;
    };
    for (const auto& [name, setting, size] :
         {Size{"pipeline_parallel_size", pipeline_size, plan_.pipeline_parallel_size},
          Size{"tensor_parallel_size", tensor_size, plan_.tensor_parallel_size},
          Size{"context_parallel_size", context_size, plan_.context_parallel_size}}) {
      const int64_t others = static_cast<int64_t>(ranks) / size;
      if (world % others != 0) continue;
      const std::string values = sound_divisors(world / others, setting);
      if (!values.empty()) return fmt::format("try {} {}", name, values);
    }
    return "choose other groups or another number of GPUs";
  }

  void layers_fit_stages() {
    const int64_t stages = plan_.pipeline_parallel_size,
                  chunks = stages * plan_.virtual_pipeline_size;
    if (!plan_.layers_per_stage.empty()) return uneven_layers_fit(chunks);
    if (model_.num_layers % chunks == 0) return;
    if (plan_.virtual_pipeline_size == 1)
      return error(Code::layers_not_divisible,
                   "num_layers {} is not divisible by pipeline_parallel_size {} (every stage holds "
                   "equally many layers); {}, or write layers_per_stage{}",
                   model_.num_layers, stages, divisors_to_try(model_.num_layers, pipeline_size),
                   nearly_even_layers(stages));
    error(Code::layers_not_divisible,
          "num_layers {} is not divisible by pipeline_parallel_size {} x virtual_pipeline_size {} "
          "(every chunk holds equally many layers); choose sizes whose product divides it, or "
          "write layers_per_stage",
          model_.num_layers, stages, plan_.virtual_pipeline_size);
  }

  /// " (--layers-per-stage 8,8,8,8,8,7,7,7)", where it is short.
  std::string nearly_even_layers(int64_t stages) const {
    if (stages > 16 || stages > model_.num_layers) return "";
    std::vector<int64_t> layers(as_size(stages), model_.num_layers / stages);
    for (size_t s = 0; s < as_size(model_.num_layers % stages); ++s)
      ++layers[s];
    return fmt::format(" (--layers-per-stage {})", fmt::join(layers, ","));
  }

  void uneven_layers_fit(int64_t chunks) {
    const auto& layers = plan_.layers_per_stage;
    const double sum =
        std::accumulate(layers.begin(), layers.end(), 0.0,
                        [](double total, int64_t each) { return total + as_real(each); });
    if (static_cast<int64_t>(layers.size()) != chunks)
      return error(
          Code::inconsistent,
          "layers_per_stage has {} entries (pipeline_parallel_size {} x virtual_pipeline_size {} "
          "needs {}); write one count per stage and chunk",
          layers.size(), plan_.pipeline_parallel_size, plan_.virtual_pipeline_size, chunks);
    // The first may hold the embedding alone, the last the head.
    const auto is_below = [&](int64_t least) {
      return [least](int64_t each) { return each < least; };
    };
    const bool idles =
        layers.size() > 2 && std::any_of(layers.begin() + 1, layers.end() - 1, is_below(1));
    if (idles || std::ranges::any_of(layers, is_below(0)))
      return error(Code::inconsistent,
                   "layers_per_stage has a stage without a layer (its GPUs would do nothing); give "
                   "every stage one or more");
    if (sum != as_real(model_.num_layers))
      error(Code::layers_not_divisible,
            "layers_per_stage adds up to {} (num_layers is {}); make the counts add up to it", sum,
            model_.num_layers);
  }

  /// Serving engines give every rank a whole key and value head where there are too few to split.
  bool copies_groups() const {
    return is_inference(job_.task) &&
           plan_.tensor_parallel_size % std::max<int64_t>(1, model_.num_query_groups) == 0;
  }

  void heads_fit_tensor_group() {
    const int64_t tp = plan_.tensor_parallel_size;
    if (model_.num_attention_heads % tp != 0)
      error(Code::heads_not_divisible,
            "tensor_parallel_size {} does not divide num_attention_heads {} (heads are split "
            "evenly); {}",
            tp, model_.num_attention_heads,
            divisors_to_try(model_.num_attention_heads, tensor_size));
    else if (model_.num_query_groups % tp != 0 && !model_.latent_attention && !copies_groups())
      error(Code::heads_not_divisible,
            "tensor_parallel_size {} does not divide num_query_groups {} (key and value heads are "
            "split evenly); {}",
            tp, model_.num_query_groups, divisors_to_try(model_.num_query_groups, tensor_size));
    if (model_.ffn_hidden_size % tp != 0)
      error(Code::inconsistent,
            "tensor_parallel_size {} does not divide ffn_hidden_size {} (its columns are split "
            "evenly); {}",
            tp, model_.ffn_hidden_size, divisors_to_try(model_.ffn_hidden_size, tensor_size));
    if (model_.num_attention_heads % model_.num_query_groups != 0)
      error(Code::inconsistent,
            "num_query_groups {} does not divide num_attention_heads {} (every group serves "
            "equally many heads); {}",
            model_.num_query_groups, model_.num_attention_heads,
            divisors_to_try(model_.num_attention_heads,
                            [](Job& job) -> int64_t& { return job.model.num_query_groups; }));
    head_dimension_is_usual();
  }

  void head_dimension_is_usual() {
    const auto& usual = usual_head_dimensions;
    if (holds(usual, model_.kv_channels)) return;
    const bool follows = model_.kv_channels * model_.num_attention_heads == model_.hidden_size;
    warn(Code::head_dimension,
         "head dimension {}{} is unusual (fused attention is made for 64, 96, 128; a size was "
         "probably copied from another model); check {}",
         model_.kv_channels,
         follows ? fmt::format(" = hidden_size {} / num_attention_heads {}", model_.hidden_size,
                               model_.num_attention_heads)
                 : "",
         follows ? "hidden_size and num_attention_heads" : "kv_channels");
  }

  void batch_is_divisible() {
    const double sequences = as_real(plan_.micro_batch_size) * as_real(job_.data_parallel_size());
    const double microbatches = as_real(plan_.global_batch_size) / sequences;
    const bool in_rounds = plan_.virtual_pipeline_size > 1;
    const double round = in_rounds ? sequences * as_real(plan_.pipeline_parallel_size) : sequences;
    if (microbatches < 1)
      return error(
          Code::batch_not_divisible,
          "global_batch_size {} is less than micro_batch_size {} x data_parallel_size {} (the "
          "step would have {:.3g} microbatches); use a global batch of at least {}",
          plan_.global_batch_size, plan_.micro_batch_size, job_.data_parallel_size(), microbatches,
          round);
    if (plan_.global_batch_size % static_cast<int64_t>(sequences) != 0)
      return error(
          Code::batch_not_divisible,
          "global_batch_size {} is not divisible by micro_batch_size {} x data_parallel_size {} "
          "(every replica runs equally many microbatches); try {}",
          plan_.global_batch_size, plan_.micro_batch_size, job_.data_parallel_size(),
          round * std::max(1.0, std::floor(as_real(plan_.global_batch_size) / round)));
    if (in_rounds && job_.num_microbatches() % plan_.pipeline_parallel_size != 0)
      error(Code::batch_not_divisible,
            "{} microbatches are not divisible by pipeline_parallel_size {} (the interleaved "
            "schedule runs them in rounds of one per stage); try a global_batch_size of {}",
            job_.num_microbatches(), plan_.pipeline_parallel_size,
            round * std::max(1.0, std::floor(as_real(plan_.global_batch_size) / round)));
  }

  void experts_fit() {
    const int64_t ep = plan_.expert_parallel_size;
    if (!model_.moe) {
      if (ep > 1)
        error(Code::experts_not_divisible,
              "expert_parallel_size {} on a model without experts (there is nothing to spread); "
              "set it to 1",
              ep);
      return;
    }
    if (model_.moe->num_experts % ep != 0)
      error(Code::experts_not_divisible,
            "num_experts {} is not divisible by expert_parallel_size {} (every rank holds equally "
            "many experts); {}",
            model_.moe->num_experts, ep, divisors_to_try(model_.moe->num_experts, expert_size));
    if (model_.moe->router_topk > model_.moe->num_experts)
      error(Code::inconsistent,
            "router_topk {} of {} experts (a token goes to different ones); lower it",
            model_.moe->router_topk, model_.moe->num_experts);
    expert_groups_fit();
  }

  void expert_groups_fit() {
    const int64_t ranks = job_.world_size() / plan_.pipeline_parallel_size;  // of one stage
    const double group = as_real(plan_.expert_parallel_size) * as_real(plan_.expert_tensor_size());
    if (group <= as_real(ranks) && ranks % static_cast<int64_t>(group) == 0) return;
    if (plan_.expert_tensor_size() == plan_.tensor_parallel_size)
      return error(
          Code::experts_not_divisible,
          "data_parallel_size {} is not divisible by expert_parallel_size {} (experts are spread "
          "over data-parallel ranks); {}",
          job_.data_parallel_size(), plan_.expert_parallel_size,
          divisors_to_try(job_.data_parallel_size(), expert_size));
    error(Code::experts_not_divisible,
          "expert_parallel_size {} x expert_tensor_parallel_size {} does not divide the {} GPUs of "
          "a stage (experts are spread over them); choose smaller groups",
          plan_.expert_parallel_size, plan_.expert_tensor_size(), ranks);
  }

  void sharding_fits() {
    if (plan_.sharding == Sharding::parameters &&
        job_.data_parallel_size() * plan_.context_parallel_size == 1)
      warn(
          Code::inert_option,
          "sharding parameters with one data-parallel rank (there is no rank to share with); leave "
          "it out");
    const int64_t group = plan_.sharding_group_size;
    if (group > 0 && job_.data_parallel_size() % group != 0)
      error(Code::inconsistent,
            "sharding_group_size {} does not divide data_parallel_size {} (every group holds one "
            "copy of the state); {}",
            group, job_.data_parallel_size(),
            divisors_to_try(job_.data_parallel_size(),
                            [](Job& job) -> int64_t& { return job.plan.sharding_group_size; }));
  }

  void offload_is_modelled() {
    const double share = plan_.activation_offload;
    if (!(share >= 0 && share <= 1))
      error(Code::inconsistent,
            "activation_offload {} is not between 0 and 1 (it is the share of activations that "
            "waits in the host's memory); set it to 0.5, say",
            share);
    if (share == 0) return;
    if (!job_.cluster.gpu.host_bandwidth)
      error(Code::unsupported,
            "activation_offload {} on {}, whose host_bandwidth is not known (it decides how long "
            "the copies take); set gpu.host_bandwidth in the cluster's file",
            share, job_.cluster.gpu.name);
    if (plan_.recompute_layers)
      error(Code::unsupported,
            "activation_offload {} with recompute_layers {} (layers of a chunk then keep different "
            "amounts, which is not modelled); leave one of them out",
            share, *plan_.recompute_layers);
  }

  void connections_are_possible() {
    const std::optional<int64_t> count = plan_.cuda_device_max_connections;
    if (count && (*count < 1 || *count > 32))
      error(Code::inconsistent,
            "cuda_device_max_connections {} is not between 1 and 32 (the range of "
            "CUDA_DEVICE_MAX_CONNECTIONS); leave it out for the driver's default",
            *count);
  }

  void sequence_fits() {
    const int64_t cp = plan_.context_parallel_size, tp = plan_.tensor_parallel_size;
    if (cp > 1 && (cp > model_.sequence_length || model_.sequence_length % (2 * cp) != 0))
      error(Code::inconsistent,
            "sequence_length {} is not divisible by 2 x context_parallel_size {} (each rank takes "
            "one chunk "
            "of the front and one of the back, so that causal work is even); change one of them",
            model_.sequence_length, cp);
    if (plan_.sequence_parallel && model_.sequence_length % tp != 0)
      error(Code::inconsistent,
            "sequence_length {} is not divisible by tensor_parallel_size {} (sequence_parallel "
            "splits it evenly); {}",
            model_.sequence_length, tp, divisors_to_try(model_.sequence_length, tensor_size));
  }

  void schedule_fits() {
    const bool interleaved = plan_.schedule == Schedule::interleaved;
    if (interleaved && plan_.virtual_pipeline_size == 1)
      error(Code::inconsistent,
            "schedule interleaved with virtual_pipeline_size 1 (one chunk per stage leaves nothing "
            "to interleave); set virtual_pipeline_size to 2 or more");
    if (!interleaved && plan_.virtual_pipeline_size > 1)
      error(Code::inconsistent,
            "virtual_pipeline_size {} with schedule {} (only the interleaved schedule runs "
            "chunks); set schedule = \"interleaved\"",
            plan_.virtual_pipeline_size, enum_name(plan_.schedule));
    if (plan_.virtual_pipeline_size > 1 && plan_.pipeline_parallel_size == 1)
      error(Code::inconsistent,
            "virtual_pipeline_size {} without a pipeline (its chunks belong to different stages); "
            "set it to 1",
            plan_.virtual_pipeline_size);
  }

  void task_is_modelled() {
    if (job_.task == Task::decode && plan_.context_parallel_size > 1)
      error(Code::unsupported,
            "context_parallel_size {} with task decode (a sequence grows by one token at a time, "
            "and a cache split over ranks is not modelled); use tensor_parallel_size",
            plan_.context_parallel_size);
    if (job_.task == Task::lora && !plan_.lora)
      error(
          Code::inconsistent,
          "task lora without a [plan.lora] (the rank decides what is trained); add --lora-rank N, "
          "or [plan.lora] with rank and targets to the job file");
    if (job_.task == Task::pretrain && plan_.lora)
      error(Code::inconsistent,
            "task pretrain with a [plan.lora] (pretraining has no adapters); set task = \"lora\" "
            "or leave it out");
    if (!plan_.lora) return;
    lora_targets_are_known();
    if (!(plan_.lora->dropout >= 0 && plan_.lora->dropout < 1))
      error(Code::inconsistent,
            "lora dropout {} is not in [0, 1) (it is the share of an adapter's inputs that are set "
            "to 0); use 0 to do without",
            plan_.lora->dropout);
  }

  void lora_targets_are_known() {
    static constexpr std::array<std::string_view, 4> known = {"attention_qkv", "attention_dense",
                                                              "mlp_fc1", "mlp_fc2"};
    for (const std::string& target : plan_.lora->targets)
      if (!holds(known, target))
        error(
            Code::inconsistent,
            "lora target \"{}\" is not a module of a layer (it would train nothing); known are {}",
            target, fmt::join(known, ", "));
  }

  void inert_overlaps() {
    // Ranks of a context group hold the same parameters, and reduce their gradients as replicas do.
    const bool alone = job_.data_parallel_size() == 1 && plan_.context_parallel_size == 1;
    if (!alone || is_inference(job_.task)) return;
    if (plan_.overlap_gradient || plan_.overlap_parameter)
      warn(Code::inert_option,
           "overlap_gradient or overlap_parameter with data_parallel_size 1 (there is no gradient "
           "or parameter traffic to hide); leave them out");
  }

  const Job& job_;
  const Plan& plan_;
  const Model& model_;
  bool suggests_;
};

}  // namespace

std::vector<Diagnosis> diagnose(const Job& job) {
  return Examination(job, true).run();
}

bool has_errors(const std::vector<Diagnosis>& diagnoses) {
  return holds(diagnoses, Diagnosis::Severity::error, &Diagnosis::severity);
}

}  // namespace triplepoint::spec
