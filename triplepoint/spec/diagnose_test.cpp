// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;
using Severity = Diagnosis::Severity;

/// A job without fault: GPT3-175B on 32 H200, TP8-PP4.
const Job& sound_job() {
  static const Job job = [] {
    const Library library = default_library();
    Job made;
    made.model = *load_model(library, "gpt3-175b");
    made.cluster = *load_cluster(library, "hgx-h200");
    made.stack = *load_stack(library, "megatron-core");
    made.plan.tensor_parallel_size = 8;
    made.plan.pipeline_parallel_size = 4;
    made.plan.global_batch_size = 128;
    return made;
  }();
  return job;
}

const Job& sound_mixture() {
  static const Job job = [] {
    Job made = sound_job();
    made.model = *load_model(default_library(), "mixtral-8x7b");
    made.plan.tensor_parallel_size = 1;
    made.plan.pipeline_parallel_size = 1;
    made.plan.expert_parallel_size = 8;
    return made;
  }();
  return job;
}

std::vector<Diagnosis> after(const Job& sound, const std::function<void(Job&)>& spoil) {
  Job job = sound;
  spoil(job);
  return diagnose(job);
}

void says_only(const std::vector<Diagnosis>& found, Severity severity, Code code,
               const std::string& sentence) {
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == severity);
  CHECK(name_of(found[0].code) == name_of(code));
  CHECK(found[0].what == sentence);
}

/// The job spoilt in this way is refused, for this reason and no other, in this sentence.
void refused(const Job& sound, const std::function<void(Job&)>& spoil, Code code,
             const std::string& sentence) {
  const auto found = after(sound, spoil);
  says_only(found, Severity::error, code, sentence);
  CHECK(has_errors(found));
}

void remarked(const Job& sound, const std::function<void(Job&)>& spoil, Code code,
              const std::string& sentence) {
  const auto found = after(sound, spoil);
  says_only(found, Severity::warning, code, sentence);
  CHECK_FALSE(has_errors(found));
}

TEST_CASE("a sound job has nothing to be told") {
  CHECK(diagnose(sound_job()).empty());
  CHECK(diagnose(sound_mixture()).empty());
}

TEST_CASE("layers have to divide evenly over stages") {
  refused(
      sound_job(),
      [](Job& job) {
        job.cluster.num_nodes = 5;
        job.plan.pipeline_parallel_size = 5;
      },
      Code::layers_not_divisible,
      "num_layers 96 is not divisible by pipeline_parallel_size 5 (every stage holds equally many "
      "layers); try 4 or 6, or write layers_per_stage");
  refused(
      sound_job(),
      [](Job& job) {
        job.plan.virtual_pipeline_size = 5;
        job.plan.schedule = Schedule::interleaved;
      },
      Code::layers_not_divisible,
      "num_layers 96 is not divisible by pipeline_parallel_size 4 x virtual_pipeline_size 5 (every "
      "chunk holds equally many layers); choose sizes whose product divides it, or write "
      "layers_per_stage");
}

TEST_CASE("uneven layers are fine if they add up") {
  CHECK(after(sound_job(), [](Job& job) { job.plan.layers_per_stage = {25, 23, 25, 23}; }).empty());
  refused(
      sound_job(),
      [](Job& job) {
        job.plan.layers_per_stage = {25, 23, 25, 22};
      },
      Code::layers_not_divisible,
      "layers_per_stage adds up to 95 (num_layers is 96); make the counts add up to it");
  refused(
      sound_job(),
      [](Job& job) {
        job.plan.layers_per_stage = {48, 48};
      },
      Code::inconsistent,
      "layers_per_stage has 2 entries (pipeline_parallel_size 4 x virtual_pipeline_size 1 needs "
      "4); "
      "write one count per stage and chunk");
  refused(
      sound_job(),
      [](Job& job) {
        job.plan.layers_per_stage = {48, 0, 24, 24};
      },
      Code::inconsistent,
      "layers_per_stage has a stage without a layer (its GPUs would do nothing); give every stage "
      "one or more");
}

TEST_CASE("the first stage may hold the embedding alone, the last the head") {
  Job job = sound_job();
  job.plan.layers_per_stage = {0, 48, 48, 0};
  CHECK(diagnose(job).empty());
}

TEST_CASE("replicas have to fill the machine") {
  refused(
      sound_job(), [](Job& job) { job.plan.pipeline_parallel_size = 3; }, Code::world_not_divisible,
      "tensor_parallel_size 8 x pipeline_parallel_size 3 x context_parallel_size 1 = 24 does not "
      "divide 32 GPUs (every GPU holds a part of one replica); make it 16 or 32");
  refused(
      sound_job(), [](Job& job) { job.plan.pipeline_parallel_size = 8; }, Code::world_not_divisible,
      "tensor_parallel_size 8 x pipeline_parallel_size 8 x context_parallel_size 1 = 64 does not "
      "divide 32 GPUs (every GPU holds a part of one replica); take at least 64 GPUs or smaller "
      "groups");
}

TEST_CASE("the batch has to make whole microbatches") {
  refused(
      sound_mixture(), [](Job& job) { job.plan.micro_batch_size = 8; }, Code::batch_not_divisible,
      "global_batch_size 128 is less than micro_batch_size 8 x data_parallel_size 32 (the step "
      "would "
      "have 0.5 microbatches); use a global batch of at least 256");
  refused(
      sound_mixture(), [](Job& job) { job.plan.micro_batch_size = 3; }, Code::batch_not_divisible,
      "global_batch_size 128 is not divisible by micro_batch_size 3 x data_parallel_size 32 (every "
      "replica runs equally many microbatches); try 96");
  refused(
      sound_job(),
      [](Job& job) {
        job.plan.virtual_pipeline_size = 2;
        job.plan.schedule = Schedule::interleaved;
        job.plan.global_batch_size = 126;
      },
      Code::batch_not_divisible,
      "126 microbatches are not divisible by pipeline_parallel_size 4 (the interleaved schedule "
      "runs them in rounds of one per stage); try a global_batch_size of 4");
}

TEST_CASE("experts have to divide evenly over ranks") {
  refused(
      sound_mixture(), [](Job& job) { job.plan.expert_parallel_size = 16; },
      Code::experts_not_divisible,
      "num_experts 8 is not divisible by expert_parallel_size 16 (every rank holds equally many "
      "experts); try 8");
  refused(
      sound_mixture(),
      [](Job& job) {
        job.plan.tensor_parallel_size = 4;
        job.plan.pipeline_parallel_size = 4;
      },
      Code::experts_not_divisible,
      "data_parallel_size 2 is not divisible by expert_parallel_size 8 (experts are spread over "
      "data-parallel ranks); try 2");
  refused(
      sound_mixture(), [](Job& job) { job.plan.expert_tensor_parallel_size = 8; },
      Code::experts_not_divisible,
      "expert_parallel_size 8 x expert_tensor_parallel_size 8 does not divide the 32 GPUs of a "
      "stage "
      "(experts are spread over them); choose smaller groups");
  refused(
      sound_job(), [](Job& job) { job.plan.expert_parallel_size = 2; }, Code::experts_not_divisible,
      "expert_parallel_size 2 on a model without experts (there is nothing to spread); set it to "
      "1");
  refused(
      sound_mixture(), [](Job& job) { job.model.moe->router_topk = 9; }, Code::inconsistent,
      "router_topk 9 of 8 experts (a token goes to different ones); lower it");
}

TEST_CASE("heads have to divide evenly over the tensor group") {
  refused(
      sound_job(),
      [](Job& job) {
        job.cluster.num_nodes = 5;
        job.plan.tensor_parallel_size = 10;
        job.model.ffn_hidden_size = 40960;
      },
      Code::heads_not_divisible,
      "tensor_parallel_size 10 does not divide num_attention_heads 96 (heads are split evenly); "
      "try "
      "8 or 12");
  refused(
      sound_mixture(),
      [](Job& job) {
        job.plan.tensor_parallel_size = 16;
        job.plan.expert_parallel_size = 2;
      },
      Code::heads_not_divisible,
      "tensor_parallel_size 16 does not divide num_query_groups 8 (key and value heads are split "
      "evenly); try 8");
  refused(
      sound_job(), [](Job& job) { job.model.ffn_hidden_size = 49150; }, Code::inconsistent,
      "tensor_parallel_size 8 does not divide ffn_hidden_size 49150 (its columns are split "
      "evenly); "
      "try 5 or 10");
  refused(
      sound_job(), [](Job& job) { job.model.num_query_groups = 40; }, Code::inconsistent,
      "num_query_groups 40 does not divide num_attention_heads 96 (every group serves equally many "
      "heads); try 32 or 48");
}

TEST_CASE("a head dimension that is no usual one is remarked") {
  remarked(
      sound_mixture(),
      [](Job& job) {
        job.model.hidden_size = 6144;
        job.model.kv_channels = 192;
      },
      Code::head_dimension,
      "head dimension 192 = hidden_size 6144 / num_attention_heads 32 is unusual (fused attention "
      "is "
      "made for 64, 96, 128; a size was probably copied from another model); check hidden_size and "
      "num_attention_heads");
}

TEST_CASE("options that change nothing are remarked") {
  remarked(
      sound_job(), [](Job& job) { job.plan.overlap_tensor = true; },
      Code::tensor_overlap_without_sequence_parallel,
      "overlap_tensor without sequence_parallel (userbuffers overlap the all-gather and "
      "reduce-scatter which only sequence parallelism has); set sequence_parallel or leave it out");
  remarked(
      sound_job(), [](Job& job) { job.plan.overlap_gradient = true; }, Code::inert_option,
      "overlap_gradient or overlap_parameter with data_parallel_size 1 (there is no gradient or "
      "parameter traffic to hide); leave them out");
  remarked(
      sound_mixture(), [](Job& job) { job.plan.overlap_tensor = true; }, Code::inert_option,
      "overlap_tensor with tensor_parallel_size 1 (there is no tensor communication to hide); "
      "leave "
      "it out");
  remarked(
      sound_mixture(), [](Job& job) { job.plan.sequence_parallel = true; }, Code::inert_option,
      "sequence_parallel with tensor_parallel_size 1 (there is no group to split the sequence in); "
      "leave it out");
  remarked(
      sound_mixture(), [](Job& job) { job.plan.overlap_pipeline = true; }, Code::inert_option,
      "overlap_pipeline with pipeline_parallel_size 1 (nothing is sent between stages); leave it "
      "out");
  remarked(
      sound_job(), [](Job& job) { job.plan.overlap_expert = true; }, Code::inert_option,
      "overlap_expert with expert_parallel_size 1 (no rows are exchanged between experts); leave "
      "it out");
  remarked(
      sound_job(), [](Job& job) { job.plan.recompute_layers = 2; }, Code::inert_option,
      "recompute_layers with recompute none (it counts layers of full recompute); set recompute = "
      "\"full\" or leave it out");
}

TEST_CASE("a GPU whose numbers no source states is refused by name") {
  Gpu unknown;  // a public dump shows its memory and its limit, and that is all
  unknown.name = "x9";
  unknown.memory = 81559 * unit::MiB;
  unknown.tdp = 700 * unit::W;
  const auto found = after(sound_job(), [&](Job& job) { job.cluster.gpu = unknown; });
  REQUIRE(found.size() == 7);
  for (const Diagnosis& diagnosis : found)
    CHECK(diagnosis.code == Code::unsupported);
  CHECK(
      found[0].what ==
      "the dense bf16 peak of x9 is unknown (its cores have none, or no source states it); choose "
      "another GPU, or add peak_bf16 to gpus/x9.toml with its source");
  CHECK(found[4].what ==
        "the power model of x9 is unknown (no source states it); choose another GPU, or add "
        "[power] to calibrations/x9/power.toml with its source");
}

TEST_CASE("a precision without a peak is refused") {
  refused(
      sound_job(),
      [](Job& job) {
        job.plan.precision = Precision::fp8;
        job.cluster.gpu.peak_fp8.reset();
      },
      Code::unsupported,
      "the dense fp8 peak of h200 is unknown (its cores have none, or no source states it); choose "
      "precision bf16 or fp16 or fp32, or another GPU, or add peak_fp8 to gpus/h200.toml with its "
      "source");
  refused(
      sound_job(), [](Job& job) { job.plan.precision = Precision::nvfp4; }, Code::unsupported,
      "the dense nvfp4 peak of h200 is unknown (its cores have none, or no source states it); "
      "choose precision bf16 or fp16 or fp8 or fp32 or mxfp8, or another GPU, or add peak_fp4 to "
      "gpus/h200.toml with its source");
}

TEST_CASE("a chassis has a slot for every GPU") {
  refused(
      sound_job(), [](Job& job) { job.cluster.chassis.slots.pop_back(); }, Code::inconsistent,
      "hgx-h200 has 7 slots for 8 GPUs a node (every GPU sits somewhere in the air stream); list "
      "one "
      "slot per GPU");
  refused(
      sound_job(), [](Job& job) { job.cluster.chassis.slots[0].upstream_heating.pop_back(); },
      Code::inconsistent,
      "a slot of hgx-h200 has 7 upstream_heating shares (there are 8 GPUs a node); write one share "
      "per GPU or "
      "none");
  refused(
      sound_job(), [](Job& job) { job.cluster.gpu.dies_per_package = 3; }, Code::inconsistent,
      "8 dies a node cannot make packages of 3 dies (every die has its neighbours); change "
      "gpus_per_node");
}

TEST_CASE("the cold plates of a node have a slot for every GPU as well") {
  refused(
      sound_job(),
      [](Job& job) {
        job.cluster.liquid_chassis = job.cluster.chassis;
        job.cluster.liquid_chassis->cooling = Cooling::liquid;
        job.cluster.liquid_chassis->slots.pop_back();
      },
      Code::inconsistent,
      "hgx-h200 has 7 slots for 8 GPUs a node (every GPU sits somewhere in the coolant stream); "
      "list "
      "one slot per GPU");
}

TEST_CASE("a cooling is one the node can have") {
  refused(
      sound_job(), [](Job& job) { job.environment.cooling = Cooling::immersion; },
      Code::unsupported,
      "hgx-h200 has no immersion chassis (its slots and coolant are not known); leave cooling at "
      "air");
  refused(
      sound_job(),
      [](Job& job) {
        job.cluster.liquid_chassis.reset();
        job.environment.cooling = Cooling::liquid;
      },
      Code::unsupported,
      "hgx-h200 has no liquid chassis (its slots and coolant are not known); leave cooling at air "
      "or add [cluster.liquid_chassis]");
}

TEST_CASE("a device order uses every GPU of a node once") {
  CHECK(after(sound_job(), [](Job& job) {
          job.plan.device_order = {1, 2, 5, 7, 0, 3, 4, 6};
        }).empty());
  refused(
      sound_job(), [](Job& job) { job.plan.device_order = {1, 2, 5, 7, 0, 3, 4, 4}; },
      Code::inconsistent,
      "device_order 1,2,5,7,0,3,4,4 is no permutation of 0 to 7 (every GPU of a node is used "
      "once); "
      "name each of them once, for all nodes alike or for each in turn");
  CHECK(after(sound_job(), [](Job& job) {
          std::vector<int64_t> orders;
          for (int64_t node = 0; node < job.cluster.num_nodes; ++node)
            for (int64_t slot = 0; slot < 8; ++slot)
              orders.push_back((slot + node) % 8);
          job.plan.device_order = orders;
        }).empty());
  refused(
      sound_job(), [](Job& job) { job.plan.node_order.assign(2, 0); }, Code::inconsistent,
      "node_order 0,0 is no permutation of 0 to 3 (every node is used once); name each of them "
      "once");
}

TEST_CASE("schedule and chunks have to agree") {
  refused(
      sound_job(), [](Job& job) { job.plan.schedule = Schedule::interleaved; }, Code::inconsistent,
      "schedule interleaved with virtual_pipeline_size 1 (one chunk per stage leaves nothing to "
      "interleave); set virtual_pipeline_size to 2 or more");
  refused(
      sound_job(), [](Job& job) { job.plan.virtual_pipeline_size = 2; }, Code::inconsistent,
      "virtual_pipeline_size 2 with schedule one_f_one_b (only the interleaved schedule runs "
      "chunks); set schedule = \"interleaved\"");
  refused(
      sound_mixture(),
      [](Job& job) {
        job.plan.virtual_pipeline_size = 2;
        job.plan.schedule = Schedule::interleaved;
      },
      Code::inconsistent,
      "virtual_pipeline_size 2 without a pipeline (its chunks belong to different stages); set it "
      "to "
      "1");
}

TEST_CASE("a context group has gradient and parameter traffic to hide") {
  Job job = sound_job();
  job.plan.tensor_parallel_size /= 2;
  job.plan.context_parallel_size = 2;
  job.plan.sharding = Sharding::optimizer;
  job.plan.overlap_gradient = job.plan.overlap_parameter = true;
  REQUIRE(job.data_parallel_size() == 1);
  CHECK(diagnose(job).empty());
}

TEST_CASE("the sequence has to divide evenly where it is split") {
  refused(
      sound_job(),
      [](Job& job) {
        job.plan.tensor_parallel_size = 1;
        job.plan.context_parallel_size = 8;
        job.model.sequence_length = 2040;
      },
      Code::inconsistent,
      "sequence_length 2040 is not divisible by 2 x context_parallel_size 8 (each rank takes one "
      "chunk of the front and one of the back, so that causal work is even); change one of them");
  refused(
      sound_job(),
      [](Job& job) {
        job.plan.sequence_parallel = true;
        job.model.sequence_length = 2044;
      },
      Code::inconsistent,
      "sequence_length 2044 is not divisible by tensor_parallel_size 8 (sequence_parallel splits "
      "it "
      "evenly); try 7 or 14");
}

TEST_CASE("a shard group has to divide the replicas") {
  refused(
      sound_mixture(),
      [](Job& job) {
        job.plan.sharding = Sharding::parameters;
        job.plan.sharding_group_size = 5;
      },
      Code::inconsistent,
      "sharding_group_size 5 does not divide data_parallel_size 32 (every group holds one copy of "
      "the state); try 4 or 8");
}

TEST_CASE("a pattern of layers has a letter for each") {
  refused(
      sound_job(), [](Job& job) { job.model.layer_pattern = std::string(95, '*'); },
      Code::inconsistent,
      "layer_pattern has 95 letters (num_layers is 96); write one for each layer");
}

TEST_CASE("connections to the device are as many as the driver can open") {
  for (const int64_t count : {0, 33})
    refused(
        sound_job(), [&](Job& job) { job.plan.cuda_device_max_connections = count; },
        Code::inconsistent,
        fmt::format("cuda_device_max_connections {} is not between 1 and 32 (the range of "
                    "CUDA_DEVICE_MAX_CONNECTIONS); leave it out for the driver's default",
                    count));
}

TEST_CASE("prompts and tokens are tasks as training is, but one token has no context to split") {
  for (const Task task : {Task::prefill, Task::decode}) {
    Job job = sound_job();
    job.task = task;
    CHECK_FALSE(has_errors(diagnose(job)));
  }
  refused(
      sound_job(),
      [](Job& job) {
        job.task = Task::decode;
        job.plan.tensor_parallel_size = 4;
        job.plan.context_parallel_size = 2;
      },
      Code::unsupported,
      "context_parallel_size 2 with task decode (a sequence grows by one token at a time, and a "
      "cache split over ranks is not modelled); use tensor_parallel_size");
}

TEST_CASE("in inference more ranks than key and value heads keep copies of them") {
  Job job = sound_job();
  job.plan.tensor_parallel_size = 8;
  job.plan.pipeline_parallel_size = 1;
  job.model.num_query_groups = 4;
  CHECK(has_errors(diagnose(job)));
  job.task = Task::decode;
  CHECK_FALSE(has_errors(diagnose(job)));
  job.model.num_query_groups = 6;
  CHECK(has_errors(diagnose(job)));
}

TEST_CASE("what only training does is inert in inference") {
  Job job = sound_job();
  job.task = Task::prefill;
  job.plan.recompute = Recompute::full;
  job.plan.overlap_gradient = true;
  const std::vector<Diagnosis> found = diagnose(job);
  CHECK_FALSE(has_errors(found));
  REQUIRE(found.size() == 1);
  CHECK(found.front().code == Code::inert_option);
  CHECK(found.front().what ==
        "recompute and overlap_gradient with task prefill (there is no backward pass and no "
        "gradient); leave them out");
}

TEST_CASE("LoRA needs its adapters") {
  refused(
      sound_job(), [](Job& job) { job.task = Task::lora; }, Code::inconsistent,
      "task lora without a [plan.lora] (the rank decides what is trained); add --lora-rank N, or "
      "[plan.lora] with rank and targets to the job file");
  refused(
      sound_job(), [](Job& job) { job.plan.lora = Lora{}; }, Code::inconsistent,
      "task pretrain with a [plan.lora] (pretraining has no adapters); set task = \"lora\" or "
      "leave "
      "it out");
  refused(
      sound_job(),
      [](Job& job) {
        job.task = Task::lora;
        job.plan.lora = Lora{.rank = 8, .targets = {"qkv"}};
      },
      Code::inconsistent,
      "lora target \"qkv\" is not a module of a layer (it would train nothing); known are "
      "attention_qkv, attention_dense, mlp_fc1, mlp_fc2");
  refused(
      sound_job(),
      [](Job& job) {
        job.task = Task::lora;
        job.plan.lora = Lora{.dropout = 1};
      },
      Code::inconsistent,
      "lora dropout 1 is not in [0, 1) (it is the share of an adapter's inputs that are set to 0); "
      "use 0 to do without");
}

TEST_CASE("a power limit stays within what the driver accepts") {
  refused(
      sound_job(), [](Job& job) { job.environment.power_limit = 800 * unit::W; },
      Code::inconsistent,
      "power_limit 800 W is above the 700 W that h200 is built for (the driver refuses it); set at "
      "most that");
  refused(
      sound_job(), [](Job& job) { job.environment.power_limit = 100 * unit::W; },
      Code::inconsistent,
      "power_limit 100 W is below the 200 W that h200 can be set to (the driver refuses it); set "
      "at "
      "least that");
}

TEST_CASE("a seed fits into a job file") {
  refused(
      sound_job(), [](Job& job) { job.environment.seed = 9223372036854775808U; },
      Code::inconsistent,
      "seed 9223372036854775808 is above 9223372036854775807 (a job file could not hold it); "
      "choose "
      "a smaller one");
}

TEST_CASE("a step of more passes than can be simulated is refused, one with fewer is not") {
  const auto batch = [](int64_t size) {
    return [size](Job& job) {
      job.plan.micro_batch_size = 1;
      job.plan.global_batch_size = size * job.data_parallel_size();
    };
  };
  Job deep = sound_job();
  const int64_t chunks = deep.plan.pipeline_parallel_size * deep.plan.virtual_pipeline_size;
  const int64_t most = 5'000'000 / chunks / 64 * 64;
  if (most * deep.data_parallel_size() <= 1'000'000) CHECK(after(deep, batch(most)).empty());
  const auto found = after(deep, [&](Job& job) {
    job.model.num_layers = 10'000;
    job.plan.pipeline_parallel_size = 1;
    job.plan.virtual_pipeline_size = 10'000;
    batch(1024)(job);
  });
  CHECK(std::any_of(found.begin(), found.end(), [](const Diagnosis& one) {
    return one.what.find("passes of microbatches through stages") != std::string::npos;
  }));
}

TEST_CASE("sizes of zero and sizes beyond reason are refused before anything is divided") {
  refused(
      sound_job(), [](Job& job) { job.plan.pipeline_parallel_size = 0; }, Code::inconsistent,
      "pipeline_parallel_size is 0 (it counts what has to be there); set it to 1 or more");
  refused(
      sound_job(), [](Job& job) { job.model.num_layers = 1'000'000; }, Code::inconsistent,
      "num_layers is 1e+06 (beyond 10000 it is surely a typing error); make it smaller");
  refused(
      sound_job(), [](Job& job) { job.cluster.num_nodes = 1'000'000'000; }, Code::inconsistent,
      "num_nodes x gpus_per_node is 8e+09 (beyond 10000000 it is surely a typing error); make it "
      "smaller");
  refused(
      sound_job(), [](Job& job) { job.model.sequence_length = 1'000'000'000'000; },
      Code::inconsistent,
      "sequence_length is 1e+12 (beyond 100000000 it is surely a typing error); make it smaller");
  const std::vector<std::pair<int64_t Model::*, const char*>> widths = {
      {&Model::hidden_size, "hidden_size"},
      {&Model::ffn_hidden_size, "ffn_hidden_size"},
      {&Model::num_attention_heads, "num_attention_heads"},
      {&Model::num_query_groups, "num_query_groups"},
      {&Model::kv_channels, "kv_channels"},
      {&Model::vocabulary_size, "vocabulary_size"}};
  for (const auto& [width, key] : widths)
    refused(
        sound_job(),
        [width = width](Job& job) { job.model.*width = std::numeric_limits<int64_t>::max(); },
        Code::inconsistent,
        std::string(key) +
            " is 9.223e+18 (beyond 10000000 it is surely a typing error); make it smaller");
  refused(
      sound_job(),
      [](Job& job) {
        job.plan.recompute = Recompute::full;
        job.plan.recompute_layers = -1;
      },
      Code::inconsistent,
      "recompute_layers is -1 (it counts layers); set it to 0 or more, or leave it out");
}

}  // namespace
}  // namespace triplepoint::spec
