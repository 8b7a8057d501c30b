// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

#include "triplepoint/formats/fixtures_testing.h"
#include "triplepoint/formats/pipeline_layout.h"

namespace triplepoint::formats {
namespace {

using enum spec::DiagnosisCode;
using Severity = spec::Diagnosis::Severity;

Imported import(const std::string& text, const ImportHints& hints = {}) {
  const auto imported = import_megatron_args(spec::default_library(), text, "run.sh", hints);
  REQUIRE_MESSAGE(imported.has_value(), (imported ? "" : imported.error().what));
  return *imported;
}

/// A whole command line with these arguments in addition.
std::string line(const std::string& more) {
  return "torchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size "
         "4096 "
         "--num-attention-heads 32 --seq-length 2048 --micro-batch-size 1 --global-batch-size 64 " +
         more;
}

TEST_CASE("a class for any SentencePiece model tells no vocabulary of another's model") {
  const auto reads = [](const char* model) {
    const std::string text = "--tokenizer-type Llama2Tokenizer --tokenizer-model ";
    return !spec::has_errors(import(line(text + model)).diagnoses);
  };
  CHECK(reads("/models/llama-2/tokenizer.model"));
  CHECK(reads("$TOKENIZER"));
  CHECK_FALSE(reads("/models/others-100k.ver3.model"));
  CHECK_FALSE(reads("${MODELS}/others-100k.ver3.model"));
}

TEST_CASE("a Megatron launch script with variables and arrays becomes the job it starts") {
  const Imported imported = import(fixture("pretrain_gpt.sh"));
  const spec::Job& job = imported.job;
  CHECK(imported.diagnoses.empty());
  CHECK(job.cluster.name == "hgx-h100");
  CHECK(job.cluster.num_nodes == 8);
  CHECK(job.stack.name == "megatron-core");
  CHECK(job.model.num_query_groups == 8);
  CHECK(job.model.activation == spec::Activation::swiglu);
  CHECK(job.model.normalization == spec::Normalization::rms_norm);
  CHECK(job.model.vocabulary_size == 32000);
  CHECK(job.model.dropout == 0);
  CHECK_FALSE(job.model.tied_embeddings);
  CHECK_FALSE(job.model.biases);
  CHECK(job.plan.tensor_parallel_size == 4);
  CHECK(job.plan.pipeline_parallel_size == 2);
  CHECK(job.data_parallel_size() == 8);
  CHECK(job.plan.global_batch_size == 256);
  CHECK(job.plan.sequence_parallel);
  CHECK(job.plan.sharding == spec::Sharding::optimizer);
  CHECK(job.plan.overlap_gradient);
  CHECK_FALSE(job.plan.overlap_parameter);
  CHECK(job.plan.recompute_layers == 4);
  CHECK(job.plan.precision == spec::Precision::bf16);
  CHECK(job.plan.optimizer.gradient_bytes == 4);
}

TEST_CASE("a file of Megatron arguments becomes a job on the cluster the caller names") {
  ImportHints hints;
  hints.cluster = "dgx-a100";
  hints.num_nodes = 1;
  const Imported imported = import(fixture("arguments.txt"), hints);
  CHECK(imported.diagnoses.empty());
  CHECK(imported.job.world_size() == 8);
  CHECK(imported.job.model.ffn_hidden_size == 4 * 768);
  CHECK(imported.job.model.vocabulary_size == 50257);
  CHECK(imported.job.plan.precision == spec::Precision::fp16);
  CHECK(imported.job.plan.optimizer.gradient_bytes == 2);
}

TEST_CASE("Megatron's interleaved schedule is read from either of its two arguments") {
  const std::string stages = "--pipeline-model-parallel-size 4 ";
  const spec::Plan by_layers =
      import(line(stages + "--num-layers-per-virtual-pipeline-stage 2")).job.plan;
  const spec::Plan by_chunks =
      import(line(stages + "--num-virtual-stages-per-pipeline-rank 4")).job.plan;
  CHECK(by_layers == by_chunks);
  CHECK(by_layers.virtual_pipeline_size == 4);
  CHECK(by_layers.schedule == spec::Schedule::interleaved);
  CHECK(by_layers.overlap_pipeline);
}

TEST_CASE("uneven stages are read from their ends, from a layout, or where the loss is a layer") {
  const std::string stages = "--pipeline-model-parallel-size 4 ";
  using Layers = std::vector<int64_t>;
  CHECK(import(line(stages + "--decoder-first-pipeline-num-layers 7 "
                             "--decoder-last-pipeline-num-layers 5"))
            .job.plan.layers_per_stage == Layers{7, 10, 10, 5});
  CHECK(import(line(stages + "--pipeline-model-parallel-layout 'Et*9|(t*8|)*2t*7L'"))
            .job.plan.layers_per_stage == Layers{9, 8, 8, 7});
  const spec::Plan chunks =
      import(line(stages + "--pipeline-model-parallel-layout 'E|(t*6|)*5t|tL'")).job.plan;
  CHECK(chunks.virtual_pipeline_size == 2);
  CHECK(chunks.schedule == spec::Schedule::interleaved);
  CHECK(chunks.overlap_pipeline);
  const std::string two_more =
      "--num-layers 30 --account-for-embedding-in-pipeline-split "
      "--account-for-loss-in-pipeline-split";
  CHECK(import(line(stages + two_more)).job.plan.layers_per_stage == Layers{7, 8, 8, 7});
}

TEST_CASE("a layout that is written reads back") {
  for (const std::vector<int64_t>& layers :
       {std::vector<int64_t>{3, 2, 2, 1}, std::vector<int64_t>{1}, std::vector<int64_t>{0, 5, 0}})
    CHECK(read_pipeline_layout(write_pipeline_layout(layers)) == layers);
  CHECK_FALSE(read_pipeline_layout("Ett|x").has_value());
  CHECK_FALSE(read_pipeline_layout("(t|*2").has_value());
}

TEST_CASE("the fork of DeepSpeed names heads of keys and values, and its own engine") {
  const Imported imported =
      import(line("--num-key-value-heads 8 --no-pipeline-parallel --universal-checkpoint"));
  CHECK(imported.job.model.num_query_groups == 8);
  CHECK_FALSE(spec::has_errors(imported.diagnoses));
}

TEST_CASE("FP8 is on by its format, or by a switch of 2023") {
  for (const char* on : {"--fp8-format hybrid", "--fp8-hybrid", "--fp8-e4m3"})
    CHECK(import(line(fmt::format("--bf16 {}", on))).job.plan.precision == spec::Precision::fp8);
}

TEST_CASE("each way Megatron shards is told apart") {
  const auto sharding = [](const std::string& more) {
    return import(line(more)).job.plan.sharding;
  };
  CHECK(sharding("") == spec::Sharding::none);
  CHECK(sharding("--use-distributed-optimizer") == spec::Sharding::optimizer);
  const std::string fsdp = "--use-distributed-optimizer --use-megatron-fsdp ";
  CHECK(sharding(fsdp + "--data-parallel-sharding-strategy optim_grads") ==
        spec::Sharding::gradients);
  CHECK(sharding(fsdp + "--data-parallel-sharding-strategy optim_grads_params") ==
        spec::Sharding::parameters);
  CHECK(sharding("--use-torch-fsdp2") == spec::Sharding::parameters);
}

TEST_CASE(
    "without a width Megatron takes four times the hidden size, two thirds of it for SwiGLU") {
  CHECK(import(line("")).job.model.ffn_hidden_size == 16384);
  CHECK(import(line("--swiglu")).job.model.ffn_hidden_size == 10880);
}

TEST_CASE("layers that are offloaded are a share of the activations") {
  CHECK(
      import(line("--cpu-offloading --cpu-offloading-num-layers 8")).job.plan.activation_offload ==
      0.25);
  CHECK(import(line("--cpu-offloading-num-layers 8")).job.plan.activation_offload == 0);
}

TEST_CASE("leading dense layers of a mixture of experts are read from Megatron's pattern") {
  const Imported imported =
      import(line("--num-experts 8 --moe-layer-freq '([0]*3+[1]*29)' "
                  "--moe-token-dispatcher-type alltoall"));
  REQUIRE(imported.job.model.moe.has_value());
  CHECK(imported.job.model.moe->num_dense_layers == 3);
  for (const char* every : {"2", "'([0,1]*16)'"})
    CHECK(import(line(fmt::format("--num-experts 8 --moe-layer-freq {}", every)))
              .job.model.moe->layer_period == 2);
  CHECK(import(line("--num-experts 8 --moe-layer-freq \"[0]*1 + [1]*31\""))
            .job.model.moe->num_dense_layers == 1);
  CHECK(finds(import(line("--num-experts 8 --moe-layer-freq '([1]*3+[0]*29)'")), unsupported,
              Severity::error,
              "run.sh:1: --moe-layer-freq '([1]*3+[0]*29)' is not modelled (dense layers may come "
              "first, or "
              "every n-th layer has experts); try 1 or \"([0]*n+[1]*m)\" with n + m layers"));
}

TEST_CASE("an unknown Megatron argument is named, with what was probably meant") {
  CHECK(finds(import(line("--tensor-model-paralel-size 8")), unsupported, Severity::error,
              "run.sh:1: unknown key '--tensor-model-paralel-size' (it may change work, memory or "
              "layout); did you mean \"--tensor-model-parallel-size\"? Else --ignore "
              "tensor-model-paralel-size if it does not matter"));
  CHECK(
      finds(import(line("--frobnicate 8")), unsupported, Severity::error,
            "run.sh:1: unknown key '--frobnicate' (it may change work, memory or layout); --ignore "
            "frobnicate if it does not matter"));
}

TEST_CASE("a switch with a value, and a number that is none, are errors with their line") {
  CHECK(
      finds(import(line("--bf16 true")), inconsistent, Severity::error,
            "run.sh:1: --bf16 is 'true' (it must be a switch without a value); correct the value"));
  CHECK(finds(import(line("--context-parallel-size x")), inconsistent, Severity::error,
              "run.sh:1: --context-parallel-size is 'x' (it must be a whole number from 1 to "
              "1000000); correct the value"));
}

TEST_CASE("what changes the work and is not modelled is refused") {
  CHECK(finds(
      import(line("--hybrid-override-pattern M-M*")), unsupported, Severity::error,
      "run.sh:1: --hybrid-override-pattern: state-space and linear layers of a launch file are "
      "not read yet; give the model by --model: its config.json, or TOML with layer_pattern"));
}

std::string refusal(const std::string& script) {
  const auto read =
      import_megatron_args(spec::default_library(), script, "run.sh", {.cluster = "hgx-h200"});
  if (!read) return read.error().what;
  for (const spec::Diagnosis& each : read->diagnoses)
    if (each.severity == Severity::error) return each.what;
  return "none";
}

TEST_CASE("a program that trains no GPT is refused by what it is") {
  const auto of = [](const std::string& program) {
    return refusal(with(line(""), "pretrain_gpt.py", program));
  };
  CHECK(of("pretrain_bert.py").find("an encoder or a retriever, no GPT's") != std::string::npos);
  CHECK(of("pretrain_t5.py").find("an encoder or a retriever") != std::string::npos);
  CHECK(of("tools/checkpoint/convert.py").find("a converter of checkpoints") != std::string::npos);
  CHECK(of("tools/run_text_generation_server.py").find("serves or changes") != std::string::npos);
  CHECK(of("tools/preprocess_data.py").find("prepares data") != std::string::npos);
  CHECK(of("my_own.py").find("not known to train a GPT") != std::string::npos);
  CHECK(of("examples/multimodal/train.py").find("pictures or sound") != std::string::npos);
  for (const char* folder : {"", "/home/robert/", "/export/vision/", "/evaluation/ppo/", "/clip/"})
    CHECK(of(std::string(folder) + "pretrain_gpt.py") == "none");
  CHECK(of("/datasets/support/pretrain_llama.py") == "none");
  CHECK(refusal("accelerate launch --config_file fsdp.yaml train.py --model x/y\n") ==
        "run.sh:1: train.py is another program than Megatron-LM's: it has none of its sizes "
        "(--num-layers, --hidden-size), and its arguments are not read; import fsdp.yaml in its "
        "place, with --model (a config.json)");
  CHECK(refusal("deepspeed run_clm.py --output x\n").find("by --model") != std::string::npos);
}

TEST_CASE("what is not certain reaches no job, unless it has no effect") {
  const std::string launch = line("--tensor-model-parallel-size $TP --save $SAVE") + "\n";
  CHECK(refusal("TP=1\nif [ -e x ]; then TP=8; fi\n" + launch) ==
        "run.sh:3: --tensor-model-parallel-size is not certain (TP is set in the 'if' of line 2); "
        "write it in its place, or --run-script [--env NAME=VALUE] [-- ARGS] runs the script in a "
        "sandbox and reads what it launches");
  CHECK(refusal("TP=1\nsource env.sh\n" + launch).find("'source env.sh' of line 2 may set it") !=
        std::string::npos);
  CHECK(refusal("TP=1\n" + launch + "TP=2\n" + launch).find("2 commands that train") !=
        std::string::npos);
  for (const char* word : {"$EXTRA_ARGS", "$@", "${ARGS[@]}", "$(cat x)", "--bf16 $X", "--lr 1 $X",
                           "--no-load-rng $OPTIONS"})
    CHECK(refusal(line(word)).find("is not certain") != std::string::npos);
  for (const char* first :
       {"TP=2; f() { TP=8; }", ": ${TP:=2}", "if [ -e x ]; then DATA=1; fi; TP=2",
        "TP=2; if [ -e x ]; then SAVE=a; fi"}) {
    CAPTURE(first);
    CHECK(refusal(std::string(first) + "\n" + launch) == "none");
    CHECK(import(std::string(first) + "\n" + launch).job.plan.tensor_parallel_size == 2);
  }
}

using Machines = std::pair<int64_t, int64_t>;  // nodes, and GPUs of each

/// Of a script of these lines, whose program is started so.
Machines machines(const std::string& head, const std::string& launcher) {
  const spec::Job job =
      import(head + with(line(""), "torchrun --nnodes 4 --nproc-per-node 8", launcher)).job;
  return {job.cluster.num_nodes, job.cluster.gpus_per_node};
}

TEST_CASE("a batch script asks for nodes and GPUs as its scheduler reads it") {
  for (const char* lines :
       {"#SBATCH -N4 --ntasks-per-node=6 --gpus-per-node 6\n",
        "#SBATCH -A x -q y -N 4 -G24 -n 24\n",
        "#SBATCH --nodes \"4\" --gres='gpu:h200:6,nvme:1'  # all\n",
        "#SBATCH --ntasks=24 --gpus-per-task=1 --ntasks-per-node=6\n",
        "#SBATCH -vN 4\n#SBATCH --tres-per-node=gres/gpu:6,cpu=64\n",
        "#SBATCH -n 24 -N 4\n#SBATCH --tres-per-task=gres/gpu=1\n",
        "#SBATCH --exclusive -N 4 --gres=scratch:9,gpu:6(S:0-1)\n",
        "#SBATCH --gpus=24 --gpus-per-node=6 --cpus-per-task 4\n",
        "#SBATCH -N 4 --gpus-per-task=6 --wait-all-nodes=1\n",
        "#SBATCH -w n[1-4] -N 4 -n24 --ntasks-per-gpu=1\n",
        "#SBATCH\t--nodes=2 -N 4 --gres=gpu:6\n",
        "#PBS -l select=4:ncpus=8:ngpus=6:gpu_model=h200\n", "#PBS -l nodes=4:ppn=8:gpus=6\n",
        "#BSUB -nnodes 4\n#BSUB -gpu \"num=6:mode=shared\"\n",
        "#SBATCH -N 4 --gpus-per-node=6\necho\n#SBATCH -N 9 --gres=gpu:3\n"}) {
    CAPTURE(lines);
    CHECK(machines(lines, "mpirun python") == Machines(4, 6));
  }
  CHECK(machines("#SBATCH --gpus=16\n", "srun python") == Machines(2, 8));
  CHECK(machines("#SBATCH -N 8 --ntasks-per-node=8 --gpus-per-node=8\n", "srun -lN2 python") ==
        Machines(2, 8));
  CHECK(machines("", "srun -N2 -n 8 --label --mpi=pmix python") == Machines(2, 4));
  const auto unsure = import_megatron_args(spec::default_library(),
                                           with(line(""), "torchrun --nnodes 4 --nproc-per-node 8",
                                                "srun -N 2 --gpus-per-node $G python"),
                                           "run.sh", {});
  CHECK(contains(unsure->diagnoses.at(0).what, "is not certain (G has no value"));
}

std::string refusal(const std::string& script);

TEST_CASE("what a batch script leaves open, or says twice, is asked") {
  const auto of = [](const std::string& lines) {
    const auto read = import_megatron_args(spec::default_library(), lines + line(""), "run.sh", {});
    return read && !read->diagnoses.empty() ? read->diagnoses.front().what : std::string("none");
  };
  CHECK(of("#SBATCH -N 4 --constraint=\"a100|h100\"\n") ==
        "run.sh: --constraint 'a100|h100' leaves the kind of GPU open; give --cluster");
  CHECK(contains(of("#SBATCH -N 4 -p a100,h100\n"), "leaves the kind of GPU open"));
  CHECK(contains(of("#SBATCH -N 4 --gres=gpu:a100:4,gpu:h100:4\n"), "GPUs of one kind"));
  CHECK(contains(of("#SBATCH -N 2\n#SBATCH hetjob\n#SBATCH -N 4\n"), "a heterogeneous job"));
  CHECK(contains(of("#SBATCH -N 4 --gpus-per-node=h200:4\n"),
                 "8 processes a node, but the batch lines ask for 4 GPUs of each"));
  for (const char* lines : {"#SBATCH --gpus-per-node=$G\n", "#SBATCH --gpus-per-node=\n",
                            "#SBATCH --gres=gpu:{gpus}\n", "#SBATCH -G GPUS\n"})
    CHECK_MESSAGE(contains(of(lines), "it must have a number of GPUs"), lines);
  CHECK(contains(of("#SBATCH -N 3 -G 64\n"), "64 GPUs do not share out evenly to 3 nodes"));
  CHECK(contains(of("#SBATCH -N 4 --gpus-per-n=8\n"), "run.sh:1: --gpus-per-n is not read"));
  CHECK(contains(of("#PBS -l select=2:ngpus=8+2:ngpus=4\n"), "no number of equal nodes"));
  const auto tells = [](const std::string& lines, const char* what) {
    return assumes(import(lines + line(""), {}), what);
  };
  CHECK(tells("#SBATCH -N 4-8\n", "--nodes 4-8: the fewest, 4; give --nodes for more"));
  CHECK(tells("#SBATCH -p h100 -N 4\n",
              "the file does not name its GPUs: cluster hgx-h100 after --partition h100"));
  CHECK(tells("#SBATCH --gres=gpu:tesla:8 -N 4\n",
              "no cluster of the library has GPUs 'tesla': cluster hgx-h200; give --cluster for "
              "another"));
  CHECK(tells("echo\n#SBATCH -N 9\n",
              "run.sh:2: sbatch reads no lines behind the first command, that of line 1"));
}

TEST_CASE("where no number is given, a launcher's default and the visible GPUs count") {
  const auto of = [](const std::string& head, const std::string& launcher) {
    const std::string text =
        head + with(line(""), "torchrun --nnodes 4 --nproc-per-node 8", launcher);
    return import(text, {}).job.world_size();
  };
  const std::string two = "export CUDA_VISIBLE_DEVICES=0,1\n";
  CHECK(of(two, "torchrun --nproc_per_node gpu") == 2);
  CHECK(of(two, "torchrun --nproc-per-node=auto") == 2);
  CHECK(of("", "CUDA_VISIBLE_DEVICES=2,3 deepspeed") == 2);
  CHECK(of(two, "python") == 1);
  CHECK(of("", "python -u") == 1);
  CHECK(of("", "torchrun --standalone") == 1);
  CHECK(of("", "python -m torch.distributed.run --nnodes 2") == 2);
  CHECK(of("", "torchrun --nproc-per-node gpu") == 8);
  CHECK(assumes(import(with(line(""), "--nnodes 4", "--nnodes=2:4"), {}),
                "--nnodes 2:4: the fewest, 2; give --nodes for more"));
  CHECK(contains(refusal(two + line("")), "CUDA_VISIBLE_DEVICES leaves them 2 GPUs"));
}

TEST_CASE("nodes and devices are read of every launcher and scheduler") {
  CHECK(machines("", "deepspeed --num_nodes 4 --num_gpus 8") == Machines(4, 8));
  CHECK(machines("", "deepspeed --include a:0,1,2,3@b:0,1,2,3") == Machines(2, 4));
  CHECK(machines("", "deepspeed --include=localhost:4,5") == Machines(1, 2));
  CHECK(machines("", "mpirun -np 32 -npernode 8 python") == Machines(4, 8));
  CHECK(machines("", "mpirun -np 4 python") == Machines(1, 4));
  CHECK(machines("", "msrun --worker_num 32 --local_worker_num 8") == Machines(4, 8));
  CHECK(
      assumes(import(with(line(""), "torchrun --nnodes 4 --nproc-per-node 8", "launch --ranks 32")),
              "no launcher that is known (launch) starts the program: one process, on one GPU; "
              "give --nodes for more"));
  CHECK(machines("", "flux run -N 2 -n 16 python") == Machines(2, 8));
  const std::string one = with(line(""), "--nnodes 4 ", "");
  CHECK(contains(refusal("#SBATCH -N 4\n" + one), "but the batch lines ask for 4"));
  for (const char* hosts : {"--include a:0,1@b", "--exclude a:0", "--include a:$GPUS"})
    CHECK_FALSE(refusal(with(one, "torchrun", std::string("deepspeed ") + hosts)).empty());
  CHECK(machines("#PBS -l select=4:ngpus=4\n", "python") == Machines(4, 4));
  CHECK(machines("#SBATCH --nodes=4\n#SBATCH --gpus=16\n", "srun python") == Machines(4, 4));
  CHECK(machines("#SBATCH -N 4\n", "torchrun --nnodes $SLURM_NNODES --nproc-per-node 8") ==
        Machines(4, 8));
  CHECK(machines("#SBATCH -N 4\n", "srun -n 16 python") == Machines(4, 4));
  for (const char* count : {"`nvidia-smi --query-gpu=name --format=csv,noheader | wc -l`",
                            "${GPUS:-$(python -c 'import torch; "
                            "print(torch.cuda.device_count())')}"})
    CHECK(machines(fmt::format("GPUS={}\n", count), "torchrun --nnodes 4 --nproc_per_node $GPUS") ==
          Machines(4, 8));
  CHECK(
      finds(import("srun -N 3 -n 8 python " +
                   with(line(""), "torchrun --nnodes 4 --nproc-per-node 8 ", "")),
            inconsistent, Severity::error,
            "run.sh:1: 8 processes do not fill 3 nodes of 2 devices (each device has one); correct "
            "the numbers"));
}

TEST_CASE("attention is not fused where the arguments, the time or the GPU say so") {
  const auto kernels = [](const std::string& more, const char* cluster) {
    return import(line(more), {.cluster = cluster}).job.stack;
  };
  using spec::AttentionKernels;
  CHECK(kernels("", "hgx-h200").attention_kernels == AttentionKernels::native);
  CHECK(kernels("--attention-backend unfused", "hgx-h200").attention_kernels ==
        AttentionKernels::unfused);
  CHECK(kernels("", "dgx-1-v100").attention_kernels == AttentionKernels::unfused);
  CHECK(kernels("--DDP-impl local", "hgx-h200").name == "megatron-apex");
  const auto with_environment = [](const std::string& before) {
    return import(before + line("")).job.stack.attention_kernels;
  };
  const std::string neither = "NVTE_FLASH_ATTN=0 NVTE_FUSED_ATTN=0";
  CHECK(with_environment("export " + neither + "\n") == AttentionKernels::unfused);
  CHECK(with_environment(neither + " ") == AttentionKernels::unfused);
  CHECK(with_environment("NVTE_FLASH_ATTN=0 ") == AttentionKernels::native);  // cuDNN's is left
  CHECK(import("export " + neither + "\n" + line("--attention-backend flash"))
            .job.stack.attention_kernels == AttentionKernels::native);
}

TEST_CASE("a program is told by whole words of its name") {
  const auto launched = [](const char* program) {
    return refusal(with(line(""), "pretrain_gpt.py", program));
  };
  CHECK(contains(launched("train_ppo.py"), "reinforcement learning"));
  CHECK(contains(launched("pretrain_vision_classify.py"), "pictures or sound"));
  CHECK(contains(launched("pretrain_t5.py"), "an encoder or a retriever"));
  for (const char* other : {"train_support.py", "pretrain_supervision.py", "train_gpt5.py"})
    CHECK_MESSAGE(import(with(line(""), "pretrain_gpt.py", other)).job.world_size() == 32, other);
}

TEST_CASE("a model is called after one of the library with the same attention") {
  const std::string sizes =
      "torchrun --nnodes 128 --nproc-per-node 8 pretrain_gpt.py --num-layers 61 --hidden-size 7168 "
      "--ffn-hidden-size 18432 --num-attention-heads 128 --seq-length 4096 --micro-batch-size 1 "
      "--global-batch-size 8192 --vocab-size 129280 --multi-latent-attention --q-lora-rank 1536 "
      "--kv-lora-rank 512 --num-experts 256 --moe-router-topk 8 --moe-ffn-hidden-size 2048 ";
  CHECK(import(sizes).job.model.name == "deepseek-v3");
  CHECK(import(sizes + "--mtp-num-layers 1").job.model.name == "deepseek-v3");
}

TEST_CASE("PAI's tokenizer has the vocabulary of its name, not of Megatron's own") {
  CHECK(import(line("--patch-tokenizer-type LLama3Tokenizer --extra-vocab-size 256"))
            .job.model.vocabulary_size == 128256);
  CHECK(
      finds(import(line("--patch-tokenizer-type LLamaTokenizer --extra-vocab-size 0")), unsupported,
            Severity::error,
            "run.sh: the vocabulary of tokenizer 'LLamaTokenizer' is not known (embedding and loss "
            "depend on its size); add --vocab-size"));
}

TEST_CASE("a file that holds only an array of arguments is read") {
  const auto read = import_megatron_args(spec::default_library(),
                                         "MODEL_ARGS=(\n  --num-layers 32\n  --hidden-size 4096\n  "
                                         "--num-attention-heads 32\n  --vocab-size 32000\n  "
                                         "--max-position-embeddings 131072\n)\n",
                                         "model.sh", {});
  REQUIRE(read);
  CHECK(read->job.model.num_layers == 32);
  CHECK(assumes(*read, "the file holds arguments and launches nothing: it is read as one job"));
  CHECK(read->length_from == "the file has none");
  CHECK(read->job.plan.precision == spec::Precision::bf16);
  CHECK(read->job.model.sequence_length == 4096);
  CHECK(read->diagnoses.empty());
  CHECK_FALSE(read->stated.contains(spec::JobSetting::sequence_length));
  CHECK(
      refusal("ARGS=(--num-layers 32 --hidden-size $H --num-attention-heads 8)\n") ==
      "run.sh: --hidden-size is not certain (H has no value in this file); write it in its place");
}

}  // namespace
}  // namespace triplepoint::formats
