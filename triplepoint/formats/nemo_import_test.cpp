// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/text.h"

#include "triplepoint/formats/fixtures_testing.h"

namespace triplepoint::formats {
namespace {

using enum spec::DiagnosisCode;
using Severity = spec::Diagnosis::Severity;

Imported import(const std::string& text, const std::string& path, const ImportHints& hints = {}) {
  const auto imported = import_nemo_yaml(spec::default_library(), text, path, hints);
  REQUIRE_MESSAGE(imported.has_value(), (imported ? "" : imported.error().what));
  return *imported;
}

Imported import_fixture(const std::string& name) {
  return import(fixture(name), name);
}

TEST_CASE("a NeMo pretraining job keeps its layout, batch, recompute, overlap and optimizer") {
  const Imported imported = import_fixture("pretrain-h200.yaml");
  const spec::Job& job = imported.job;
  CHECK(imported.diagnoses.empty());
  CHECK(job.name == "pretrain");
  CHECK(job.task == spec::Task::pretrain);
  CHECK(job.model.name == "small");
  CHECK(job.model.kv_channels == 128);
  CHECK(job.model.num_query_groups == 32);
  CHECK(job.model.vocabulary_size == 50257);
  CHECK(job.model.tied_embeddings);
  CHECK(job.cluster.name == "hgx-h200");
  CHECK(job.world_size() == 32);
  CHECK(job.data_parallel_size() == 2);
  CHECK(job.num_microbatches() == 32);
  CHECK(job.stack.name == "nemo-profiled");
  CHECK(job.plan.recompute == spec::Recompute::full);
  CHECK(job.plan.recompute_layers == 4);
  CHECK(job.plan.overlap_tensor);
  CHECK(job.plan.overlap_gradient);
  CHECK_FALSE(job.plan.overlap_parameter);
  CHECK(job.plan.gradient_bucket == 400 * unit::MiB);
  CHECK(job.plan.sharding == spec::Sharding::optimizer);
  CHECK(job.plan.optimizer.name == "distributed_fused_adam");
  CHECK(
      assumes(imported, "vocabulary of 50257 tokens after the tokenizer's name, GPT2BPETokenizer"));
}

/// What NeMo's logger keeps of a fixture: the model's part alone.
std::string hparams_of(const std::string& name) {
  const std::string yaml = fixture(name);
  return "cfg:" + yaml.substr(yaml.find("\nmodel:") + 7) +
         "  precision: bf16\n  target: nemo.MegatronGPTModel\n  nemo_version: 1.23.0\n";
}

TEST_CASE("the hparams.yaml of NeMo's logger is the job but for nodes and names") {
  const ImportHints hints{.num_nodes = 4};
  CHECK(recognize(hparams_of("pretrain-h200.yaml")) == FileKind::nemo_yaml);
  const spec::Job whole = import_fixture("pretrain-h200.yaml").job;
  const Imported imported = import(hparams_of("pretrain-h200.yaml"), "h200/hparams.yaml", hints);
  CHECK(imported.diagnoses.empty());
  CHECK(imported.job.plan == whole.plan);
  CHECK(imported.job.cluster == whole.cluster);
  CHECK(imported.job.stack == whole.stack);
  CHECK(imported.job.model.name == "model");  // a shape that the library does not have
  spec::Model renamed = imported.job.model;
  renamed.name = whole.model.name;
  CHECK(renamed == whole.model);
  CHECK(import(hparams_of("generate.yaml"), "hparams.yaml", hints).job.task == spec::Task::prefill);
  CHECK(import(hparams_of("lora.yaml"), "hparams.yaml", hints).job.task == spec::Task::lora);
}

TEST_CASE("functions of numbers in a NeMo file are worked out, others are refused by name") {
  const auto width = [](const std::string& value) {
    const std::string yaml = fixture("pretrain-h200.yaml");
    const std::size_t at = yaml.find("ffn_hidden_size: ") + 17;
    return import_nemo_yaml(spec::default_library(),
                            std::string(yaml).replace(at, yaml.find('\n', at) - at, value),
                            "run.yaml", {});
  };
  const int64_t hidden = import_fixture("pretrain-h200.yaml").job.model.hidden_size;
  for (const auto& [value, wide] :
       {std::pair("${multiply:4, ${.hidden_size}}", 4 * hidden),
        std::pair("${training.model.hidden_size}", hidden),
        std::pair("${add:${model.hidden_size},${divide_ceil:7,2}}", hidden + 4),
        std::pair("${divide_floor:${multiply:8,${.hidden_size}},3}", 8 * hidden / 3)})
    CHECK(width(value)->job.model.ffn_hidden_size == wide);
  for (const char* value : {"${eval:1+2}", "${multiply:4,${.none}}", "${multiply:4}"})
    CHECK(spec::has_errors(width(value)->diagnoses));
}

TEST_CASE("a NeMo job on one replica has nothing to shard") {
  const std::string text = with(fixture("pretrain-h200.yaml"), "num_nodes: 4", "num_nodes: 2");
  CHECK(import(text, "h200.yaml").job.plan.sharding == spec::Sharding::none);
}

TEST_CASE("a NeMo mixture of experts keeps its routing and 16-bit gradients") {
  const Imported imported = import_fixture("experts-h100.yaml");
  const spec::Job& job = imported.job;
  CHECK(imported.diagnoses.empty());
  CHECK(job.cluster.name == "hgx-h100");
  REQUIRE(job.model.moe.has_value());
  CHECK(job.model.moe->num_experts == 8);
  CHECK(job.model.moe->router_topk == 2);
  CHECK(job.model.moe->capacity_factor == 1.0);
  CHECK(job.model.moe->pad_to_capacity);
  CHECK_FALSE(job.model.moe->grouped_gemm);
  CHECK(job.model.vocabulary_size == 32000);
  CHECK(job.model.activation == spec::Activation::swiglu);
  CHECK_FALSE(job.model.biases);
  CHECK(job.plan.expert_parallel_size == 8);
  CHECK(job.plan.optimizer.gradient_bytes == 2);
  CHECK(job.plan.optimizer.gradient_sync_bytes == 2);
  CHECK(job.stack.name == "megatron-core");
}

TEST_CASE("NeMo's FSDP shards parameters and reduces in the type it names") {
  const std::string text = fixture("fsdp-h200.yaml");
  const spec::Plan plan = import(text, "h200.yaml").job.plan;
  CHECK(plan.sharding == spec::Sharding::parameters);
  CHECK(plan.reshard_after_forward);
  CHECK(plan.optimizer.gradient_sync_bytes == 2);
  const std::string full = "fsdp_sharding_strategy: full",
                    hybrid = "fsdp_sharding_strategy: hybrid";
  CHECK_FALSE(import(with(text, full, "fsdp_sharding_strategy: grad"), "h200.yaml")
                  .job.plan.reshard_after_forward);
  CHECK(import(with(text, full, hybrid), "h200.yaml").job.plan.sharding_group_size == 1);
}

TEST_CASE("a NeMo fine-tuning job takes batch and length from its training set") {
  const Imported imported = import_fixture("lora.yaml");
  const spec::Job& job = imported.job;
  CHECK(job.task == spec::Task::lora);
  CHECK(job.plan.micro_batch_size == 2);
  CHECK(job.plan.global_batch_size == 64);
  CHECK(job.model.sequence_length == 2048);
  CHECK(job.model.vocabulary_size == 128256);
  REQUIRE(job.plan.lora.has_value());
  CHECK(job.plan.lora->rank == 16);
  CHECK(job.plan.lora->targets ==
        std::vector<std::string>{"attention_qkv", "attention_dense", "mlp_fc1"});
  CHECK(job.plan.lora->dropout == 0.1);
  CHECK(job.plan.lora->all_to_all);
  CHECK(assumes(imported,
                "every sample is 2048 tokens long (model.data.train_ds.max_seq_length); "
                "shorter ones take less"));
  CHECK(assumes(imported,
                "the file does not name its GPUs: cluster hgx-h200; give --cluster for another"));
}

TEST_CASE("NeMo inference is the prompt's pass, with the test set's batch") {
  const Imported imported = import_fixture("generate.yaml");
  CHECK(imported.job.task == spec::Task::prefill);
  CHECK(imported.job.plan.micro_batch_size == 4);
  CHECK(imported.job.plan.global_batch_size == 32);
  CHECK(imported.job.model.sequence_length == 1024);
  CHECK_FALSE(imported.job.plan.lora.has_value());
  CHECK(assumes(imported,
                "inference is the prompt's pass through the model; the 32 tokens generated "
                "after it are not counted"));
}

TEST_CASE("layers that do not fill the stages of a NeMo job are found, with the line") {
  const std::string text =
      with(with(fixture("pretrain-h200.yaml"), "num_layers: 16", "num_layers: 18"),
           "activations_checkpoint_num_layers: 4", "activations_checkpoint_num_layers: 5");
  CHECK(finds(
      import(text, "h200.yaml"), layers_not_divisible, Severity::error,
      "h200.yaml:18: num_layers 18 is not divisible by pipeline_parallel_size 4 (every stage "
      "holds equally many layers); try 2, or write layers_per_stage (--layers-per-stage 5,5,4,4)"));
}

TEST_CASE("less than one microbatch in a NeMo job is found, with the line") {
  const std::string text =
      with(fixture("pretrain-h200.yaml"), "micro_batch_size: 1", "micro_batch_size: 64");
  CHECK(
      finds(import(text, "h200.yaml"), batch_not_divisible, Severity::error,
            "h200.yaml:15: global_batch_size 64 is less than micro_batch_size 64 x "
            "data_parallel_size 2 (the step would have 0.5 microbatches); use a global batch of at "
            "least 128"));
}

TEST_CASE("the line of a batch is that of the data set which sets it") {
  const std::string text =
      with(fixture("lora.yaml"), "micro_batch_size: 2", "micro_batch_size: 48");
  CHECK(finds(
      import(text, "lora.yaml"), batch_not_divisible, Severity::error,
      "lora.yaml:20: global_batch_size 64 is less than micro_batch_size 48 x data_parallel_size 2 "
      "(the step would have 0.667 microbatches); use a global batch of at least 96"));
}

TEST_CASE("a head dimension copied from another model is found, and so is the model") {
  const std::string text = with(
      with(fixture("experts-h100.yaml"), "name: megatron_experts", "name: megatron_mixtral-8x7b"),
      "hidden_size: 4096", "hidden_size: 6144");
  const Imported imported = import(text, "h100.yaml");
  CHECK(finds(
      imported, head_dimension, Severity::warning,
      "h100.yaml:14: head dimension 192 = hidden_size 6144 / num_attention_heads 32 is unusual "
      "(fused attention is made for 64, 96, 128; a size was probably copied from another "
      "model); check hidden_size and num_attention_heads"));
  CHECK(assumes(imported,
                "hidden_size 6144 is meant, though mixtral-8x7b, after which the job is named, has "
                "4096"));
}

TEST_CASE("tensor overlap without sequence parallelism in a NeMo job is found, with the line") {
  const std::string text =
      with(fixture("fsdp-h200.yaml"), "ub_tp_comm_overlap: false", "ub_tp_comm_overlap: true");
  CHECK(finds(import(text, "h200.yaml"), tensor_overlap_without_sequence_parallel,
              Severity::warning,
              "h200.yaml:10: overlap_tensor without sequence_parallel (userbuffers overlap the "
              "all-gather and reduce-scatter which only sequence parallelism has); set "
              "sequence_parallel or leave it out"));
}

TEST_CASE(
    "files that a NeMo file's defaults name are merged, and refused where they are not there") {
  const ScratchFolder folder;
  const std::string text = fixture("pretrain-h200.yaml");
  folder.file("base.yaml", "defaults:\n  - deeper\nmodel:\n  sequence_parallel: true\n");
  folder.file("deeper.yaml", "model:\n  sequence_parallel: false\n  micro_batch_size: 2\n");
  const auto read = [&](const std::string& entries) {
    return import_nemo_yaml(spec::default_library(), "defaults:\n" + entries + text,
                            (folder.folder() / "job.yaml").string(), {});
  };
  const auto plain = import(text, "job.yaml");
  const auto merged =
      must(read("  - base\n  - override hydra/launcher: x\n  - optional x@y:\n  - _self_\n"));
  CHECK(merged.job.plan.sequence_parallel == plain.job.plan.sequence_parallel);
  CHECK(assumes(merged, "base.yaml is merged, as defaults says"));
  const auto last = must(read("  - _self_\n  - deeper\n"));
  CHECK(last.job.plan.micro_batch_size == 2);
  for (const char* entry : {"missing", "model: gpt", "base@model", "${x}"}) {
    const auto refused = read(fmt::format("  - {}\n", entry));
    REQUIRE_FALSE(refused);
    CHECK(contains(refused.error().what, "job.yaml:2: defaults takes values from '"));
  }
}

TEST_CASE("a job script that asks for other nodes than the NeMo file is found, with the line") {
  ImportHints hints;
  hints.job_script = read_job_script("#!/bin/bash\n#SBATCH -N 8\n#SBATCH -C H100\n", "job.sh");
  const Imported imported = import(fixture("fsdp-h200.yaml"), "fsdp.yaml", hints);
  CHECK(imported.job.cluster.name == "hgx-h100");
  CHECK(imported.job.cluster.num_nodes == 4);
  CHECK(
      finds(imported, node_count_mismatch, Severity::error,
            "fsdp.yaml:3: trainer.num_nodes is 4, but the job script asks for 8 nodes (the trainer "
            "refuses to start); make them equal"));
}

TEST_CASE("a job script that allows the device one connection is read with a NeMo FSDP file") {
  ImportHints hints;
  hints.job_script = read_job_script(
      "#!/bin/bash\n#SBATCH -N 4\nCUDA_DEVICE_MAX_CONNECTIONS=\"1\" srun python train.py\n",
      "job.sh");
  CHECK(
      import(fixture("fsdp-h200.yaml"), "fsdp.yaml", hints).job.plan.cuda_device_max_connections ==
      1);
  CHECK_FALSE(import(fixture("fsdp-h200.yaml"), "fsdp.yaml").job.plan.cuda_device_max_connections);
}

TEST_CASE("a NeMo job which trains in a folder named inference is found, with the line") {
  CHECK(
      finds(import(fixture("lora.yaml"), "inference/lora.yaml"), inconsistent, Severity::warning,
            "inference/lora.yaml:28: the path says inference, but the job trains (peft_scheme is "
            "lora, with no inference section and no skip_train); it is read as LoRA fine-tuning"));
}

TEST_CASE("an option which the layout makes idle is a note, not a diagnosis") {
  const std::string text = with(fixture("pretrain-h200.yaml"), "num_nodes: 4", "num_nodes: 2");
  const Imported imported = import(text, "h200.yaml");
  CHECK(imported.diagnoses.empty());
  CHECK(assumes(
      imported,
      "h200.yaml: overlap_gradient or overlap_parameter with data_parallel_size 1 (there is "
      "no gradient or parameter traffic to hide); leave them out"));
}

TEST_CASE("a mistyped key is an error that names the right one, and so is a made-up one") {
  const std::string text = fixture("fsdp-h200.yaml");
  CHECK(finds(
      import(with(text, "sequence_parallel:", "sequence_paralel:"), "h200.yaml"), unsupported,
      Severity::error,
      "h200.yaml:9: unknown key 'model.sequence_paralel' (it may change work, memory or layout); "
      "did you mean \"model.sequence_parallel\"? Else --ignore model.sequence_paralel if it does "
      "not matter"));
  CHECK(finds(
      import(with(text, "sequence_parallel:", "my_own_switch:"), "h200.yaml"), unsupported,
      Severity::error,
      "h200.yaml:9: unknown key 'model.my_own_switch' (it may change work, memory or layout); "
      "--ignore model.my_own_switch if it does not matter"));
}

TEST_CASE("a value that cannot be read is an error with its line") {
  const std::string text = fixture("fsdp-h200.yaml");
  CHECK(finds(
      import(with(text, "tensor_model_parallel_size: 8", "tensor_model_parallel_size: many"),
             "h200.yaml"),
      inconsistent, Severity::error,
      "h200.yaml:8: model.tensor_model_parallel_size is 'many' (it must be a whole number from "
      "1 to 1000000); correct the value"));
}

TEST_CASE("a NeMo file without the model's size is refused") {
  const auto imported =
      import_nemo_yaml(spec::default_library(),
                       with(fixture("lora.yaml"), "num_layers: 16", "seed: 1"), "x.yaml", {});
  REQUIRE_FALSE(imported.has_value());
  CHECK(imported.error().what ==
        "x.yaml: model.num_layers is missing (the model's size depends on it); add it, or take it "
        "from the checkpoint's own configuration");
}

TEST_CASE("what the caller says wins over the file, its script and its path") {
  ImportHints hints;
  hints.cluster = "hgx-h100";
  hints.num_nodes = 16;
  hints.stack = "megatron-core";
  const spec::Job job = import(fixture("pretrain-h200.yaml"), "h200.yaml", hints).job;
  CHECK(job.cluster.name == "hgx-h100");
  CHECK(job.cluster.num_nodes == 16);
  CHECK(job.stack.name == "megatron-core");
}

TEST_CASE("a job on some devices of a node uses its first slots") {
  const std::string text = with(fixture("fsdp-h200.yaml"), "devices: 8", "devices: 4");
  const spec::Cluster cluster = import(text, "h200.yaml").job.cluster;
  CHECK(cluster.gpus_per_node == 4);
  CHECK(cluster.scale_up.domain_size == 4);
  CHECK(cluster.chassis.slots.size() == 4);
}

}  // namespace
}  // namespace triplepoint::formats
