// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/perf/kernel_time.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {

/// One op with its estimate: a kernel that follows the clock, or a collective that does not.
struct OpEstimate {
  const spec::Op* op = nullptr;
  perf::KernelTime kernel;
  perf::CollectiveTime collective;
  bool hidden = false;  // runs on the communication stream, behind the compute of its group
  Flops energy_flops;   // by which a kernel's energy counts
  Seconds at(double clock_ratio) const;
};

struct GroupPoint;

/// Ops that repeat together, and the host's time to launch one repetition.
///
///   length = max(busy, host) + stall
struct GroupEstimate {
  std::string_view name;
  int64_t repeat = 1;
  bool is_layer = false;
  Seconds host;   // on a host of mean speed
  Seconds stall;  // the device waits for a host that waits for the device (MoE dispatch)
  std::vector<OpEstimate> ops;

  Seconds length(const GroupPoint& point, double host_factor) const;
};

/// One repetition of a group at one clock.
struct GroupPoint {
  Seconds busy;     // until both streams are done
  Seconds compute;  // kernels on the compute stream, stretched by what overlaps with them
  Seconds hidden;   // collectives behind them, stretched likewise
  double compute_stretch = 1, hidden_stretch = 1;
  spec::GpuLoad load;  // duration = busy
};

/// What streams that run side by side lose (spec::Stack).
struct OverlapCosts {
  double compute_loss = 0, tensor_compute_loss = 0, transfer_stretch = 0;
  explicit OverlapCosts(const spec::Stack& stack)
      : compute_loss(stack.overlap_compute_loss),
        tensor_compute_loss(stack.tensor_overlap_compute_loss),
        transfer_stretch(stack.overlap_transfer_stretch) {}
};

/// Wall time and load of a whole phase on one GPU; what the governor and the schedule ask for.
struct PhasePoint {
  Seconds duration;
  spec::GpuLoad load;
};

/// One kind of action on one kind of chunk: "forward of a middle stage". The governor holds its
/// mean power at the cap, the schedule runs it as one block. Points are computed once per clock
/// and kept.
class PhaseTable {
 public:
  PhaseTable(std::vector<GroupEstimate> groups, const spec::Stack& stack, int64_t clock_steps,
             double step_ratio);

  /// clock_index k means f_max - k * clock_step.
  const std::vector<GroupPoint>& groups_at(int64_t clock_index);
  PhasePoint at(int64_t clock_index, double host_factor);
  /// Whether some group lasts longer than its work because of its host; else at() is the same for
  /// all faster hosts.
  bool waits_for_host(int64_t clock_index, double host_factor);
  /// Computes all points, after which threads may share the table.
  void fill();

  const std::vector<GroupEstimate>& groups() const { return groups_; }
  double ratio(int64_t clock_index) const { return 1 - as_real(clock_index) * step_ratio_; }

 private:
  std::vector<GroupEstimate> groups_;
  OverlapCosts overlap_;
  double step_ratio_;
  std::vector<std::vector<GroupPoint>> points_;  // [clock index], empty: not asked for yet
  std::vector<spec::GpuLoad> sums_;  // [clock index]: of all groups, if points are there
};

/// Estimates the groups of an action: passes in order, input and weight gradient of one layer side
/// by side.
std::vector<GroupEstimate> estimate_action(const spec::Job&, const workload::WorkGraph&,
                                           const workload::ChunkWork&, workload::ActionKind);

/// Wall time of a phase at the highest clock: PhaseTable::at(0, host_factor).duration.
Seconds duration_at_full_clock(const std::vector<GroupEstimate>&, const spec::Stack&,
                               double host_factor);
/// An action that is not estimated yet.
struct Phase {
  const spec::Job& job;
  const workload::WorkGraph& graph;
  const workload::ChunkWork& work;
  workload::ActionKind kind;
};
/// The same under plans that differ from the job's in their overlaps alone.
std::vector<Seconds> durations_at_full_clock(const Phase&, double host_factor,
                                             const std::vector<spec::Plan>& overlaps);

/// Adds what an op does, and the time it takes, to a load.
void add_work(spec::GpuLoad&, const OpEstimate&);
void add_time(spec::GpuLoad&, const OpEstimate&, Seconds);

/// Estimate of one op of the step's end.
OpEstimate estimate_op(const spec::Job&, const workload::WorkGraph&, const spec::Op&);

}  // namespace triplepoint::sim
