// SPDX-License-Identifier: Apache-2.0
// Launch files of other tools, and what happens in any reader when a key changes its name.
#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/export.h"
#include "triplepoint/formats/fixtures_testing.h"
#include "triplepoint/formats/job_scripts.h"

namespace triplepoint::formats {
namespace {

constexpr const char* titan =
    "[job]\ndescription = \"x\"\n[model]\nname = \"llama3\"\nflavor = \"70B\"\n[training]\n"
    "local_batch_size = 8\nseq_len = 8192\nsteps = 10\n[parallelism]\n"
    "data_parallel_shard_degree = -1\ntensor_parallel_degree = 8\n[activation_checkpoint]\nmode = "
    "\"full\"\n";
constexpr const char* deepspeed =
    "{\n\"train_micro_batch_size_per_gpu\": 2,\n\"gradient_accumulation_steps\": 4,\n"
    "\"zero_optimization\": {\"stage\": 2},\n\"bf16\": {\"enabled\": true}\n}\n";
constexpr const char* accelerate =
    "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nmixed_precision: bf16\n"
    "fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_offload_params: false\n";
constexpr const char* axolotl =
    "base_model: NousResearch/Meta-Llama-3.1-8B\nsequence_len: 4096\nmicro_batch_size: 2\n"
    "gradient_accumulation_steps: 4\nbf16: auto\ngradient_checkpointing: true\nfsdp_version: 2\n";
constexpr const char* factory =
    "model_name_or_path: Qwen/Qwen3-8B\nstage: sft\nfinetuning_type: lora\nlora_rank: 8\n"
    "cutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nbf16: "
    "true\n";
constexpr const char* nanotron =
    "parallelism:\n  dp: 2\n  tp: 4\n  pp: 2\n  pp_engine: 1f1b\n  tp_mode: REDUCE_SCATTER\n"
    "tokens:\n  micro_batch_size: 2\n  batch_accumulation_per_replica: 8\n  sequence_length: 2048\n"
    "optimizer:\n  zero_stage: 1\nmodel:\n  dtype: bfloat16\n  model_config:\n"
    "    is_llama_config: true\n    hidden_size: 4096\n    intermediate_size: 14336\n"
    "    num_hidden_layers: 32\n    num_attention_heads: 32\n    num_key_value_heads: 8\n"
    "    vocab_size: 128256\n    max_position_embeddings: 8192\n";
constexpr const char* zoo =
    "ENV_VARS:\n  CUDA_DEVICE_MAX_CONNECTIONS: 1\nMODEL_ARGS:\n  --num-layers: 32\n"
    "  --hidden-size: 4096\n  --num-attention-heads: 32\n  --group-query-attention: true\n"
    "  --num-query-groups: 8\n  --seq-length: 4096\n  --micro-batch-size: 1\n"
    "  --global-batch-size: 256\n  --tensor-model-parallel-size: 2\n  --bf16: true\n"
    "  --swiglu: false\n  --vocab-size: 32000\n";
constexpr const char* primus =
    "exp_name: x\nmodules:\n  pre_trainer:\n    framework: megatron\n    config: pre_trainer.yaml\n"
    "    model: mixtral_8x7B_v0.1.yaml\n    overrides:\n      train_iters: 5\n"
    "      micro_batch_size: 4\n      global_batch_size: 256\n      seq_length: 4096\n"
    "      expert_model_parallel_size: 8\n      enable_primus_turbo: true\n"
    "      gradient_accumulation_fusion: false\n";
constexpr const char* bridge =
    "model:\n  _target_: some.Provider\n  num_layers: 32\n  hidden_size: 4096\n"
    "  ffn_hidden_size: 14336\n  num_attention_heads: 32\n  num_query_groups: 8\n"
    "  gated_linear_unit: true\n  normalization: RMSNorm\n  add_bias_linear: false\n"
    "  share_embeddings_and_output_weights: false\n  vocab_size: 128256\n"
    "  tensor_model_parallel_size: 2\n  seq_length: 8192\ntrain:\n  micro_batch_size: 1\n"
    "  global_batch_size: 128\nmixed_precision: bf16_mixed\n";

Result<Imported> read(const std::string& text, const char* name = "launch.yaml",
                      ImportHints::Keys by_flags = {}) {
  const ScratchFolder folder;
  ImportHints hints{.cluster = "hgx-h100"};
  if (std::string_view(name).ends_with("toml") || contains(text, "zero_optimization"))
    hints.num_nodes = 2;
  hints.by_flags = std::move(by_flags);
  return import_file(spec::default_library(), folder.file(name, text), hints);
}

spec::Job job(const std::string& text, const char* name = "launch.yaml",
              ImportHints::Keys by_flags = {}) {
  const auto imported = read(text, name, std::move(by_flags));
  REQUIRE_MESSAGE(imported.has_value(), (imported ? "" : imported.error().what));
  for (const spec::Diagnosis& each : imported->diagnoses)
    CHECK_MESSAGE(each.severity != spec::Diagnosis::Severity::error, each.what);
  return imported->job;
}

TEST_CASE("a file of torchtitan becomes the job it starts") {
  const spec::Job read = job(titan, "train.toml");
  CHECK(read.model.name == "llama3-70b");
  CHECK(read.model.sequence_length == 8192);
  CHECK(read.stack.name == "eager-pytorch");  // compile.enable is off unless it is written
  CHECK(read.plan.tensor_parallel_size == 8);
  CHECK(read.plan.sharding == spec::Sharding::parameters);
  CHECK(read.plan.recompute == spec::Recompute::full);
  CHECK(read.plan.micro_batch_size == 8);
  CHECK(read.plan.global_batch_size == 16);  // 2 data-parallel ranks of 16 GPUs
}

TEST_CASE("a file of DeepSpeed takes its model from a flag, and its batch from the ranks") {
  CHECK(contains(read(deepspeed).error().what, "of DeepSpeed names no model; add --model"));
  const spec::Job read = job(deepspeed, "ds.json", {"model"});
  CHECK(read.plan.sharding == spec::Sharding::gradients);
  CHECK(read.plan.micro_batch_size == 2);
  CHECK(read.plan.global_batch_size == 2 * 4 * 16);
}

TEST_CASE("a file of accelerate says how many processes shard parameters") {
  const spec::Job read = job(accelerate, "fsdp.yaml", {"model"});
  CHECK(read.cluster.num_nodes == 2);
  CHECK(read.world_size() == 16);
  CHECK(read.plan.sharding == spec::Sharding::parameters);
}

TEST_CASE("files of axolotl and LLaMA-Factory name models of the hub") {
  const spec::Job full = job(axolotl);
  CHECK(full.model.name == "llama3-8b");
  CHECK(full.plan.sharding == spec::Sharding::parameters);
  CHECK(full.plan.global_batch_size == 2 * 4 * 8);
  const spec::Job adapter = job(factory);
  CHECK(adapter.model.name == "qwen3-8b");
  CHECK(adapter.task == spec::Task::lora);
  REQUIRE(adapter.plan.lora.has_value());
  CHECK(adapter.plan.lora->rank == 8);
}

TEST_CASE("a file of nanotron has its model, its ranks and its batch inside") {
  const auto masked = ::triplepoint::formats::read(
      with(nanotron, "is_llama_config: true", "is_qwen2_config: true\n    _use_doc_masking: true"));
  CHECK(contains(fmt::format("{}", fmt::join(masked->assumed, "\n")),
                 "_use_doc_masking: tokens attend to all before them"));
  const spec::Job read = job(nanotron);
  CHECK(read.model.name == "llama3-8b");
  CHECK(read.world_size() == 16);
  CHECK(read.plan.pipeline_parallel_size == 2);
  CHECK(read.plan.sequence_parallel);
  CHECK(read.plan.global_batch_size == 2 * 8 * 2);
}

TEST_CASE("Megatron's arguments are read where they are keys") {
  const spec::Job read = job(zoo);
  CHECK(read.model.num_query_groups == 8);
  CHECK(read.model.activation == spec::Activation::gelu);
  CHECK(read.plan.tensor_parallel_size == 2);
  CHECK(read.plan.precision == spec::Precision::bf16);
  const spec::Job config = job(bridge);
  CHECK(config.model.activation == spec::Activation::swiglu);
  CHECK_FALSE(config.model.biases);
  CHECK_FALSE(config.model.tied_embeddings);
  CHECK(config.plan.precision == spec::Precision::bf16);
  for (const auto& recipe :
       {std::pair("bf16_with_mxfp8_mixed", spec::Precision::mxfp8),
        std::pair("bf16_with_fp8_delayed_scaling_mixed", spec::Precision::fp8)}) {
    std::string text = bridge;
    text.replace(text.find("bf16_mixed"), 10, recipe.first);
    CHECK_MESSAGE(::triplepoint::formats::read(text)->job.plan.precision == recipe.second,
                  recipe.first);
  }
}

TEST_CASE("Primus' files have its defaults, its models where they are ours, and no other backend") {
  const spec::Job read = job(primus);
  CHECK(read.model.name == "mixtral-8x7b-dropless");
  CHECK(read.model.sequence_length == 4096);
  CHECK(read.plan.sharding == spec::Sharding::optimizer);
  CHECK(read.plan.precision == spec::Precision::bf16);
  for (const auto& change : std::map<std::string, std::string>{
           {"framework: megatron", "framework: maxtext"},
           {"mixtral_8x7B_v0.1.yaml", "gpt_oss_20B.yaml"},    // other sizes than the published ones
           {"gradient_accumulation_fusion", "qk_layernorm"},  // of the model's file
           {"train_iters: 5", "recompute_layer_ids: 5"}}) {
    const auto changed = ::triplepoint::formats::read(with(primus, change.first, change.second));
    CHECK_MESSAGE((!changed || spec::has_errors(changed->diagnoses)), change.second);
  }
  CHECK(job(with(primus, "train_iters: 5", "use_distributed_optimizer: false")).plan.sharding ==
        spec::Sharding::none);
}

TEST_CASE("what a class leaves to its defaults, and what is not read, is refused by name") {
  const auto refused = [](const std::string& text) {
    const auto imported = read(text);
    return imported ? std::string("none") : imported.error().what;
  };
  CHECK(refused(with(bridge, "  ffn_hidden_size: 14336\n", ""))
            .find("ffn_hidden_size is left to the default") != std::string::npos);
  CHECK(refused("global_train_batch_size: 8\ndevice_train_microbatch_size: 1\nmax_seq_len: 2048\n")
            .find("a file of llm-foundry, which is not read yet; give instead") !=
        std::string::npos);
  CHECK(contains(refused("per_device_batch_size: 4\nmax_target_length: 2048\n"), "of MaxText"));
}

/// All that is said of a file: the error, or diagnoses and assumptions.
std::string said_of(const Result<Imported>& imported) {
  if (!imported) return imported.error().what;
  std::string said;
  for (const spec::Diagnosis& each : imported->diagnoses)
    said += each.what + "\n";
  for (const std::string& each : imported->assumed)
    said += each + "\n";
  return said;
}

constexpr const char* hybrid =
    "{\n\"model_type\": \"granitemoehybrid\",\n\"num_hidden_layers\": 4,\n\"hidden_size\": 4096,\n"
    "\"intermediate_size\": 768,\n\"shared_intermediate_size\": 1536,\n"
    "\"num_attention_heads\": 32,\n\"num_key_value_heads\": 8,\n\"vocab_size\": 100352,\n"
    "\"num_local_experts\": 72,\n\"num_experts_per_tok\": 10,\n\"mamba_n_heads\": 128,\n"
    "\"mamba_d_head\": 64,\n\"mamba_d_state\": 128,\n\"mamba_n_groups\": 1,\n"
    "\"max_position_embeddings\": 4096,\n"
    "\"layer_types\": [\"mamba\", \"mamba\", \"mamba\", \"attention\"]\n}\n";

constexpr const char* shell =
    "#!/bin/bash\nGPUS=8\nTP=4\nLAYERS=32\nMBS=1\ntorchrun --nproc_per_node $GPUS --nnodes 2 "
    "pretrain_gpt.py --num-layers $LAYERS --hidden-size 4096 --num-attention-heads 32 --seq-length "
    "4096 --max-position-embeddings 4096 --micro-batch-size $MBS --global-batch-size 64 "
    "--tensor-model-parallel-size $TP --bf16 --vocab-size 32000 --use-distributed-optimizer\n";

/// DeepSeek-V3.2.
std::string sparse() {
  return with(fixture("deepseek.json"), "{",
              "{\n\"index_n_heads\": 64,\n\"index_head_dim\": 128,\n\"index_topk\": 2048,");
}

struct Example {
  const char* file;
  std::string text;
  ImportHints::Keys by_flags = {};
};

const std::vector<Example>& examples() {
  static const std::vector<Example> all = {{"train.toml", titan},
                                           {"ds.json", deepspeed, {"model"}},
                                           {"fsdp.yaml", accelerate, {"model"}},
                                           {"axolotl.yaml", axolotl},
                                           {"factory.yaml", factory},
                                           {"nanotron.yaml", nanotron},
                                           {"zoo.yaml", zoo},
                                           {"primus.yaml", primus},
                                           {"bridge.yaml", bridge},
                                           {"llama.json", fixture("llama.json")},
                                           {"deepseek.json", fixture("deepseek.json")},
                                           {"nemo.yaml", fixture("fsdp-h200.yaml")},
                                           {"hybrid.json", hybrid},
                                           {"sparse.json", sparse()},
                                           {"launch.sh", shell},
                                           {"arguments.txt", fixture("arguments.txt")}};
  return all;
}

/// A line that sets a key.
struct Line {
  std::size_t begin, end, key_at;
  std::string key;
};

std::vector<Line> lines_with_keys(const Example& example) {
  std::vector<Line> all;
  const std::string& text = example.text;
  const bool arguments = std::string_view(example.file).ends_with("txt");
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find('\n', at), text.size()) + 1) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t stop = std::min(line.find_first_of(arguments ? " " : ":="), line.size());
    const std::size_t begin = line.find_first_not_of(" \"-#[");
    if (begin == line.npos || begin >= stop || line.front() == '[' || line.front() == '#') continue;
    if (stop == line.size() && !arguments) continue;
    const std::string key(trimmed(std::string_view(line).substr(begin, stop - begin), " \""));
    all.push_back({at, end, at + line.find(key, begin), key});
  }
  return all;
}

/// Whether a changed file gives the same job, is refused, or is said to differ by this word.
bool is_told(const Result<Imported>& changed, const Result<Imported>& base,
             const std::string& word) {
  if (!changed || spec::has_errors(changed->diagnoses)) return true;
  if (contains(said_of(changed), word)) return true;
  // A label, or a number inside of a kernel, may go under any name.
  return base && changed->job.model == base->job.model && changed->job.plan == base->job.plan &&
         changed->job.cluster == base->job.cluster && changed->job.stack == base->job.stack;
}

TEST_CASE("in every reader a key under another name, or one more, is an error that names it") {
  for (const Example& example : examples()) {
    const auto base = read(example.text, example.file, example.by_flags);
    const std::vector<Line> lines = lines_with_keys(example);
    CHECK_MESSAGE(lines.size() > 2, example.file);
    for (const Line& line : lines) {
      const std::string other = line.key + (!contains(line.key, '-') ? "_zz9" : "-zz9");
      std::string renamed = example.text;
      renamed.replace(line.key_at, line.key.size(), other);
      std::string added = example.text;
      added.insert(line.begin, renamed.substr(line.begin, line.end + 4 - line.begin) + "\n");
      CAPTURE(example.file);
      CAPTURE(other);
      std::vector<std::string> changed{renamed};
      if (line.begin == lines.front().begin) changed.push_back(added);
      for (const std::string& text : changed) {
        const auto imported = read(text, example.file, example.by_flags);
        CHECK_MESSAGE(is_told(imported, base, "zz9"), said_of(imported));
      }
    }
  }
}

TEST_CASE("in every reader a key that is taken out changes nothing, or is missed in words") {
  // Where the tool has a default, not to be there says as much as a value does.
  const std::vector<std::string> by_absence = split(
      "fp16 bf16 mixed_precision gradient_checkpointing tp_mode fsdp_version global-batch-size "
      "global_batch_size local_batch_size micro_batch_size train_micro_batch_size_per_gpu "
      "gradient_accumulation_steps batch_accumulation_per_replica zero_optimization "
      "data_parallel_shard_degree tensor_parallel_degree tensor-model-parallel-size "
      "tensor_model_parallel_size tp pp cutoff_len sequence_length max_position_embeddings "
      "num_key_value_heads group-query-attention n_shared_experts first_k_dense_replace "
      "q_lora_rank exp_manager vocab-size vocab_size shared_intermediate_size mamba_n_groups",
      ' ');
  for (const Example& example : examples()) {
    const auto base = read(example.text, example.file, example.by_flags);
    for (const Line& line : lines_with_keys(example)) {
      if (std::ranges::count(by_absence, line.key) > 0) continue;
      std::string text = example.text;
      text.erase(line.begin, line.end + 1 - line.begin);
      CAPTURE(example.file);
      CAPTURE(line.key);
      const auto imported = read(text, example.file, example.by_flags);
      CHECK_MESSAGE(is_told(imported, base, line.key), said_of(imported));
    }
  }
}

TEST_CASE("in every reader another number is another job, an error, or said") {
  // Lengths of runs, data order, numerics, and what a stack has from elsewhere.
  const std::vector<std::string> idle = split(
      "steps train_iters train-iters max_position_embeddings max-position-embeddings "
      "num_nextn_predict_layers CUDA_DEVICE_MAX_CONNECTIONS",
      ' ');
  for (const Example& example : examples()) {
    const auto base = read(example.text, example.file, example.by_flags);
    for (const Line& line : lines_with_keys(example)) {
      const std::size_t after = line.key_at + line.key.size();
      const std::size_t begin = example.text.find_first_not_of("\" :=", after);
      if (begin >= line.end || std::ranges::count(idle, line.key) > 0) continue;
      const std::size_t end = example.text.find_first_not_of("0123456789", begin);
      const auto number = whole_number(example.text.substr(begin, end - begin));
      if (number.value_or(0) < 1) continue;
      const std::string text =
          std::string(example.text).replace(begin, end - begin, std::to_string(2 * *number));
      CAPTURE(example.file);
      CAPTURE(line.key);
      const auto imported = read(text, example.file, example.by_flags);
      const bool told = !imported || spec::has_errors(imported->diagnoses) ||
                        contains(said_of(imported), line.key);
      CHECK_MESSAGE((told || !is_told(imported, base, "zz9")), said_of(imported));
    }
  }
}

/// The job of an exported file, on the same machines.
spec::Job again(const spec::Job& job, const char* file, const Exported& exported) {
  const ScratchFolder folder;
  const ImportHints hints{
      .cluster = job.cluster.name, .num_nodes = job.cluster.num_nodes, .stack = job.stack.name};
  const auto read = import_file(spec::default_library(), folder.file(file, exported.text), hints);
  REQUIRE_MESSAGE(read.has_value(), (read ? "" : read.error().what) << exported.text);
  for (const spec::Diagnosis& each : read->diagnoses)
    CHECK_MESSAGE(each.severity != spec::Diagnosis::Severity::error, each.what);
  return read->job;
}

TEST_CASE("a job reads back the same from torchtitan's file, with pipelines, too") {
  for (const int64_t stages : {1, 2}) {
    spec::Job started = job(titan, "train.toml");
    started.plan.pipeline_parallel_size = stages;
    started.plan.tensor_parallel_size = 4;
    started.plan.micro_batch_size = 2;
    started.plan.global_batch_size = 32;
    const Exported exported = export_torchtitan(started, 10);
    CHECK(exported.unsupported_settings.size() == 1);  // marks of steps
    CHECK(exported.refused_by_launcher.empty());
    const spec::Job read = again(started, "train.toml", exported);
    CHECK(read.model == started.model);
    CHECK(read.plan == started.plan);
  }
  spec::Job started = job(titan, "train.toml");
  started.plan.precision = spec::Precision::fp8;
  CHECK(contains(export_torchtitan(started, 10).text, "# not said: precision fp8"));
  started.model.num_layers = 31;
  CHECK(contains(export_torchtitan(started, 10).refused_by_launcher, started.model.name));
}

TEST_CASE("a job of Megatron reads back the same from Megatron-Bridge's file") {
  for (const char* name : {"pretrain-h200.yaml", "experts-h100.yaml", "fsdp-h200.yaml"}) {
    CAPTURE(name);
    spec::Job job = import_nemo_yaml(spec::default_library(), fixture(name), name, {}).value().job;
    const auto same = [&](const char* what) {
      CAPTURE(what);
      const spec::Job read = again(job, "bridge.yaml", export_bridge_yaml(job));
      job.plan.optimizer.name = read.plan.optimizer.name;
      job.model.name = read.model.name;
      CHECK(read.model == job.model);
      CHECK(read.plan == job.plan);
    };
    same("as it is");
    job.plan.recompute = spec::Recompute::full;
    job.plan.overlap_gradient = true;
    same("full recompute");
    job.plan.precision = spec::Precision::mxfp8;
    const int64_t nodes = job.cluster.num_nodes;
    job.cluster =
        spec::load_cluster(spec::default_library(), "dgx-b200").value();  // has block scales
    job.cluster.num_nodes = nodes;
    same("mxfp8");
  }
}

TEST_CASE("adapters, optimizers and defaults of other tools are theirs, and told") {
  const spec::Job adapters = job(with(axolotl, "fsdp_version: 2",
                                      "adapter: qlora\nload_in_4bit: true\nlora_r: 16\n"
                                      "lora_target_linear: true\noptimizer: adamw_bnb_8bit"));
  CHECK(adapters.task == spec::Task::lora);
  CHECK(adapters.plan.optimizer.name == "qlora_adamw");
  CHECK(adapters.plan.sharding == spec::Sharding::none);
  REQUIRE(adapters.plan.lora);
  CHECK(adapters.plan.lora->targets.size() == 4);
  const spec::Job full = job(with(axolotl, "bf16: auto",
                                  "bf16: auto\noptimizer: adamw_bnb_8bit\n"
                                  "lora_r: 16"));
  CHECK(full.plan.optimizer.name == "adamw_8bit");
  CHECK_FALSE(full.plan.lora);  // ranks without an adapter are left over
  CHECK(spec::has_errors(
      read(with(axolotl, "fsdp_version: 2", "adapter: lora\nload_in_8bit: true"))->diagnoses));
  const auto lists = [](const std::string& targets, const char* model = "Meta-Llama-3.1-8B") {
    return read(with(with(axolotl, "fsdp_version: 2", "adapter: lora\n" + targets),
                     "Meta-Llama-3.1-8B", model));
  };
  using Targets = std::vector<std::string>;
  CHECK(lists("lora_target_modules: [q_proj, o_proj, k_proj, v_proj]")->job.plan.lora->targets ==
        Targets{"attention_qkv", "attention_dense"});
  for (const auto& refused : {lists("lora_target_modules: [q_proj, v_proj]"), lists(""),
                              lists("lora_target_linear: true", "Mixtral-8x7B-v0.1")})
    CHECK(spec::has_errors(refused->diagnoses));
  CHECK(job(with(axolotl, "NousResearch/Meta-Llama-3.1-8B", "m/Mixtral-8x7B-v0.1")).model.name ==
        "mixtral-8x7b-dropless");
  CHECK(job(with(axolotl, "fsdp_version: 2", "fsdp: [full_shard, auto_wrap]")).plan.sharding ==
        spec::Sharding::parameters);
  const auto packed = read(with(axolotl, "bf16: auto", "bf16: auto\nsample_packing: true"));
  CHECK(packed->job.plan.record_layout == spec::RecordLayout::packed);
  CHECK(contains(said_of(packed), "samples count as long as sequence_len"));
  const auto left_out = read(factory);
  CHECK(left_out->job.plan.recompute == spec::Recompute::full);
  CHECK(left_out->job.plan.sharding == spec::Sharding::none);
  CHECK(left_out->job.plan.lora->targets.size() == 4);
  CHECK(contains(said_of(left_out), "taken as LLaMA-Factory does by default"));
  const auto factory_with = [](const char* line) { return read(std::string(factory) + line); };
  CHECK(factory_with("deepspeed: /app/examples/deepspeed/ds_z3_config.json\n")->job.plan.sharding ==
        spec::Sharding::parameters);
  CHECK(spec::has_errors(factory_with("flash_attn: disabled\n")->diagnoses));
  CHECK(factory_with("ray_num_workers: 4\n")->job.world_size() == 4);
  const std::string part = "\"gradient_accumulation_steps\": 4,\n";
  CHECK(job(with(deepspeed, part, ""), "ds.json", {"model"}).plan.global_batch_size == 32);
  CHECK(job(with(deepspeed, part, "\"train_batch_size\": 64,"), "ds.json", {"model"})
            .plan.global_batch_size == 64);
  CHECK(contains(read(with(deepspeed, part, "\"train_batch_size\": GLOBAL,"), "ds.json", {"model"})
                     ->diagnoses.at(0)
                     .what,
                 "train_batch_size is 'GLOBAL' (it must be a whole number from 1"));
  const std::string names = "[quantize.linear.float8]\nfilter_fqns = [\"output\"]\n";
  CHECK_FALSE(spec::has_errors(read(titan + names, "titan.toml")->diagnoses));
  CHECK(spec::has_errors(
      read(with(titan + names, "flavor", "converters = [\"float8\"]\nflavor"), "titan.toml")
          ->diagnoses));
  const spec::Job hybrid =
      job(with(accelerate, "FULL_SHARD", "HYBRID_SHARD"), "fsdp.yaml", {"model"});
  CHECK(hybrid.plan.sharding_group_size == 8);
  const auto plain = read(with(accelerate, "FSDP", "MULTI_GPU") + "megatron_lm_config: {}\n",
                          "ddp.yaml", {"model"});
  CHECK(plain->job.plan.sharding == spec::Sharding::none);
  CHECK(contains(said_of(plain), "has no effect without distributed_type=FSDP"));
  CHECK_FALSE(spec::has_errors(plain->diagnoses));
}

TEST_CASE("DeepSpeed keeps 16-bit gradients beside whole masters, unless its file says otherwise") {
  const auto kept = [](const char* more) {
    return job(with(deepspeed, "\"bf16\": {\"enabled\": true}", more), "ds.json", {"model"})
        .plan.optimizer;
  };
  const spec::OptimizerState half = kept(R"("bf16": {"enabled": true})");
  CHECK(half.weight_bytes + half.gradient_bytes == 2 + 2);
  CHECK(half.master_bytes + half.moment_bytes == 4 + 8);
  CHECK(half.gradient_sync_bytes == 2);
  CHECK(kept(R"("fp16": {"enabled": true})") == half);
  CHECK(kept(R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})")
            .gradient_bytes == 2 + 4);
  CHECK(
      kept(R"("bf16": {"enabled": true}, "communication_data_type": "fp32")").gradient_sync_bytes ==
      4);
  CHECK(kept(R"("bf16": {"enabled": false})").weight_bytes == 4);
  CHECK(job(with(accelerate, "FSDP", "DEEPSPEED"), "ds.yaml", {"model"}).plan.optimizer == half);
  const std::string of_stage_3 = "deepspeed: examples/deepspeed/ds_z3_config.json\n";
  CHECK(job(factory + of_stage_3).plan.optimizer == half);
  const auto halved = read(
      with(deepspeed, "\"enabled\": true", R"("enabled": true, "bf16_optimizer_states": true)"),
      "ds.json", {"model"});
  CHECK(contains(said_of(halved), "bf16_optimizer_states: this part of DeepSpeed is not read"));
}

TEST_CASE("axolotl trains in the 16 bits that it loads, but with FSDP, DeepSpeed or adapters") {
  const std::string alone = with(axolotl, "fsdp_version: 2\n", "");
  const auto optimizer = [&](const std::string& more) {
    return job(alone + more).plan.optimizer.name;
  };
  CHECK(optimizer("") == "full_bf16_adamw");
  CHECK(optimizer("optimizer: adamw_torch_fused\n") == "full_bf16_adamw");
  CHECK(optimizer("optimizer: adamw_8bit\n") == "adamw_8bit");
  CHECK(optimizer("fsdp: [full_shard, auto_wrap]\n") == "fsdp_adamw");
  CHECK(optimizer("fsdp_version: 2\noptimizer: adamw_torch\n") == "fsdp_adamw");
  CHECK(optimizer("deepspeed: deepspeed_configs/zero2.json\n") == "deepspeed_adam");
  const std::string adapter = "lora_target_linear: true\nlora_r: 8\nadapter: ";
  CHECK(optimizer(adapter + "lora\n") == "fsdp_adamw");
  CHECK(optimizer(adapter + "qlora\nload_in_4bit: true\n") == "qlora_adamw");
}

TEST_CASE("what a file leaves out, repeats or takes from elsewhere is not called given") {
  const Imported usual = read(with(factory, "cutoff_len: 2048\n", "")).value();
  CHECK_FALSE(usual.stated.contains(spec::JobSetting::sequence_length));
  CHECK(usual.length_from == "LLaMA-Factory's default");
  CHECK(read(factory)->stated.contains(spec::JobSetting::sequence_length));
  CHECK_FALSE(read(with(primus, "      seq_length: 4096\n", ""))
                  ->stated.contains(spec::JobSetting::sequence_length));
  CHECK(read(primus)->stated.contains(spec::JobSetting::sequence_length));

  CHECK(contains(said_of(read(with(axolotl, "bf16: auto", "bf16: auto\nload_in_4bit: true"))),
                 "load_in_4bit without adapter (the program refuses it)"));
  const auto twice = read(std::string(axolotl) + "---\nmicro_batch_size: 4\n");
  CHECK(contains(said_of(twice), "another YAML document begins in line 9"));
  CHECK(spec::has_errors(twice->diagnoses));
  CHECK_FALSE(spec::has_errors(read(std::string(axolotl) + "---\n")->diagnoses));
  CHECK(contains(read("{{- if .Values.x }}\na: 1\n").error().what, "a template"));
}

TEST_CASE("what changes a tool's job is not passed over among its names and its logging") {
  const std::string scale =
      "experiment:\n  task: {backend: megatron, type: train}\n  runner: {nnodes: 4, "
      "nproc_per_node: 8}\nsystem: {tensor_model_parallel_size: 4}\nmodel: {num_layers: 32, "
      "hidden_size: 4096, num_attention_heads: 32, micro_batch_size: 1, global_batch_size: 64, "
      "seq_length: 4096, bf16: true}\ndata: {tokenizer: {tokenizer_type: Llama3Tokenizer}}\n";
  CHECK(job(scale).world_size() == 32);
  CHECK(spec::has_errors(read(scale + "defaults: [train: 8b]\n")->diagnoses));
  CHECK(spec::has_errors(
      read(with(titan, "tensor_parallel_degree",
                "module_fqns_per_model_part = [\"layers.0\"]\ntensor_parallel_degree"),
           "titan.toml")
          ->diagnoses));
  CHECK(spec::has_errors(read(std::string(bridge) + "dist: {use_torch_fsdp2: true}\n")->diagnoses));
  CHECK_FALSE(
      spec::has_errors(read(std::string(bridge) + "dist: {use_torch_fsdp2: false}\n")->diagnoses));
}

TEST_CASE("files that look alike are called by their tool's name") {
  CHECK(tool_of("model: {d_model: 64, weight_tying: false}\nglobal_train_batch_size: 8\n") ==
        "OLMo-core or OLMo");
  CHECK(tool_of("step_scheduler: {local_batch_size: 1}\nmodel: {_target_: a}\n") ==
        "NeMo AutoModel");
  CHECK(tool_of("train: {micro_batch_size: 1, global_batch_size: 8}\n").empty());
  CHECK(tool_of("train: {micro_batch_size: 1}\nmodel: {recompute_granularity: full}\n") ==
        "Megatron-Bridge, of changes to a recipe");
  CHECK(tool_of("{\"pipe_parallel_size\": 1, # none\n\"num_layers\": 6, \"hidden_size\": 512,\n"
                "\"model_parallel_size\": 1, \"train_micro_batch_size_per_gpu\": 4,\n}\n") ==
        "GPT-NeoX");
  CHECK(tool_of("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\n---\nkind: Service\n") ==
        "Kubernetes");
  CHECK(
      recognize("distributed_strategy:\n  zero1: true\nmodel_source: hf\ntrainer:\n  devices: 32\n"
                "model:\n  num_layers: 2\n") == FileKind::tool);
  CHECK(recognize("model:\n  type: llama\ntrainer:\n  num_train_steps: 9\n") == FileKind::tool);
}

}  // namespace
}  // namespace triplepoint::formats
