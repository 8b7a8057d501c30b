// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/op.h"

#include "triplepoint/workload/work_graph.h"

#include "trainer/comm/endpoint.h"
#include "trainer/memory_ledger.h"
#include "trainer/runtime/rank_groups.h"

namespace triplepoint::trainer {

/// Linear warm-up, then constant.
struct LearningRate {
  double peak = 1e-3;
  int64_t warmup_steps = 0;

  double at(int64_t step) const {
    if (step >= warmup_steps) return peak;
    return peak * as_real(step + 1) / as_real(warmup_steps);
  }
};

/// What is asked of a training beside its job.
struct TrainSettings {
  int64_t steps = 10;
  uint64_t seed = 1;
  std::string data = "synthetic";
  LearningRate rate;
  double weight_decay = 0.1;
  double clip = 1;  // largest norm of a step's gradient; 0: any

  const std::atomic<bool>* stop = nullptr;  // asks all ranks to end after this step, if any is set

  double peak_flops = 0;  // of one rank, 1/s; 0: measured at the start
};

/// Refuses settings of the optimizer and of the run that cannot train: not finite, or out of range.
Result<void> check_settings(const TrainSettings&);

/// Bytes (payload, S of nccl-tests) by [group][collective].
using TrafficTable = std::array<std::array<double, spec::collective_count>, spec::group_kind_count>;

/// What `workload` says that one rank of a stage moves in one step; groups of one rank left out.
TrafficTable expected_traffic(const workload::WorkGraph&, size_t stage);

/// What this rank has moved so far.
TrafficTable measured_traffic(const RankGroups&);

/// The memory model's bytes of a stage by MemoryTerm.
std::array<double, memory_term_count> expected_memory(const workload::WorkGraph&, size_t stage);

struct StepResult {
  int64_t step = 0;
  double loss = 0, gradient_norm = 0, rate = 0;
  double seconds = 0;  // from the first rank's begin to rank 0's end
};

/// What one rank has to say at the end.
struct TrainReport {
  int rank = 0;
  size_t stage = 0;
  std::vector<StepResult> steps;
  double rank_peak_flops = 0;          // 1/s
  double all_peak_flops = 0;           // of all ranks together
  TrafficTable traffic{}, expected{};  // bytes of all steps; of one step
  std::array<double, memory_term_count> memory{}, expected_memory{};
  bool stopped = false;  // stopped early on request
};

/// The reports of all ranks but for their steps, on every rank; called by all of them together.
std::vector<TrainReport> exchange_reports(Communicator& world, const TrainReport& own);

/// Called by rank 0 after every step.
using OnStep = std::function<void(const StepResult&, const TrainReport&)>;

/// What a training leaves behind on every rank.
struct TrainOutcome {
  TrainReport own;
  std::vector<TrainReport> all;  // by rank, without steps
};

/// Trains as one rank of the job; all ranks call it. Throws CommError where a peer is lost.
Result<TrainOutcome> train(const spec::Job&, const TrainSettings&, Endpoint&, const OnStep& = {});

/// Sets up the endpoint as the job's plan wants it.
EndpointSettings endpoint_settings(const spec::Job&, double timeout_seconds);

}  // namespace triplepoint::trainer
