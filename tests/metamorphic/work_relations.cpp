// SPDX-License-Identifier: Apache-2.0
// The work: model, batch, sequence, precision, what is trained.
#include <vector>

#include "tests/metamorphic/laws.h"

namespace triplepoint::metamorphic {
namespace {

bool twice_the_batch(spec::Job& job) {
  if (spec::is_inference(job.task)) return false;
  // Megatron's interleaved schedule keeps all of as many microbatches as stages in flight, of more
  // it does not.
  const bool all_in_flight = job.plan.schedule == spec::Schedule::interleaved &&
                             job.num_microbatches() <= job.plan.pipeline_parallel_size;
  if (all_in_flight) return false;
  job.plan.global_batch_size *= 2;
  return is_legal(job);
}
bool more_layers(spec::Job& job) {
  if (!job.plan.layers_per_stage.empty() || job.model.layer_pattern) return false;
  // The leading dense layers of a model with experts stay as they are.
  if (job.model.moe && job.model.moe->num_dense_layers > 0) return false;
  job.model.num_layers *= 2;
  return is_legal(job);
}
bool longer_sequence(spec::Job& job) {
  job.model.sequence_length *= 2;
  return is_legal(job);
}
bool wider_mlp(spec::Job& job) {
  if (job.model.ffn_hidden_size == 0) return false;
  job.model.ffn_hidden_size *= 2;
  return is_legal(job);
}
bool larger_vocabulary(spec::Job& job) {
  job.model.vocabulary_size *= 2;
  return is_legal(job);
}
bool ungrouped_queries(spec::Job& job) {
  if (job.model.latent_attention || job.model.num_query_groups == job.model.num_attention_heads)
    return false;
  job.model.num_query_groups = job.model.num_attention_heads;
  return is_legal(job);
}
bool tied(spec::Job& job) {
  if (job.model.tied_embeddings) return false;
  job.model.tied_embeddings = true;
  return is_legal(job);
}
bool more_active_experts(spec::Job& job) {
  if (!job.model.moe || job.model.moe->router_topk >= job.model.moe->num_experts) return false;
  job.model.moe->router_topk += 1;
  return is_legal(job);
}
bool uneven_experts(spec::Job& job) {
  if (!job.model.moe) return false;
  job.model.moe->load_imbalance += 0.5;
  return is_legal(job);
}
bool more_experts(spec::Job& job) {
  if (!job.model.moe) return false;
  job.model.moe->num_experts *= 2;
  return is_legal(job);
}
bool shorter_window(spec::Job& job) {
  if (!job.model.sliding_window || job.model.sliding_window->size < 256) return false;
  job.model.sliding_window->size /= 2;
  return is_legal(job);
}
bool fp32(spec::Job& job) {
  if (job.plan.precision != spec::Precision::bf16 || !job.cluster.gpu.peak_fp32) return false;
  job.plan.precision = spec::Precision::fp32;
  return is_legal(job);
}
bool as_lora(spec::Job& job) {
  if (job.task != spec::Task::pretrain) return false;
  job.task = spec::Task::lora;
  job.plan.lora = spec::Lora{};
  return is_legal(job);
}
/// Adapters are further kernels to launch, and a frozen layer has no weight gradient behind which
/// the tensor group's collectives hide.
bool one_rank_and_no_host(spec::Job& job) {
  no_host(job);
  return job.plan.tensor_parallel_size == 1;
}
bool higher_rank(spec::Job& job) {
  if (!job.plan.lora) return false;
  job.plan.lora->rank *= 2;
  return is_legal(job);
}
bool more_adapters(spec::Job& job) {
  if (!job.plan.lora) return false;
  job.plan.lora->targets = {"attention_qkv", "attention_dense", "mlp_fc1", "mlp_fc2"};
  return is_legal(job);
}
bool more_sequences(spec::Job& job) {
  if (!spec::is_inference(job.task)) return false;
  job.plan.micro_batch_size *= 2;
  job.plan.global_batch_size *= 2;
  return is_legal(job);
}
bool as_forward_only(spec::Job& job) {
  if (job.task != spec::Task::pretrain) return false;
  job.task = spec::Task::prefill;
  job.plan.sharding = spec::Sharding::none;
  job.plan.recompute = spec::Recompute::none;
  job.plan.recompute_layers.reset();
  job.plan.overlap_gradient = job.plan.overlap_parameter = false;
  return is_legal(job);
}

}  // namespace

const std::vector<Relation>& work_relations() {
  static const std::vector<Relation> all = {
      {"twice the batch",
       twice_the_batch,
       {not_faster,
        {"step at most twice", at_most_times<step, 2>, &one_clock_step},
        {"tokens/s not less", not_less<tokens_per_second_per_gpu>},
        {"FLOP twice", is_times<model_flops, 2>, &rounding},
        {"memory not less", needs_no_less_memory}}},
      {"twice the layers",
       more_layers,
       {not_faster,
        {"step at most twice", at_most_times<step, 2>, &one_clock_step},
        {"memory not less", needs_no_less_memory},
        {"FLOP not less", not_less<model_flops>}}},
      {"twice the sequence",
       longer_sequence,
       {not_faster,
        {"memory not less", needs_no_less_memory},
        {"FLOP not less", not_less<model_flops>}}},
      {"MLP twice as wide", wider_mlp, {not_faster, {"memory not less", needs_no_less_memory}}},
      {"twice the vocabulary",
       larger_vocabulary,
       {not_faster, {"memory not less", needs_no_less_memory}}},
      {"a key and value for each query",
       ungrouped_queries,
       {not_faster, {"memory not less", needs_no_less_memory}}},
      {"head tied to the embedding",
       tied,
       {{"memory not more", needs_no_more_memory}, {"FLOP the same", unchanged<model_flops>}}},
      {"one more active expert",
       more_active_experts,
       {not_faster,
        {"memory not less", needs_no_less_memory},
        {"FLOP not less", not_less<model_flops>}}},
      {"busiest experts busier",
       uneven_experts,
       {not_faster, {"FLOP the same", unchanged<model_flops>}}},
      {"twice the experts", more_experts, {{"memory not less", needs_no_less_memory}, not_faster}},
      {"window half as long", shorter_window, {not_slower}},
      {"fp32 instead of bf16", fp32, {not_faster}},
      {"LoRA instead of full training", as_lora, {{"memory not more", needs_no_more_memory}}},
      {"LoRA instead of full training, TP1, host aside",
       as_lora,
       {not_slower},
       one_rank_and_no_host},
      {"LoRA of twice the rank",
       higher_rank,
       {not_faster, {"memory not less", needs_no_less_memory}}},
      {"LoRA in four places",
       more_adapters,
       {not_faster, {"memory not less", needs_no_less_memory}}},
      {"twice the sequences answered",
       more_sequences,
       {not_faster,
        {"tokens/s not less", not_less<tokens_per_second_per_gpu>},
        {"memory not less", needs_no_less_memory}}},
      {"forward only", as_forward_only, {not_slower}}};
  return all;
}

}  // namespace triplepoint::metamorphic
