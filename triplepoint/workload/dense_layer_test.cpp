// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <map>

#include <doctest/doctest.h>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/attention.h"
#include "triplepoint/workload/jobs_testing.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;

/// Llama-like layers that look back `window` tokens, every `full_every`-th at all.
spec::Job windowed(int64_t window, int64_t full_every) {
  spec::Job job = test::on_nodes(test::llama3_70b(), 8);
  job.plan.tensor_parallel_size = 8;
  job.model.sliding_window = spec::SlidingWindow{.size = window, .full_every = full_every};
  return job;
}

double core_flops(const spec::Job& job) {
  return test::flops(test::ops_of_layers(job), test::is_attention);
}

/// Keys of all queries of one sequence, counted one by one.
double counted_keys(int64_t length, int64_t window) {
  double sum = 0;
  for (int64_t position = 1; position <= length; ++position)
    sum += real(std::min(position, window));
  return sum;
}

TEST_CASE("the mean window is what counting every query gives") {
  for (const int64_t window : {1, 7, 128, 511})
    CHECK(512 * mean_keys(512, window) == Approx(counted_keys(512, window)).epsilon(1e-12));
}

TEST_CASE("a window as long as the sequence changes no op") {
  spec::Job plain = windowed(8192, 0);
  plain.model.sliding_window.reset();
  const auto before = test::ops_of_layers(plain), after = test::ops_of_layers(windowed(8192, 0));
  REQUIRE(before.size() == after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    CHECK(before[i].op.flops == after[i].op.flops);
    CHECK(before[i].op.hbm_bytes == after[i].op.hbm_bytes);
    CHECK(before[i].op.attention == after[i].op.attention);
  }
  CHECK(count_step_flops(plain).model == count_step_flops(windowed(8192, 0)).model);
}

TEST_CASE("attention in a window does the share of work that its keys are of half the square") {
  const double whole = core_flops(windowed(8192, 0));
  const double share = mean_keys(8192, 1024) / 4096;
  CHECK(core_flops(windowed(1024, 0)) == Approx(share * whole));
  CHECK(core_flops(windowed(1024, 2)) == Approx((0.5 + 0.5 * share) * whole));
}

TEST_CASE("model flops count a window by its keys, all else as without") {
  const auto model_flops = [](const spec::Job& job) {
    return count_step_flops(job).model / unit::FLOP;
  };
  spec::Job plain = windowed(1024, 0);
  plain.model.sliding_window.reset();
  const double tokens = real(tokens_per_step(plain)), width = 64 * 128, layers = 80;
  const double core = 3 * layers * tokens * 4 * width;
  const double saved = model_flops(plain) - model_flops(windowed(1024, 0));
  CHECK(saved == Approx(core * (8192 - 2 * mean_keys(8192, 1024))));
}

TEST_CASE("serving keeps and reads only the window of layers that look back one") {
  spec::Job job = windowed(1024, 2);
  job.task = spec::Task::decode;
  const LayerContext context{job, share_of_rank(job)};
  const double all = layer_cache_bytes(context, LayerKind::dense, 4);
  CHECK(layer_cache_bytes(context, LayerKind::window_dense, 4) * 8 == Approx(all));
  Passes passes;
  add_attention_core(context.of_kind(LayerKind::window_dense), passes);
  Passes whole;
  add_attention_core(context, whole);
  CHECK(passes.forward.back().flops * 8 == whole.forward.back().flops);
  CHECK(passes.forward.back().hbm_bytes < whole.forward.back().hbm_bytes);
}

TEST_CASE("a chunk runs as many windowed layers as it holds") {
  const spec::Job job = windowed(1024, 4);
  int64_t full = 0, seen = 0;
  const WorkGraph graph = build_work_graph(job);
  for (const OpGroup& group : graph.works.front().forward) {
    if (group.name == name_of_layer(LayerKind::dense)) full = group.repeat;
    if (group.name == name_of_layer(LayerKind::window_dense)) seen = group.repeat;
  }
  CHECK(full == 20);
  CHECK(seen == 60);
}

using doctest::Approx;
using spec::Collective;
using spec::GroupKind;

/// Layers alone: a middle stage, which has neither embedding nor head.
ChunkWork middle_stage(const spec::Job& job) {
  const WorkGraph graph = build_work_graph(job);
  return graph.works.at(as_size(graph.chunk_work.at(1).at(0)));
}

struct Size {
  double batch, sequence, hidden, layers;
};

Size size_of(const spec::Job& job, const ChunkWork& work) {
  return {as_real(job.plan.micro_batch_size), as_real(job.model.sequence_length),
          as_real(job.model.hidden_size), as_real(work.num_layers)};
}

TEST_CASE(
    "GEMMs of a GPT layer do 24 b s h^2 flops forward and twice that backward, shared by TP") {
  for (const int64_t tensor : {1, 2, 4, 8}) {
    const spec::Job job = test::gpt3_on_32({.tensor = tensor, .pipeline = 4});
    const ChunkWork work = middle_stage(job);
    const auto [b, s, h, l] = size_of(job, work);
    const double whole = 3 * 24 * b * s * h * h * l;
    CHECK(test::flops(test::ops_of(work), test::is_gemm) == Approx(whole / as_real(tensor)));
  }
}

TEST_CASE("the causal core does 2 b s^2 h flops forward, and 5/2 of that backward") {
  const spec::Job job = test::gpt3_on_32({.tensor = 4, .pipeline = 8});
  const ChunkWork work = middle_stage(job);
  const auto [b, s, h, l] = size_of(job, work);
  CHECK(test::flops(test::ops_of(work), test::is_attention) ==
        Approx(3.5 * 2 * b * s * s * h * l / 4));
}

TEST_CASE("attention that writes its scores out computes the masked half as well") {
  spec::Job job = test::gpt3_on_32({.tensor = 4, .pipeline = 8});
  const double fused = test::flops(test::ops_of(middle_stage(job)), test::is_gemm);
  job.stack.attention_kernels = spec::AttentionKernels::unfused;
  const ChunkWork work = middle_stage(job);
  const auto [b, s, h, l] = size_of(job, work);
  CHECK(test::flops(test::ops_of(work), test::is_attention) == 0);
  CHECK(test::flops(test::ops_of(work), test::is_gemm) - fused ==
        Approx(3 * 4 * b * s * s * h * l / 4));
}

TEST_CASE("without sequence parallelism a layer has four all-reduces of b s h elements") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  job.plan.sequence_parallel = false;
  const ChunkWork work = middle_stage(job);
  const auto [b, s, h, l] = size_of(job, work);
  const auto all = test::traffic(test::ops_of(work), Collective::all_reduce, GroupKind::tensor);
  CHECK(all.calls == 4 * l);
  CHECK(all.payload == Approx(4 * l * 2 * b * s * h));
}

TEST_CASE(
    "sequence parallelism turns each all-reduce into a gather and a scatter, plus two gathers for "
    "weight gradients") {
  const spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const ChunkWork work = middle_stage(job);
  const auto [b, s, h, l] = size_of(job, work);
  const auto ops = test::ops_of(work);
  CHECK(test::traffic(ops, Collective::all_reduce, GroupKind::tensor).calls == 0);
  CHECK(test::traffic(ops, Collective::all_gather, GroupKind::tensor).calls == (4 + 2) * l);
  CHECK(test::traffic(ops, Collective::reduce_scatter, GroupKind::tensor).calls == 4 * l);
  CHECK(test::traffic(ops, Collective::reduce_scatter, GroupKind::tensor).payload ==
        Approx(4 * l * 2 * b * s * h));
}

TEST_CASE(
    "without userbuffers only what runs beside a gradient GEMM hides, with them everything does") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const auto exposed = [&] {
    double calls = 0;
    for (const auto& [op, times] : test::ops_of(middle_stage(job)))
      if (op.is_communication() && op.overlap == spec::Overlap::none) calls += times;
    return calls / as_real(middle_stage(job).num_layers);
  };
  CHECK(exposed() == 2 + 2 + 2);  // two gathers and two scatters forward, two gathers backward
  job.plan.overlap_tensor = true;
  CHECK(exposed() == 0);
  job.plan.overlap_tensor = false;
  job.plan.sequence_parallel = false;
  CHECK(exposed() == 2);  // the forward all-reduces
}

TEST_CASE("LoRA has no weight gradient for the input gradient's reduction to hide behind") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  job.task = spec::Task::lora;
  job.plan.lora = spec::Lora{};
  for (const auto& [op, times] : test::ops_of(middle_stage(job)))
    if (op.is_communication()) CHECK(op.overlap == spec::Overlap::none);
}

TEST_CASE("biases cost one sum over rows for each of a layer's four products") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const auto sums = [&] {
    double count = 0;
    for (const auto& [op, times] : test::ops_of(middle_stage(job)))
      if (op.name == "bias_gradient") count += times;
    return count / as_real(middle_stage(job).num_layers);
  };
  CHECK(sums() == 4);
  job.model.biases = false;
  CHECK(sums() == 0);
}

TEST_CASE("sequence parallelism divides the bytes of norms and residuals by TP") {
  const auto vector_bytes = [](bool sequence_parallel) {
    spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
    job.plan.sequence_parallel = sequence_parallel;
    double bytes = 0;
    for (const auto& [op, times] : test::ops_of(middle_stage(job)))
      if (op.op_class == spec::OpClass::norm || op.name == "attention_residual" ||
          op.name == "mlp_residual" || op.name == "residual_gradient")
        bytes += times * (op.hbm_bytes / unit::B);
    return bytes;
  };
  CHECK(vector_bytes(false) == Approx(8 * vector_bytes(true)));
}

TEST_CASE(
    "full recompute repeats the forward pass of the layers it is asked to, and nothing else") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const ChunkWork base = middle_stage(job);
  double forward = 0;
  for (const OpGroup& group : base.forward)
    for (const spec::Op& op : group.ops)
      forward += as_real(group.repeat) * (op.flops / unit::FLOP);
  const auto any = [](const spec::Op&) { return true; };
  job.plan.recompute = spec::Recompute::full;
  for (const int64_t layers : {0, 6, 24}) {
    job.plan.recompute_layers = layers;
    const double extra =
        test::flops(test::ops_of(middle_stage(job)), any) - test::flops(test::ops_of(base), any);
    CHECK(extra == Approx(forward * as_real(layers) / 24));
  }
}

TEST_CASE(
    "recompute that stops early leaves out a dense layer's last product, of experts nothing") {
  const auto recomputed = [](spec::Job job, bool early) {
    job.plan.recompute = spec::Recompute::full;
    job.stack.recompute_stops_early = early;
    const WorkGraph graph = build_work_graph(job);
    double flops = 0;
    for (const OpGroup& group : graph.works.front().recompute)
      for (const spec::Op& op : group.ops)
        flops += op.flops / unit::FLOP * as_real(group.repeat);
    return flops;
  };
  const spec::Job dense = test::on_nodes(test::gpt(24, 2048, 16, 2048), 4);
  const double tokens = as_real(dense.plan.micro_batch_size * 2048);
  const double last_products = 24 * 2 * tokens * 4 * 2048 * 2048;
  CHECK(recomputed(dense, false) - recomputed(dense, true) == Approx(last_products));
  spec::Job experts = dense;
  experts.model.moe = spec::MixtureOfExperts{.num_experts = 8, .ffn_hidden_size = 4096};
  CHECK(recomputed(experts, true) == recomputed(experts, false));
}

TEST_CASE("selective recompute repeats the attention core alone") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const auto base = test::ops_of(middle_stage(job));
  job.plan.recompute = spec::Recompute::selective;
  const auto again = test::ops_of(middle_stage(job));
  CHECK(test::flops(again, test::is_gemm) == Approx(test::flops(base, test::is_gemm)));
  CHECK(test::flops(again, test::is_attention) ==
        Approx(test::flops(base, test::is_attention) * 4.5 / 3.5));
}

TEST_CASE("grouped queries and SwiGLU: GEMM flops are six times the parameters and tokens") {
  const spec::Job job = test::with(test::on_nodes(test::llama3_70b(), 4), {4, 4});
  const ChunkWork work = middle_stage(job);
  const spec::LayerParameters layer = spec::count_layer_parameters(job.model, 0);
  const double tokens = as_real(job.model.sequence_length);
  CHECK(test::flops(test::ops_of(work), test::is_gemm) ==
        Approx(6 * tokens * (layer.attention + layer.mlp) * as_real(work.num_layers) / 4));
}

TEST_CASE("the weight gradient adds into the buffer of the optimizer's gradient type") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const auto weight_bytes = [&] {
    double bytes = 0;
    for (const OpGroup& group : middle_stage(job).backward_weight)
      for (const spec::Op& op : group.ops)
        bytes += as_real(group.repeat) * (op.hbm_bytes / unit::B);
    return bytes;
  };
  const double in_fp32 = weight_bytes();
  job.plan.optimizer.gradient_bytes = 2;
  const double h = 12288;
  // Four bytes fewer per weight, of which a rank has 24 layers x 12 h^2 / 8.
  CHECK(in_fp32 - weight_bytes() == Approx(4 * 24 * 12 * h * h / 8));
}

TEST_CASE("context parallelism divides all work and sends keys and values CP - 1 times") {
  spec::Job job = test::with(test::on_nodes(test::llama3_70b(), 4), {.tensor = 2, .pipeline = 4});
  const auto any = [](const spec::Op&) { return true; };
  const ChunkWork whole = middle_stage(job);
  job = test::with(job, {.tensor = 2, .pipeline = 4, .context = 4});
  const ChunkWork part = middle_stage(job);
  CHECK(test::flops(test::ops_of(part), any) == Approx(test::flops(test::ops_of(whole), any) / 4));
  const auto ring = test::traffic(test::ops_of(part), Collective::send_recv, GroupKind::context);
  const double block = 2.0 * 2 * 8 * 128 / 2 * 8192 / 4;  // k and v, 8 groups over TP 2, in bf16
  const auto l = as_real(part.num_layers);
  CHECK(ring.calls == 2 * 3 * l);
  CHECK(ring.payload == Approx((1 + 2) * 3 * block * l));
  job.plan.context_exchange = spec::ContextExchange::all_gather;
  const auto ops = test::ops_of(middle_stage(job));
  CHECK(test::traffic(ops, Collective::send_recv, GroupKind::context).calls == 0);
  CHECK(test::traffic(ops, Collective::all_gather, GroupKind::context).payload ==
        Approx(2 * 4 * block * l));  // backward again
  CHECK(test::traffic(ops, Collective::reduce_scatter, GroupKind::context).payload ==
        Approx(4 * block * l));
}

TEST_CASE("PyTorch's blocks carry every query head, and their gradients in floats, unhidden") {
  spec::Job job = test::on_nodes(test::llama3_70b(), 4);
  job = test::with(job, {.tensor = 2, .pipeline = 4, .context = 4});
  job.stack.context_attention = spec::ContextAttention::merged_blocks;
  const double queries = 64.0 / 2 * 128 * 8192 / 4;
  for (const auto exchange : {spec::ContextExchange::ring, spec::ContextExchange::all_gather}) {
    job.plan.context_exchange = exchange;
    const ChunkWork part = middle_stage(job);
    const auto ops = test::ops_of(part);
    const auto l = as_real(part.num_layers);
    const bool ring = exchange == spec::ContextExchange::ring;
    const auto sent = test::traffic(ops, Collective::send_recv, GroupKind::context);
    const auto gathered = test::traffic(ops, Collective::all_gather, GroupKind::context);
    CHECK(sent.payload == Approx(2 * queries * (4 * 4 + (ring ? 2 * 3 * 2 : 0)) * l));
    CHECK(gathered.payload == Approx(ring ? 0 : 2 * queries * 2 * 2 * 4 * l));
    double merged = 0;
    for (const auto& [op, times] : ops) {
      if (op.group == GroupKind::context && op.is_communication())
        CHECK(op.overlap == spec::Overlap::none);
      if (op.name.starts_with("attention_merge")) merged += times * (op.hbm_bytes / unit::B);
    }
    CHECK(merged == Approx((3 + 3 * 4) * 10 * queries * l));
  }
}

TEST_CASE("fp8 is for the layers' GEMMs, and attention, norms and the LM head stay in bf16") {
  spec::Job job = test::gpt3_on_32({.tensor = 8});
  job.plan.precision = spec::Precision::fp8;
  for (const auto& [op, times] : test::ops_of_layers(job)) {
    const bool in_layer = test::is_gemm(op) && op.name.substr(0, 7) != "lm_head";
    if (!op.is_communication())
      CHECK(op.precision == (in_layer ? spec::Precision::fp8 : spec::Precision::bf16));
  }
}

TEST_CASE("what is between an adapter's matrices is summed over tensor ranks, both ways") {
  for (const int64_t tensor : {1, 8}) {
    spec::Job job = test::gpt3_on_32({.tensor = tensor, .pipeline = 4});
    job.task = spec::Task::lora;
    job.plan.lora = spec::Lora{.rank = 32, .targets = {"attention_qkv", "attention_dense"}};
    double calls = 0, bytes = 0, layers = 0;
    const ChunkWork work = build_work_graph(job).works.front();
    layers = as_real(work.num_layers);
    for (const auto& [op, times] : test::ops_of(work)) {
      if (op.name != "lora_all_reduce") continue;
      calls += times;
      bytes += times * (op.payload / unit::B);
    }
    const double tokens = as_real(job.plan.micro_batch_size * job.model.sequence_length);
    CHECK(calls == (tensor > 1 ? 4 * layers : 0));
    CHECK(bytes == calls * tokens * 32 * 2);
  }
}

TEST_CASE("adapters exchange whole activations over tensor ranks as their framework does") {
  using spec::Collective;
  struct Case {
    bool sequence_parallel, overlap, all_to_all;
    std::map<Collective, double> payloads;  // of a layer, in whole activations
  };
  const double tensor = 4;
  const std::array cases{
      Case{false, false, true, {{Collective::all_reduce, 1}, {Collective::all_gather, 1}}},
      Case{true, false, false, {{Collective::all_gather, 2}}},
      Case{true, false, true, {{Collective::all_to_all, 2 / tensor}}},
      Case{true, true, false, {{Collective::all_gather, 3}, {Collective::reduce_scatter, 1}}},
  };
  for (const Case& expected : cases) {
    spec::Job job = test::gpt3_on_32({.tensor = 4, .pipeline = 8});
    job.task = spec::Task::lora;
    job.plan.sequence_parallel = expected.sequence_parallel;
    job.plan.overlap_tensor = expected.overlap;
    job.plan.lora = spec::Lora{.rank = 32, .targets = {"attention_qkv", "attention_dense"}};
    job.plan.lora->all_to_all = expected.all_to_all;
    const ChunkWork work = middle_stage(job);
    const auto [b, s, h, l] = size_of(job, work);
    std::map<Collective, double> payloads;
    for (const auto& [op, times] : test::ops_of(work))
      if (op.is_communication() && op.name.substr(0, 5) == "lora_" &&
          op.payload / unit::B > b * s * 64)
        payloads[op.collective] += times * (op.payload / unit::B) / (2 * b * s * h * l);
    CHECK(payloads == expected.payloads);
  }
}

TEST_CASE("dropout of adapters reads and writes their inputs, and costs the same at any rate") {
  const auto bytes = [](double dropout) {
    spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
    job.task = spec::Task::lora;
    job.plan.lora = spec::Lora{.rank = 32, .targets = {"attention_qkv"}, .dropout = dropout};
    const ChunkWork work = middle_stage(job);
    const auto [b, s, h, l] = size_of(job, work);
    double sum = 0;
    for (const auto& [op, times] : test::ops_of(work))
      if (op.name == "lora_dropout") sum += times * (op.hbm_bytes / unit::B);
    return sum / (b * s * h * l / 8);  // sequence parallel
  };
  CHECK(bytes(0) == 0);
  CHECK(bytes(0.1) == Approx(2 * 5));
  CHECK(bytes(0.5) == bytes(0.1));
}

TEST_CASE("LoRA computes input gradients everywhere and weight gradients of its adapters only") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const double pretrain = test::flops(test::ops_of(middle_stage(job)), test::is_gemm);
  job.task = spec::Task::lora;
  job.plan.lora = spec::Lora{.rank = 32, .targets = {"attention_qkv"}};
  const ChunkWork work = middle_stage(job);
  const auto [b, s, h, l] = size_of(job, work);
  const double adapters = 6 * b * s * 32 * (h + 3 * h / 8) * l;
  CHECK(test::flops(test::ops_of(work), test::is_gemm) == Approx(pretrain * 2 / 3 + adapters));
  for (const OpGroup& group : work.backward_weight)
    for (const spec::Op& op : group.ops)
      CHECK(op.name.substr(0, 5) == "lora_");
}

TEST_CASE("unfused norms and activations move more bytes in more kernels") {
  const auto cost = [](bool fused) {
    spec::Job job = test::with(test::on_nodes(test::llama3_70b(), 4), {8, 4});
    job.stack.fused_norms = job.stack.fused_activations = fused;
    std::pair<double, int> sum{0, 0};
    for (const auto& [op, times] : test::ops_of(middle_stage(job)))
      if (!op.is_communication() && !test::is_gemm(op)) {
        sum.first += op.hbm_bytes / unit::B;
        sum.second += op.kernels;
      }
    return sum;
  };
  CHECK(cost(false).first > cost(true).first);
  CHECK(cost(false).second > cost(true).second);
}

TEST_CASE("the pass of a prompt is the forward pass of training on the same layout, op by op") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  job.model.dropout = 0;
  const std::vector<OpGroup> trained = middle_stage(job).forward;
  job.task = spec::Task::prefill;
  const std::vector<OpGroup> read = middle_stage(job).forward;
  REQUIRE(read.size() == trained.size());
  for (size_t group = 0; group < read.size(); ++group) {
    CHECK(read[group].repeat == trained[group].repeat);
    REQUIRE(read[group].ops.size() == trained[group].ops.size());
    for (size_t i = 0; i < read[group].ops.size(); ++i) {
      const spec::Op &a = read[group].ops[i], &b = trained[group].ops[i];
      CHECK(a.name == b.name);
      CHECK(a.flops == b.flops);
      CHECK(a.hbm_bytes == b.hbm_bytes);
      CHECK(a.payload == b.payload);
    }
  }
}

TEST_CASE("latent attention decodes against the latent cache, all heads on one of its rows") {
  spec::Job job = test::with(test::on_nodes(test::llama3_70b(), 1), {.tensor = 8});
  job.model.latent_attention = spec::LatentAttention{
      .query_rank = 1536, .key_value_rank = 512, .rope_head_dim = 64, .value_head_dim = 128};
  job.task = spec::Task::decode;
  const WorkGraph graph = build_work_graph(job);
  for (const OpGroup& group : graph.works.front().forward)
    for (const spec::Op& op : group.ops)
      if (test::is_attention(op)) {
        CHECK(op.hbm_bytes / unit::B == Approx(8192.0 * (512 + 64) * 2).epsilon(0.01));
        CHECK(op.flops / unit::FLOP == Approx(2 * (512 + 512 + 64) * 8192.0 * 8));
      }
}

TEST_CASE("prefill computes the forward pass alone, decoding one token against the whole cache") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const ChunkWork training = middle_stage(job);
  job.task = spec::Task::prefill;
  const ChunkWork prefill = middle_stage(job);
  CHECK(prefill.backward_input.empty());
  CHECK(prefill.backward_weight.empty());
  CHECK(test::flops(test::ops_of(prefill), test::is_gemm) ==
        Approx(test::flops(test::ops_of(training), test::is_gemm) / 3));
  job.task = spec::Task::decode;
  const ChunkWork decode = middle_stage(job);
  CHECK(test::flops(test::ops_of(decode), test::is_gemm) ==
        Approx(test::flops(test::ops_of(prefill), test::is_gemm) / 2048));
  for (const spec::Op& op : decode.forward.front().ops)
    if (test::is_attention(op)) {
      const double cache = 2 * 2 * 12288.0 / 8 * 2048;
      CHECK(op.hbm_bytes / unit::B == Approx(cache).epsilon(0.01));
      CHECK_FALSE(op.attention.causal);
    }
}

}  // namespace

}  // namespace triplepoint::workload
