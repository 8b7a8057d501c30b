// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/pipeline.h"

#include "triplepoint/mark/mark.h"
#include "triplepoint/workload/rank_grid.h"

#include "trainer/runtime/rank_groups.h"

namespace triplepoint::trainer {
namespace {

using spec::GroupKind;
using workload::Action;
using workload::ActionKind;

const char* region_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward:
      return "forward";
    case ActionKind::backward:
      return "backward";
    case ActionKind::backward_input:
      return "backward_input";
    case ActionKind::backward_weight:
      break;
  }
  return "backward_weight";
}

/// Whether each action is its chunk's last one that makes weight gradients.
std::vector<bool> find_last(const workload::StageProgram& program, size_t chunks) {
  std::vector<bool> last(program.size()), seen(chunks);
  for (size_t i = program.size(); i-- > 0;) {
    const Action& action = program[i];
    const auto chunk = as_size(action.chunk);
    const bool makes =
        action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight;
    if (!makes || seen[chunk]) continue;
    last[i] = seen[chunk] = true;
  }
  return last;
}

}  // namespace

Pipeline::Pipeline(const PipelineParts& parts)
    : parts_(parts),
      stages_(parts.job.plan.pipeline_parallel_size),
      stage_(parts.groups.of(GroupKind::pipeline).index()),
      data_(parts.groups.of(GroupKind::data).index()),
      program_(workload::build_programs(parts.job)[as_size(stage_)]),
      last_(find_last(program_, parts.chunks.size())),
      batches_(as_size(parts.job.num_microbatches())) {
  const workload::RankShare share = workload::share_of_rank(parts.job);
  count_ = share.sharded_tokens * share.hidden;
  loss_scale_ = 1.0 / as_real(parts.job.plan.global_batch_size * parts.job.model.sequence_length);
  make_lines();
}

/// Two channels per part of the model: activations into it, and gradients of its output.
void Pipeline::make_lines() {
  const int64_t depth = parts_.job.plan.overlap_pipeline ? 2 : 1;
  Communicator* group = &parts_.groups.of(GroupKind::pipeline);
  const auto next = static_cast<int>((stage_ + 1) % stages_);
  const auto previous = static_cast<int>((stage_ + stages_ - 1) % stages_);
  for (size_t chunk = 0; chunk < parts_.chunks.size(); ++chunk) {
    const auto part = static_cast<int>(static_cast<int64_t>(chunk) * stages_ + stage_);
    inputs_.emplace_back(Inbox::Line{group, previous, 2 * part}, depth);
    gradients_.emplace_back(Inbox::Line{group, next, 2 * part + 1}, depth);
    to_next_.push_back({group, next, 2 * (part + 1)});
    to_previous_.push_back({group, previous, 2 * (part - 1) + 1});
  }
}

int64_t Pipeline::first_sample(int64_t step, int64_t microbatch) const {
  const spec::Plan& plan = parts_.job.plan;
  return step * plan.global_batch_size +
         (data_ * parts_.job.num_microbatches() + microbatch) * plan.micro_batch_size;
}

void Pipeline::load(int64_t step, int64_t microbatch) {
  Batch& batch = batches_[as_size(microbatch)];
  batch.inputs.clear();
  batch.targets.clear();
  std::vector<int32_t> tokens(as_size(parts_.job.model.sequence_length + 1));
  const int64_t first = first_sample(step, microbatch);
  for (int64_t i = 0; i < parts_.job.plan.micro_batch_size; ++i) {
    parts_.tokens.read(first + i, tokens);
    batch.inputs.insert(batch.inputs.end(), tokens.begin(), tokens.end() - 1);
    batch.targets.insert(batch.targets.end(), tokens.begin() + 1, tokens.end());
  }
  batch.tokens = {microbatch, batch.inputs, batch.targets};
}

void Pipeline::begin_step(int64_t step) {
  const int64_t microbatches = parts_.job.num_microbatches();
  for (int64_t microbatch = 0; microbatch < microbatches; ++microbatch)
    load(step, microbatch);
  parts_.store.begin_step();
  for (size_t chunk = 0; chunk < parts_.chunks.size(); ++chunk) {
    if (!is_first(chunk)) inputs_[chunk].begin_step(microbatches, count_, parts_.ledger);
    if (!is_last(chunk)) gradients_[chunk].begin_step(microbatches, count_, parts_.ledger);
  }
}

double Pipeline::run(int64_t step) {
  begin_step(step);
  for (size_t i = 0; i < program_.size(); ++i)
    run(program_[i], last_[i]);
  outbox_.wait();
  return sum_of(parts_.chunks, [](Chunk* chunk) { return chunk->take_loss_sum(); });
}

void Pipeline::run(const Action& action, bool last) {
  const mark::Region region(region_of(action.kind));
  const Batch& batch = batches_[as_size(action.microbatch)];
  switch (action.kind) {
    case ActionKind::forward:
      return forward(action);
    case ActionKind::backward:
    case ActionKind::backward_input:
      parts_.store.set_last_backward(last);
      return backward(action);
    case ActionKind::backward_weight:
      parts_.store.set_last_backward(last);
      return parts_.chunks[as_size(action.chunk)]->backward_weight(batch.tokens);
  }
}

void Pipeline::forward(const Action& action) {
  const auto chunk = as_size(action.chunk);
  const Batch& batch = batches_[as_size(action.microbatch)];
  std::span<const float> input;
  if (!is_first(chunk)) input = inputs_[chunk].take();
  Buffer output;
  if (!is_last(chunk)) output = Buffer(parts_.ledger, MemoryTerm::buffers, count_);
  parts_.store.begin_forward(chunk);
  parts_.chunks[chunk]->forward(batch.tokens, input, output.all());
  if (!is_first(chunk)) inputs_[chunk].give_back();
  if (!is_last(chunk)) send(to_next_[chunk], std::move(output));
}

void Pipeline::backward(const Action& action) {
  const auto chunk = as_size(action.chunk);
  const Batch& batch = batches_[as_size(action.microbatch)];
  std::span<const float> output_gradient;
  if (!is_last(chunk)) output_gradient = gradients_[chunk].take();
  Buffer input_gradient;
  if (!is_first(chunk)) input_gradient = Buffer(parts_.ledger, MemoryTerm::buffers, count_);
  parts_.store.begin_backward(chunk);
  Chunk& model_chunk = *parts_.chunks[chunk];
  if (action.kind == ActionKind::backward)
    model_chunk.backward(batch.tokens, output_gradient, input_gradient.all(), loss_scale_);
  else
    model_chunk.backward_input(batch.tokens, output_gradient, input_gradient.all(), loss_scale_);
  if (!is_last(chunk)) gradients_[chunk].give_back();
  if (!is_first(chunk)) send(to_previous_[chunk], std::move(input_gradient));
}

void Pipeline::send(const Inbox::Line& line, Buffer buffer) {
  outbox_.send(line, std::move(buffer));
  if (!parts_.job.plan.overlap_pipeline) outbox_.wait();
}

}  // namespace triplepoint::trainer
