// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/export.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/formats/fixtures_testing.h"

namespace triplepoint::formats {
namespace {

spec::Job job_of(const std::string& name) {
  return import_nemo_yaml(spec::default_library(), fixture(name), name, {}).value().job;
}

spec::Job again(const Imported& imported, const spec::Job& job) {
  spec::Job result = imported.job;
  result.origin = job.origin;
  result.notes = job.notes;
  return result;
}

spec::Job through_nemo(const spec::Job& job) {
  const std::string text = export_nemo_yaml(job).text;
  return again(import_nemo_yaml(spec::default_library(), text, "x.yaml", {}).value(), job);
}

spec::Job through_megatron(const spec::Job& job) {
  const std::string text = export_megatron_args(job).text;
  return again(import_megatron_args(spec::default_library(), text, "x.sh", {}).value(), job);
}

TEST_CASE("every kind of NeMo job reads back the same after export") {
  for (const char* name : {"pretrain-h200.yaml", "experts-h100.yaml", "fsdp-h200.yaml", "lora.yaml",
                           "generate.yaml"}) {
    CAPTURE(name);
    const spec::Job job = job_of(name);
    CHECK(export_nemo_yaml(job).unsupported_settings.empty());
    CHECK(through_nemo(job) == job);
  }
}

TEST_CASE("pretraining jobs read back the same from Megatron arguments") {
  for (const char* name : {"pretrain-h200.yaml", "experts-h100.yaml", "fsdp-h200.yaml"}) {
    CAPTURE(name);
    spec::Job job = job_of(name);
    job.plan.optimizer.name = through_megatron(job).plan.optimizer.name;
    CHECK(export_megatron_args(job).unsupported_settings.empty());
    CHECK(through_megatron(job) == job);
  }
}

TEST_CASE("a Megatron script reads back the same after export to either") {
  const auto imported =
      import_megatron_args(spec::default_library(), fixture("pretrain_gpt.sh"), "x.sh", {});
  REQUIRE(imported.has_value());
  CHECK(through_megatron(imported->job) == imported->job);
  CHECK(through_nemo(imported->job) == imported->job);
}

/// A job with one thing changed reads back the same.
void check_survives(const char* what, const auto& change) {
  CAPTURE(what);
  spec::Job job = job_of("experts-h100.yaml");
  change(job.plan, job.model);
  CHECK(through_nemo(job) == job);
  CHECK(through_megatron(job) == job);
}

TEST_CASE("each setting of a plan survives export to NeMo and to Megatron") {
  using spec::Model;
  using spec::Plan;
  check_survives("interleaved", [](Plan& p, Model&) {
    p.virtual_pipeline_size = 4;
    p.schedule = spec::Schedule::interleaved;
    p.overlap_pipeline = true;
  });
  check_survives("selective", [](Plan& p, Model&) { p.recompute = spec::Recompute::selective; });
  check_survives("modules", [](Plan& p, Model&) {
    p.recompute = spec::Recompute::selective;
    p.recompute_modules = {spec::RecomputeModule::moe_act, spec::RecomputeModule::layernorm};
  });
  check_survives("attention in 8 bits", [](Plan& p, Model&) {
    p.precision = spec::Precision::fp8;
    p.fp8_attention = true;
  });
  check_survives("all layers", [](Plan& p, Model&) { p.recompute = spec::Recompute::full; });
  check_survives("rank order", [](Plan& p, Model&) { p.rank_order = spec::RankOrder::tp_pp_dp; });
  check_survives("context", [](Plan& p, Model&) {
    p.context_parallel_size = 2;
    p.context_exchange = spec::ContextExchange::all_gather;
  });
  check_survives("uneven", [](Plan& p, Model&) { p.layers_per_stage = {15, 17}; });
  check_survives("expert tensor", [](Plan& p, Model&) { p.expert_tensor_parallel_size = 1; });
  check_survives("bucket", [](Plan& p, Model&) { p.gradient_bucket = 40 * unit::MiB; });
  check_survives("overlap", [](Plan& p, Model&) {
    p.overlap_tensor = p.overlap_gradient = p.overlap_parameter = true;
  });
  check_survives("fp8", [](Plan& p, Model&) { p.precision = spec::Precision::fp8; });
  check_survives("fp32 residual", [](Plan& p, Model&) { p.fp32_residual = true; });
  check_survives("dense first", [](Plan&, Model& m) { m.moe->num_dense_layers = 3; });
  check_survives("shared", [](Plan&, Model& m) { m.moe->shared_expert_ffn_hidden_size = 2048; });
  check_survives("dropless", [](Plan&, Model& m) {
    m.moe->capacity_factor.reset();
    m.moe->pad_to_capacity = false;
  });
}

TEST_CASE(
    "an overlapped exchange between experts reaches Megatron, and NeMo's file says it has none") {
  spec::Job job = job_of("experts-h100.yaml");
  job.plan.overlap_expert = true;
  job.plan.virtual_pipeline_size = 4;
  job.plan.schedule = spec::Schedule::interleaved;
  job.plan.overlap_pipeline = true;
  REQUIRE(job.plan.expert_parallel_size > 1);
  CHECK(export_megatron_args(job).unsupported_settings.empty());
  CHECK(through_megatron(job) == job);
  CHECK(export_nemo_yaml(job).unsupported_settings ==
        std::vector<std::string>{"the overlapped exchange between experts (NeMo 1.x has none)"});
  job.plan.recompute = spec::Recompute::full;
  CHECK(export_megatron_args(job).unsupported_settings ==
        std::vector<std::string>{"the overlapped exchange between experts (Megatron-Core has it "
                                 "only without full recompute)"});
  CHECK_FALSE(through_megatron(job).plan.overlap_expert);
}

TEST_CASE("what no launch file can say stands on top of it") {
  spec::Job job = job_of("pretrain-h200.yaml");
  job.environment.power_limit = 500 * unit::W;
  job.plan.device_order = {1, 2, 5, 7, 0, 3, 4, 6};
  const std::string limit = "power limit 500 W (set it on each node: nvidia-smi -pl 500)";
  const std::string order =
      "the order of devices in a node (set CUDA_VISIBLE_DEVICES=1,2,5,7,0,3,4,6)";
  for (const Exported& exported : {export_nemo_yaml(job), export_megatron_args(job)}) {
    CHECK(exported.unsupported_settings == std::vector<std::string>{limit, order});
    CHECK(exported.text.find("# not in this file: " + limit + "\n") != std::string::npos);
  }
  job.cluster.gpu.vendor = "amd";
  CHECK(export_megatron_args(job).unsupported_settings[0] ==
        "power limit 500 W (set it on each node: amd-smi set --power-cap 500)");
}

TEST_CASE("an optimizer that the launcher would give other bytes is named") {
  const spec::Library library = spec::default_library();
  const auto says = [](const Exported& exported, const std::string& words) {
    return std::ranges::any_of(exported.unsupported_settings, [&](const std::string& setting) {
      return setting.find(words) != std::string::npos;
    });
  };
  spec::Job job = job_of("pretrain-h200.yaml");
  job.plan.optimizer = spec::load_optimizer(library, "nanotron_adam").value();
  CHECK(says(export_megatron_args(job), "the bytes of optimizer nanotron_adam"));
  // 4 bytes of master weights with the distributed optimizer, 2 under FSDP.
  job.plan.optimizer = spec::load_optimizer(library, "fsdp_adamw").value();
  CHECK(says(export_nemo_yaml(job), "optimizer fsdp_adamw"));
  job = job_of("fsdp-h200.yaml");
  CHECK(export_nemo_yaml(job).unsupported_settings.empty());
  job.plan.optimizer = spec::load_optimizer(library, "fused_adam").value();
  CHECK(says(export_nemo_yaml(job), "optimizer fused_adam"));
}

TEST_CASE("Megatron's distributed optimizer shards over the context group") {
  spec::Job job = job_of("experts-h100.yaml");
  job.plan.expert_parallel_size = 1;
  job.plan.context_parallel_size *= job.data_parallel_size();
  job.plan.sharding = spec::Sharding::optimizer;
  REQUIRE(job.data_parallel_size() == 1);
  REQUIRE(job.plan.context_parallel_size > 1);
  CHECK(through_megatron(job).plan.sharding == spec::Sharding::optimizer);
  job.plan.sharding = spec::Sharding::none;
  CHECK(through_megatron(job).plan.sharding == spec::Sharding::none);
}

TEST_CASE("NeMo's distributed optimizer shards over the context group") {
  spec::Job job = job_of("pretrain-h200.yaml");
  REQUIRE(job.plan.sharding == spec::Sharding::optimizer);
  job.plan.context_parallel_size *= job.data_parallel_size();
  REQUIRE(job.data_parallel_size() == 1);
  REQUIRE(job.plan.context_parallel_size > 1);
  CHECK(through_nemo(job).plan.sharding == spec::Sharding::optimizer);
}

TEST_CASE("uneven chunks, which NeMo cannot start, are refused and not only remarked on") {
  spec::Job job = job_of("experts-h100.yaml");
  job.model.num_layers = 30;
  job.plan.virtual_pipeline_size = 2;
  job.plan.schedule = spec::Schedule::interleaved;
  job.plan.pipeline_parallel_size = 4;
  job.plan.layers_per_stage = {3, 4, 4, 4, 4, 4, 4, 3};
  CHECK(export_nemo_yaml(job).refused_by_launcher ==
        "NeMo 1.x deals layers evenly over stages x chunks, and 30 layers on 8 are not even");
  CHECK(export_megatron_args(job).refused_by_launcher.empty());
  job.plan.virtual_pipeline_size = 1;
  job.plan.layers_per_stage = {7, 8, 8, 7};
  CHECK(export_nemo_yaml(job).refused_by_launcher.empty());
}

TEST_CASE("orders that differ from node to node, and of nodes, are not in a launch file either") {
  spec::Job job = job_of("pretrain-h200.yaml");
  const auto devices = as_size(job.cluster.num_gpus());
  for (size_t d = 0; d < devices; ++d)
    job.plan.device_order.push_back(static_cast<int64_t>(d < 8 ? 7 - d : d % 8));
  job.plan.node_order = {3, 2, 1, 0};
  const std::vector<std::string> unsupported = export_megatron_args(job).unsupported_settings;
  REQUIRE(unsupported.size() == 2);
  CHECK(unsupported[0].find("node by node") != std::string::npos);
  CHECK(unsupported[1].find("3,2,1,0") != std::string::npos);
}

TEST_CASE(
    "Megatron-LM has no LoRA and no inference in its training program, and the export says so") {
  CHECK(export_megatron_args(job_of("lora.yaml")).unsupported_settings ==
        std::vector<std::string>{"LoRA (Megatron-LM has none: the command trains every weight)"});
  CHECK(export_megatron_args(job_of("generate.yaml")).unsupported_settings ==
        std::vector<std::string>{"that the job is inference (the command trains)"});
}

TEST_CASE("NeMo is told how records become rows, and that their lengths are not in its file") {
  spec::Job job = job_of("lora.yaml");
  CHECK(job.plan.record_layout == spec::RecordLayout::longest);
  for (const auto layout :
       {spec::RecordLayout::padded, spec::RecordLayout::longest, spec::RecordLayout::packed}) {
    job.plan.record_layout = layout;
    CHECK(through_nemo(job).plan.record_layout == layout);
  }
  job.records = spec::Records{"mine", {100, 300}, {1, 1}};
  const std::vector<std::string> nemo = export_nemo_yaml(job).unsupported_settings;
  REQUIRE(nemo.size() == 2);
  CHECK(nemo[0].find("200 tokens on average") != std::string::npos);
  CHECK(nemo[1].find("micro_batch_size 1") != std::string::npos);
  CHECK(export_megatron_args(job).unsupported_settings.back().find("padded or packed") !=
        std::string::npos);
}

TEST_CASE("names that a shell or YAML would take apart survive") {
  spec::Job job = job_of("experts-h100.yaml");
  for (const char* name : {"it's \"quoted\" $HOME `x` \\ #1", "yes", "12", "a: b", "null", "- x"}) {
    CAPTURE(name);
    job.name = name;
    CHECK(through_nemo(job).name == name);
    CHECK(through_megatron(job).name == name);
  }
}

}  // namespace
}  // namespace triplepoint::formats
