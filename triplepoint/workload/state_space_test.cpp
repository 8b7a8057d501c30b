// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/state_space.h"

#include <doctest/doctest.h>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/jobs_testing.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;

/// Every letter of a hybrid: state space, attention, MLP, experts.
spec::Job hybrid() {
  spec::Job job = test::on_nodes(test::llama3_70b(), 8);
  job.model.num_layers = 8;
  job.model.hidden_size = 4096;
  job.model.layer_pattern = "M-ME*EME";
  job.model.state_space = spec::StateSpace{.num_heads = 128};
  job.model.moe = spec::MixtureOfExperts{.num_experts = 16, .ffn_hidden_size = 1024};
  return job;
}

std::vector<test::Counted> ops_of_kind(const spec::Job& job, LayerKind kind) {
  std::vector<test::Counted> found;
  const WorkGraph graph = build_work_graph(job);
  for (const auto* pass :
       {&graph.works[0].forward, &graph.works[0].backward_input, &graph.works[0].backward_weight})
    for (const OpGroup& group : *pass)
      if (group.name == name_of_layer(kind))
        for (const spec::Op& op : group.ops)
          found.push_back({op, 1});
  return found;
}

bool is_scan(const spec::Op& op) {
  return op.name.starts_with("scan_");
}

TEST_CASE("products in and out have the flops of their matrices, three times over") {
  const spec::Job job = hybrid();
  const double inner = 128 * 64, tokens = real(job.model.sequence_length);
  const double matrices = 4096 * (3 * inner + 2 * 8 * 128 + 128);
  const auto linear = [](const spec::Op& op) { return test::is_gemm(op) && !is_scan(op); };
  CHECK(test::flops(ops_of_kind(job, LayerKind::state_space), linear) ==
        Approx(3 * 2 * tokens * matrices));
}

TEST_CASE("the scan's flops grow with tokens and chunk, not with the square of the sequence") {
  spec::Job job = hybrid();
  const auto scan = [](const spec::Job& j) {
    return test::flops(ops_of_kind(j, LayerKind::state_space), is_scan);
  };
  const double once = scan(job);
  job.model.sequence_length *= 2;
  CHECK(scan(job) == Approx(2 * once));
  job.model.sequence_length /= 2;
  job.model.state_space->chunk_size = 256;
  CHECK(scan(job) > once);
  CHECK(scan(job) < 2 * once);
}

TEST_CASE("the scan's forward flops are those of the dual form") {
  spec::Job job = hybrid();
  job.task = spec::Task::prefill;
  const double q = 128, n = 128, p = 64, heads = 128, groups = 8;
  const double tokens = real(job.model.sequence_length);
  CHECK(test::flops(ops_of_kind(job, LayerKind::state_space), is_scan) ==
        Approx(tokens * (2 * q * n * groups + heads * (4 * n * p + 2 * q * p))));
}

TEST_CASE("tensor ranks share a state-space layer's work") {
  spec::Job job = hybrid();
  const auto work = [](const spec::Job& j) {
    return test::flops(ops_of_kind(j, LayerKind::state_space), test::is_gemm);
  };
  const double whole = work(job);
  job = test::with(job, {.tensor = 8});
  CHECK(8 * work(job) == Approx(whole));
}

TEST_CASE("context ranks exchange heads for tokens and back, and scan whole sequences") {
  spec::Job job = hybrid();
  const double whole = test::flops(ops_of_kind(job, LayerKind::state_space), is_scan);
  job.plan.context_parallel_size = 4;
  const auto ops = ops_of_kind(job, LayerKind::state_space);
  CHECK(4 * test::flops(ops, is_scan) == Approx(whole));
  const test::Traffic moved =
      test::traffic(ops, spec::Collective::all_to_all, spec::GroupKind::context);
  const double inner = 128 * 64, in = 2 * inner + 2 * 8 * 128 + 128;
  CHECK(moved.calls == 4);
  CHECK(moved.payload == Approx(2 * 2.0 * 8192 / 4 * (in + inner)));
}

TEST_CASE("every kind of layer of a pattern runs as often as its letter stands there") {
  const spec::Job job = hybrid();
  LayerCounts found;
  const WorkGraph graph = build_work_graph(job);
  for (const OpGroup& group : graph.works.front().forward)
    for (const LayerKind kind : all_layer_kinds)
      if (group.name == name_of_layer(kind)) found[kind] += group.repeat;
  CHECK(found[LayerKind::state_space] == 3);
  CHECK(found[LayerKind::mlp] == 1);
  CHECK(found[LayerKind::attention] == 1);
  CHECK(found[LayerKind::experts] == 3);
  CHECK(found.total() == job.model.num_layers);
}

TEST_CASE("a transformer layer written as two layers is the same work and memory") {
  spec::Job whole = test::with(test::on_nodes(test::llama3_70b(), 8), {.tensor = 8}), split = whole;
  split.model.num_layers *= 2;
  split.model.layer_pattern.emplace();
  for (int64_t i = 0; i < whole.model.num_layers; ++i)
    *split.model.layer_pattern += "*-";
  const auto all = [](const spec::Op&) { return true; };
  const auto bytes = [](const std::vector<test::Counted>& ops) {
    double sum = 0;
    for (const auto& [op, times] : ops)
      sum += times * ((op.hbm_bytes + op.payload) / unit::B);
    return sum;
  };
  const auto one = test::ops_of_layers(whole), two = test::ops_of_layers(split);
  CHECK(test::flops(two, all) == Approx(test::flops(one, all)));
  CHECK(bytes(two) == Approx(bytes(one)));
  CHECK(count_step_flops(split).model == count_step_flops(whole).model);
  CHECK(estimate_memory(split).stages[0].total() / unit::B ==
        Approx(estimate_memory(whole).stages[0].total() / unit::B));
}

TEST_CASE("stages hold the letters between their ends") {
  spec::Job job = hybrid();
  job.plan.pipeline_parallel_size = 2;
  const auto layout = lay_out_layers(job);
  CHECK(layout[0][0].count[LayerKind::state_space] == 2);
  CHECK(layout[0][0].count[LayerKind::mlp] == 1);
  CHECK(layout[1][0].count[LayerKind::attention] == 1);
  CHECK(layout[1][0].count[LayerKind::experts] == 2);
}

TEST_CASE("full recompute of some layers counts those that stand first") {
  spec::Job job = hybrid();
  job.plan.recompute = spec::Recompute::full;
  job.plan.recompute_layers = 3;
  const LayerCounts again = recomputed_layers(job, lay_out_layers(job)[0][0]);
  CHECK(again[LayerKind::state_space] == 2);
  CHECK(again[LayerKind::mlp] == 1);
  CHECK(again.total() == 3);
}

TEST_CASE("what decoding keeps of a state-space layer does not grow with the sequence") {
  spec::Job job = hybrid();
  job.task = spec::Task::decode;
  const auto cache = [](const spec::Job& j) {
    return layer_cache_bytes({j, share_of_rank(j)}, LayerKind::state_space, 1);
  };
  const double before = cache(job);
  CHECK(before == Approx(4.0 * 128 * 64 * 128 + 2.0 * 3 * (128 * 64 + 2 * 8 * 128)));
  job.model.sequence_length *= 4;
  CHECK(cache(job) == before);
  CHECK(layer_cache_bytes({job, share_of_rank(job)}, LayerKind::mlp, 1) == 0);
}

TEST_CASE("experts in a narrow width send narrow rows") {
  spec::Job job = test::with(hybrid(), {.expert = 8});
  const auto sent = [](const spec::Job& j) {
    return test::traffic(ops_of_kind(j, LayerKind::experts), spec::Collective::all_to_all,
                         spec::GroupKind::expert)
        .payload;
  };
  const double wide = sent(job);
  job.model.moe->latent_size = job.model.hidden_size / 4;
  CHECK(4 * sent(job) == Approx(wide));
}

TEST_CASE("a depth of prediction adds a layer and the head once more, on the last stage alone") {
  spec::Job job = test::on_nodes(test::llama3_70b(), 8);
  job.plan.pipeline_parallel_size = 4;
  job.model.multi_token_prediction = spec::MultiTokenPrediction{};
  const WorkGraph graph = build_work_graph(job);
  const auto heads = [&](int64_t stage) {
    double count = 0;
    for (const auto& [op, times] :
         test::ops_of(graph.works[as_size(graph.chunk_work[as_size(stage)][0])]))
      if (op.name == "lm_head") count += times;
    return count;
  };
  CHECK(heads(3) == 2);
  CHECK(heads(2) == 0);
  const double more = graph.model_flops / unit::FLOP;
  job.model.multi_token_prediction->depths = 0;
  const double less = build_work_graph(job).model_flops / unit::FLOP;
  const double hidden = 8192, tokens = real(graph.tokens_per_step);
  const double head = 2 * hidden * real(spec::padded_vocabulary(job.model, 1));
  job.model.num_layers = 160;
  const double twice = count_step_flops(job).model / unit::FLOP;
  const double layer = (twice - less) / 80;
  CHECK(more - less == Approx(layer + 3 * tokens * (head + 4 * hidden * hidden)));
}

TEST_CASE("serving predicts one token at a time") {
  spec::Job job = test::on_nodes(test::llama3_70b(), 8);
  job.task = spec::Task::prefill;
  const double without = estimate_memory(job).stages[0].total() / unit::B;
  job.model.multi_token_prediction = spec::MultiTokenPrediction{};
  CHECK(estimate_memory(job).stages[0].total() / unit::B == without);
}

}  // namespace
}  // namespace triplepoint::workload
