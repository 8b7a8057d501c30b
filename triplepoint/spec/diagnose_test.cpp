// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/table_reader.h"
#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;

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

/// The job spoilt in this way is refused, for this reason and no other, in this sentence.
void refused(const Job& sound, const std::function<void(Job&)>& spoil, Code code,
             const std::string& sentence) {
  const auto found = after(sound, spoil);
  REQUIRE(found.size() == 1);
  CHECK(has_errors(found));
  CHECK(name_of(found[0].code) == name_of(code));
  CHECK(found[0].what == sentence);
}

TEST_CASE("a sound job has nothing to be told") {
  CHECK(diagnose(sound_job()).empty());
  CHECK(diagnose(sound_mixture()).empty());
}

/// The job with these keys of a job file set to these texts.
Job with(const Job& sound, const TomlValue& keys) {
  TomlValue root = parse_toml(write_job(sound), "sound").value();
  for (const TomlEntry& entry : keys.entries)
    set_dotted(root, entry.key, cell_value(entry.value.text, entry.value.line));
  const Library library = default_library();
  ReadScope scope;
  scope.library = &library;
  scope.file = "diagnose_test.toml";
  const Result<Job> job = read_job(scope, root);
  REQUIRE_MESSAGE(job, job.error().what);
  return *job;
}

TEST_CASE("what is wrong with a job is said, alone and in these words") {
  const Path file = Path(TPT_SOURCE_DIR) / "triplepoint/spec/diagnose_test.toml";
  const TomlValue cases = parse_toml(read_file(file).value(), file.string()).value();
  REQUIRE(cases.find("case")->items.size() >= 47);
  for (const TomlValue& one : cases.find("case")->items) {
    CAPTURE(one.line);
    const bool mixture = one.find("job")->text == "mixtral";
    const bool warns = one.find("warning") != nullptr;
    const auto found = diagnose(with(mixture ? sound_mixture() : sound_job(), *one.find("set")));
    REQUIRE(found.size() == 1);
    CHECK(has_errors(found) != warns);
    CHECK(name_of(found[0].code) == one.find("code")->text);
    CHECK(found[0].what == one.find("says")->text);
  }
}

TEST_CASE("a value is suggested only if the whole job is sound with it") {
  const auto said = [](const std::function<void(Job&)>& spoil) {
    return after(sound_job(), spoil).front().what;
  };
  const auto layers = [&](int64_t stages) {
    return said([&](Job& job) {
      job.model.num_layers = 126;
      job.plan.pipeline_parallel_size = stages;
    });
  };
  // 3 and 6 do not fill 32 GPUs.
  CHECK(layers(4).ends_with("; try 2, or write layers_per_stage (--layers-per-stage 32,32,31,31)"));
  CHECK(layers(3).ends_with("; try pipeline_parallel_size 2"));
  CHECK(said([](Job& job) {
          job.cluster.num_nodes = 9;
        }).ends_with("; choose other groups or another number of GPUs"));
}

TEST_CASE("uneven layers are fine if they add up") {
  CHECK(after(sound_job(), [](Job& job) { job.plan.layers_per_stage = {25, 23, 25, 23}; }).empty());
}

TEST_CASE("the first stage may hold the embedding alone, the last the head") {
  Job job = sound_job();
  job.plan.layers_per_stage = {0, 48, 48, 0};
  CHECK(diagnose(job).empty());
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
}

TEST_CASE("block scales need a GPU that has them, training a stack that trains") {
  refused(
      sound_job(), [](Job& job) { job.plan.precision = Precision::mxfp8; }, Code::unsupported,
      "the dense mxfp8 peak of h200 is unknown (its cores have none, or no source states it); "
      "choose precision bf16 or fp16 or fp8 or fp32, or another GPU, or add gemm_mxfp8_share to "
      "calibrations/h200/kernels.toml with its source");
  refused(
      sound_job(), [](Job& job) { job.stack.name = serving_stack; }, Code::unsupported,
      "stack vllm serves models and does not train them (task pretrain has a backward pass); "
      "choose another stack, or task prefill or decode");
}

TEST_CASE("a chassis has a slot for every GPU") {
  refused(
      sound_job(), [](Job& job) { job.cluster.chassis.slots.pop_back(); }, Code::inconsistent,
      "hgx-h200 has 7 slots for 8 GPUs a node (every GPU sits somewhere in the air stream); list "
      "one slot per GPU");
  refused(
      sound_job(), [](Job& job) { job.cluster.chassis.slots[0].upstream_heating.pop_back(); },
      Code::inconsistent,
      "a slot of hgx-h200 has 7 upstream_heating shares (there are 8 GPUs a node); write one share "
      "per GPU or none");
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
      "list one slot per GPU");
}

TEST_CASE("a cooling is one the node can have") {
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

TEST_CASE("a context group has gradient and parameter traffic to hide") {
  Job job = sound_job();
  job.plan.tensor_parallel_size /= 2;
  job.plan.context_parallel_size = 2;
  job.plan.sharding = Sharding::optimizer;
  job.plan.overlap_gradient = job.plan.overlap_parameter = true;
  REQUIRE(job.data_parallel_size() == 1);
  CHECK(diagnose(job).empty());
}

TEST_CASE("FSDP of one data-parallel rank has no effect") {
  Job job = sound_job();
  REQUIRE(job.data_parallel_size() == 1);
  job.plan.sharding = Sharding::parameters;
  const auto found = diagnose(job);
  REQUIRE(!found.empty());
  CHECK(found.front().code == Code::inert_option);
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

TEST_CASE("a seed fits into a job file") {
  refused(
      sound_job(), [](Job& job) { job.environment.seed = 9223372036854775808U; },
      Code::inconsistent,
      "seed 9223372036854775808 is above 9223372036854775807 (a job file could not hold it); "
      "choose a smaller one");
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
  CHECK(std::ranges::any_of(found, [](const Diagnosis& one) {
    return contains(one.what, "passes of microbatches through stages");
  }));
}

TEST_CASE("sizes of zero and sizes beyond reason are refused before anything is divided") {
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
      "recompute_layers is -1 (it counts layers of a stage's chunk, of 96 in all); set it to 0 or "
      "more of these, or leave it out");
}

}  // namespace
}  // namespace triplepoint::spec
