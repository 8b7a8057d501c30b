// SPDX-License-Identifier: Apache-2.0
// How many kernels, thread blocks and warps a step launches. Phases repeat, so each is counted once
// and multiplied by how often it runs.
#include <algorithm>
#include <map>
#include <utility>

#include "triplepoint/perf/launch_shape.h"
#include "triplepoint/sim/record.h"

namespace triplepoint::sim {
namespace {

using Class = std::pair<run::SpanKind, std::optional<spec::Collective>>;

Class class_of(const spec::Op& op) {
  if (op.is_communication()) return {run::SpanKind::communication, op.collective};
  return {op.is_matrix_work() ? run::SpanKind::compute : run::SpanKind::memory, std::nullopt};
}

/// Sums by class; occupancy as its integral over time.
class Launches {
 public:
  void add(const spec::Gpu& gpu, const spec::Op& op, Seconds time, double times = 1) {
    const auto shape = perf::launch_shape(gpu, op);
    if (!shape) return;
    run::KernelLaunches& sum = classes_[class_of(op)];
    sum.launches += times * shape->launches;
    sum.blocks += times * shape->blocks;
    sum.warps += times * shape->warps;
    sum.occupancy += times * shape->occupancy * (time / unit::s);
    sum.time += times * time;
  }
  void add(const Launches& other, double times) {
    for (const auto& [key, more] : other.classes_) {
      run::KernelLaunches& sum = classes_[key];
      sum.launches += times * more.launches;
      sum.blocks += times * more.blocks;
      sum.warps += times * more.warps;
      sum.occupancy += times * more.occupancy;
      sum.time += times * more.time;
    }
  }
  std::vector<run::KernelLaunches> means() const {
    std::vector<run::KernelLaunches> means;
    for (const auto& [key, sum] : classes_) {
      means.push_back(sum);
      std::tie(means.back().kind, means.back().collective) = key;
      means.back().occupancy = sum.time > Seconds() ? sum.occupancy / (sum.time / unit::s) : 0;
    }
    return means;
  }

 private:
  std::map<Class, run::KernelLaunches> classes_;
};

Launches of_phase(const spec::Gpu& gpu, const PhaseTable& table, double clock_ratio) {
  Launches launches;
  for (const GroupEstimate& group : table.groups())
    for (const OpEstimate& estimate : group.ops)
      launches.add(gpu, *estimate.op, estimate.at(clock_ratio), static_cast<double>(group.repeat));
  return launches;
}

Launches of_epilogue(const spec::Gpu& gpu, const EpilogueEstimate& end) {
  Launches launches;
  for (const auto* ops :
       {&end.gradient_sync, &end.gradient_norm, &end.optimizer, &end.parameter_sync})
    for (const OpEstimate& estimate : *ops)
      if (estimate.at(1) > Seconds()) launches.add(gpu, *estimate.op, estimate.at(1));
  return launches;
}

/// Messages of the pipeline: one kernel at each end.
Launches of_messages(const StepModel& model, const CoupledStep& step, size_t stage) {
  spec::Op message;
  message.op_class = spec::OpClass::communication;
  message.collective = spec::Collective::send_recv;
  Launches launches;
  const std::vector<StageTimeline>& stages = step.timeline.pipelines.front();
  for (const ActionTimes& action : stages[stage].actions)
    if (action.sent > Seconds()) launches.add(model.job.cluster.gpu, message, action.sent, 2);
  return launches;
}

}  // namespace

std::vector<run::KernelLaunches> count_launches(StepModel& model, const CoupledStep& step) {
  const spec::Gpu& gpu = model.job.cluster.gpu;
  const std::vector<LockstepGroup>& groups = model.pipelines.front().groups;
  std::map<std::pair<size_t, int64_t>, Launches> phases;  // [table, clock]: stages share them
  Launches sum;
  for (const LockstepGroup& group : groups) {
    const auto stage = static_cast<size_t>(group.stage);
    const auto device = static_cast<size_t>(group.devices.front());
    for (size_t u = 0; u < model.uses[stage].size(); ++u) {
      const PhaseUse& use = model.uses[stage][u];
      const int64_t index = step.clocks.devices[device][u].clock_index;
      const std::pair key(model.table_index(group, use), index);
      auto phase = phases.find(key);
      if (phase == phases.end()) {
        const PhaseTable& table = model.table(group, use);
        phase = phases.emplace(key, of_phase(gpu, table, table.ratio(index))).first;
      }
      sum.add(phase->second, static_cast<double>(use.count));
    }
    sum.add(of_epilogue(gpu, model.epilogue_of(stage)), 1);
    sum.add(of_messages(model, step, stage), 1);
  }
  Launches mean;
  mean.add(sum, 1 / static_cast<double>(groups.size()));
  return mean.means();
}

}  // namespace triplepoint::sim
