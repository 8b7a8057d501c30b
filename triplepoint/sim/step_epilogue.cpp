// SPDX-License-Identifier: Apache-2.0
// What a stage does once a step, after its last microbatch: gradient reduction, gradient norm,
// optimizer, parameter gather. Every op is estimated by itself at full clock; ops of one list
// follow each other, so lists add up. The only overlap is with the passes before and behind
// (exposed_time): ops that hide share one stream, so the sum of them is what has to fit behind the
// cover.
#include "triplepoint/sim/step_epilogue.h"

#include <algorithm>

namespace triplepoint::sim {

EpilogueEstimate estimate_epilogue(const spec::Job& job, const workload::WorkGraph& graph,
                                   const workload::StepWork& work) {
  const auto estimate_all = [&](const std::vector<spec::Op>& ops) {
    std::vector<OpEstimate> estimate;
    estimate.reserve(ops.size());
    for (const spec::Op& op : ops)
      estimate.push_back(estimate_op(job, graph, op));
    return estimate;
  };
  EpilogueEstimate end{.gradient_sync = estimate_all(work.gradient_sync),
                       .gradient_norm = estimate_all(work.gradient_norm),
                       .optimizer = estimate_all(work.optimizer),
                       .parameter_sync = estimate_all(work.parameter_sync)};
  for (const OpEstimate& estimate : end.gradient_sync)
    end.waits_for_replicas |=
        estimate.op->is_communication() && graph.grid.shape(estimate.op->group).ranks > 1;
  return end;
}

Seconds exposed_time(const std::vector<OpEstimate>& ops, Seconds cover, double oversubscription) {
  Seconds exposed, hidden;
  for (const OpEstimate& estimate : ops) {
    // Kernels and copies in a node take turns on oversubscribed cores. A message over an emulated
    // fabric is waiting, and waiting needs no core.
    const bool over_fabric =
        estimate.op->is_communication() && estimate.collective.scale_out_bytes > Bytes();
    (estimate.hidden ? hidden : exposed) += (over_fabric ? 1 : oversubscription) * estimate.at(1);
  }
  return exposed + std::max(Seconds(), hidden - cover);
}

Seconds total_time(const std::vector<OpEstimate>& ops) {
  Seconds total;
  for (const OpEstimate& estimate : ops)
    total += estimate.at(1);
  return total;
}

}  // namespace triplepoint::sim
