// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/pipeline_layout.h"
#include "triplepoint/formats/readers.h"
#include "triplepoint/formats/settings.h"
#include "triplepoint/formats/yaml_document.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using spec::Model;
using spec::Plan;
using spec::Task;
using Severity = spec::Diagnosis::Severity;

constexpr int64_t most_ranks = 1'000'000;  // products of three sizes still fit 64 bits
constexpr int64_t largest_dimension = 10'000'000;
constexpr double usual_dropout = 0.1;  // NeMo's, of hidden states and attention

/// Where a diagnosis of the job points to in the file.
constexpr std::array key_of_code{
    KeyOfCode{DiagnosisCode::layers_not_divisible, "model.pipeline_model_parallel_size"},
    KeyOfCode{DiagnosisCode::world_not_divisible, "trainer.num_nodes"},
    KeyOfCode{DiagnosisCode::batch_not_divisible, "model.micro_batch_size"},
    KeyOfCode{DiagnosisCode::experts_not_divisible, "model.expert_model_parallel_size"},
    KeyOfCode{DiagnosisCode::heads_not_divisible, "model.tensor_model_parallel_size"},
    KeyOfCode{DiagnosisCode::head_dimension, "model.hidden_size"},
    KeyOfCode{DiagnosisCode::tensor_overlap_without_sequence_parallel, "model.ub_tp_comm_overlap"},
};

Result<int64_t> required(Settings& s, std::string_view key) {
  if (const auto value = s.count(key, 1, largest_dimension)) return *value;
  if (s.is_by_flags(key)) return 1;  // until the flag's value takes its place
  if (!s.diagnoses().empty() && s.line(key) > 0) return error(s.diagnoses().back().what);
  return error(
      fmt::format("{}{} is missing (the model's size depends on it); add it, or take it "
                  "from the checkpoint's own configuration",
                  s.place(key), key));
}

// What the job does ---------------------------------------------------------------------------

bool has_section(const Settings& s, std::string_view prefix) {
  return std::any_of(s.all().begin(), s.all().end(),
                     [&](const Setting& setting) { return setting.key.starts_with(prefix); });
}

/// The entry script decides if it is known; else what only its configuration has.
Task read_task(Settings& s, const ImportHints& hints) {
  const bool skip_train = s.boolean("model.skip_train").value_or(false);
  const bool lora = s.text("model.peft.peft_scheme").value_or("none") == "lora";
  const std::string entry =
      hints.job_script && hints.job_script->entry ? *hints.job_script->entry : std::string();
  if (entry.find("generate") != entry.npos || entry.find("eval") != entry.npos)
    return Task::prefill;
  if (entry.find("pretraining") != entry.npos) return Task::pretrain;
  if (entry.empty() && (skip_train || has_section(s, "inference."))) return Task::prefill;
  // hparams.yaml of megatron_gpt_generate.py, which keeps nothing of the inference section.
  const bool is_whole = has_section(s, "trainer.");
  if (entry.empty() && !is_whole && !lora && has_section(s, "model.data.test_ds."))
    return Task::prefill;
  return lora ? Task::lora : Task::pretrain;
}

void check_task(Settings& s, Task task) {
  const std::vector<std::string> words = words_of(s.file());
  if (task == Task::lora && std::find(words.begin(), words.end(), "inference") != words.end())
    s.note(DiagnosisCode::inconsistent, Severity::warning, "model.peft.peft_scheme",
           "the path says inference, but the job trains (peft_scheme is lora, with no inference "
           "section and no skip_train); it is read as LoRA fine-tuning");
  if (task == Task::prefill) {
    const auto tokens = s.count("model.data.test_ds.tokens_to_generate", 0);
    s.assume(
        fmt::format("inference is the prompt's pass through the model; the {}tokens generated "
                    "after it are not counted",
                    tokens ? fmt::format("{} ", *tokens) : ""));
  }
  constexpr std::array<std::string_view, 3> schemes{"lora", "none", "null"};
  s.one_of("model.peft.peft_scheme", schemes);
}

/// The section that sets batch and length: fine-tuning and inference have their own data sets.
std::string data_section(const Settings& s, Task task) {
  std::string section = task == Task::prefill ? "model.data.test_ds." : "model.data.train_ds.";
  return has_section(s, section) ? section : std::string();
}

// The model -----------------------------------------------------------------------------------

struct ActivationName {
  std::string_view name;
  spec::Activation activation;
  bool exact = true;  // false: another function of the same shape
};
constexpr std::array activations{
    ActivationName{"gelu", spec::Activation::gelu},
    ActivationName{"fast-gelu", spec::Activation::gelu},
    ActivationName{"approx-gelu", spec::Activation::gelu},
    ActivationName{"openai-gelu", spec::Activation::gelu},
    ActivationName{"quick-gelu", spec::Activation::gelu},
    ActivationName{"relu", spec::Activation::gelu, false},
    ActivationName{"swiglu", spec::Activation::swiglu},
    ActivationName{"fast-swiglu", spec::Activation::swiglu},
    ActivationName{"geglu", spec::Activation::swiglu, false},
    ActivationName{"fast-geglu", spec::Activation::swiglu, false},
    ActivationName{"reglu", spec::Activation::swiglu, false},
    ActivationName{"fast-reglu", spec::Activation::swiglu, false},
    ActivationName{"squared-relu", spec::Activation::squared_relu},
};

spec::Activation read_activation(Settings& s) {
  const std::string name = s.text("model.activation").value_or("gelu");
  for (const ActivationName& each : activations) {
    if (each.name != name) continue;
    if (!each.exact) s.assume(fmt::format("activation {} costs what its relative costs", name));
    return each.activation;
  }
  s.note(DiagnosisCode::unsupported, Severity::error, "model.activation",
         fmt::format("activation '{}' is not modelled; try gelu, swiglu or squared-relu", name));
  return spec::Activation::gelu;
}

spec::Normalization read_normalization(Settings& s) {
  constexpr std::array<std::string_view, 4> known{"layernorm", "layernorm1p",
                                                  "low_precision_layernorm", "rmsnorm"};
  const auto name = s.one_of("model.normalization", known);
  return name == "rmsnorm" ? spec::Normalization::rms_norm : spec::Normalization::layer_norm;
}

spec::PositionEmbedding read_positions(Settings& s) {
  constexpr std::array<std::string_view, 6> known{"learned_absolute", "rope",    "none", "alibi",
                                                  "kerple",           "sandwich"};
  const auto name = s.one_of("model.position_embedding_type", known);
  if (!name || *name == "learned_absolute") return spec::PositionEmbedding::learned;
  if (*name == "rope") return spec::PositionEmbedding::rope;
  if (*name != "none") s.assume(fmt::format("position embedding {} costs nothing", *name));
  return spec::PositionEmbedding::none;
}

int64_t read_vocabulary(Settings& s) {
  const auto name = s.text("model.tokenizer.type");
  const auto library = s.text("model.tokenizer.library");
  const auto file = s.text("model.tokenizer.model");
  if (const auto size = s.count("model.override_vocab_size", 1, largest_dimension)) return *size;
  for (const auto& tokenizer : {name, file, library}) {
    if (!tokenizer) continue;
    if (const auto size = vocabulary_of(*tokenizer)) {
      s.assume(
          fmt::format("vocabulary of {} tokens after the tokenizer's name, {}", *size, *tokenizer));
      return *size;
    }
  }
  s.note(DiagnosisCode::unsupported, Severity::error, "model.tokenizer.type",
         fmt::format("the vocabulary of tokenizer '{}' is not known (embedding and loss depend on "
                     "its size); add model.override_vocab_size",
                     name.value_or(file.value_or("none"))));
  return 1;
}

constexpr const char* no_name = "model";

/// Names in files lead a prefix of the framework's: "megatron_llama3-70b".
std::string read_model_name(Settings& s) {
  std::string name = s.text("exp_manager.name").value_or(s.text("name").value_or(no_name));
  constexpr std::string_view prefix = "megatron_";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

Result<void> read_dimensions(Settings& s, Model& model) {
  model.num_layers = TPT_TRY(required(s, "model.num_layers"));
  model.hidden_size = TPT_TRY(required(s, "model.hidden_size"));
  model.num_attention_heads = TPT_TRY(required(s, "model.num_attention_heads"));
  model.ffn_hidden_size =
      s.count("model.ffn_hidden_size", 1, largest_dimension).value_or(4 * model.hidden_size);
  model.num_query_groups =
      s.count("model.num_query_groups", 1, largest_dimension).value_or(model.num_attention_heads);
  const auto kv_channels = s.count("model.kv_channels", 1, largest_dimension);
  model.kv_channels =
      kv_channels.value_or(std::max<int64_t>(1, model.hidden_size / model.num_attention_heads));
  if (!kv_channels && model.hidden_size % model.num_attention_heads != 0)
    s.note(DiagnosisCode::inconsistent, Severity::error, "model.num_attention_heads",
           fmt::format("num_attention_heads {} does not divide hidden_size {} (each head gets an "
                       "equal share); change one, or set kv_channels",
                       model.num_attention_heads, model.hidden_size));
  return {};
}

void read_length(Settings& s, const std::string& data, Model& model) {
  const auto encoder = s.count("model.encoder_seq_length");
  const auto plain = s.count("model.data.seq_length");
  const auto positions = s.count("model.max_position_embeddings");
  const auto own = data.empty() ? std::nullopt : s.count(data + "max_seq_length");
  const bool padded = !data.empty() && s.boolean(data + "pad_to_max_length").value_or(false);
  model.sequence_length = own ? *own : plain ? *plain : encoder.value_or(2048);
  if (own && !padded)
    s.assume(fmt::format(
        "every sample is {} tokens long ({}max_seq_length); shorter ones take less", *own, data));
  if (!own && !plain && !encoder) s.assume("sequences of 2048 tokens: the file names no length");
  const bool learned = model.position_embedding == spec::PositionEmbedding::learned;
  if (learned && positions && model.sequence_length > *positions)
    s.note(DiagnosisCode::inconsistent, Severity::error, "model.max_position_embeddings",
           fmt::format("sequences of {} tokens, but max_position_embeddings is {} (learned "
                       "positions end there); raise it",
                       model.sequence_length, *positions));
}

int64_t read_dense_layers(Settings& s, const Model& model) {
  const auto pattern = s.text("model.moe_layer_freq");
  if (!pattern) return 0;
  if (const auto dense = leading_dense_layers(*pattern, model.num_layers)) return *dense;
  s.note(DiagnosisCode::unsupported, Severity::error, "model.moe_layer_freq",
         fmt::format("moe_layer_freq '{}' is not modelled (dense layers may only come first); try "
                     "1 or \"([0]*n+[1]*m)\" with n + m layers",
                     pattern->substr(0, 60)));
  return 0;
}

void read_experts(Settings& s, Model& model) {
  const auto experts = s.count("model.num_moe_experts", 1, largest_dimension);
  const auto topk = s.count("model.moe_router_topk", 1, largest_dimension);
  const auto ffn = s.count("model.moe_ffn_hidden_size", 1, largest_dimension);
  const auto shared = s.count("model.moe_shared_expert_intermediate_size", 0, largest_dimension);
  const auto capacity = s.number("model.moe_expert_capacity_factor");
  const auto padded = s.boolean("model.moe_pad_expert_input_to_capacity");
  const auto grouped = s.boolean("model.moe_grouped_gemm");
  constexpr std::array<std::string_view, 4> dispatchers{"allgather", "alltoall", "alltoall_seq",
                                                        "flex"};
  const auto dispatcher = s.one_of("model.moe_token_dispatcher_type", dispatchers);
  const int64_t dense = read_dense_layers(s, model);
  if (!experts) return;
  model.moe = spec::MixtureOfExperts{.num_experts = *experts,
                                     .router_topk = topk.value_or(2),
                                     .ffn_hidden_size = ffn.value_or(model.ffn_hidden_size),
                                     .capacity_factor = capacity,
                                     .pad_to_capacity = padded.value_or(false),
                                     .grouped_gemm = grouped.value_or(false),
                                     .shared_expert_ffn_hidden_size = shared.value_or(0),
                                     .num_dense_layers = dense};
  if (dispatcher.value_or("allgather") != "alltoall")
    s.assume(fmt::format("tokens reach their experts by all-to-all, not by {}",
                         dispatcher.value_or("allgather")));
}

void read_details(Settings& s, Model& model) {
  model.vocabulary_size = read_vocabulary(s);
  model.vocabulary_divisible_by =
      s.count("model.make_vocab_size_divisible_by", 1, largest_dimension).value_or(128);
  model.activation = read_activation(s);
  model.normalization = read_normalization(s);
  model.position_embedding = read_positions(s);
  model.tied_embeddings = s.boolean("model.share_embeddings_and_output_weights").value_or(true);
  model.biases = s.boolean("model.bias").value_or(true);
  model.dropout = s.fraction("model.hidden_dropout").value_or(usual_dropout);
  const auto attention_dropout = s.fraction("model.attention_dropout");
  if (attention_dropout && *attention_dropout != model.dropout)
    s.assume(fmt::format("one dropout of {} (the attention's own, {}, is inside its kernel)",
                         model.dropout, *attention_dropout));
  if (s.has("model.window_size"))
    s.note(DiagnosisCode::unsupported, Severity::warning, "model.window_size",
           "window_size: sliding windows are not modelled: attention is over the whole sequence");
}

/// A job that calls itself after a model of the library but has other dimensions is a slip.
void compare_with_library(LibraryCache& cache, Settings& s, const Model& model) {
  const auto known = cache.model(model.name);
  if (!known) return;
  struct Dimension {
    std::string_view key;
    int64_t mine, theirs;
  };
  const std::array dimensions{
      Dimension{"num_layers", model.num_layers, known->num_layers},
      Dimension{"hidden_size", model.hidden_size, known->hidden_size},
      Dimension{"ffn_hidden_size", model.ffn_hidden_size, known->ffn_hidden_size},
      Dimension{"num_attention_heads", model.num_attention_heads, known->num_attention_heads}};
  for (const Dimension& each : dimensions)
    if (each.mine != each.theirs)
      s.assume(fmt::format("{0} {1} is meant, though {2}, after which the job is named, has {3}",
                           each.key, each.mine, model.name, each.theirs));
}

Result<Model> read_model(LibraryCache& cache, Settings& s, const std::string& data,
                         const std::string& place) {
  Model model;
  model.name = read_model_name(s);
  TPT_TRY(read_dimensions(s, model));
  read_details(s, model);
  read_length(s, data, model);
  read_experts(s, model);
  if (model.name == no_name)
    if (auto known = model_of_shape(cache, model, place)) model = *std::move(known);
  compare_with_library(cache, s, model);
  return model;
}

// The plan ------------------------------------------------------------------------------------

spec::Precision read_precision(Settings& s) {
  const bool fp8 = s.boolean("model.fp8").value_or(false);
  constexpr std::array<std::string_view, 9> known{
      "bf16", "bf16-mixed", "bf16-true", "16", "16-mixed", "16-true", "32", "32-true", "fp16"};
  const auto name = s.one_of("trainer.precision", known);
  const auto own = s.one_of("model.precision", known);
  if (name && own && *name != *own)
    s.note(DiagnosisCode::inconsistent, Severity::warning, "model.precision",
           fmt::format("model.precision is {}, trainer.precision {}; the trainer's holds", *own,
                       *name));
  if (fp8) return spec::Precision::fp8;
  const std::string word = name.value_or(own.value_or("32"));
  if (word.starts_with("bf16")) return spec::Precision::bf16;
  return word.starts_with("32") ? spec::Precision::fp32 : spec::Precision::fp16;
}

/// How Megatron-Core passes keys and values between context ranks; a list has one word per layer.
void read_context_exchange(Settings& s, Plan& plan) {
  const auto kinds = s.list("model.cp_comm_type");
  if (!kinds || kinds->empty()) return;
  if (kinds->front() == "all_gather") plan.context_exchange = spec::ContextExchange::all_gather;
  if (kinds->front() != "p2p" && kinds->front() != "all_gather")
    s.assume(fmt::format("keys and values pass around a ring, not by {} (model.cp_comm_type)",
                         kinds->front()));
}

void read_sizes(Settings& s, const Model& model, Plan& plan) {
  const auto size = [&](std::string_view key) { return s.count(key, 1, most_ranks).value_or(1); };
  plan.tensor_parallel_size = size("model.tensor_model_parallel_size");
  plan.pipeline_parallel_size = size("model.pipeline_model_parallel_size");
  plan.context_parallel_size = size("model.context_parallel_size");
  plan.expert_parallel_size = size("model.expert_model_parallel_size");
  plan.expert_tensor_parallel_size = s.count("model.expert_tensor_parallel_size", 1, most_ranks);
  plan.virtual_pipeline_size = size("model.virtual_pipeline_model_parallel_size");
  plan.sequence_parallel = s.boolean("model.sequence_parallel").value_or(false);
  plan.fp32_residual = s.boolean("model.fp32_residual_connection").value_or(false);
  read_context_exchange(s, plan);
  if (plan.virtual_pipeline_size > 1) plan.schedule = spec::Schedule::interleaved;
  if (s.boolean("model.use_tp_pp_dp_mapping").value_or(false))
    plan.rank_order = spec::RankOrder::tp_pp_dp;
  const auto first = s.count("model.num_layers_in_first_pipeline_stage", 0, largest_dimension);
  const auto last = s.count("model.num_layers_in_last_pipeline_stage", 0, largest_dimension);
  if (!first && !last) return;
  const auto layers = uneven_stages(model.num_layers, plan.pipeline_parallel_size, first, last);
  if (layers) plan.layers_per_stage = *layers;
  if (!layers || plan.virtual_pipeline_size > 1)
    s.note(DiagnosisCode::layers_not_divisible, Severity::error,
           first ? "model.num_layers_in_first_pipeline_stage"
                 : "model.num_layers_in_last_pipeline_stage",
           "the layers left for the other stages cannot be shared evenly; change the number");
}

void read_batches(Settings& s, const std::string& data, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  const auto micro = s.count("model.micro_batch_size");
  const auto global = s.count("model.global_batch_size");
  const auto own_micro = data.empty() ? std::nullopt : s.count(data + "micro_batch_size");
  const auto own_global = data.empty() ? std::nullopt : s.count(data + "global_batch_size");
  plan.micro_batch_size = own_micro ? *own_micro : micro.value_or(1);
  plan.global_batch_size = own_global ? *own_global : global.value_or(0);
  if (own_micro || micro) stated.stated.insert(spec::JobSetting::micro_batch_size);
  if (own_global || global) stated.stated.insert(spec::JobSetting::global_batch_size);
  if (s.has("model.rampup_batch_size"))
    s.note(DiagnosisCode::unsupported, Severity::warning, "model.rampup_batch_size",
           "rampup_batch_size: the batch grows during the run, which is not modelled: the final "
           "size is simulated");
  const auto accumulate = s.count("trainer.accumulate_grad_batches");
  if (accumulate.value_or(1) != 1)
    s.note(DiagnosisCode::unsupported, Severity::error, "trainer.accumulate_grad_batches",
           fmt::format("accumulate_grad_batches is {} (NeMo accumulates by itself and requires 1); "
                       "set it to 1",
                       *accumulate));
}

void read_recompute(Settings& s, Plan& plan) {
  constexpr std::array<std::string_view, 2> granularities{"selective", "full"};
  constexpr std::array<std::string_view, 2> methods{"uniform", "block"};
  const auto granularity = s.one_of("model.activations_checkpoint_granularity", granularities);
  const auto method = s.one_of("model.activations_checkpoint_method", methods);
  const auto layers = s.count("model.activations_checkpoint_num_layers", 0, largest_dimension);
  const auto modules = read_recompute_modules(s, "model.recompute_modules");
  for (const std::string_view partial :
       {"model.activations_checkpoint_layers_per_pipeline",
        "model.num_micro_batches_with_partial_activation_checkpoints"})
    if (s.has(partial))
      s.note(
          DiagnosisCode::unsupported, Severity::warning, partial,
          fmt::format("{} is not modelled: every microbatch and stage recomputes alike", partial));
  if (!granularity) return;
  plan.recompute = *granularity == "full" ? spec::Recompute::full : spec::Recompute::selective;
  if (plan.recompute == spec::Recompute::selective) {
    plan.recompute_modules = modules;
    return;
  }
  if (method == "block" && layers) plan.recompute_layers = layers;
  if (method == "uniform" && layers.value_or(1) > 1)
    s.assume(
        fmt::format("every layer keeps its input; uniform recompute in groups of {} keeps one "
                    "input a group",
                    *layers));
  if (!method || (method == "block" && !layers))
    s.note(
        DiagnosisCode::inconsistent, Severity::error, "model.activations_checkpoint_granularity",
        "full recompute names no layers (Megatron refuses it); set activations_checkpoint_method "
        "and activations_checkpoint_num_layers");
}

void read_overlap(Settings& s, Plan& plan) {
  plan.overlap_tensor = s.boolean("model.ub_tp_comm_overlap").value_or(false);
  if (s.boolean("model.tp_comm_overlap").value_or(false)) plan.overlap_tensor = true;
  plan.overlap_gradient = s.boolean("model.optim.overlap_grad_sync").value_or(false);
  plan.overlap_parameter = s.boolean("model.optim.overlap_param_sync").value_or(false);
  plan.overlap_pipeline = s.boolean("model.overlap_p2p_comm").value_or(false);
  if (const auto megabytes = s.number("model.optim.bucket_cap_mb"))
    plan.gradient_bucket = *megabytes * unit::MiB;
}

std::optional<double> bytes_of_type(Settings& s, std::string_view key) {
  constexpr std::array<std::string_view, 9> known{"bf16", "bfloat16", "16",      "fp16", "float16",
                                                  "32",   "fp32",     "float32", "half"};
  const auto name = s.one_of(key, known);
  if (!name) return std::nullopt;
  return name->find("32") != name->npos ? 4 : 2;
}

void read_fsdp(Settings& s, const spec::Job& job, Plan& plan) {
  constexpr std::array<std::string_view, 3> strategies{"full", "grad", "hybrid"};
  const auto strategy = s.one_of("model.fsdp_sharding_strategy", strategies);
  plan.sharding = spec::Sharding::parameters;
  plan.reshard_after_forward = strategy != "grad";
  if (strategy == "hybrid")
    plan.sharding_group_size =
        std::max<int64_t>(1, job.cluster.gpus_per_node / plan.tensor_parallel_size);
  // Parameters that TP ranks hold alike stay out of FSDP, in fp32 without O2; added to a bf16
  // trunk, biases and positions promote it (docs/models/memory.md).
  const bool o2 = s.boolean("model.megatron_amp_O2").value_or(false);
  const bool adds_parameters =
      job.model.biases || job.model.position_embedding == spec::PositionEmbedding::learned;
  if (!o2 && plan.tensor_parallel_size > 1 && adds_parameters) plan.fp32_residual = true;
}

Result<void> read_optimizer_bytes(LibraryCache& cache, Settings& s, bool fsdp,
                                  const std::string& name, Plan& plan) {
  const bool o2 = s.boolean("model.megatron_amp_O2").value_or(false);
  const auto sync = bytes_of_type(s, "model.optim.grad_sync_dtype");
  const auto reduce = bytes_of_type(s, "model.fsdp_grad_reduce_dtype");
  const auto state = find_optimizer(cache, name, {plan.precision, o2, fsdp, fsdp ? reduce : sync});
  if (state) {
    plan.optimizer = TPT_TRY(*state);
    return {};
  }
  s.note(DiagnosisCode::unsupported, Severity::error, "model.optim.name",
         fmt::format("optimizer '{}' is not modelled (its memory is not known); try fused_adam, "
                     "distributed_fused_adam or mcore_distributed_optim",
                     name.substr(0, 60)));
  return {};
}

/// Optimizer, its bytes, and who shards what.
Result<void> read_optimizer(LibraryCache& cache, Settings& s, spec::StatedJob& stated) {
  const spec::Job& job = stated.job;
  Plan& plan = stated.job.plan;
  const std::string name = s.text("model.optim.name").value_or("fused_adam");
  if (!s.has("model.optim.name")) stated.of_launcher.push_back("optimizer " + name);
  const bool fsdp = s.boolean("model.fsdp").value_or(false);
  TPT_TRY(read_optimizer_bytes(cache, s, fsdp, name, plan));
  const bool distributed = name == "distributed_fused_adam" || name == "mcore_distributed_optim";
  // Ranks of a context group hold the same parameters, too. Without peers it shards nothing, until
  // flags on top of the file add some.
  const bool alone =
      plan.context_parallel_size == 1 && job.cluster.num_gpus() / plan.model_parallel_size() <= 1;
  if (fsdp)
    read_fsdp(s, job, plan);
  else if (distributed && !alone)
    plan.sharding = spec::Sharding::optimizer;
  else if (distributed)
    stated.stated.erase(spec::JobSetting::sharding);
  return {};
}

std::vector<std::string> lora_targets(Settings& s, std::string_view key) {
  std::vector<std::string> targets;
  for (const std::string& name : s.list(key).value_or(std::vector<std::string>{"attention_qkv"})) {
    const bool all = name == "all";
    const std::size_t before = targets.size();
    if (all || name == "attention" || name == "attention_qkv") targets.push_back("attention_qkv");
    if (all || name == "attention" || name == "attention_dense")
      targets.push_back("attention_dense");
    if (all || name == "mlp" || name == "mlp_fc1") targets.push_back("mlp_fc1");
    if (all || name == "mlp" || name == "mlp_fc2") targets.push_back("mlp_fc2");
    if (targets.size() == before)
      s.note(DiagnosisCode::unsupported, Severity::error, key,
             fmt::format("LoRA target '{}' (target_modules) is not modelled; try attention_qkv, "
                         "attention_dense, "
                         "mlp_fc1 or mlp_fc2",
                         name.substr(0, 60)));
  }
  return targets;
}

void read_lora(Settings& s, Task task, Plan& plan) {
  const std::string section = "model.peft.lora_tuning.";
  const auto rank = s.count(section + "adapter_dim", 1, largest_dimension);
  const auto targets = lora_targets(s, section + "target_modules");
  const bool tied = s.boolean(section + "weight_tying").value_or(false);
  const bool selected = s.has(section + "layer_selection");
  if (task != Task::lora) return;
  plan.lora = spec::Lora{rank.value_or(32), targets};
  if (tied || selected)
    s.note(DiagnosisCode::unsupported, Severity::warning,
           section + (tied ? "weight_tying" : "layer_selection"),
           "adapters of chosen layers are not modelled: every layer has its own adapter");
}

/// NeMo pads the records of fine-tuning to the longest unless it is told otherwise.
void read_record_layout(Settings& s, const std::string& data, spec::Job& job) {
  if (data.empty()) return;
  const bool packed = s.boolean(data + "packed_sequence").value_or(false);
  const bool padded = s.boolean(data + "pad_to_max_length").value_or(false);
  if (job.task != Task::lora) return;
  job.plan.record_layout = packed   ? spec::RecordLayout::packed
                           : padded ? spec::RecordLayout::padded
                                    : spec::RecordLayout::longest;
}

void refuse_offloading(Settings& s) {
  if (s.boolean("model.cpu_offloading").value_or(false))
    s.note(DiagnosisCode::unsupported, Severity::error, "model.cpu_offloading",
           "offloading to the host is not modelled (its traffic would be missing); turn it off");
  if (!s.boolean("model.use_flash_attention").value_or(true) &&
      !s.boolean("model.transformer_engine").value_or(false))
    s.note(DiagnosisCode::unsupported, Severity::warning, "model.use_flash_attention",
           "attention without flash attention is not modelled: its score matrices are left out");
}

/// What NeMo itself decides where the file does not counts as stated, and is noted.
void state_settings(Settings& s, const std::string& data, spec::StatedJob& stated) {
  using enum spec::JobSetting;
  for (const auto setting : {task, sharding, optimizer})
    stated.stated.insert(setting);
  const auto state = [&](spec::JobSetting setting, std::initializer_list<std::string> keys) {
    if (std::any_of(keys.begin(), keys.end(), [&](const auto& key) { return s.has(key); }))
      stated.stated.insert(setting);
  };
  state(sequence_length, {"model.data.seq_length", "model.encoder_seq_length"});
  if (!data.empty()) state(sequence_length, {data + "max_seq_length"});
  state(precision, {"trainer.precision", "model.precision", "model.fp8"});
  state(recompute, {"model.activations_checkpoint_granularity"});
  stated.length_from = "the file has none";
  if (!s.has("model.hidden_dropout"))
    stated.of_launcher.push_back(fmt::format("dropout {}", usual_dropout));
}

Result<void> read_plan(LibraryCache& cache, Settings& s, const std::string& data,
                       spec::StatedJob& stated) {
  spec::Job& job = stated.job;
  job.plan.precision = read_precision(s);
  job.plan.fp8_attention = s.boolean("model.fp8_dot_product_attention").value_or(false);
  read_sizes(s, job.model, job.plan);
  read_batches(s, data, stated);
  read_recompute(s, job.plan);
  read_overlap(s, job.plan);
  state_settings(s, data, stated);
  TPT_TRY(read_optimizer(cache, s, stated));
  read_lora(s, job.task, job.plan);
  read_record_layout(s, data, job);
  refuse_offloading(s);
  return {};
}

// The machines --------------------------------------------------------------------------------

MachineFacts read_machines(LibraryCache& cache, Settings& s) {
  MachineFacts facts;
  facts.cluster = s.text("run.cluster");
  facts.stack = s.text("run.stack");
  facts.num_nodes = s.count("trainer.num_nodes", 1, most_ranks);
  facts.nodes_key = "trainer.num_nodes";
  facts.gpus_key = "trainer.devices";
  const auto devices = s.text("trainer.devices");
  if (devices && *devices != "-1" && *devices != "auto")
    facts.gpus_per_node = s.count("trainer.devices", 1, 10'000);
  facts.profiled = s.boolean("model.chakra_profile.enabled").value_or(false) ||
                   s.boolean("model.nsys_profile.enabled").value_or(false);
  facts.plain_stack = "megatron-core";
  facts.profiled_stack = "nemo-profiled";
  facts.optimizer = s.text("run.optimizer");
  if (facts.optimizer && !cache.optimizer(*facts.optimizer))
    s.note(DiagnosisCode::unsupported, Severity::warning, "run.optimizer",
           fmt::format("run.optimizer '{}' is not known (it is ignored); see triplepoint list "
                       "optimizers",
                       facts.optimizer->substr(0, 60)));
  return facts;
}

/// hparams.yaml holds the model's part of a configuration as "cfg".
void name_model_section(YamlNode& document) {
  const auto named = [&](const char* key) {
    return std::find_if(document.entries.begin(), document.entries.end(),
                        [&](const YamlEntry& entry) { return entry.key == key; });
  };
  const auto cfg = named("cfg");
  if (cfg != document.entries.end() && named("model") == document.entries.end()) cfg->key = "model";
}

std::string job_name(Settings& s) {
  if (auto name = s.text("run.name")) return *name;
  return std::filesystem::path(s.file()).stem().string();
}

}  // namespace

Result<Imported> import_nemo(LibraryCache& cache, const std::string& text, const std::string& path,
                             const ImportHints& hints) {
  YamlNode document = TPT_TRY(parse_yaml(text, path));
  name_model_section(document);
  Settings settings(path);
  settings.set_by_flags(hints.by_flags);
  settings.add_tree(document);
  spec::StatedJob stated;
  spec::Job& job = stated.job;
  job.name = job_name(settings);
  job.origin = path;
  job.task = read_task(settings, hints);
  check_task(settings, job.task);
  const std::string data = data_section(settings, job.task);
  job.model = TPT_TRY(read_model(cache, settings, data, place_of(settings, hints)));
  const MachineFacts facts = read_machines(cache, settings);
  TPT_TRY(set_cluster_and_stack(cache, settings, hints, facts, stated));
  TPT_TRY(read_plan(cache, settings, data, stated));
  // With one connection FSDP gathers less ahead; more of them change nothing.
  if (hints.job_script && hints.job_script->cuda_device_max_connections == 1 &&
      job.plan.sharding == spec::Sharding::parameters)
    job.plan.cuda_device_max_connections = 1;
  adopt_names(cache, facts.optimizer, job);
  report_unknown_keys(settings, "", is_irrelevant_nemo_key, irrelevant_nemo_keys());
  auto keys = key_of_code;
  const std::string batch_key = data + "micro_batch_size";
  if (!data.empty() && settings.line(batch_key) > 0)
    for (KeyOfCode& each : keys)
      if (each.code == DiagnosisCode::batch_not_divisible) each.key = batch_key;
  return assemble(settings, cache.library(), std::move(stated), keys);
}

Result<Imported> import_nemo_yaml(const spec::Library& library, const std::string& text,
                                  const std::string& path, const ImportHints& hints) {
  LibraryCache cache(library);
  return import_nemo(cache, text, path, hints);
}

}  // namespace triplepoint::formats
