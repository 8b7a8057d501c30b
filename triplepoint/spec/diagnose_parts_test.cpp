// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/diagnose_parts.h"

#include <functional>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::spec {
namespace {

/// Two layers of a transformer, written as a hybrid with a state-space layer before each.
Job hybrid() {
  Job job;
  job.model.num_layers = 6;
  job.model.layer_pattern = "M*-M*E";
  job.model.state_space = StateSpace{.num_heads = 16};
  job.model.moe = MixtureOfExperts{.ffn_hidden_size = 64};
  return job;
}

Job windowed() {
  Job job;
  job.model.num_layers = 2;
  job.model.sliding_window = SlidingWindow{.size = 128, .full_every = 2};
  return job;
}

bool refuses(const Job& job, const char* word) {
  for (const Diagnosis& found : diagnose_model(job))
    if (found.severity == Diagnosis::Severity::error && contains(found.what, word) &&
        contains(found.what, "; "))
      return true;
  return false;
}

Job with_records(std::vector<int64_t> lengths, std::vector<double> shares) {
  Job job;
  job.model.sequence_length = 2048;
  job.records = Records{"mine", std::move(lengths), std::move(shares)};
  return job;
}

std::string text_of(const std::vector<Diagnosis>& diagnoses) {
  return joined(mapped(diagnoses, &Diagnosis::what), "");
}

std::string found_in_records(const Job& job) {
  return text_of(diagnose_records(job));
}

TEST_CASE("a table of records has a share for each length, and only training reads it") {
  CHECK(found_in_records(with_records({100, 300}, {1, 2})).empty());
  for (const auto& [lengths, shares, named] :
       std::vector<std::tuple<std::vector<int64_t>, std::vector<double>, const char*>>{
           {{}, {}, "0 lengths"},
           {{100}, {1, 2}, "1 lengths and 2 shares"},
           {{0}, {1}, "a length of 0"},
           {{100, 200}, {1, -1}, "negative"},
           {{100}, {0}, "none is above 0"},
           {{4096}, {1}, "cut at sequence_length 2048"}}) {
    const char* const word = named;
    CAPTURE(word);
    CHECK(found_in_records(with_records(lengths, shares)).find(word) != std::string::npos);
  }
  Job job = with_records({100}, {1});
  job.task = Task::decode;
  CHECK(contains(found_in_records(job), "task decode"));
  job = with_records({100}, {1});
  job.plan.packed_length = 100;
  CHECK(contains(found_in_records(job), "packed_length 100"));
}

std::string found_in_sends(const Job& job) {
  return text_of(diagnose_sends(job));
}

TEST_CASE("sends can be cut and joined as far as NICs, microbatches and schedule allow") {
  Job job;
  job.cluster.scale_out.nics_per_node = 4;
  job.cluster.num_nodes = 1;
  job.cluster.gpus_per_node = 8;
  job.plan.pipeline_parallel_size = 4;
  job.plan.tensor_parallel_size = 2;
  job.plan.global_batch_size = 12;
  job.plan.sends = PipelineSends{.chunk = 1 * unit::MB, .nics = 4, .microbatches = 3};
  CHECK(found_in_sends(job).empty());
  job.plan.sends->nics = 5;
  CHECK(contains(found_in_sends(job), "sends.nics is 5"));
  job.plan.sends = PipelineSends{.microbatches = 5};
  CHECK(contains(found_in_sends(job), "does not divide 12 microbatches"));
  job.plan.sends->microbatches = 2;
  job.plan.schedule = Schedule::zero_bubble;
  CHECK(contains(found_in_sends(job), "zero_bubble"));
  job.plan.sends = PipelineSends{.scatter_gather = true};
  CHECK(found_in_sends(job).empty());
  job.plan.sequence_parallel = true;
  CHECK(contains(found_in_sends(job), "its own part"));
  job.plan.pipeline_parallel_size = 1;
  CHECK(contains(found_in_sends(job), "no stage sends"));
}

TEST_CASE("windows and patterns that fit are fine as they come") {
  CHECK(diagnose_model(hybrid()).empty());
  CHECK(diagnose_model(windowed()).empty());
}

TEST_CASE("windows and patterns that do not fit are refused for their reason") {
  using Spoil = std::function<void(Job&)>;
  const auto pattern = [](const char* letters) {
    return [letters](Job& job) { job.model.layer_pattern = letters; };
  };
  const std::vector<std::tuple<Job, const char*, Spoil>> cases = {
      {hybrid(), "num_layers", pattern("M*-M*")},
      {hybrid(), "'G' at place 5", pattern("M*-M*G")},
      {hybrid(), "[model.state_space]", [](Job& job) { job.model.state_space.reset(); }},
      {hybrid(), "[model.moe]", [](Job& job) { job.model.moe.reset(); }},
      {hybrid(), "no layer would use it", [](Job& job) { job.model.layer_pattern.reset(); }},
      {hybrid(), "num_dense_layers", [](Job& job) { job.model.moe->num_dense_layers = 1; }},
      {hybrid(), "num_groups", [](Job& job) { job.plan.tensor_parallel_size = 16; }},
      {hybrid(), "num_heads",
       [](Job& job) { job.plan.tensor_parallel_size = 8, job.plan.context_parallel_size = 4; }},
      {hybrid(), "state-space", [](Job& job) { job.plan.lora = Lora(); }},
      {hybrid(), "both or neither",
       [](Job& job) { job.model.multi_token_prediction = MultiTokenPrediction(); }},
      {windowed(), "size 0", [](Job& job) { job.model.sliding_window->size = 0; }},
      {windowed(), "layer_pattern", pattern("**")}};
  for (auto [job, named, spoil] : cases) {
    const char* const word = named;
    CAPTURE(word);
    spoil(job);
    CHECK(refuses(job, word));
  }
  Job job = hybrid();
  job.plan.tensor_parallel_size = 8;
  CHECK_FALSE(refuses(job, "divide"));
  job.model.multi_token_prediction = MultiTokenPrediction{.layer_pattern = "*E"};
  CHECK_FALSE(refuses(job, "both or neither"));
}

Job job_on(FabricKind kind, int64_t nodes) {
  Job job;
  job.cluster.num_nodes = nodes;
  job.cluster.scale_out.kind = kind;
  job.cluster.scale_out.nodes_per_leaf = 4;
  return job;
}

std::string fabric_refusal(const Job& job) {
  const std::vector<Diagnosis> found = diagnose_fabric(job);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Diagnosis::Severity::error);
  CHECK(contains(found[0].what, "; "));
  return found[0].what;
}

TEST_CASE("fabrics of every kind are fine as they come") {
  for (const FabricKind kind :
       {FabricKind::fat_tree, FabricKind::rail_optimized, FabricKind::dragonfly})
    for (const int64_t nodes : {1, 6, 32, 97})
      CHECK(diagnose_fabric(job_on(kind, nodes)).empty());
}

TEST_CASE("a group of a dragonfly is made of whole leaf switches") {
  Job job = job_on(FabricKind::dragonfly, 32);
  for (const int64_t group : {2, 4, 16, 64}) {
    job.cluster.scale_out.nodes_per_group = group;
    CHECK(diagnose_fabric(job).empty());
  }
  job.cluster.scale_out.nodes_per_group = 6;
  CHECK(contains(fabric_refusal(job), "try groups of 4 or 8 nodes"));
}

TEST_CASE("keys of another kind of fabric are refused") {
  Job job = job_on(FabricKind::fat_tree, 32);
  job.cluster.scale_out.nodes_per_group = 8;
  CHECK(contains(fabric_refusal(job), "kind = \"dragonfly\""));
}

TEST_CASE("numbers that no fabric has are refused") {
  Job job = job_on(FabricKind::fat_tree, 32);
  job.cluster.scale_out.oversubscription = 0;
  CHECK(contains(fabric_refusal(job), "oversubscription is 0"));
  job = job_on(FabricKind::fat_tree, 32);
  job.cluster.scale_out.hop_latency = -1 * unit::us;
  CHECK(contains(fabric_refusal(job), "hop_latency is negative"));
  job = job_on(FabricKind::dragonfly, 32);
  job.cluster.scale_out.nodes_per_group = -1;
  CHECK(contains(fabric_refusal(job), "nodes_per_group is -1"));
}

/// 4 nodes of 8 H200.
Job sound_job() {
  Job job;
  job.cluster = *load_cluster(default_library(), "hgx-h200");
  job.cluster.num_nodes = 4;
  return job;
}

std::string refusal(const Job& job) {
  const std::vector<Diagnosis> found = diagnose_environment(job);
  REQUIRE(found.size() == 1);
  CHECK(found[0].severity == Diagnosis::Severity::error);
  return found[0].what;
}

TEST_CASE("possible faults are not objected to") {
  Job job = sound_job();
  for (const char* text : {"gpu=31,power=0.25@120s..300s", "node=3,fan=0.3@60s", "inlet=+10",
                           "gpu=0,heat_path=2", "node=2,link=0.1,every=2s", "link=0.5",
                           "node=0,host=3", "node=1,lost=5min,every=30min@10min"})
    job.environment.faults.push_back(*parse_fault(text));
  CHECK(diagnose_environment(job).empty());
}

TEST_CASE("a fault is somewhere, leaves something, takes its time, and is of this world") {
  for (const auto& fault : std::vector<std::pair<const char*, const char*>>{
           {"gpu=32,power=0.5",
            "fault 1 (power) names gpu 32 (hgx-h200 has GPUs 0 to 31); choose one of them"},
           {"node=4,fan=0.5",
            "fault 1 (fan) names node 4 (hgx-h200 has nodes 0 to 3); choose one of them"},
           {"gpu=1,node=0,power=0.5", "it is one or the other"},
           {"gpu=9,fan=0.5", "name its node, 1"},
           {"power=0", "the job would never end"},
           {"link=-1", "the job would never end"},
           {"fan=1.5", "a fault cannot add any"},
           {"inlet=0", "has no rise"},
           {"power=0.5@20s..10s", "end it later"},
           {"power=0.5,every=1ms", "nothing here is followed below 100 ms"},
           {"lost=0s@10s", "has no restart time"},
           {"lost=10s@10s..20s", "leave end out"},
           {"inlet=-400", "surely a typing error"},
           {"inlet=1e9", "surely a typing error"},
           {"heat_path=1e300", "surely a typing error"},
           {"host=1e6", "surely a typing error"},
           {"link=1e-12", "surely a typing error"},
           {"gpu=3,power=1e-300", "surely a typing error"}}) {
    CAPTURE(fault.first);
    Job job = sound_job();
    job.environment.faults = {*parse_fault(fault.first)};
    CHECK(contains(refusal(job), fault.second));
  }
}

TEST_CASE("a room is of this world, and a building draws what its computers draw") {
  Job job = sound_job();
  for (const double degrees : {-300., 1e9, std::nan("")}) {
    job.environment.ambient = Celsius(degrees);
    CHECK(contains(refusal(job), "surely a typing error"));
  }
  job.environment.ambient = Celsius(45);
  CHECK(diagnose_environment(job).empty());
  job.environment.pue = 0.9;
  CHECK(contains(refusal(job), "a building draws what its computers draw"));
}

TEST_CASE("a list of limits has one for every GPU, each of which can be set") {
  Job job = sound_job();
  job.environment.device_power_limits.assign(8, 500 * unit::W);
  CHECK(refusal(job) ==
        "device_power_limits has 8 entries for 32 GPUs (each GPU has its own, node by node); write "
        "one per GPU or none");
  job.environment.device_power_limits.assign(32, 500 * unit::W);
  CHECK(diagnose_environment(job).empty());
  job.environment.device_power_limits[7] = 900 * unit::W;
  CHECK(contains(refusal(job), "device_power_limits[7] 900 W is above"));
  job.environment.device_power_limits.clear();
  job.environment.device_clock_limits.assign(32, 1500 * unit::MHz);
  CHECK(diagnose_environment(job).empty());
  job.environment.device_clock_limits[31] = 100 * unit::MHz;
  CHECK(contains(refusal(job), "device_clock_limits[31]"));
}

}  // namespace

}  // namespace triplepoint::spec
