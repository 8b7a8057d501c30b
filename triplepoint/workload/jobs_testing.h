// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/workload/work_graph.h"

/// Sums over work, for tests that compare it with closed forms.

/// Jobs for the tests of this module, built in code so that no file is needed.

namespace triplepoint::workload::test {

struct Counted {
  spec::Op op;
  double times;  // per microbatch (or step)
};

inline void add(std::vector<Counted>& all, const std::vector<OpGroup>& groups) {
  for (const OpGroup& group : groups)
    for (const spec::Op& op : group.ops)
      all.push_back({op, as_real(group.repeat)});
}

/// Every op of one microbatch on one chunk.
inline std::vector<Counted> ops_of(const ChunkWork& work) {
  std::vector<Counted> all;
  for (const auto* pass :
       {&work.forward, &work.recompute, &work.backward_input, &work.backward_weight})
    add(all, *pass);
  return all;
}

template <class Keep>
double flops(const std::vector<Counted>& ops, const Keep& keep) {
  double sum = 0;
  for (const auto& [op, times] : ops)
    if (keep(op)) sum += times * (op.flops / unit::FLOP);
  return sum;
}

inline bool is_gemm(const spec::Op& op) {
  return op.op_class == spec::OpClass::gemm || op.op_class == spec::OpClass::grouped_gemm;
}

inline bool is_attention(const spec::Op& op) {
  return op.op_class == spec::OpClass::attention;
}

struct Traffic {
  double calls = 0, payload = 0;  // bytes
};

inline Traffic traffic(const std::vector<Counted>& ops, spec::Collective kind,
                       spec::GroupKind group) {
  Traffic sum;
  for (const auto& [op, times] : ops) {
    if (!op.is_communication() || op.collective != kind || op.group != group) continue;
    sum.calls += times;
    sum.payload += times * (op.payload / unit::B);
  }
  return sum;
}

/// The once-a-step ops, as a list like any other.
inline std::vector<Counted> ops_of(const StepWork& step) {
  std::vector<Counted> all;
  for (const auto* ops :
       {&step.gradient_sync, &step.gradient_norm, &step.optimizer, &step.parameter_sync})
    for (const spec::Op& op : *ops)
      all.push_back({op, 1});
  return all;
}

/// Work of the one chunk of a job without pipeline.
inline std::vector<Counted> ops_of_layers(const spec::Job& job) {
  std::vector<Counted> all = ops_of(build_work_graph(job).works.front());
  return all;
}

inline spec::Model gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t sequence) {
  spec::Model model;
  model.name = "gpt";
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.ffn_hidden_size = 4 * hidden;
  model.num_attention_heads = heads;
  model.num_query_groups = heads;
  model.kv_channels = hidden / heads;
  model.sequence_length = sequence;
  model.vocabulary_size = 51200;
  model.dropout = 0.1;
  model.biases = true;
  return model;
}

inline spec::Model gpt3_175b() {
  spec::Model model = gpt(96, 12288, 96, 2048);
  model.name = "gpt3-175b";
  model.vocabulary_size = 50257;
  return model;
}

inline spec::Model llama3_70b() {
  return spec::load_model(spec::default_library(), "llama3-70b").value();
}

inline spec::Model mixtral_8x22b() {
  return spec::load_model(spec::default_library(), "mixtral-8x22b").value();
}

/// Nodes of eight GPUs with the memory of an H200.
inline spec::Job on_nodes(spec::Model model, int64_t nodes) {
  spec::Job job;
  job.name = model.name;
  job.model = std::move(model);
  job.cluster.num_nodes = nodes;
  job.cluster.gpus_per_node = 8;
  job.cluster.gpu.memory = 143771 * unit::MiB;
  job.stack.framework_reserve = 5 * unit::GB;
  job.plan.global_batch_size = 128;
  return job;
}

struct Layout {
  int64_t tensor = 1, pipeline = 1, expert = 1, context = 1;
};

inline spec::Job with(spec::Job job, Layout layout) {
  job.plan.tensor_parallel_size = layout.tensor;
  job.plan.pipeline_parallel_size = layout.pipeline;
  job.plan.expert_parallel_size = layout.expert;
  job.plan.context_parallel_size = layout.context;
  job.plan.sequence_parallel = layout.tensor > 1;
  return job;
}

/// GPT3-175B as the MICRO'25 study ran it: NeMo's distributed_fused_adam keeps 16-bit remainders.
inline spec::Job gpt3_on_32(Layout layout) {
  spec::Job job = with(on_nodes(gpt3_175b(), 4), layout);
  job.plan.sharding = spec::Sharding::optimizer;
  job.plan.optimizer.master_bytes = 2;
  return job;
}

/// The same under PyTorch FSDP: fp32 weights, bf16 gathers and reductions, no sequence parallelism.
inline spec::Job gpt3_fsdp_on_32() {
  spec::Job job = gpt3_on_32({.tensor = 8});
  job.plan.sequence_parallel = false;
  job.plan.sharding = spec::Sharding::parameters;
  job.plan.fp32_residual = true;
  job.plan.optimizer = {.name = "fused_adam",
                        .weight_bytes = 4,
                        .gradient_bytes = 4,
                        .moment_bytes = 8,
                        .master_bytes = 0,
                        .gradient_sync_bytes = 2};
  return job;
}

}  // namespace triplepoint::workload::test
