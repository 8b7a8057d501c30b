// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::spec {
namespace {

const Library& library() {
  static const Library held = default_library();
  return held;
}

const std::string plain_job =
    "model = \"gpt3-175b\"\n"
    "cluster = { base = \"hgx-h200\", num_nodes = 4 }\n"
    "[plan]\n"
    "tensor_parallel_size = 8\n"
    "pipeline_parallel_size = 4\n"
    "global_batch_size = 128\n";

Job job_from(const std::string& text) {
  return must(parse_job(library(), text, "job.toml"));
}

std::string refusal_of(const std::string& text) {
  const Result<Job> job = parse_job(library(), text, "job.toml");
  REQUIRE_FALSE(job);
  return job.error().what;
}

TEST_CASE("a short job names its parts, the rest follows") {
  const Job job = job_from(plain_job);
  CHECK(job.name == "job");
  CHECK(job.origin == "job.toml");
  CHECK(job.world_size() == 32);
  CHECK(job.data_parallel_size() == 1);
  CHECK(job.num_microbatches() == 128);
  CHECK(job.model == *load_model(library(), "gpt3-175b"));
  CHECK(job.stack.name == "megatron-core");
  CHECK(job.plan.optimizer == *load_optimizer(library(), job.stack.optimizer));
  CHECK(diagnose(job).empty());
}

TEST_CASE("optimizer state is sharded where there are replicas, unless the job says otherwise") {
  CHECK(job_from(plain_job).plan.sharding == Sharding::none);
  CHECK(job_from("nodes = 8\n" + plain_job).plan.sharding == Sharding::optimizer);
  CHECK(job_from("nodes = 8\n" + plain_job + "sharding = \"none\"\n").plan.sharding ==
        Sharding::none);
}

TEST_CASE("a job that leaves all out runs as one told by flags that leave all out") {
  const Job job = job_from("model = \"llama3-8b\"\ncluster = \"hgx-h200\"\n");
  CHECK(job.cluster.num_nodes == 1);
  CHECK(job.plan.global_batch_size == 128);
  CHECK(job.plan.sharding == Sharding::optimizer);
  CHECK(job_from("model = \"llama3-8b\"\ncluster = \"hgx-h200\"\n"
                 "[plan]\nmicro_batch_size = 3\n")
            .plan.global_batch_size == 144);  // the next above 128 that 3 x 8 divides
}

TEST_CASE("one replica whose ranks form a context group shards its optimizer by default") {
  const std::string job = "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\n[plan]\n";
  CHECK(job_from(job + "tensor_parallel_size = 2\ncontext_parallel_size = 4\n").plan.sharding ==
        Sharding::optimizer);
  CHECK(job_from(job + "tensor_parallel_size = 8\n").plan.sharding == Sharding::none);
}

TEST_CASE("chunks make a schedule interleaved unless the job names one") {
  const std::string job =
      "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = 2\n"
      "[plan]\npipeline_parallel_size = 4\nvirtual_pipeline_size = 2\n";
  CHECK(job_from(job).plan.schedule == Schedule::interleaved);
  CHECK(job_from(job + "schedule = \"gpipe\"\n").plan.schedule == Schedule::gpipe);
}

TEST_CASE("the note of defaults has the length and what was filled in") {
  const auto noted = [](const std::string& text) {
    const StatedJob stated = parse_stated_job(library(), text, "job.toml").value();
    Job job = with_defaults(library(), stated).value();
    note_defaults(job, stated);
    REQUIRE(job.notes.size() == 1);
    return job.notes[0];
  };
  CHECK(noted("model = \"llama3-8b\"\ncluster = \"hgx-h200\"\n") ==
        "sequence length 8192 (the model's); by default 1 node, microbatch 1, batch 128, bf16, "
        "stack megatron-core, recompute none, sharding optimizer, optimizer "
        "megatron_distributed_optim");
  const std::string whole = write_job(job_from(plain_job));
  CHECK(noted(whole) == "sequence length 2048 (given)");
}

TEST_CASE("a part starts from a named base and says what differs") {
  const Job job = job_from(
      "[model]\nbase = \"gpt3-175b\"\nsequence_length = 4096\n"
      "[cluster]\nbase = \"hgx-h200\"\nnum_nodes = 2\n"
      "[cluster.scale_out]\nnic_bandwidth = \"400 Gb/s\"\n"
      "[cluster.gpu]\nbase = \"h200\"\ntdp = \"600 W\"\n"
      "[plan]\nglobal_batch_size = 16\n");
  const Cluster base = *load_cluster(library(), "hgx-h200");
  CHECK(job.model.sequence_length == 4096);
  CHECK(job.model.num_layers == 96);
  CHECK(job.world_size() == 16);
  CHECK(job.cluster.scale_out.nic_bandwidth == 400 * unit::Gb / unit::s);
  CHECK(job.cluster.scale_out.nics_per_node == base.scale_out.nics_per_node);
  CHECK(*job.cluster.gpu.tdp == 600 * unit::W);
  CHECK(job.cluster.gpu.power == base.gpu.power);
}

TEST_CASE("query groups and head dimension follow from heads where they are not written") {
  const Model model =
      job_from(
          "cluster = \"hgx-h200\"\n[plan]\nglobal_batch_size = 32\n"
          "[model]\nnum_layers = 2\nhidden_size = 512\nffn_hidden_size = 2048\n"
          "num_attention_heads = 8\nsequence_length = 128\nvocabulary_size = 1000\n"
          "activation = \"gelu\"\nnormalization = \"layer_norm\"\n"
          "position_embedding = \"learned\"\ntied_embeddings = true\nbiases = true\n")
          .model;
  CHECK(model.num_query_groups == 8);
  CHECK(model.kv_channels == 64);
}

TEST_CASE("a plan with adapters makes a LoRA job") {
  const Job job = job_from(plain_job + "[plan.lora]\nrank = 16\n");
  CHECK(job.task == Task::lora);
  CHECK(job.plan.lora->rank == 16);
}

/// A job that differs from every default wherever it can.
Job elaborate_job() {
  Job job = job_from(
      "name = \"all \\\"of\\\" it\"\n"
      "notes = [\"one\", \"two\\nlines\"]\n" +
      plain_job +
      "context_parallel_size = 2\nexpert_parallel_size = 2\nexpert_tensor_parallel_size = 4\n"
      "virtual_pipeline_size = 2\nsequence_parallel = true\nmicro_batch_size = 2\n"
      "sharding = \"parameters\"\nsharding_group_size = 4\nreshard_after_forward = false\n"
      "prefetch_depth = 3\ncuda_device_max_connections = 1\nrecompute = \"full\"\nrecompute_layers "
      "= 2\noverlap_tensor = true\n"
      "overlap_gradient = true\noverlap_parameter = true\noverlap_pipeline = true\n"
      "overlap_expert = true\n"
      "gradient_bucket = \"125 MB\"\nschedule = \"interleaved\"\nrank_order = \"tp-pp-dp\"\n"
      "layers_per_stage = [13, 11, 12, 12, 12, 12, 12, 12]\n"
      "device_order = [1, 2, 5, 7, 0, 3, 4, 6]\nprecision = \"fp8\"\n"
      "[plan.optimizer]\nbase = \"mcore_distributed_optim\"\nmoment_bytes = 4\n"
      "[plan.lora]\nrank = 8\ntargets = [\"mlp_fc1\", \"mlp_fc2\"]\n"
      "[environment]\nambient = \"31.4 C\"\ncooling = \"liquid\"\npower_limit = \"512.5 W\"\n"
      "seed = 77\n");
  job.model.moe = MixtureOfExperts{.num_experts = 4, .capacity_factor = 1.1};
  job.model.latent_attention = LatentAttention{1536, 512, 64, 128};
  job.cluster.chassis.inlet = Celsius(17.3);
  job.cluster.gpu.power->joules_per_tflop[3] = 0.1 + 0.2;  // no short decimal
  return job;
}

TEST_CASE("a written job reads back the same, and needs no library") {
  const Library nowhere{"/nonexistent"};
  for (const Job& job : {job_from(plain_job), elaborate_job()}) {
    const std::string text = write_job(job);
    const auto again = must(parse_job(nowhere, text, "again.toml"));
    CHECK(again == job);
    CHECK(write_job(again) == text);
  }
}

TEST_CASE("every job on every cluster and model of the library survives writing") {
  for (const std::string& cluster : list_clusters(library()))
    for (const std::string& model : list_models(library())) {
      const Job job = job_from(fmt::format(
          "model = \"{}\"\ncluster = \"{}\"\n[plan]\nglobal_batch_size = 512\n", model, cluster));
      const auto again = must(parse_job(library(), write_job(job), "again.toml"));
      CHECK(again == job);
    }
}

TEST_CASE("with a library at hand, what it holds is named") {
  const Job plain = job_from(plain_job);
  const std::string text = write_job(plain, library());
  CHECK(text.find("model = \"gpt3-175b\"\n") != std::string::npos);
  CHECK(text.find("cluster = \"hgx-h200\"\nnodes = 4\n") != std::string::npos);
  CHECK(text.find("[cluster") == std::string::npos);
  for (const Job& job : {plain, elaborate_job()})
    CHECK(job_from(write_job(job, library())) == job);
}

/// Where the members lie that the field lists visit.
struct MemberMap {
  const char* begin;
  std::vector<std::pair<std::ptrdiff_t, std::ptrdiff_t>> spans;

  void operator()(std::string_view, auto& member, Need = Need::optional) {
    const std::ptrdiff_t at = reinterpret_cast<const char*>(&member) - begin;
    spans.emplace_back(at, at + static_cast<std::ptrdiff_t>(sizeof member));
  }
};

/// Longest stretch of a T that no field covers. Alignment leaves less than 8 bytes.
template <class T>
std::ptrdiff_t longest_gap() {
  T value;
  MemberMap map{reinterpret_cast<const char*>(&value), {}};
  visit_fields(map, value);
  std::ranges::sort(map.spans);
  std::ptrdiff_t covered = 0, gap = 0;
  for (const auto& [from, to] : map.spans) {
    gap = std::max(gap, from - covered);
    covered = to;
  }
  return std::max(gap, static_cast<std::ptrdiff_t>(sizeof(T)) - covered);
}

template <class... Inputs>
void check_gaps() {
  for (const std::ptrdiff_t gap : {longest_gap<Inputs>()...})
    CHECK(gap < 8);
}

TEST_CASE("no member of an input is forgotten by reader and writer") {
  check_gaps<Model, MixtureOfExperts, LatentAttention, Gpu, KernelCoefficients, PowerCoefficients,
             ThermalLadder, GovernorCoefficients, SensorCoefficients, Variability, Cluster, ScaleUp,
             ScaleOut, Chassis, Slot, Host, Stack, Plan, OptimizerState, Lora, Environment, Job>();
}

TEST_CASE("a wrong job is refused with file, line, reason and a way out") {
  const std::map<std::string, std::string> sentences = {
      {"modle = \"x\"\n" + plain_job,
       "job.toml:1: unknown key 'modle' (it would be ignored); did you mean \"model\"?"},
      {plain_job + "tensor_paralel_size = 4\n",
       "job.toml:7: unknown key 'tensor_paralel_size' in [plan] (it would be ignored); did you "
       "mean \"tensor_parallel_size\"?"},
      {"model = \"gpt3-175\"\n",
       "job.toml:1: no model \"gpt3-175\" (there is no models/gpt3-175.toml in " + library().root +
           "); did you mean \"gpt3-175b\"?"},
      {"model = \"gpt3-175b\"\n",
       "job.toml:1: the file has no 'cluster' (it has no default); add it"},
      {plain_job + "micro_batch_size = \"2\"\n",
       "job.toml:7: plan.micro_batch_size is a text (it counts something); write a whole number, "
       "as in 8"},
      {plain_job + "micro_batch_size = 2.0\n",
       "job.toml:7: plan.micro_batch_size is a number (it counts something); write a whole number, "
       "as in 8"},
      {plain_job + "micro_batch_size = -2\n",
       "job.toml:7: plan.micro_batch_size is -2 (counts go from 0 to 1000000000); write a number "
       "between them"},
      {plain_job + "sequence_parallel = 1\n",
       "job.toml:7: plan.sequence_parallel is a whole number (it is switched on or off); write "
       "true or false"},
      {plain_job + "sharding = \"zero1\"\n",
       "job.toml:7: plan.sharding is \"zero1\" (an unknown word); known are none, "
       "optimizer, gradients, parameters"},
      {plain_job + "sharding = 1\n",
       "job.toml:7: plan.sharding is a whole number (it is one of a few words); known are none, "
       "optimizer, gradients, parameters"},
      {plain_job + "gradient_bucket = 400\n",
       "job.toml:7: plan.gradient_bucket: \"400\" has no unit (data could be in any of B, kB, MB, "
       "GB, TB, PB); write one of them behind it"},
      {plain_job + "[environment]\npower_limit = \"700 C\"\n",
       "job.toml:8: environment.power_limit: unknown unit \"C\""},
      {plain_job + "[environment]\npower_limit = \"700 GB\"\n",
       "job.toml:8: environment.power_limit: \"700 GB\" is the wrong kind of quantity (it measures "
       "data, not power); units that fit are mW, W, kW, MW, GW"},
      {plain_job + "[environment]\npower_limit = \"-700 W\"\n",
       "job.toml:8: environment.power_limit is \"-700 W\" (a power is not negative); leave the "
       "sign out"},
      {plain_job + "[environment]\nambient = \"300 K\"\n",
       "job.toml:8: environment.ambient: \"300 K\" is a difference of temperatures (kelvins), not "
       "a reading; write the reading in C, as in 30 C"},
      {plain_job + "device_order = 3\n",
       "job.toml:7: plan.device_order is a whole number (it is a list); write it in square "
       "brackets"},
      {"environment = 3\n" + plain_job,
       "job.toml:1: environment is a whole number (it has its own keys); write a table, "
       "[environment]"},
      {plain_job + "[plan.optimizer]\nbase = \"distributed_fused_adam\"\nmoment_bytes = -1.0\n",
       "job.toml:9: plan.optimizer.moment_bytes is -1 (it is finite and not negative); write such "
       "a number"},
      {plain_job + "[plan.optimizer]\nbase = 3\n",
       "job.toml:8: plan.optimizer is a whole number (it is chosen by name); write the name in "
       "quotes"},
      {plain_job + "[model.moe]\n", "job.toml:"},
      {"model = \"gpt3-175b\n", "job.toml:1: Error while parsing string: "},
      {"name = 1979-05-27\n" + plain_job,
       "job.toml:1: a date or a time is not allowed (no key takes one); write a text in quotes or "
       "a quantity as in \"10 min\""},
  };
  for (const auto& [text, sentence] : sentences)
    CHECK(refusal_of(text).substr(0, sentence.size()) == sentence);
}

TEST_CASE("an optional part without a base has to be whole") {
  CHECK(
      refusal_of("cluster = \"hgx-h200\"\n[model]\nbase = \"gpt3-175b\"\n"
                 "[model.moe]\nnum_experts = 8\n[plan]\nglobal_batch_size = 8\n") ==
      "job.toml:4: [model.moe] has no 'router_topk', 'ffn_hidden_size' (they have no default); add "
      "them");
}

TEST_CASE("all that is wrong with a file is said at once, in its order") {
  const std::string rest =
      "clustr = \"hgx-h200\"\n[plan]\nrecompute = \"ful\"\n"
      "layers_per_stage = [1, \"x\", -1]\ntensor_paralel_size = 8\n"
      "[environment]\nfaults = [{ gpu = 1 }, { kind = \"fan\", share = true }]\n";
  CHECK(refusal_of("model = \"gpt4\"\n" + rest).starts_with("job.toml:1: no model \"gpt4\""));
  CHECK(refusal_of("model = \"gpt3-175b\"\n" + rest) ==
        "job.toml:2: unknown key 'clustr' (it would be ignored); did you mean \"cluster\"?\n"
        "job.toml:4: plan.recompute is \"ful\" (an unknown word); did you mean \"full\"?\n"
        "job.toml:5: plan.layers_per_stage is a text (it counts something); write a whole number, "
        "as in 8\n"
        "job.toml:5: plan.layers_per_stage is -1 (counts go from 0 to 1000000000); write a number "
        "between them\n"
        "job.toml:6: unknown key 'tensor_paralel_size' in [plan] (it would be ignored); did you "
        "mean \"tensor_parallel_size\"?\n"
        "job.toml:8: [environment.faults] has no 'kind' (it has no default); add it\n"
        "job.toml:8: environment.faults.share is true or false (it is a plain number, its unit is "
        "in its name); write a number, as in 0.85");
  std::string many = "model = \"gpt3-175b\"\ncluster = \"hgx-h200\"\n";
  for (int i = 0; i < 99; ++i)
    many += "key" + std::to_string(i) + " = 1\n";
  CHECK(refusal_of(many).ends_with("(99 problems in all)"));
}

TEST_CASE("the number of nodes says which statement it follows") {
  const ScratchFolder folder;
  const std::string own =
      folder.file("own.toml", "[cluster]\nbase = \"hgx-h200\"\nnum_nodes = 4\n");
  const auto note = [&](const std::string& head) {
    const auto stated =
        must(parse_stated_job(default_library(), "model = \"gpt3-175b\"\n" + head, "job.toml"));
    Job job = stated.job;
    note_defaults(job, stated);
    return job.notes.front();
  };
  CHECK(note("nodes = 2\ncluster = \"" + own + "\"\n")
            .ends_with("; 2 nodes (nodes), not the 4 of " + own));
  CHECK(note("nodes = 1\n[cluster]\nbase = \"hgx-h200\"\nnum_nodes = 3\n")
            .ends_with("; 1 node (nodes), not the 3 of cluster.num_nodes"));
  CHECK(note("cluster = \"" + own + "\"\n").find("not the") == std::string::npos);
  CHECK(note("nodes = 4\ncluster = \"" + own + "\"\n").find("not the") == std::string::npos);
}

TEST_CASE("numbers that no number can be are refused") {
  CHECK(
      refusal_of(plain_job + "[plan.optimizer]\nbase = \"fused_adam\"\nmoment_bytes = nan\n") ==
      "job.toml:9: plan.optimizer.moment_bytes is nan (it is finite and not negative); write such "
      "a number");
}

}  // namespace
}  // namespace triplepoint::spec
