// SPDX-License-Identifier: Apache-2.0
// One rank's part of the job, divided once, so that makers of ops read widths and do not divide.
#include "triplepoint/workload/rank_share.h"

#include <algorithm>

#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::workload {
namespace {

void divide_ranks(RankShare& share, const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  share.tensor = plan.tensor_parallel_size;
  share.context = plan.context_parallel_size;
  share.expert = plan.expert_parallel_size;
  share.expert_tensor = plan.expert_tensor_size();
  share.data = job.data_parallel_size() * share.context;
  share.expert_data =
      share.data * share.tensor / std::max<int64_t>(1, share.expert * share.expert_tensor);
  share.shard = plan.sharding == spec::Sharding::none ? 1 : shard_group_size(job);
}

void divide_tokens(RankShare& share, const spec::Job& job) {
  const bool decoding = job.task == spec::Task::decode;
  share.sequences = job.plan.micro_batch_size;
  share.key_length = job.model.sequence_length;
  share.query_length = decoding ? 1 : divide_up(share.key_length, share.context);
  share.tokens = share.sequences * share.query_length;
  share.sequence_parallel = job.plan.sequence_parallel && share.tensor > 1 && !decoding;
  share.sharded_tokens =
      share.sequence_parallel ? divide_up(share.tokens, share.tensor) : share.tokens;
}

void divide_model(RankShare& share, const spec::Job& job) {
  const spec::Model& model = job.model;
  share.hidden = model.hidden_size;
  share.heads = divide_up(model.num_attention_heads, share.tensor);
  share.query_groups = divide_up(model.num_query_groups, share.tensor);
  share.head_dim = model.kv_channels;
  share.vocabulary = spec::padded_vocabulary(model, share.tensor) / share.tensor;
  share.ffn = divide_up(model.ffn_hidden_size, share.tensor);
  share.gates = model.activation == spec::Activation::swiglu ? 2 : 1;
}

}  // namespace

RankShare share_of_rank(const spec::Job& job) {
  RankShare share;
  divide_ranks(share, job);
  divide_tokens(share, job);
  divide_model(share, job);
  share.element = job.plan.precision == spec::Precision::fp32 ? 4 : 2;
  share.residual = spec::has_fp32_residual(job) ? 4 : share.element;
  share.training = job.task == spec::Task::pretrain || job.task == spec::Task::lora;
  share.frozen = job.plan.lora.has_value();
  return share;
}

}  // namespace triplepoint::workload
