// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/jobs_testing.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;
using spec::Collective;
using spec::GroupKind;

spec::Job mixtral(test::Layout layout) {
  return test::with(test::on_nodes(test::mixtral_8x22b(), 4), layout);
}

ChunkWork middle_stage(const spec::Job& job) {
  const WorkGraph graph = build_work_graph(job);
  const size_t middle = graph.stages > 1 ? 1 : 0;
  return graph.works.at(as_size(graph.chunk_work.at(middle).at(0)));
}

bool is_expert(const spec::Op& op) {
  return op.name.substr(0, 6) == "expert" && test::is_gemm(op);
}

TEST_CASE("the loss moves what its implementation reads and writes of a logit") {
  struct Case {
    spec::LossKernels kernels;
    int64_t tensor;
    double forward, backward;
    int reductions;
    bool fused_activations = true;
  };
  using enum spec::LossKernels;
  for (const Case& c :
       {Case{fused, 1, 4, 4, 0, false}, Case{fused, 2, 4, 4, 2}, Case{megatron_fused, 2, 22, 14, 2},
        Case{megatron, 1, 38, 14, 0}, Case{megatron, 2, 38, 14, 3}, Case{floats, 1, 14, 14, 0},
        Case{op_by_op, 1, 22, 26, 0}, Case{op_by_op, 2, 38, 14, 3}, Case{none, 1, 4, 4, 0},
        Case{none, 1, 54, 58, 0, false}}) {
    spec::Job job = test::with(test::on_nodes(test::gpt(4, 2048, 16, 2048), 1), {c.tensor});
    job.stack.loss_kernels = c.kernels;
    job.stack.fused_activations = c.fused_activations;
    const RankShare share = share_of_rank(job);
    const double logits = real(share.tokens) * real(share.vocabulary);
    int64_t reductions = 0, products = 0;
    for (const auto& [op, times] : test::ops_of(build_work_graph(job).works.front())) {
      if (op.name == "lm_head") products += times;
      if (op.name == "loss") CHECK(op.hbm_bytes / unit::B == Approx(c.forward * logits));
      if (op.name == "loss_backward") CHECK(op.hbm_bytes / unit::B == Approx(c.backward * logits));
      reductions += op.is_communication() && op.name.substr(0, 5) == "loss_" ? 1 : 0;
    }
    CHECK(reductions == c.reductions);
    CHECK(products == (c.kernels == none ? 2 : 1));
  }
}

TEST_CASE(
    "dispatch and combine each carry tokens x top-k x hidden, twice forward and twice backward") {
  for (const test::Layout layout :
       {test::Layout{1, 4, 8}, test::Layout{2, 2, 8}, test::Layout{4, 1, 8}}) {
    const spec::Job job = mixtral(layout);
    const ChunkWork work = middle_stage(job);
    const auto all = test::traffic(test::ops_of(work), Collective::all_to_all, GroupKind::expert);
    const auto l = as_real(work.num_layers);
    const double tokens = 4096.0 / as_real(layout.tensor);
    CHECK(all.calls == 4 * l);
    CHECK(all.payload == Approx(4 * l * tokens * 2 * 6144 * 2));
  }
}

TEST_CASE("rows that travel once come in fewer bytes than a copy to every expert") {
  const auto payload = [](test::Layout layout, bool fused, bool copies) {
    spec::Job job = mixtral(layout);
    job.stack.fused_moe_dispatch = fused;
    job.stack.moe_sends_every_copy = copies;
    return test::traffic(test::ops_of(middle_stage(job)), Collective::all_to_all, GroupKind::expert)
        .payload;
  };
  // Both experts of a row lie on one of 8 ranks in one case of 8, on one of 2 nodes in one of 2.
  for (const auto& [layout, places] : {std::pair{test::Layout{1, 4, 8}, 8.0}, {{2, 2, 8}, 2.0}}) {
    const double every_copy = payload(layout, false, false);
    CHECK(payload(layout, true, false) == Approx(every_copy * (2 - 1 / places) / 2));
    CHECK(payload(layout, true, true) == every_copy);
  }
}

TEST_CASE(
    "ranks tell each other the rows of every expert, once a forward pass, unless all are alike") {
  spec::Job job = mixtral({2, 2, 8});
  job.plan.sequence_parallel = true;
  job.plan.expert_tensor_parallel_size = 2;
  job.model.moe->pad_to_capacity = false;
  const auto told = [&](GroupKind group) {
    return test::traffic(test::ops_of(middle_stage(job)), Collective::all_gather, group);
  };
  const auto layers = as_real(middle_stage(job).num_layers);
  const double experts = as_real(job.model.moe->num_experts);
  CHECK(told(GroupKind::expert).calls == layers);
  CHECK(told(GroupKind::expert).payload == layers * 4 * 8 * experts);
  job.model.moe->capacity_factor = 1.0;
  job.model.moe->pad_to_capacity = true;
  CHECK(told(GroupKind::expert).calls == 0);
}

TEST_CASE("experts do top-k times the flops of a dense MLP, however they are spread") {
  const double mlp = 3 * 6144.0 * 16384;
  for (const test::Layout layout :
       {test::Layout{1, 4, 8}, test::Layout{2, 2, 8}, test::Layout{4, 1, 8}, test::Layout{4, 2, 1},
        test::Layout{1, 4, 2}})
    for (const int64_t expert_tensor : {layout.tensor, int64_t{1}}) {
      spec::Job job = mixtral(layout);
      job.plan.expert_tensor_parallel_size = expert_tensor;
      const ChunkWork work = middle_stage(job);
      const double each_rank =
          6 * 4096 * 2 * mlp * as_real(work.num_layers) / as_real(layout.tensor);
      CHECK(test::flops(test::ops_of(work), is_expert) == Approx(each_rank));
    }
}

TEST_CASE("capacity, padding and imbalance decide how many rows an expert rank computes") {
  const auto rows = [](std::optional<double> capacity, bool pad, double imbalance) {
    spec::Job job = mixtral({1, 4, 8});
    job.model.moe->capacity_factor = capacity;
    job.model.moe->pad_to_capacity = pad;
    job.model.moe->load_imbalance = imbalance;
    return test::flops(test::ops_of(middle_stage(job)), is_expert);
  };
  const double balanced = rows(std::nullopt, false, 1);
  CHECK(rows(std::nullopt, false, 1.5) == Approx(1.5 * balanced));
  CHECK(rows(1.25, true, 1) == Approx(1.25 * balanced));
  CHECK(rows(1.25, false, 1.5) == Approx(1.25 * balanced));
  CHECK(rows(2.0, false, 1.5) == Approx(1.5 * balanced));
}

TEST_CASE("without grouped GEMM every local expert is its own launch") {
  spec::Job job = mixtral({1, 4, 2});
  const auto launches = [&] {
    std::pair<int, int64_t> kernels_and_products{0, 0};
    for (const auto& [op, times] : test::ops_of(middle_stage(job)))
      if (op.name == "expert_up") {
        kernels_and_products = {op.kernels, op.gemm.count};
        CHECK(op.op_class ==
              (job.model.moe->grouped_gemm ? spec::OpClass::grouped_gemm : spec::OpClass::gemm));
      }
    return kernels_and_products;
  };
  CHECK(launches() == std::pair<int, int64_t>{4, 4});
  job.model.moe->grouped_gemm = true;
  CHECK(launches() == std::pair<int, int64_t>{1, 4});
}

TEST_CASE("biases of experts are added expert by expert, in fp32") {
  spec::Job job = mixtral({1, 4, 2});
  const auto bytes_and_kernels = [&] {
    double elements = 0, bytes[2] = {}, kernels[2] = {};
    for (const auto& [op, times] : test::ops_of(middle_stage(job))) {
      if (op.name == "expert_down" && !op.backward)
        elements = as_real(op.gemm.m * op.gemm.n * op.gemm.count);
      if (op.name != "expert_bias") continue;
      bytes[op.backward ? 1 : 0] = op.hbm_bytes / unit::B;
      kernels[op.backward ? 1 : 0] = op.kernels;
    }
    return std::array{bytes[0] / elements, bytes[1] / elements, kernels[0], kernels[1]};
  };
  CHECK(bytes_and_kernels() == std::array<double, 4>{});
  job.model.biases = true;
  CHECK(bytes_and_kernels() == std::array{28., 40., 10., 26.});  // four experts on a rank
}

TEST_CASE("expert TP gathers rows forward and scatters them back, mirrored backward") {
  const spec::Job job = mixtral({4, 1, 8});
  const ChunkWork work = middle_stage(job);
  const auto ops = test::ops_of(work);
  const auto l = as_real(work.num_layers);
  const double rows = 4096.0 * 2 * 6144 * 2;  // of all four TP ranks together
  CHECK(test::traffic(ops, Collective::all_gather, GroupKind::expert_tensor).payload ==
        Approx(2 * l * rows));
  CHECK(test::traffic(ops, Collective::reduce_scatter, GroupKind::expert_tensor).payload ==
        Approx(2 * l * rows));
}

TEST_CASE("a shared expert adds the flops of a dense MLP of its size") {
  spec::Job job = mixtral({1, 4, 8});
  const double without = test::flops(test::ops_of(middle_stage(job)), test::is_gemm);
  job.model.moe->shared_expert_ffn_hidden_size = 2048;
  const ChunkWork work = middle_stage(job);
  CHECK(test::flops(test::ops_of(work), test::is_gemm) - without ==
        Approx(6 * 4096 * 3 * 6144.0 * 2048 * as_real(work.num_layers)));
}

TEST_CASE("leading dense layers are layers like those of a dense model") {
  spec::Job job = mixtral({1, 4, 8});
  job.model.moe->num_dense_layers = 3;
  const WorkGraph graph = build_work_graph(job);
  const ChunkWork& first = graph.works.at(as_size(graph.chunk_work[0][0]));
  int64_t dense = 0, moe = 0;
  for (const OpGroup& group : first.forward) {
    if (group.name == "layer") dense += group.repeat;
    if (group.name == "moe_layer") moe += group.repeat;
  }
  CHECK(dense == 3);
  CHECK(moe == 56 / 4 - 3);
}

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

/// Flops of a layer's forward op of that name on one rank.
double forward_flops(const spec::Job& job, std::string_view name) {
  const ChunkWork work = work_of(job);
  for (const OpGroup& group : work.forward)
    for (const spec::Op& op : group.ops)
      if (op.name == name) return op.flops / unit::FLOP;
  return 0;
}

spec::Job sparse_deepseek(int64_t length, int64_t topk) {
  spec::Job job = small_deepseek();
  job.model.sequence_length = length;
  job.model.latent_attention->indexer_heads = 16;
  job.model.latent_attention->indexer_head_dim = 128;
  job.model.latent_attention->indexer_topk = topk;
  return job;
}

TEST_CASE("sparse attention grows with its keys, its indexer with the square of the length") {
  const double shorter = forward_flops(sparse_deepseek(8192, 512), "attention");
  const double longer = forward_flops(sparse_deepseek(65536, 512), "attention");
  CHECK(longer / shorter == Approx(8).epsilon(0.04));
  const double tokens = 65536;
  CHECK(forward_flops(sparse_deepseek(65536, 512), "indexer") ==
        Approx(2 * 16 * 128 * tokens * tokens / 2));
  CHECK(kept(sparse_deepseek(8192, 512)) > kept(sparse_deepseek(8192, 0)));
}

TEST_CASE("an indexer that chooses all keys leaves attention as it is") {
  const spec::Job all = sparse_deepseek(4096, 4096);
  CHECK(forward_flops(all, "attention") == forward_flops(small_deepseek(), "attention"));
  const StepFlops sparse = count_step_flops(sparse_deepseek(65536, 512));
  CHECK(sparse.core < count_step_flops(sparse_deepseek(65536, 65536)).core);
  CHECK(sparse.core * 65 > count_step_flops(sparse_deepseek(65536, 65536)).core);
}

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
      ops += group.ops.size() * as_size(group.repeat);
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
        if (test::is_gemm(op)) products += as_real(group.repeat) * (op.flops / unit::FLOP);
    const StepFlops flops = count_step_flops(job);
    const auto microbatches = as_real(job.plan.global_batch_size);
    CHECK((flops.hardware - flops.model) / unit::FLOP == Approx(microbatches * products));
  }
}

TEST_CASE("attention's core grows with the square of the sequence, the rest with the sequence") {
  spec::Job job = small_deepseek();
  const StepFlops flops = count_step_flops(job);
  CHECK(flops.core > Flops());
  CHECK(flops.core < flops.model);
  // The core alone grows with the square of the sequence.
  job.model.sequence_length *= 2;
  const StepFlops longer = count_step_flops(job);
  CHECK(longer.core / flops.core == Approx(4));
  CHECK((longer.model - longer.core) / (flops.model - flops.core) == Approx(2));
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
