// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/assemble.h"
#include "triplepoint/formats/pipeline_layout.h"
#include "triplepoint/formats/readers.h"
#include "triplepoint/formats/settings.h"
#include "triplepoint/formats/shell_command.h"

namespace triplepoint::formats {
namespace {

using spec::DiagnosisCode;
using spec::Model;
using spec::Plan;
using Severity = spec::Diagnosis::Severity;

constexpr int64_t most_ranks = 1'000'000;  // products of three sizes still fit 64 bits
constexpr int64_t largest_dimension = 10'000'000;

constexpr double usual_dropout = 0.1;  // Megatron's, of hidden states and attention

constexpr std::array key_of_code{
    KeyOfCode{DiagnosisCode::layers_not_divisible, "pipeline-model-parallel-size"},
    KeyOfCode{DiagnosisCode::world_not_divisible, "pipeline-model-parallel-size"},
    KeyOfCode{DiagnosisCode::batch_not_divisible, "global-batch-size"},
    KeyOfCode{DiagnosisCode::experts_not_divisible, "expert-model-parallel-size"},
    KeyOfCode{DiagnosisCode::heads_not_divisible, "tensor-model-parallel-size"},
    KeyOfCode{DiagnosisCode::head_dimension, "num-attention-heads"},
    KeyOfCode{DiagnosisCode::tensor_overlap_without_sequence_parallel, "tp-comm-overlap"},
};

// From words to settings ----------------------------------------------------------------------

bool is_option(std::string_view word) {
  return word.size() > 2 && word.starts_with("--");
}

/// "--num-layers=96" is a key with a value; "--num_layers" means --num-layers.
Setting start_setting(const ShellWord& word) {
  const std::string_view text = std::string_view(word.text).substr(2);
  const std::size_t equals = text.find('=');
  Setting setting{std::string(text.substr(0, equals)), {}, word.line};
  std::replace(setting.key.begin(), setting.key.end(), '_', '-');
  if (equals != text.npos) setting.words.emplace_back(text.substr(equals + 1));
  return setting;
}

/// Everything after the program is its own; without a program (a file of arguments) all is.
std::size_t first_argument(const std::vector<ShellWord>& words) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i].text.ends_with(".py")) return i + 1;
  return 0;
}

/// A word that the script does not say and that holds arguments, not a value: "$@", $EXTRA_ARGS,
/// "${ARGS[@]}", $(cat more.txt) behind a value.
bool holds_unknown_arguments(std::string_view word, const std::optional<Setting>& open) {
  const auto has = [](std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
  };
  if (!word.starts_with('$') || word.size() < 2) return false;
  if (word[1] == '@' || word[1] == '*' || word.starts_with("${@") || word.starts_with("${*"))
    return true;
  if (has(word, "[@]") || has(word, "[*]")) return true;
  const std::string name = upper_case(word);
  for (const std::string_view part : {"ARGS", "ARGUMENTS", "OPTS", "OPTIONS", "FLAGS", "EXTRA"})
    if (has(name, part)) return true;
  const bool of_data = open && has(open->key, "data");
  return !open || (!open->words.empty() && !of_data);
}

void refuse_unknown_arguments(const ShellWord& word, Settings& settings) {
  const std::string text = word.text.substr(0, 60);
  settings.diagnoses().push_back(
      {DiagnosisCode::inconsistent, Severity::error,
       fmt::format("{}:{}: {} has no value in this file (the arguments in it would be missing); "
                   "write them in its place, set it above, or take it out",
                   settings.file(), word.line, text)});
}

void add_arguments(const ShellCommand& command, Settings& settings) {
  std::optional<Setting> open;
  const auto close = [&] {
    if (open) settings.add(*std::exchange(open, std::nullopt));
  };
  for (std::size_t i = first_argument(command.words); i < command.words.size(); ++i) {
    const ShellWord& word = command.words[i];
    if (is_option(word.text)) {
      close();
      open = start_setting(word);
    } else if (holds_unknown_arguments(word.text, open)) {
      refuse_unknown_arguments(word, settings);
    } else if (open) {
      open->words.push_back(word.text);
    }
  }
  close();
}

// What starts the program ---------------------------------------------------------------------

constexpr std::string_view nodes_key = "nnodes", devices_key = "nproc-per-node";

/// Nodes and devices from torchrun, srun or mpirun in front of the program, by torchrun's names.
void add_launcher_option(std::string name, std::string value, int line, Settings& settings) {
  std::replace(name.begin(), name.end(), '_', '-');
  if (name == "--nnodes" || name == "--nodes" || name == "-N")
    settings.add({std::string(nodes_key), {value.substr(0, value.find(':'))}, line});  // "2:4"
  const bool chosen_by_torchrun = value == "auto" || value == "gpu";
  if (!chosen_by_torchrun &&
      (name == "--nproc-per-node" || name == "--gpus-per-node" || name == "--ntasks-per-node" ||
       name == "--npernode" || name == "-npernode"))
    settings.add({std::string(devices_key), {std::move(value)}, line});
}

void add_launcher(const ShellCommand& command, Settings& settings) {
  const std::size_t end = first_argument(command.words);
  for (std::size_t i = 0; i < end; ++i) {
    const std::string& word = command.words[i].text;
    const int line = command.words[i].line;
    const std::size_t equals = word.find('=');
    if (equals != word.npos)
      add_launcher_option(word.substr(0, equals), word.substr(equals + 1), line, settings);
    else if (i + 1 < end)
      add_launcher_option(word, command.words[i + 1].text, line, settings);
  }
}

std::optional<std::string> variable(const ShellCommand& command, const std::string& name) {
  const auto found = command.variables.find(name);
  return found == command.variables.end() ? std::nullopt : std::optional(found->second);
}

MachineFacts read_machines(Settings& s, const ShellCommand& command) {
  MachineFacts facts;
  facts.cluster = variable(command, "TRIPLEPOINT_CLUSTER");
  facts.stack = variable(command, "TRIPLEPOINT_STACK");
  facts.num_nodes = s.count(nodes_key, 1, most_ranks);
  facts.gpus_per_node = s.count(devices_key, 1, most_ranks);
  facts.nodes_key = nodes_key;
  facts.gpus_key = devices_key;
  facts.plain_stack = facts.profiled_stack = "megatron-core";
  const bool profiled = s.flag("profile"), pytorch = s.flag("use-pytorch-profiler");
  if (profiled || pytorch) s.assume("the profiler costs nothing; profiled steps take longer");
  return facts;
}

/// CUDA graphs change the stack: the host no longer launches every kernel.
void read_graphs(Settings& s, spec::Stack& stack) {
  const bool old = s.flag("enable-cuda-graph"), external = s.flag("external-cuda-graph");
  constexpr std::array<std::string_view, 3> known{"none", "local", "transformer_engine"};
  const std::string implementation = s.one_of("cuda-graph-impl", known).value_or("none");
  if (old || external || implementation != "none") stack.cuda_graphs = true;
}

// The model -----------------------------------------------------------------------------------

Result<int64_t> required(Settings& s, std::string_view key) {
  if (const auto value = s.count(key, 1, largest_dimension)) return *value;
  if (s.is_by_flags(key)) return 1;  // until the flag's value takes its place
  if (!s.diagnoses().empty() && s.line(key) > 0) return error(s.diagnoses().back().what);
  return error(
      fmt::format("{}--{} is missing (the model's size depends on it); add it", s.place(key), key));
}

spec::Activation read_activation(Settings& s) {
  const bool squared = s.flag("squared-relu"), swiglu = s.flag("swiglu");
  const bool geglu = s.flag("quick-geglu"), old_geglu = s.flag("geglu"), reglu = s.flag("reglu");
  if (geglu || old_geglu || reglu) s.assume("a gated activation costs what SwiGLU costs");
  if (swiglu || geglu || old_geglu || reglu) return spec::Activation::swiglu;
  return squared ? spec::Activation::squared_relu : spec::Activation::gelu;
}

spec::PositionEmbedding read_positions(Settings& s) {
  constexpr std::array<std::string_view, 6> known{
      "learned_absolute", "rope", "mrope", "yarn", "none", "relative"};
  const auto name = s.one_of("position-embedding-type", known);
  const bool rotary = s.flag("use-rotary-position-embeddings");
  const bool off = s.flag("no-position-embedding");
  if (rotary || name == "rope" || name == "mrope" || name == "yarn")
    return spec::PositionEmbedding::rope;
  if (off || name == "none" || name == "relative") return spec::PositionEmbedding::none;
  return spec::PositionEmbedding::learned;
}

int64_t read_vocabulary(Settings& s) {
  const auto padded = s.count("padded-vocab-size", 1, largest_dimension);
  const auto plain = s.count("vocab-size", 1, largest_dimension);
  const std::string type = s.text("tokenizer-type").value_or("GPT2BPETokenizer");
  const auto file = s.text("tokenizer-model");
  if (padded) return *padded;
  // The null tokenizer adds a token that ends documents.
  if (plain) return *plain + (type == "NullTokenizer" ? 1 : 0);
  for (const std::string& name : {file.value_or(""), type})
    if (const auto size = vocabulary_of(name)) {
      s.assume(fmt::format("vocabulary of {} tokens after the tokenizer's name, {}", *size, name));
      return *size;
    }
  s.note(DiagnosisCode::unsupported, Severity::error, "tokenizer-type",
         fmt::format("the vocabulary of tokenizer '{}' is not known (embedding and loss depend on "
                     "its size); add --vocab-size",
                     type.substr(0, 60)));
  return 1;
}

/// Without --ffn-hidden-size Megatron takes 4 h, and 2/3 of it in steps of 64 for SwiGLU.
int64_t default_ffn(const Model& model) {
  if (model.activation != spec::Activation::swiglu) return 4 * model.hidden_size;
  return std::max<int64_t>(64, model.hidden_size * 4 * 2 / 3 / 64 * 64);
}

void read_latent_attention(Settings& s, Model& model) {
  const bool on = s.flag("multi-latent-attention");
  const auto query = s.count("q-lora-rank", 0, largest_dimension);
  const auto key_value = s.count("kv-lora-rank", 1, largest_dimension);
  const auto head = s.count("qk-head-dim", 1, largest_dimension);
  const auto rope = s.count("qk-pos-emb-head-dim", 0, largest_dimension);
  const auto value = s.count("v-head-dim", 1, largest_dimension);
  if (!on) return;
  model.latent_attention = spec::LatentAttention{.query_rank = query.value_or(0),
                                                 .key_value_rank = key_value.value_or(32),
                                                 .rope_head_dim = rope.value_or(64),
                                                 .value_head_dim = value.value_or(128)};
  model.kv_channels = head.value_or(128);
}

Result<void> read_dimensions(Settings& s, Model& model) {
  model.num_layers = TPT_TRY(required(s, "num-layers"));
  model.hidden_size = TPT_TRY(required(s, "hidden-size"));
  model.num_attention_heads = TPT_TRY(required(s, "num-attention-heads"));
  model.sequence_length = TPT_TRY(required(s, "seq-length"));
  model.activation = read_activation(s);
  model.ffn_hidden_size =
      s.count("ffn-hidden-size", 1, largest_dimension).value_or(default_ffn(model));
  const bool grouped = s.flag("group-query-attention");
  const int64_t groups = s.count("num-query-groups", 1, largest_dimension).value_or(1);
  model.num_query_groups = grouped ? groups : model.num_attention_heads;
  const auto kv_channels = s.count("kv-channels", 1, largest_dimension);
  model.kv_channels =
      kv_channels.value_or(std::max<int64_t>(1, model.hidden_size / model.num_attention_heads));
  if (!kv_channels && model.hidden_size % model.num_attention_heads != 0)
    s.note(
        DiagnosisCode::inconsistent, Severity::error, "num-attention-heads",
        fmt::format("--num-attention-heads {} does not divide --hidden-size {} (each head gets an "
                    "equal share); change one, or set --kv-channels",
                    model.num_attention_heads, model.hidden_size));
  read_latent_attention(s, model);
  return {};
}

void read_details(Settings& s, Model& model) {
  constexpr std::array<std::string_view, 2> norms{"LayerNorm", "RMSNorm"};
  model.vocabulary_size = read_vocabulary(s);
  model.vocabulary_divisible_by =
      s.count("make-vocab-size-divisible-by", 1, largest_dimension).value_or(128);
  model.normalization = s.one_of("normalization", norms) == "RMSNorm"
                            ? spec::Normalization::rms_norm
                            : spec::Normalization::layer_norm;
  model.position_embedding = read_positions(s);
  model.tied_embeddings = !s.flag("untie-embeddings-and-output-weights");
  model.biases = !s.flag("disable-bias-linear");
  if (s.flag("add-qkv-bias") && !model.biases)
    s.assume("no bias on queries, keys and values (they are a ten-thousandth of the weights)");
  model.dropout = s.fraction("hidden-dropout").value_or(usual_dropout);
  const double attention = s.fraction("attention-dropout").value_or(0.1);
  if (attention != model.dropout)
    s.assume(fmt::format("one dropout of {} (the attention's own, {}, is inside its kernel)",
                         model.dropout, attention));
  const auto positions = s.count("max-position-embeddings");
  if (positions && model.sequence_length > *positions)
    s.note(
        DiagnosisCode::inconsistent, Severity::error, "max-position-embeddings",
        fmt::format("--seq-length {} is more than --max-position-embeddings {} (Megatron refuses "
                    "it); raise the latter",
                    model.sequence_length, *positions));
}

int64_t read_dense_layers(Settings& s, const Model& model) {
  const auto pattern = s.text("moe-layer-freq");
  if (!pattern) return 0;
  if (const auto dense = leading_dense_layers(*pattern, model.num_layers)) return *dense;
  s.note(
      DiagnosisCode::unsupported, Severity::error, "moe-layer-freq",
      fmt::format("--moe-layer-freq '{}' is not modelled (dense layers may only come first); try "
                  "1 or \"([0]*n+[1]*m)\" with n + m layers",
                  pattern->substr(0, 60)));
  return 0;
}

void read_experts(Settings& s, Model& model) {
  const auto experts = s.count("num-experts", 1, largest_dimension);
  const int64_t topk = s.count("moe-router-topk", 1, largest_dimension).value_or(2);
  const auto ffn = s.count("moe-ffn-hidden-size", 1, largest_dimension);
  const auto shared = s.count("moe-shared-expert-intermediate-size", 0, largest_dimension);
  const auto capacity = s.number("moe-expert-capacity-factor");
  const bool padded = s.flag("moe-pad-expert-input-to-capacity");
  const bool grouped = s.flag("moe-grouped-gemm");
  constexpr std::array<std::string_view, 4> dispatchers{"allgather", "alltoall", "alltoall_seq",
                                                        "flex"};
  const std::string dispatcher =
      s.one_of("moe-token-dispatcher-type", dispatchers).value_or("allgather");
  const bool deep_ep = s.flag("moe-enable-deepep");
  const int64_t dense = read_dense_layers(s, model);
  if (!experts) return;
  model.moe = spec::MixtureOfExperts{.num_experts = *experts,
                                     .router_topk = topk,
                                     .ffn_hidden_size = ffn.value_or(model.ffn_hidden_size),
                                     .capacity_factor = capacity,
                                     .pad_to_capacity = padded,
                                     .grouped_gemm = grouped,
                                     .shared_expert_ffn_hidden_size = shared.value_or(0),
                                     .num_dense_layers = dense};
  if (dispatcher != "alltoall" || deep_ep)
    s.assume(fmt::format("tokens reach their experts by all-to-all, not by {}",
                         deep_ep ? "DeepEP" : dispatcher));
}

/// Which model of the library this is, by its dimensions.
bool same_shape(const Model& a, const Model& b) {
  const auto experts = [](const Model& m) { return m.moe ? m.moe->num_experts : 0; };
  return a.num_layers == b.num_layers && a.hidden_size == b.hidden_size &&
         a.ffn_hidden_size == b.ffn_hidden_size && a.num_attention_heads == b.num_attention_heads &&
         a.num_query_groups == b.num_query_groups && experts(a) == experts(b) &&
         spec::padded_vocabulary(a, 1) == spec::padded_vocabulary(b, 1);
}

std::string model_name(LibraryCache& cache, const ShellCommand& command, const Model& model) {
  if (const auto name = variable(command, "TRIPLEPOINT_MODEL")) return *name;
  for (const std::string& name : cache.model_names()) {
    const auto known = cache.model(name);
    if (known && same_shape(*known, model)) return name;
  }
  return fmt::format("{}-layers-{}-wide", model.num_layers, model.hidden_size);
}

void refuse_other_architectures(Settings& s) {
  for (const std::string_view key :
       {"hybrid-override-pattern", "hybrid-attention-ratio", "hybrid-mlp-ratio", "is-hybrid-model",
        "encoder-num-layers", "decoder-num-layers", "heterogeneous-layers-config-path",
        "heterogeneous-layers-config-encoded-json", "yaml-cfg", "cpu-offloading-num-layers",
        "optimizer-cpu-offload", "fp4-format", "encoder-seq-length"})
    if (s.has(key) && s.list(key) != std::vector<std::string>{"0"})
      s.note(DiagnosisCode::unsupported, Severity::error, key,
             fmt::format("--{} is not modelled (it changes the computation or its placement); "
                         "leave it out for a decoder of equal layers",
                         key));
  for (const std::string_view key :
       {"window-size", "mtp-num-layers", "delay-wgrad-compute", "moe-shared-expert-overlap",
        "rampup-batch-size", "decrease-batch-size-if-needed", "spec", "window-attn-skip-freq",
        "hierarchical-context-parallel-sizes"})
    if (s.has(key))
      s.note(DiagnosisCode::unsupported, Severity::warning, key,
             fmt::format("--{} is not modelled: the job is simulated without it", key));
  s.flag("qk-layernorm");
  s.number("optimizer-offload-fraction");
}

Result<Model> read_model(LibraryCache& cache, Settings& s, const ShellCommand& command) {
  Model model;
  TPT_TRY(read_dimensions(s, model));
  read_details(s, model);
  read_experts(s, model);
  refuse_other_architectures(s);
  model.name = model_name(cache, command, model);
  return model;
}

// The plan ------------------------------------------------------------------------------------

spec::Precision read_precision(Settings& s) {
  const bool bf16 = s.flag("bf16"), fp16 = s.flag("fp16");
  constexpr std::array<std::string_view, 2> formats{"e4m3", "hybrid"};
  const bool fp8 = s.one_of("fp8-format", formats).has_value();
  if (bf16 && fp16)
    s.note(DiagnosisCode::inconsistent, Severity::error, "fp16",
           "--bf16 and --fp16 (Megatron refuses both at once); leave one out");
  if (fp8) return spec::Precision::fp8;
  return bf16 ? spec::Precision::bf16 : fp16 ? spec::Precision::fp16 : spec::Precision::fp32;
}

/// Layers per stage where the embedding or the loss counts as its own layer.
void read_stage_layers(Settings& s, const Model& model, Plan& plan) {
  auto first = s.count("decoder-first-pipeline-num-layers", 0, largest_dimension);
  auto last = s.count("decoder-last-pipeline-num-layers", 0, largest_dimension);
  const bool embedding = s.flag("account-for-embedding-in-pipeline-split");
  const bool loss = s.flag("account-for-loss-in-pipeline-split");
  const int64_t shared = model.num_layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
  if (embedding) first = shared / plan.pipeline_parallel_size - 1;
  if (loss) last = shared / plan.pipeline_parallel_size - 1;
  const auto layout = s.text("pipeline-model-parallel-layout");
  std::optional<std::vector<int64_t>> layers;
  if (layout)
    layers = read_pipeline_layout(*layout);
  else if (first || last)
    layers = uneven_stages(model.num_layers, plan.pipeline_parallel_size, first, last);
  else
    return;
  if (layers) plan.layers_per_stage = *layers;
  if (layers && (plan.virtual_pipeline_size == 1 || layout)) return;
  const std::string_view key = layout  ? "pipeline-model-parallel-layout"
                               : first ? "decoder-first-pipeline-num-layers"
                                       : "decoder-last-pipeline-num-layers";
  s.note(DiagnosisCode::layers_not_divisible, Severity::error, key,
         fmt::format("--{}: the layers cannot be shared out like this; make the stages' layers add "
                     "up",
                     key));
}

void read_virtual_stages(Settings& s, const Model& model, Plan& plan) {
  const auto chunks = s.count("num-virtual-stages-per-pipeline-rank", 1, most_ranks);
  const auto layers = s.count("num-layers-per-virtual-pipeline-stage", 1, largest_dimension);
  if (chunks) plan.virtual_pipeline_size = *chunks;
  if (layers && !chunks) {
    const int64_t per_stage = model.num_layers / plan.pipeline_parallel_size;
    plan.virtual_pipeline_size = std::max<int64_t>(1, per_stage / *layers);
    if (per_stage % *layers != 0)
      s.note(
          DiagnosisCode::layers_not_divisible, Severity::error,
          "num-layers-per-virtual-pipeline-stage",
          fmt::format("--num-layers-per-virtual-pipeline-stage {} does not divide the {} layers of "
                      "a stage; choose a divisor",
                      *layers, per_stage));
  }
  const bool zero_bubble = s.flag("enable-zero-bubble");
  if (plan.virtual_pipeline_size > 1) plan.schedule = spec::Schedule::interleaved;
  if (zero_bubble) plan.schedule = spec::Schedule::zero_bubble;
  const bool no_overlap = s.flag("no-overlap-p2p-communication");
  plan.overlap_pipeline = plan.virtual_pipeline_size > 1 && !no_overlap;
}

/// A list has one word per layer; layers are alike here.
void read_context_exchange(Settings& s, Plan& plan) {
  const auto kinds = s.list("cp-comm-type");
  if (!kinds || kinds->empty()) return;
  const std::string& kind = kinds->front();
  if (kind == "all_gather" || kind == "allgather")
    plan.context_exchange = spec::ContextExchange::all_gather;
  else if (kind != "p2p")
    s.assume(fmt::format("keys and values pass around a ring, not by {} (--cp-comm-type)", kind));
}

void read_sizes(Settings& s, const Model& model, Plan& plan) {
  const auto size = [&](std::string_view key) { return s.count(key, 1, most_ranks).value_or(1); };
  plan.tensor_parallel_size = size("tensor-model-parallel-size");
  plan.pipeline_parallel_size = size("pipeline-model-parallel-size");
  plan.context_parallel_size = size("context-parallel-size");
  plan.expert_parallel_size = size("expert-model-parallel-size");
  plan.expert_tensor_parallel_size = s.count("expert-tensor-parallel-size", 1, most_ranks);
  plan.sequence_parallel = s.flag("sequence-parallel");
  if (s.flag("use-tp-pp-dp-mapping")) plan.rank_order = spec::RankOrder::tp_pp_dp;
  read_virtual_stages(s, model, plan);
  read_stage_layers(s, model, plan);
  plan.fp32_residual = s.flag("fp32-residual-connection");
  read_context_exchange(s, plan);
}

int64_t data_parallel_size(const spec::Job& job, const Plan& plan) {
  return std::max<int64_t>(1, job.cluster.num_gpus() / plan.model_parallel_size());
}

/// Without a global batch Megatron takes one microbatch for each data-parallel rank.
Result<void> read_batches(Settings& s, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  plan.micro_batch_size = TPT_TRY(required(s, "micro-batch-size"));
  const auto global = s.count("global-batch-size");
  plan.global_batch_size =
      global.value_or(plan.micro_batch_size * data_parallel_size(stated.job, plan));
  if (!global)
    stated.of_launcher.push_back(
        fmt::format("batch {} (Megatron's: a microbatch a rank)", plan.global_batch_size));
  return {};
}

void read_recompute(Settings& s, Plan& plan) {
  constexpr std::array<std::string_view, 2> granularities{"selective", "full"};
  constexpr std::array<std::string_view, 2> methods{"uniform", "block"};
  const auto granularity = s.one_of("recompute-granularity", granularities);
  const auto method = s.one_of("recompute-method", methods);
  const auto layers = s.count("recompute-num-layers", 0, largest_dimension);
  const bool selective = s.flag("recompute-activations"), old = s.flag("checkpoint-activations");
  const bool experts = s.flag("moe-layer-recompute");
  plan.recompute_modules = read_recompute_modules(s, "recompute-modules");
  if (experts) plan.recompute_modules.push_back(spec::RecomputeModule::moe);
  if (granularity == "full" || old)
    plan.recompute = spec::Recompute::full;
  else if (granularity == "selective" || selective || experts)
    plan.recompute = spec::Recompute::selective;
  if (plan.recompute != spec::Recompute::selective) plan.recompute_modules.clear();
  if (plan.recompute != spec::Recompute::full) return;
  if (method == "block" && layers) plan.recompute_layers = layers;
  if (method == "uniform" && layers.value_or(1) > 1)
    s.assume(
        fmt::format("every layer keeps its input; uniform recompute in groups of {} keeps one "
                    "input a group",
                    *layers));
  if (!old && (!method || (method == "block" && !layers)))
    s.note(DiagnosisCode::inconsistent, Severity::error, "recompute-granularity",
           "full recompute names no layers (Megatron refuses it); set --recompute-method and "
           "--recompute-num-layers");
}

void read_overlap(Settings& s, Plan& plan) {
  plan.overlap_tensor = s.flag("tp-comm-overlap");
  plan.overlap_gradient = s.flag("overlap-grad-reduce");
  plan.overlap_parameter = s.flag("overlap-param-gather");
  plan.overlap_expert = s.flag("overlap-moe-expert-parallel-comm");
}

/// Megatron-FSDP names what it shards; torch FSDP2 shards parameters.
void read_sharding(Settings& s, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  constexpr std::array<std::string_view, 4> strategies{"no_shard", "optim", "optim_grads",
                                                       "optim_grads_params"};
  const bool distributed = s.flag("use-distributed-optimizer"), torch = s.flag("use-torch-fsdp2");
  const bool own = s.flag("use-megatron-fsdp"), older = s.flag("use-custom-fsdp");
  const auto strategy = s.one_of("data-parallel-sharding-strategy", strategies);
  const bool keeps = s.flag("torch-fsdp2-no-reshard-after-forward");
  const int64_t copies = s.count("num-distributed-optimizer-instances", 1, most_ranks).value_or(1);
  const int64_t ranks = data_parallel_size(stated.job, plan);
  // Ranks of a context group hold the same parameters, too. Without peers nothing is sharded, until
  // flags on top of the file add some.
  const bool peers = ranks * plan.context_parallel_size > 1;
  if (distributed && !peers) stated.stated.erase(spec::JobSetting::sharding);
  if (distributed && peers) plan.sharding = spec::Sharding::optimizer;
  if (own || older) {
    if (strategy == "optim") plan.sharding = spec::Sharding::optimizer;
    if (strategy == "optim_grads") plan.sharding = spec::Sharding::gradients;
    if (strategy == "optim_grads_params") plan.sharding = spec::Sharding::parameters;
  }
  if (torch) {
    plan.sharding = spec::Sharding::parameters;
    plan.reshard_after_forward = !keeps;
  }
  if (copies > 1 && plan.sharding != spec::Sharding::none)
    plan.sharding_group_size = std::max<int64_t>(1, ranks / copies);
  if (plan.sharding != spec::Sharding::none) stated.stated.insert(spec::JobSetting::sharding);
  if (!distributed && !torch && !own && !older) stated.of_launcher.emplace_back("sharding none");
}

std::optional<double> bytes_of_type(Settings& s, std::string_view key) {
  constexpr std::array<std::string_view, 4> known{"fp32", "bf16", "fp16", "fp8"};
  const auto name = s.one_of(key, known);
  if (!name) return std::nullopt;
  return name == "fp32" ? 4 : name == "fp8" ? 1 : 2;
}

/// --use-precision-aware-optimizer: each part of the state has its own type.
void read_state_types(Settings& s, spec::OptimizerState& state) {
  const bool aware = s.flag("use-precision-aware-optimizer");
  const auto gradients = bytes_of_type(s, "main-grads-dtype");
  const auto master = bytes_of_type(s, "main-params-dtype");
  const auto first = bytes_of_type(s, "exp-avg-dtype");
  const auto second = bytes_of_type(s, "exp-avg-sq-dtype");
  if (!aware) return;
  if (gradients) state.gradient_bytes = *gradients;
  if (master) state.master_bytes = *master;
  state.moment_bytes = first.value_or(4) + second.value_or(4);
}

/// Gradients are accumulated and reduced in fp32 for bf16 weights unless asked otherwise, and in
/// the weights' type for fp16 ones.
double gradient_bytes(Settings& s, spec::Precision precision) {
  const bool full = s.flag("accumulate-allreduce-grads-in-fp32");
  const bool half = s.flag("grad-reduce-in-bf16");
  if (half) return 2;
  return precision == spec::Precision::fp16 && !full ? 2 : 4;
}

Result<void> read_optimizer(LibraryCache& cache, Settings& s, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  read_sharding(s, stated);
  if (!s.has("optimizer")) stated.of_launcher.emplace_back("optimizer adam");
  const std::string name = s.text("optimizer").value_or("adam");
  const double gradients = gradient_bytes(s, plan.precision);
  const bool distributed = plan.sharding != spec::Sharding::none && name == "adam";
  const std::string known = distributed ? "mcore_distributed_optim" : name;
  const auto state = find_optimizer(cache, known, {plan.precision, true, false, gradients});
  if (!state)
    s.note(DiagnosisCode::unsupported, Severity::error, "optimizer",
           fmt::format("optimizer '{}' is not modelled (its memory is not known); try adam or sgd",
                       name.substr(0, 60)));
  else
    plan.optimizer = TPT_TRY(*state);
  plan.optimizer.gradient_bytes = gradients;
  read_state_types(s, plan.optimizer);
  if (const auto elements = s.number("ddp-bucket-size"))
    plan.gradient_bucket = *elements * plan.optimizer.gradient_sync_bytes * unit::B;
  return {};
}

/// Megatron has no words for what follows from hints alone: all else counts as stated.
void state_settings(Settings& s, spec::StatedJob& stated) {
  using enum spec::JobSetting;
  for (const auto setting :
       {task, sequence_length, micro_batch_size, global_batch_size, sharding, optimizer})
    stated.stated.insert(setting);
  if (s.has("bf16") || s.has("fp16") || s.has("fp8-format")) stated.stated.insert(precision);
  if (stated.job.plan.recompute != spec::Recompute::none || s.has("recompute-granularity"))
    stated.stated.insert(recompute);
  if (!s.has("hidden-dropout"))
    stated.of_launcher.push_back(fmt::format("dropout {}", usual_dropout));
}

Result<void> read_plan(LibraryCache& cache, Settings& s, spec::StatedJob& stated) {
  Plan& plan = stated.job.plan;
  plan.precision = read_precision(s);
  plan.fp8_attention = s.flag("fp8-dot-product-attention");
  read_sizes(s, stated.job.model, plan);
  TPT_TRY(read_batches(s, stated));
  read_recompute(s, plan);
  read_overlap(s, plan);
  state_settings(s, stated);
  return read_optimizer(cache, s, stated);
}

/// Slurm's own lines in the same script are as good as a script beside it.
ImportHints with_own_script(const ImportHints& hints, const std::string& text,
                            const std::string& path) {
  ImportHints all = hints;
  if (!all.job_script) all.job_script = read_job_script(text, path);
  return all;
}

/// With one connection FSDP gathers less ahead; more of them change nothing.
void read_connections(const ShellCommand& command, Plan& plan) {
  const bool one = variable(command, "CUDA_DEVICE_MAX_CONNECTIONS") == "1";
  if (one && plan.sharding == spec::Sharding::parameters) plan.cuda_device_max_connections = 1;
}

}  // namespace

Result<Imported> import_megatron(LibraryCache& cache, const std::string& text,
                                 const std::string& path, const ImportHints& hints) {
  const ShellCommand command = TPT_TRY(find_command(text, path));
  Settings settings(path, "--");
  settings.set_by_flags(hints.by_flags);
  add_launcher(command, settings);
  add_arguments(command, settings);
  spec::StatedJob stated;
  spec::Job& job = stated.job;
  job.name = settings.text("wandb-exp-name").value_or(std::filesystem::path(path).stem().string());
  job.origin = path;
  job.model = TPT_TRY(read_model(cache, settings, command));
  TPT_TRY(set_cluster_and_stack(cache, settings, with_own_script(hints, text, path),
                                read_machines(settings, command), stated));
  read_graphs(settings, job.stack);
  TPT_TRY(read_plan(cache, settings, stated));
  read_connections(command, job.plan);
  adopt_names(cache, variable(command, "TRIPLEPOINT_OPTIMIZER"), job);
  report_unknown_keys(settings, "--", is_irrelevant_megatron_argument,
                      irrelevant_megatron_arguments());
  return assemble(settings, cache.library(), std::move(stated), key_of_code);
}

Result<Imported> import_megatron_args(const spec::Library& library, const std::string& text,
                                      const std::string& path, const ImportHints& hints) {
  LibraryCache cache(library);
  return import_megatron(cache, text, path, hints);
}

}  // namespace triplepoint::formats
