// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/jobs_testing.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;
using spec::Recompute;
using spec::RecomputeModule;

/// Latent attention, two dense layers and two of experts, one of them shared.
spec::Job small_deepseek() {
  spec::Model model = test::llama3_70b();
  model.num_layers = 4;
  model.hidden_size = 2048;
  model.ffn_hidden_size = 8192;
  model.num_attention_heads = model.num_query_groups = 16;
  model.kv_channels = 128;
  model.sequence_length = 4096;
  model.latent_attention = spec::LatentAttention{
      .query_rank = 768, .key_value_rank = 512, .rope_head_dim = 64, .value_head_dim = 128};
  model.moe = spec::MixtureOfExperts{.num_experts = 64,
                                     .router_topk = 6,
                                     .ffn_hidden_size = 1024,
                                     .shared_expert_ffn_hidden_size = 1024,
                                     .num_dense_layers = 2};
  return test::with(test::on_nodes(model, 1), {.expert = 8});
}

spec::Job again(std::vector<RecomputeModule> modules) {
  spec::Job job = small_deepseek();
  job.plan.recompute = Recompute::selective;
  job.plan.recompute_modules = std::move(modules);
  return job;
}

ChunkWork work_of(const spec::Job& job) {
  const WorkGraph graph = build_work_graph(job);
  return graph.works.at(0);
}

std::set<std::string_view> recomputed(const spec::Job& job) {
  const ChunkWork work = work_of(job);
  std::set<std::string_view> names;
  for (const OpGroup& group : work.recompute)
    for (const spec::Op& op : group.ops)
      names.insert(op.name);
  return names;
}

double kept(const spec::Job& job) {
  const LayerContext context{job, share_of_rank(job)};
  return chunk_activation_bytes(context, whole_model(job));
}

using Names = std::set<std::string_view>;

TEST_CASE("a module of selective recompute repeats its own ops and no others") {
  CHECK(recomputed(again({})) == Names{"attention"});
  CHECK(recomputed(again({RecomputeModule::core_attn})) == Names{"attention"});
  CHECK(recomputed(again({RecomputeModule::mla_up_proj})) ==
        Names{"latent_norm", "q_up", "kv_up", "rotary"});
  CHECK(recomputed(again({RecomputeModule::layernorm})) == Names{"input_norm", "mlp_norm"});
  CHECK(recomputed(again({RecomputeModule::moe_act})) == Names{"activation"});
  CHECK(recomputed(again({RecomputeModule::mlp})) == Names{"mlp_up", "activation", "mlp_down"});
  CHECK(recomputed(again({RecomputeModule::shared_experts})) ==
        Names{"mlp_up", "activation", "mlp_down"});
  const Names experts = recomputed(again({RecomputeModule::moe}));
  for (const std::string_view name : {"router", "ep_dispatch", "expert_up", "ep_combine", "mlp_up"})
    CHECK(experts.count(name) == 1);
  CHECK(experts.count("attention") == 0);
}

TEST_CASE("a module inside of another is recomputed once") {
  const auto count = [](const spec::Job& job) {
    size_t ops = 0;
    const ChunkWork work = work_of(job);
    for (const OpGroup& group : work.recompute)
      ops += group.ops.size() * static_cast<size_t>(group.repeat);
    return ops;
  };
  const size_t whole = count(again({RecomputeModule::moe}));
  CHECK(count(again({RecomputeModule::moe, RecomputeModule::moe_act,
                     RecomputeModule::shared_experts})) == whole);
  CHECK(count(again({RecomputeModule::moe, RecomputeModule::layernorm})) == whole + 2 * 4);
}

TEST_CASE("the more modules are recomputed, the less is kept of a microbatch") {
  spec::Job none = small_deepseek();
  const double tokens = 4096, e = 2, before = kept(none);
  const auto spared = [&](std::vector<RecomputeModule> modules) {
    return before - kept(again(std::move(modules)));
  };
  const double core = 16 * (128 + 64 + 128) / 2;  // heads of one head size for the core
  CHECK(spared({RecomputeModule::mla_up_proj}) == Approx(4 * e * tokens * 3 * core));
  CHECK(spared({RecomputeModule::layernorm}) == Approx(4 * 2 * e * tokens * 2048));
  CHECK(spared({RecomputeModule::mlp}) == Approx(2 * e * tokens * 3 * 8192));
  CHECK(spared({RecomputeModule::shared_experts}) == Approx(2 * e * tokens * 3 * 1024));
  CHECK(spared({RecomputeModule::moe_act}) == Approx(2 * e * tokens * 6 * 1024));
  CHECK(spared({RecomputeModule::moe}) >
        spared({RecomputeModule::moe_act, RecomputeModule::shared_experts}));
  CHECK(spared({RecomputeModule::moe, RecomputeModule::moe_act}) ==
        Approx(spared({RecomputeModule::moe})));
}

TEST_CASE("hardware flops count what modules multiply again") {
  for (const RecomputeModule module : {RecomputeModule::mla_up_proj, RecomputeModule::mlp,
                                       RecomputeModule::shared_experts, RecomputeModule::moe}) {
    const spec::Job job = again({module});
    const ChunkWork work = work_of(job);
    double products = 0;
    for (const OpGroup& group : work.recompute)
      for (const spec::Op& op : group.ops)
        if (test::is_gemm(op))
          products += static_cast<double>(group.repeat) * (op.flops / unit::FLOP);
    const StepFlops flops = count_step_flops(job);
    const auto microbatches = static_cast<double>(job.plan.global_batch_size);
    CHECK((flops.hardware - flops.model) / unit::FLOP == Approx(microbatches * products));
  }
}

TEST_CASE("attention in 8 bits keeps half as much and needs linear layers in 8 bits") {
  spec::Job job = small_deepseek();
  job.plan.fp8_attention = true;
  CHECK(kept(job) == kept(small_deepseek()));
  job.plan.precision = spec::Precision::fp8;
  spec::Job wide = job;
  wide.plan.fp8_attention = false;
  const double core = 16 * (128 + 64 + 128) / 2;
  CHECK(kept(wide) - kept(job) == Approx(4 * 4096 * (3 + 1) * core));
  for (const auto& [op, times] : test::ops_of(work_of(job)))
    if (op.op_class == spec::OpClass::attention) CHECK(op.precision == spec::Precision::fp8);
}

}  // namespace
}  // namespace triplepoint::workload
