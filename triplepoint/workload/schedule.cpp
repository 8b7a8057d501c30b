// SPDX-License-Identifier: Apache-2.0
// The order in which each stage works: GPipe, 1F1B, interleaved and zero-bubble programs
// (definitions: schedule.h).
//
// A program states order only. When an action runs follows from durations and dependencies
// (sim/schedule_engine.h), so a schedule is right if every stage's list is, and bubbles come out
// instead of being put in. Closed forms of bubbles are kept as oracles for tests.
#include "triplepoint/workload/schedule.h"

#include <algorithm>

#include "triplepoint/base/result.h"

namespace triplepoint::workload {
namespace {

/// Writes one stage's program: counts forwards and backwards, and names what the k-th of them is.
class ProgramWriter {
 public:
  ProgramWriter(int64_t stages, int64_t virtual_stages)
      : stages_(stages), virtual_stages_(virtual_stages) {}

  void forward(Phase phase) { add(ActionKind::forward, phase, forwards_++); }
  void backward(Phase phase) { add(ActionKind::backward, phase, backwards_++); }
  void backward_input(Phase phase) { add(ActionKind::backward_input, phase, backwards_++); }
  void backward_weight(Phase phase) { add(ActionKind::backward_weight, phase, weights_++); }
  int64_t backwards() const { return backwards_; }
  StageProgram take() { return std::move(program_); }

 private:
  /// Megatron walks the chunks in groups of `stages_` microbatches; backward from the last chunk.
  void add(ActionKind kind, Phase phase, int64_t k) {
    // A round is `stages` microbatches through all chunks; k counts the stage's own passes of one
    // direction.
    const int64_t round = stages_ * virtual_stages_;
    int64_t microbatch = k, chunk = 0;
    if (virtual_stages_ > 1) {
      chunk = k % round / stages_;
      microbatch = k / round * stages_ + k % stages_;
      if (kind != ActionKind::forward) chunk = virtual_stages_ - 1 - chunk;
    }
    program_.push_back(
        {kind, static_cast<int32_t>(microbatch), static_cast<int32_t>(chunk), phase});
  }

  int64_t stages_, virtual_stages_;
  int64_t forwards_ = 0, backwards_ = 0, weights_ = 0;
  StageProgram program_;
};

StageProgram gpipe(int64_t stages, int64_t microbatches) {
  ProgramWriter write(stages, 1);
  for (int64_t i = 0; i < microbatches; ++i)
    write.forward(Phase::warmup);
  for (int64_t i = 0; i < microbatches; ++i)
    write.backward(Phase::cooldown);
  return write.take();
}

/// 1F1B over any number of chunks: warm-up forwards first, then one forward and one backward in
/// turn.
StageProgram warm_up_then_alternate(ProgramWriter write, int64_t warmup, int64_t total) {
  for (int64_t i = 0; i < warmup; ++i)
    write.forward(Phase::warmup);
  for (int64_t i = warmup; i < total; ++i) {
    write.forward(Phase::steady);
    write.backward(Phase::steady);
  }
  for (int64_t i = 0; i < warmup; ++i)
    write.backward(Phase::cooldown);
  return write.take();
}

int64_t interleaved_warmup(int64_t stages, int64_t stage, int64_t microbatches,
                           int64_t virtual_stages) {
  const int64_t total = microbatches * virtual_stages;
  if (microbatches == stages) return total;  // Megatron runs this case without a steady phase
  // The way to the last stage and back, and all chunks but one of a round: forwards that fill the
  // time until the first backward pass can run.
  return std::min(2 * (stages - stage - 1) + (virtual_stages - 1) * stages, total);
}

/// ZB-H1: 1F1B order, but the weight gradient of a microbatch waits for `stage` further input
/// gradients. Later stages start their backwards earlier, so that keeps every stage at `stages`
/// microbatches in flight, and what was put off fills the cool-down.
StageProgram zero_bubble(int64_t stages, int64_t stage, int64_t microbatches) {
  ProgramWriter write(stages, 1);
  const int64_t warmup = std::min(stages - stage - 1, microbatches);
  const auto defer_weight = [&](Phase phase) {
    if (write.backwards() > stage) write.backward_weight(phase);
  };
  for (int64_t i = 0; i < warmup; ++i)
    write.forward(Phase::warmup);
  for (int64_t i = warmup; i < microbatches; ++i) {
    write.forward(Phase::steady);
    write.backward_input(Phase::steady);
    defer_weight(Phase::steady);
  }
  for (int64_t i = 0; i < warmup; ++i) {
    write.backward_input(Phase::cooldown);
    defer_weight(Phase::cooldown);
  }
  for (int64_t i = std::max<int64_t>(0, microbatches - stage); i < microbatches; ++i)
    write.backward_weight(Phase::cooldown);
  return write.take();
}

StageProgram build_program(spec::Schedule schedule, int64_t stages, int64_t stage,
                           int64_t microbatches, int64_t virtual_stages) {
  switch (schedule) {
    case spec::Schedule::gpipe:
      return gpipe(stages, microbatches);
    case spec::Schedule::zero_bubble:
      return zero_bubble(stages, stage, microbatches);
    case spec::Schedule::interleaved:
      if (virtual_stages > 1)
        return warm_up_then_alternate(
            ProgramWriter(stages, virtual_stages),
            interleaved_warmup(stages, stage, microbatches, virtual_stages),
            microbatches * virtual_stages);
      break;
    case spec::Schedule::one_f_one_b:
      break;
  }
  return warm_up_then_alternate(ProgramWriter(stages, 1),
                                std::min(stages - stage - 1, microbatches), microbatches);
}

}  // namespace

std::vector<StageProgram> build_schedule(spec::Schedule schedule, int64_t stages,
                                         int64_t microbatches, int64_t virtual_stages) {
  TPT_EXPECT(stages >= 1 && microbatches >= 1 && virtual_stages >= 1);
  TPT_EXPECT(virtual_stages == 1 || microbatches % stages == 0);
  std::vector<StageProgram> programs;
  programs.reserve(as_size(stages));
  for (int64_t stage = 0; stage < stages; ++stage)
    programs.push_back(build_program(schedule, stages, stage, microbatches, virtual_stages));
  return programs;
}

std::vector<StageProgram> build_forward_schedule(int64_t stages, int64_t microbatches,
                                                 int64_t virtual_stages) {
  TPT_EXPECT(virtual_stages == 1 || microbatches % stages == 0);
  ProgramWriter write(stages, virtual_stages);
  for (int64_t i = 0; i < microbatches * virtual_stages; ++i)
    write.forward(Phase::steady);
  return std::vector<StageProgram>(as_size(stages), write.take());
}

namespace {

/// Each action as that of `count` microbatches in a row.
std::vector<StageProgram> in_groups(const std::vector<StageProgram>& programs, int64_t count) {
  std::vector<StageProgram> grouped(programs.size());
  for (size_t stage = 0; stage < programs.size(); ++stage)
    for (Action action : programs[stage]) {
      const auto first = static_cast<int32_t>(action.microbatch * count);
      for (int32_t i = 0; i < count; ++i) {
        action.microbatch = first + i;
        grouped[stage].push_back(action);
      }
    }
  return grouped;
}

}  // namespace

std::vector<StageProgram> build_programs(const spec::Job& job) {
  const int64_t together = job.plan.sends ? job.plan.sends->microbatches : 1;
  if (together > 1 && job.num_microbatches() % together == 0) {
    spec::Job of_groups = job;
    of_groups.plan.sends->microbatches = 1;
    of_groups.plan.global_batch_size /= together;
    return in_groups(build_programs(of_groups), together);
  }
  const int64_t stages = job.plan.pipeline_parallel_size, chunks = job.plan.virtual_pipeline_size;
  const bool training = job.task == spec::Task::pretrain || job.task == spec::Task::lora;
  if (!training) return build_forward_schedule(stages, job.num_microbatches(), chunks);
  // Several chunks per stage run in one order only.
  const auto schedule = chunks > 1 ? spec::Schedule::interleaved : job.plan.schedule;
  return build_schedule(schedule, stages, job.num_microbatches(), chunks);
}

double bubble_fraction(spec::Schedule schedule, int64_t stages, int64_t microbatches,
                       int64_t virtual_stages) {
  const auto idle = as_real(stages - 1);
  auto busy = as_real(microbatches);
  if (schedule == spec::Schedule::interleaved) busy *= as_real(virtual_stages);
  if (schedule == spec::Schedule::zero_bubble) busy *= 3;
  return idle / (busy + idle);
}

}  // namespace triplepoint::workload
