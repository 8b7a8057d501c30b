// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/job_flags.h"

#include <algorithm>
#include <iterator>

#include "triplepoint/base/text.h"

#include "triplepoint/flags/bind.h"

namespace triplepoint::flags {

Arguments ModelFlags::arguments() {
  return Arguments()
      .group("Sizes of the model (on top of --model or JOB; alone: a Llama)")
      .flag("--num-layers", "N", "layers", into(layers_))
      .flag("--hidden-size", "N", "width of the residual stream", into(hidden_))
      .flag("--ffn-hidden-size", "N", "width of the dense MLP", into(ffn_))
      .flag("--num-attention-heads", "N", "heads of queries", into(heads_))
      .flag("--num-query-groups", "N",
            "heads of keys and values (default: one for each query head)", into(groups_))
      .flag("--kv-channels", "N", "width of a head (default: hidden size over heads)",
            into(kv_channels_))
      .flag("--vocab-size", "N", "tokens of the vocabulary, before padding", into(vocabulary_));
}

bool ModelFlags::given() const {
  return layers_ || hidden_ || ffn_ || heads_ || groups_ || kv_channels_ || vocabulary_;
}

std::set<std::string, std::less<>> ModelFlags::keys() const {
  std::set<std::string, std::less<>> keys;
  const auto replace = [&](bool given, const char* key) {
    if (given) keys.insert(key);
  };
  replace(layers_.has_value(), "num-layers");
  replace(hidden_.has_value(), "hidden-size");
  replace(ffn_.has_value(), "ffn-hidden-size");
  replace(heads_.has_value(), "num-attention-heads");
  replace(groups_.has_value(), "num-query-groups");
  replace(kv_channels_.has_value(), "kv-channels");
  replace(vocabulary_.has_value(), "vocab-size");
  return keys;
}

Result<spec::Model> ModelFlags::model(std::optional<int64_t> sequence_length) const {
  std::vector<std::string> missing;
  const auto need = [&](const std::optional<int64_t>& size, const char* flag) {
    if (!size) missing.emplace_back(flag);
    return size.value_or(0);
  };
  spec::Model model;
  model.name = "custom";
  model.num_layers = need(layers_, "--num-layers");
  model.hidden_size = need(hidden_, "--hidden-size");
  model.ffn_hidden_size = need(ffn_, "--ffn-hidden-size");
  model.num_attention_heads = need(heads_, "--num-attention-heads");
  model.sequence_length = need(sequence_length, "--seq-length");
  model.vocabulary_size = need(vocabulary_, "--vocab-size");
  if (!missing.empty())
    return error(
        "no model was named, and its sizes are incomplete; give {} as well, or "
        "--model NAME to take the others from",
        fmt::join(missing, ", "));
  model.num_query_groups = groups_.value_or(model.num_attention_heads);
  model.kv_channels =
      kv_channels_.value_or(model.hidden_size / std::max<int64_t>(1, model.num_attention_heads));
  model.activation = spec::Activation::swiglu;
  model.normalization = spec::Normalization::rms_norm;
  model.position_embedding = spec::PositionEmbedding::rope;
  return model;
}

namespace {

/// An error where a size would change nothing, or less than it says.
Result<void> check_change(const spec::Model& model, bool layers, bool ffn) {
  if (layers && model.layer_pattern)
    return error(
        "--num-layers: the layers of {0} are of several kinds, one letter each "
        "in its layer_pattern; write a model file with base = \"{0}\" and "
        "another pattern, and give it to --model",
        model.name);
  bool dense = false;
  for (int64_t layer = 0; layer < model.num_layers; ++layer)
    dense = dense || spec::has_dense_mlp(spec::kind_of_layer(model, layer));
  if (ffn && !dense)
    return error(
        "--ffn-hidden-size: no layer of {0} has a dense MLP, all have experts; write a model file "
        "with base = \"{0}\" and [model.moe] ffn_hidden_size, and give it to --model",
        model.name);
  return {};
}

struct ScheduleWord {
  std::string_view word;
  spec::Schedule schedule;
};
constexpr ScheduleWord schedule_words[] = {{"gpipe", spec::Schedule::gpipe},
                                           {"1f1b", spec::Schedule::one_f_one_b},
                                           {"interleaved", spec::Schedule::interleaved},
                                           {"zero-bubble", spec::Schedule::zero_bubble}};

std::vector<std::string> words_of_schedules() {
  return mapped<std::string>(schedule_words, &ScheduleWord::word);
}

Store into_schedule(std::optional<spec::Schedule>& target) {
  return [&target](std::string_view text) -> Result<void> {
    for (const ScheduleWord& entry : schedule_words)
      if (entry.word == text) target = entry.schedule;
    return {};
  };
}

/// A number from `low` to `high`; "2:1" is 2. `usage`: what it is, and what to try.
Store into_ratio(std::optional<double>& target, double low, double high, std::string_view usage) {
  return [&target, low, high, usage](std::string_view text) -> Result<void> {
    const auto split = split_number(text);
    const bool is_percent = split && split->rest == "%" && high <= 1;
    const double value = split ? split->number * (is_percent ? 0.01 : 1) : low - 1;
    if ((split && !is_percent && !split->rest.empty() && split->rest != ":1") ||
        !(value >= low && value <= high))
      return error("\"{}\" is no {}", text, usage);
    target = value;
    return {};
  };
}

}  // namespace

Result<void> ModelFlags::change(spec::Model& model) const {
  TPT_TRY(check_change(model, layers_.has_value(), ffn_.has_value()));
  const spec::Model before = model;
  const bool own_groups = before.num_query_groups == before.num_attention_heads;
  const bool own_width = before.kv_channels * before.num_attention_heads == before.hidden_size;
  model.num_layers = layers_.value_or(model.num_layers);
  model.hidden_size = hidden_.value_or(model.hidden_size);
  model.ffn_hidden_size = ffn_.value_or(model.ffn_hidden_size);
  model.num_attention_heads = heads_.value_or(model.num_attention_heads);
  model.vocabulary_size = vocabulary_.value_or(model.vocabulary_size);
  model.num_query_groups =
      groups_.value_or(own_groups ? model.num_attention_heads : model.num_query_groups);
  const int64_t heads = std::max<int64_t>(1, model.num_attention_heads);
  model.kv_channels =
      kv_channels_.value_or(own_width ? model.hidden_size / heads : model.kv_channels);
  if (model == before) return {};
  model.name += "-custom";
  model.published_parameters = model.published_active_parameters = std::nullopt;
  return {};
}

bool JobFlags::name_a_job() const {
  return !file_.empty() || model_ || sizes_.given() || stack_ || nodes_ || tp_ || pp_ || cp_ ||
         ep_ || mbs_ || gbs_;
}

bool JobFlags::has_layout() const {
  return tp_ || pp_ || cp_ || ep_ || vpp_ || sharding_;
}

Arguments JobFlags::arguments() {
  return inputs()
      .add(sizes_.arguments())
      .add(parallelism())
      .add(batch())
      .add(memory())
      .add(schedule_and_overlap())
      .add(environment());
}

Arguments JobFlags::arguments_of_search(const GivenFlag& given) {
  using enum spec::JobSetting;
  searched_ = {micro_batch_size, recompute, sharding};
  const Arguments layout = parallelism().add(memory()).add(schedule_and_overlap());
  Arguments all = arguments();
  for (Argument& each : all) {
    const std::string name = each.names.substr(0, each.names.find(','));
    const bool chosen = name == "--mbs" || holds(layout, each.names, &Argument::names);
    if (!chosen || name == "--activation-offload") continue;
    each.store = [name, given, store = each.store](std::string_view text) {
      given(name, text);
      return store(text);
    };
  }
  return all;
}

Arguments JobFlags::inputs() {
  return Arguments()
      .group("What runs where")
      .word("JOB",
            "job.toml, NeMo YAML, Hugging Face config.json or Megatron arguments; flags go on "
            "top of it",
            into(file_), {.words = Words::files})
      .flag("--task", "TASK", "full training (default), adapter training, prefill, or decode",
            into_word(task_), {.choices = words_of<spec::Task>()})
      .flag("--model", "NAME",
            "see triplepoint show models; or a file: TOML as in data/models, with base = \"NAME\" "
            "and what differs, or config.json",
            into(model_), {.words = Words::models})
      .flag("--cluster", "NAME", "see triplepoint show clusters", into(cluster_),
            {.words = Words::clusters})
      .flag("--nodes,--num-nodes", "N", "machines (default: 1, or all of your own cluster file)",
            into(nodes_))
      .flag("--stack", "NAME", "software that runs the job, see triplepoint show stacks",
            into(stack_), {.words = Words::stacks})
      .flag("--with", "FOLDER",
            "predict with what triplepoint calibrate learned from your own runs", into(with_),
            {.words = Words::folders})
      .add(launch_.arguments());
}

Arguments JobFlags::parallelism() {
  return Arguments()
      .group("Layout (data parallelism takes the rest)")
      .flag("--tp,--tensor-model-parallel-size", "N", "tensor parallelism", into(tp_))
      .flag("--pp,--pipeline-model-parallel-size", "N", "pipeline stages", into(pp_))
      .flag("--ep,--expert-model-parallel-size", "N", "expert parallelism", into(ep_))
      .flag("--expert-tensor-parallel-size", "N",
            "tensor parallelism of the experts (default: that of the rest)", into(expert_tp_))
      .flag("--cp,--context-parallel-size", "N", "context parallelism", into(cp_))
      .flag("--vpp,--virtual-pipeline-model-parallel-size", "N",
            "model chunks per stage, interleaved", into(vpp_))
      .toggle("--sequence-parallel,--sp", "shard norms and dropout over the tensor group",
              sequence_parallel_)
      .flag("--layers-per-stage", "LIST", "uneven stages, as in 21,19,21,19",
            into(layers_per_stage_))
      .flag("--rank-order", "ORDER", "order of the groups", into_word(rank_order_),
            {.choices = words_of<spec::RankOrder>()})
      .flag("--placement", "LIST", "order of a node's devices, as in 1,2,5,7,0,3,4,6",
            into(placement_));
}

Arguments JobFlags::batch() {
  return Arguments()
      .group("Batch and precision")
      .flag("--mbs,--micro-batch-size", "N", "sequences in a microbatch (default 1)", into(mbs_))
      .flag("--gbs,--global-batch-size", "N",
            "sequences in a step (default 128, or the next that DP divides)", into(gbs_))
      .flag("--seq,--seq-length", "N", "tokens in a sequence (default: the model's)", into(seq_))
      .flag("--records", "NAME",
            "lengths of the records, see triplepoint show records; or a file: TOML as in "
            "data/records (default: every record fills its sequence)",
            into(records_), {.words = Words::records})
      .flag("--record-layout", "HOW",
            "how records become rows: padded to the sequence length (default), padded to the "
            "longest of the microbatch, or packed",
            into_word(record_layout_), {.choices = words_of<spec::RecordLayout>()})
      .flag("--precision", "TYPE", "data type of the matrix products (default bf16)",
            into_word(precision_), {.choices = words_of<spec::Precision>()})
      .toggle("--fp8-attention", "attention GEMMs in FP8", fp8_attention_)
      .flag("--optimizer", "NAME",
            "optimizer with its gradient and master precision, see triplepoint show optimizers "
            "(default: the stack's)",
            into(optimizer_), {.words = Words::optimizers})
      .flag("--lora-rank", "N", "LoRA rank", into(lora_rank_));
}

Arguments JobFlags::memory() {
  return Arguments()
      .group("Memory")
      .flag("--sharding", "WHAT",
            "ZeRO 0 to 3; parameters is FSDP (default: optimizer when DP x CP > 1)",
            into_word(sharding_), {.choices = words_of<spec::Sharding>()})
      .flag("--recompute,--recompute-granularity", "WHAT",
            "activation recomputation in the backward pass (default none)", into_word(recompute_),
            {.choices = words_of<spec::Recompute>()})
      .flag("--recompute-layers,--recompute-num-layers", "N",
            "layers of each stage to recompute (default: all)", into(recompute_layers_))
      .flag("--recompute-modules", "LIST",
            "modules that selective recompute recomputes: core_attn, mla_up_proj, layernorm, "
            "moe_act, mlp, moe, shared_experts, alternate_gemms (default core_attn)",
            into_words(recompute_modules_))
      .flag("--activation-offload", "SHARE",
            "share of the activations that is kept in host memory until the backward pass (default "
            "0)",
            into_ratio(activation_offload_, 0, 1, "share from 0 to 1; try 0.5 or 50%"));
}

Arguments JobFlags::schedule_and_overlap() {
  return Arguments()
      .group("Schedule and overlap")
      .flag("--schedule", "NAME", "pipeline schedule (default 1f1b; interleaved with --vpp)",
            into_schedule(schedule_), {.choices = words_of_schedules()})
      .flag("--overlap", "LIST",
            "communication overlapped with computation: tp, dp, pp, ep, or none (default none)",
            into(overlap_));
}

Arguments JobFlags::environment() {
  return Arguments()
      .group("Environment")
      .flag("--ambient", "TEMP", "inlet temperature of air or coolant, as in \"30 C\"",
            into_quantity(ambient_))
      .flag("--cooling", "HOW", "cooling system (default: the cluster's)", into_word(cooling_),
            {.choices = {"air", "liquid"}})
      .flag("--power-limit", "POWER", "power limit of each device, as in \"600 W\" (default: TDP)",
            into_quantity(power_limit_))
      .flag("--fabric", "KIND", "fabric between nodes, with the cluster's NICs", into_word(fabric_),
            {.choices = words_of<spec::FabricKind>()})
      .flag("--oversubscription", "RATIO",
            "oversubscription above the leaf switches, or between dragonfly groups; 2 means 2:1",
            into_ratio(oversubscription_, 1, HUGE_VAL, "ratio of 1 or more; try 2 or 2:1"))
      .flag("--seed", "N", "seed of the spread between boards and nodes (default 1)", into(seed_));
}

namespace {

std::string overlap_list(const spec::Plan& plan) {
  std::vector<std::string> words;
  if (plan.overlap_tensor) words.emplace_back("tp");
  if (plan.overlap_gradient || plan.overlap_parameter) words.emplace_back("dp");
  if (plan.overlap_pipeline) words.emplace_back("pp");
  if (plan.overlap_expert) words.emplace_back("ep");
  if (words.empty()) words.emplace_back("none");
  return joined(words, ",");
}

/// Of the layout; a size of 1 goes without saying.
FlagTexts flags_of(const spec::Plan& plan) {
  FlagTexts flags;
  const auto size = [&](const char* name, int64_t value, int64_t usual = 1) {
    if (value != usual) flags.emplace_back(name, std::to_string(value));
  };
  size("--tp", plan.tensor_parallel_size);
  size("--pp", plan.pipeline_parallel_size);
  size("--ep", plan.expert_parallel_size);
  size("--cp", plan.context_parallel_size);
  size("--expert-tensor-parallel-size", plan.expert_tensor_size(), plan.tensor_parallel_size);
  size("--vpp", plan.virtual_pipeline_size);
  if (plan.sequence_parallel) flags.emplace_back("--sequence-parallel", "");
  if (!plan.layers_per_stage.empty())
    flags.emplace_back(
        "--layers-per-stage",
        joined(mapped(plan.layers_per_stage, [](int64_t layers) { return std::to_string(layers); }),
               ","));
  if (plan.rank_order != spec::RankOrder::tp_cp_ep_dp_pp)
    flags.emplace_back("--rank-order", spec::enum_name(plan.rank_order));
  flags.emplace_back("--mbs", std::to_string(plan.micro_batch_size));
  flags.emplace_back("--gbs", std::to_string(plan.global_batch_size));
  flags.emplace_back("--sharding", spec::enum_name(plan.sharding));
  flags.emplace_back("--recompute", spec::enum_name(plan.recompute));
  if (plan.recompute_layers)
    flags.emplace_back("--recompute-layers", std::to_string(*plan.recompute_layers));
  if (!plan.recompute_modules.empty())
    flags.emplace_back(
        "--recompute-modules",
        joined(mapped<std::string>(plan.recompute_modules, spec::enum_name<spec::RecomputeModule>),
               ","));
  if (plan.activation_offload > 0)
    flags.emplace_back("--activation-offload", fmt::format("{}", plan.activation_offload));
  for (const ScheduleWord& entry : schedule_words)
    if (entry.schedule == plan.schedule) flags.emplace_back("--schedule", entry.word);
  flags.emplace_back("--overlap", overlap_list(plan));
  flags.emplace_back("--precision", spec::enum_name(plan.precision));
  if (plan.fp8_attention) flags.emplace_back("--fp8-attention", "");
  if (plan.record_layout != spec::RecordLayout::padded)
    flags.emplace_back("--record-layout", spec::enum_name(plan.record_layout));
  flags.emplace_back("--optimizer", plan.optimizer.name);
  if (plan.lora) flags.emplace_back("--lora-rank", std::to_string(plan.lora->rank));
  return flags;
}

}  // namespace

FlagTexts flags_of(const spec::Job& job) {
  FlagTexts flags = {
      {"--task", std::string(spec::enum_name(job.task))},
      {"--model", job.model.name},
      {"--cluster", job.cluster.name},
      {"--nodes", std::to_string(job.cluster.num_nodes)},
      {"--stack", job.stack.name},
      {"--seq", std::to_string(job.model.sequence_length)},
      {"--ambient", fmt::format("{:g} C", job.chassis().inlet.degrees())},
      {"--cooling", std::string(spec::enum_name(job.chassis().cooling))},
      {"--power-limit", fmt::format("{:g} W", job.power_limit() / unit::W)},
      {"--fabric", std::string(spec::enum_name(job.cluster.scale_out.kind))},
      {"--oversubscription", fmt::format("{:g}", job.cluster.scale_out.oversubscription)},
      {"--seed", std::to_string(job.environment.seed)}};
  if (job.records) flags.emplace_back("--records", job.records->name);
  FlagTexts layout = flags_of(job.plan);
  std::move(layout.begin(), layout.end(), std::back_inserter(flags));
  return flags;
}

}  // namespace triplepoint::flags
