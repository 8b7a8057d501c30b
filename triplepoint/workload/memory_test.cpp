// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/memory.h"

#include <doctest/doctest.h>

#include "triplepoint/workload/activation_memory.h"
#include "triplepoint/workload/jobs_testing.h"

namespace triplepoint::workload {
namespace {

using doctest::Approx;
using spec::Recompute;
using spec::Sharding;

double layer_bytes(const spec::Job& job) {
  return layer_activation_bytes({job, share_of_rank(job)}, LayerKind::dense);
}

spec::Job with_recompute(spec::Job job, Recompute recompute, int64_t micro_batch_size = 1) {
  job.plan.recompute = recompute;
  job.plan.micro_batch_size = micro_batch_size;
  return job;
}

bool fits(const spec::Job& job) {
  return estimate_memory(job).fits();
}

double gigabytes(const spec::Job& job) {
  const MemoryVerdict verdict = estimate_memory(job);
  return verdict.stages[as_size(verdict.worst_stage)].total() / unit::GB;
}

TEST_CASE("activations of a layer are those of Korthikanti et al., table 2") {
  spec::Job job = test::on_nodes(test::gpt(48, 6144, 64, 2048), 1);
  job.stack.attention_kernels = spec::AttentionKernels::unfused;
  job.plan.micro_batch_size = 4;
  const double b = 4, s = 2048, h = 6144, a = 64, sbh = s * b * h;
  for (const int64_t tensor : {1, 2, 8}) {
    const auto t = as_real(tensor);
    job.plan.tensor_parallel_size = tensor;
    job.plan.sequence_parallel = false;
    CHECK(layer_bytes(job) == Approx(sbh * (10 + 24 / t + 5 * a * s / (h * t))));
    job.plan.sequence_parallel = true;
    CHECK(layer_bytes(job) == Approx(sbh / t * (34 + 5 * a * s / h)));
    CHECK(layer_bytes(with_recompute(job, Recompute::selective, 4)) == Approx(sbh * 34 / t));
    CHECK(checkpoint_bytes({job, share_of_rank(job)}) == Approx(2 * sbh / t));
  }
}

TEST_CASE("fused attention drops the scores and keeps one number per head and token") {
  spec::Job job = test::gpt3_on_32({.tensor = 1, .pipeline = 32});
  const double sbh = 2048.0 * 12288;
  CHECK(layer_bytes(job) == Approx(34 * sbh + 4 * 2048 * 96));
}

TEST_CASE("a Llama layer keeps 12 h + 4 kv + 6 f bytes a token") {
  const spec::Job job = test::on_nodes(test::llama3_70b(), 4);
  const double per_token = 12.0 * 8192 + 4 * 1024 + 6 * 28672 + 4 * 64;
  CHECK(layer_bytes(job) == Approx(8192 * per_token));
}

TEST_CASE("a gate that is written op by op keeps its activation, too") {
  spec::Job job = test::on_nodes(test::llama3_70b(), 4);
  const double fused = layer_bytes(job);
  job.stack.fused_activations = false;
  CHECK(layer_bytes(job) - fused == Approx(2.0 * 8192 * 28672));
}

TEST_CASE("the loss takes the bytes of a logit that its implementation needs, at the head only") {
  spec::Job job = test::on_nodes(test::gpt(4, 2048, 16, 2048), 1);
  job.model.vocabulary_size = 262144;
  job.plan.micro_batch_size = 4;
  const double logits = 4 * 2048.0 * 262144;
  const Bytes fused = estimate_memory(job).stages.back().logits;
  CHECK(fused / unit::B == Approx(4 * logits));
  job.stack.loss_kernels = spec::LossKernels::op_by_op;
  CHECK(estimate_memory(job).stages.back().logits / unit::B == Approx(12 * logits));
  job.plan.tensor_parallel_size = 2;  // the vocabulary is shared: one more tensor of floats
  CHECK(estimate_memory(job).stages.back().logits / unit::B == Approx(16 * logits / 2));
}

TEST_CASE("logits and the layer that is recomputed are not there at once") {
  spec::Job job = with_recompute(test::on_nodes(test::llama3_70b(), 8), Recompute::full);
  job.plan.sharding = Sharding::parameters;
  job.stack.loss_kernels = spec::LossKernels::op_by_op;
  const StageMemory memory = estimate_memory(job).stages.front();
  const LayerContext context{job, share_of_rank(job)};
  const double checkpoints = 80 * checkpoint_bytes(context) + 4 * 8192.0 * 8192;
  CHECK(memory.logits > Bytes());
  CHECK(memory.activations / unit::B == Approx(checkpoints));
}

TEST_CASE("gradients that stand in for fused ones are one layer's and the head's, in 16 bits") {
  spec::Job job = test::on_nodes(test::llama3_70b(), 1);
  job.model.num_layers = 12;
  job.plan.optimizer.weight_bytes = 2;
  const RankShare share = share_of_rank(job);
  const StageMemory memory = estimate_memory(job).stages.front();
  CHECK(memory.buffers / unit::B == Approx(2 * (layer_parameters(job, share, int64_t{0}).dense +
                                                head_parameters(job, share).dense)));
  job.stack.gradients_in_place = true;
  CHECK(estimate_memory(job).stages.front().buffers == Bytes());
}

TEST_CASE("checkpointing by operator keeps queries, values, attention's output and the gate") {
  spec::Job job = with_recompute(test::on_nodes(test::llama3_70b(), 4), Recompute::selective);
  job.plan.recompute_modules = {spec::RecomputeModule::alternate_gemms};
  const double per_token = 2 * (3.0 * 8192 + 1024 + 28672) + 4 * 64;
  CHECK(layer_bytes(job) == Approx(8192 * per_token));
}

TEST_CASE("an expert layer keeps one row of h and three of f for every routed token") {
  spec::Job job = test::with(test::on_nodes(test::mixtral_8x22b(), 4), {1, 4, 8});
  const double h = 6144, f = 16384, kv = 1024;
  const auto per_token = [&](double rows) {
    return 12 * h + 4 * kv + 2 * (rows * 2 * h + 6 * f) + 4 * 48;
  };
  CHECK(layer_activation_bytes({job, share_of_rank(job)}, LayerKind::moe) ==
        Approx(4096 * per_token(1)));
  // Op by op, what came back is multiplied by the router's weights, and a gate keeps its
  // activation.
  job.stack.fused_activations = false;
  CHECK(layer_activation_bytes({job, share_of_rank(job)}, LayerKind::moe) ==
        Approx(4096 * (per_token(2) + 2 * 2 * f)));
}

TEST_CASE("FSDP in a pipeline keeps its stage whole, and the sum of its gradients") {
  spec::Job job = with_recompute(test::on_nodes(test::llama3_70b(), 4), Recompute::full);
  job.plan.sharding = Sharding::parameters;
  job.plan.optimizer.gradient_sync_bytes = 4;
  job.plan.pipeline_parallel_size = 4;
  job.plan.global_batch_size = 64;
  const StageMemory memory = estimate_memory(job).stages[1];
  const double layers = 20 * layer_parameters(job, share_of_rank(job), int64_t{0}).dense;
  CHECK(memory.buffers / unit::B > (2 + 4) * layers);
  CHECK(memory.buffers / unit::B < (2 + 4) * layers * 1.1);
}

TEST_CASE(
    "states are weight, gradient, moments and master of every parameter, each by its sharding") {
  spec::Job job = test::on_nodes(test::gpt(24, 2048, 16, 2048), 4);
  job.plan.optimizer.master_bytes = 4;
  const double psi = spec::count_parameters(job.model).total();
  const auto check = [&](Sharding sharding, double weights, double gradients, double optimizer) {
    job.plan.sharding = sharding;
    const StageMemory memory = estimate_memory(job).stages.front();
    CHECK(memory.weights / unit::B == Approx(weights * psi));
    CHECK(memory.gradients / unit::B == Approx(gradients * psi));
    CHECK(memory.optimizer / unit::B == Approx(optimizer * psi));
  };
  const double n = 32;
  check(Sharding::none, 2, 4, 12);
  check(Sharding::optimizer, 2, 4, 12 / n);
  check(Sharding::gradients, 2, 4, 12 / n);  // the buffer is whole until the step's one reduction
  job.stack.gradient_sync_accumulates = true;
  check(Sharding::gradients, 2, 4 / n, 12 / n);
  check(Sharding::parameters, 2 / n, 4 / n, 12 / n);
}

TEST_CASE("copies that parameters are gathered through are there while the optimizer steps") {
  spec::Job job = test::on_nodes(test::gpt(16, 2048, 16, 2048), 1);
  job.plan.sharding = Sharding::optimizer;
  job.plan.optimizer.master_bytes = 6;  // with a 16-bit copy of the part
  const StageMemory small = estimate_memory(job).stages.front();
  const Bytes bytes = 0.5 * small.weights;  // one of each parameter
  CHECK(small.step / bytes == Approx(10 + 14. / 8));
  CHECK(small.buffers >= 4 * bytes);
  const StageMemory large = estimate_memory(with_recompute(job, Recompute::none, 8)).stages.front();
  CHECK(large.step == small.step);
  CHECK(large.buffers < 4 * bytes);
}

TEST_CASE("expert states are shared by expert-data ranks only") {
  spec::Job job = test::with(test::on_nodes(test::mixtral_8x22b(), 4), {1, 1, 8});
  job.plan.sharding = Sharding::optimizer;
  const spec::ParameterCount count = spec::count_parameters(job.model);
  const StageMemory memory = estimate_memory(job).stages.front();
  const double state = job.plan.optimizer.moment_bytes + job.plan.optimizer.master_bytes;
  CHECK(memory.optimizer / unit::B ==
        Approx(state * ((count.total() - count.experts) / 32 + count.experts / 8 / 4)));
}

TEST_CASE("the first stage holds the most microbatches, the last the logits") {
  const MemoryVerdict verdict = estimate_memory(test::gpt3_on_32({.tensor = 4, .pipeline = 8}));
  for (size_t stage = 1; stage < 7; ++stage)
    CHECK(verdict.stages[stage].activations < verdict.stages[stage - 1].activations);
  CHECK(verdict.worst_stage == 0);
  const double tokens = 2048, vocabulary = 50688.0 / 4;
  CHECK(verdict.stages[7].logits / unit::B == Approx(4 * tokens * vocabulary));
  CHECK(verdict.stages[6].logits == Bytes());
}

TEST_CASE("interleaving costs the first stage (p-1)/(v p) more activations") {
  spec::Job job = test::gpt3_on_32({.tensor = 4, .pipeline = 8});
  job.model.dropout = 0;  // no mask of the embedding, so that all chunks are alike
  const double plain = estimate_memory(job).stages[0].activations / unit::B;
  job.plan.schedule = spec::Schedule::interleaved;
  job.plan.virtual_pipeline_size = 3;
  const double interleaved = estimate_memory(job).stages[0].activations / unit::B;
  CHECK(interleaved / plain == Approx(1 + 7.0 / (3 * 8)));
}

TEST_CASE("GPT3-175B on 32 H200 without recompute: TP1-PP32 alone runs out of memory") {
  // Values of the prototype, research notes: 106, 118, 142 and 190 GB against 150.7.
  CHECK(gigabytes(test::gpt3_on_32({.tensor = 8, .pipeline = 4})) == Approx(106).epsilon(0.02));
  CHECK(gigabytes(test::gpt3_on_32({.tensor = 4, .pipeline = 8})) == Approx(118).epsilon(0.02));
  CHECK(gigabytes(test::gpt3_on_32({.tensor = 2, .pipeline = 16})) == Approx(142).epsilon(0.02));
  CHECK(gigabytes(test::gpt3_on_32({.tensor = 1, .pipeline = 32})) == Approx(190).epsilon(0.03));
  for (const int64_t tensor : {1, 2, 4, 8})
    CHECK(fits(test::gpt3_on_32({.tensor = tensor, .pipeline = 32 / tensor})) == (tensor > 1));
}

TEST_CASE("GPT3-175B on 32 H200 with recompute fits in every pipeline layout up to microbatch 8") {
  for (const int64_t tensor : {1, 2, 4, 8})
    for (const int64_t micro : {1, 2, 4, 8})
      CHECK(fits(with_recompute(test::gpt3_on_32({.tensor = tensor, .pipeline = 32 / tensor}),
                                Recompute::full, micro)));
}

TEST_CASE("GPT3-175B under FSDP fits up to microbatch 4 with recompute, and 1 without") {
  CHECK(fits(test::gpt3_fsdp_on_32()));
  for (const int64_t micro : {1, 2, 4, 8})
    CHECK(fits(with_recompute(test::gpt3_fsdp_on_32(), Recompute::full, micro)) == (micro < 8));
}

TEST_CASE("the trunk in fp32 is what takes FSDP's microbatch 8 out of memory") {
  spec::Job job = with_recompute(test::gpt3_fsdp_on_32(), Recompute::full, 8);
  const double checkpoints = 96 * 8.0 * 2048 * 12288;
  const double in_fp32 = estimate_memory(job).stages[0].activations / unit::B;
  job.plan.fp32_residual = false;
  CHECK(in_fp32 - estimate_memory(job).stages[0].activations / unit::B > 2 * checkpoints);
  CHECK(fits(job));
}

TEST_CASE("under FSDP the stream that gathers keeps room for embedding and head, which may go") {
  const spec::Job job = test::gpt3_fsdp_on_32();
  const StageMemory stage = estimate_memory(job).stages[0];
  REQUIRE(stage.logits == Bytes());  // its fullest moment is a layer's
  const RankShare share = share_of_rank(job);
  const double root = embedding_parameters(job, share).dense + head_parameters(job, share).dense;
  const Bytes kept = stage.reserved - (stage.total() - job.stack.framework_reserve);
  CHECK(kept / unit::B == doctest::Approx(2 * root));
}

TEST_CASE("gradients under FSDP take the bytes they are reduced in") {
  spec::Job job = test::gpt3_fsdp_on_32();
  job.stack.memory_fragmentation = 1;
  const auto bytes_with = [&](double sync) {
    job.plan.optimizer.gradient_sync_bytes = sync;
    return estimate_memory(job).stages[0].total() / unit::B;
  };
  const RankShare share = share_of_rank(job);
  const double more = bytes_with(4) - bytes_with(2);
  const double whole = 2 * (1 + 1 / as_real(share.shard));
  CHECK(more >= whole * head_parameters(job, share).dense);
  CHECK(more <= whole * layer_parameters(job, share, int64_t{0}).dense);
}

TEST_CASE("Mixtral-8x22B EP8-TP1-PP4 fits with recompute only") {
  spec::Job job = test::with(test::on_nodes(test::mixtral_8x22b(), 4), {1, 4, 8});
  job.plan.sharding = Sharding::optimizer;
  job.plan.optimizer.gradient_bytes = 2;
  job.plan.optimizer.master_bytes = 4;
  CHECK_FALSE(fits(job));
  CHECK(fits(with_recompute(job, Recompute::full)));
}

TEST_CASE("LoRA keeps frozen weights and the adapters' states") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  job.task = spec::Task::lora;
  job.plan.lora = spec::Lora{};
  const StageMemory memory = estimate_memory(job).stages[1];
  CHECK(memory.weights > 100 * memory.gradients);
  CHECK(memory.optimizer < 3 * memory.gradients);
}

TEST_CASE("an adapter keeps its gathered input in 16 bits, and a mask where it drops") {
  for (const spec::Precision precision : {spec::Precision::bf16, spec::Precision::fp8}) {
    spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});  // sequence parallel
    job.task = spec::Task::lora;
    job.plan.precision = precision;
    const auto bytes = [&](std::vector<std::string> targets, double dropout) {
      job.plan.lora = spec::Lora{.rank = 32, .targets = std::move(targets), .dropout = dropout};
      return layer_bytes(job);
    };
    const double tokens = as_real(job.plan.micro_batch_size * job.model.sequence_length);
    const double hidden = as_real(job.model.hidden_size), none = bytes({}, 0);
    CHECK(bytes({"attention_qkv"}, 0) - none == Approx(2 * tokens * hidden));
    CHECK(bytes({"attention_qkv"}, 0.1) - none == Approx((2 + 1.0 / 8) * tokens * hidden));
    CHECK(bytes({"attention_dense"}, 0) == Approx(none));  // the attention core's own output
    CHECK(bytes({"attention_dense"}, 0.1) - none == Approx((2 + 1) * tokens * hidden / 8));
  }
}

TEST_CASE("decoding keeps keys and values of every sequence it serves") {
  spec::Job job = test::with(test::on_nodes(test::llama3_70b(), 1), {.tensor = 8});
  job.task = spec::Task::decode;
  job.plan.global_batch_size = 64;
  const double of_64 = estimate_memory(job).stages[0].activations / unit::B;
  job.plan.global_batch_size = 32;
  const double of_32 = estimate_memory(job).stages[0].activations / unit::B;
  CHECK(of_64 - of_32 == Approx(32 * 8192.0 * 80 * 2 * 2 * 128));
}

TEST_CASE("served weights are kept in the precision of their products") {
  spec::Job job = test::with(test::on_nodes(test::llama3_70b(), 1), {.tensor = 8});
  job.task = spec::Task::decode;
  const double bf16 = estimate_memory(job).stages[0].weights / unit::B;
  const double parameters = spec::count_parameters(job.model).total() / 8;
  CHECK(bf16 == Approx(2 * parameters).epsilon(0.001));
  job.plan.precision = spec::Precision::fp8;
  const double ends = 2 * 2 * 128256 * 8192.0 / 8;  // embedding and head stay in 16 bits
  CHECK(estimate_memory(job).stages[0].weights / unit::B ==
        Approx((bf16 - ends) / 2 + ends).epsilon(0.001));
  CHECK(estimate_memory(job).stages[0].gradients == Bytes());
}

TEST_CASE("a prompt's pass keeps no activations of earlier layers") {
  spec::Job job = test::gpt3_on_32({.tensor = 8, .pipeline = 4});
  const double training = estimate_memory(job).stages[1].activations / unit::B;
  job.task = spec::Task::prefill;
  job.plan.global_batch_size = 1;
  job.plan.micro_batch_size = 1;
  const double cache = 24 * 2048.0 * 2 * 2 * 12288 / 8;
  const double at_work = estimate_memory(job).stages[1].activations / unit::B - cache;
  CHECK(at_work > 0);
  CHECK(at_work < training / 24);  // which keeps 24 layers of four microbatches
}

TEST_CASE("offloaded activations leave the device but for two layers on their way") {
  spec::Job job = test::on_nodes(test::llama3_70b(), 4);
  job.plan.tensor_parallel_size = 8;
  job.plan.pipeline_parallel_size = 4;
  const double layer = layer_bytes(job);
  const StageMemory before = estimate_memory(job).stages.front();
  job.plan.activation_offload = 0.5;
  const StageMemory after = estimate_memory(job).stages.front();
  // The first of four stages has 20 layers, of as many microbatches as there are stages.
  CHECK((before.activations - after.activations) / unit::B == Approx(0.5 * 20 * 4 * layer));
  CHECK((after.buffers - before.buffers) / unit::B == Approx(2 * 0.5 * layer));
  const spec::Job inputs = with_recompute(job, Recompute::full);
  CHECK(offloaded_layer_bytes({inputs, share_of_rank(inputs)}, LayerKind::dense) ==
        Approx(0.5 * checkpoint_bytes({inputs, share_of_rank(inputs)})));
}

TEST_CASE("more of anything never takes less memory") {
  const spec::Job base = test::gpt3_on_32({.tensor = 4, .pipeline = 8});
  const double before = gigabytes(base);
  const auto grows = [&](auto change) {
    spec::Job job = base;
    change(job);
    CHECK(gigabytes(job) > before);
  };
  grows([](spec::Job& job) { job.plan.micro_batch_size = 2; });
  grows([](spec::Job& job) { job.model.sequence_length = 4096; });
  grows([](spec::Job& job) { job.plan.sequence_parallel = false; });
  grows([](spec::Job& job) { job.plan.schedule = spec::Schedule::gpipe; });
  grows([](spec::Job& job) { job.stack.memory_fragmentation = 1.2; });
  grows([](spec::Job& job) { job.plan.optimizer.master_bytes = 4; });
  grows([](spec::Job& job) { job.plan.layers_per_stage = {19, 11, 11, 11, 11, 11, 11, 11}; });
}

}  // namespace
}  // namespace triplepoint::workload
