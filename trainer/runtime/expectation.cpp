// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/expectation.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;
using spec::GroupKind;
using workload::ActionKind;
using workload::OpGroup;

class Sum {
 public:
  explicit Sum(const workload::RankGrid& grid) : grid_(grid) {}

  void add(const spec::Op& op, double times) {
    if (op.is_communication()) add(op.group, op.collective, times * (op.payload / unit::B));
  }
  void add(GroupKind group, Collective collective, double bytes) {
    if (grid_.shape(group).ranks > 1)
      table_[static_cast<size_t>(group)][static_cast<size_t>(collective)] += bytes;
  }
  void add(const std::vector<OpGroup>& groups) {
    for (const OpGroup& group : groups)
      for (const spec::Op& op : group.ops)
        add(op, static_cast<double>(group.repeat));
  }
  void add(const std::vector<spec::Op>& ops) {
    for (const spec::Op& op : ops)
      add(op, 1);
  }
  const TrafficTable& table() const { return table_; }

 private:
  const workload::RankGrid& grid_;
  TrafficTable table_{};
};

/// The passes that an action plays, and what it sends on.
void add_action(const workload::WorkGraph& graph, size_t stage, const workload::Action& action,
                Sum& sum) {
  const auto chunk = static_cast<size_t>(action.chunk);
  const workload::ChunkWork& work =
      graph.works[static_cast<size_t>(graph.chunk_work[stage][chunk])];
  const double boundary = graph.boundary_bytes / unit::B;
  switch (action.kind) {
    case ActionKind::forward:
      sum.add(work.forward);
      if (!work.has_head) sum.add(GroupKind::pipeline, Collective::send_recv, boundary);
      return;
    case ActionKind::backward:
    case ActionKind::backward_input:
      sum.add(work.recompute);
      sum.add(work.backward_input);
      if (action.kind == ActionKind::backward) sum.add(work.backward_weight);
      if (!work.has_embedding) sum.add(GroupKind::pipeline, Collective::send_recv, boundary);
      return;
    case ActionKind::backward_weight:
      return sum.add(work.backward_weight);
  }
}

}  // namespace

TrafficTable expected_traffic(const workload::WorkGraph& graph, size_t stage) {
  Sum sum(graph.grid);
  for (const workload::Action& action : graph.programs[stage])
    add_action(graph, stage, action, sum);
  const auto step = static_cast<size_t>(graph.step_work[stage]);
  const workload::StepWork& work = graph.step_works[step];
  for (const auto* ops : {&work.gradient_sync, &work.gradient_norm, &work.parameter_sync})
    sum.add(*ops);
  return sum.table();
}

TrafficTable measured_traffic(const RankGroups& groups) {
  TrafficTable table{};
  for (size_t kind = 0; kind < table.size(); ++kind) {
    const Communicator& group = groups.of(static_cast<GroupKind>(kind));
    for (size_t collective = 0; collective < table[kind].size() && group.size() > 1; ++collective)
      table[kind][collective] = group.traffic(static_cast<Collective>(collective)).payload;
  }
  return table;
}

std::array<double, memory_term_count> expected_memory(const workload::WorkGraph& graph,
                                                      size_t stage) {
  const workload::StageMemory& memory = graph.memory.stages[stage];
  const std::array<Bytes, memory_term_count> terms = {memory.weights,   memory.gradients,
                                                      memory.optimizer, memory.activations,
                                                      memory.logits,    memory.buffers};
  std::array<double, memory_term_count> bytes{};
  for (size_t i = 0; i < terms.size(); ++i)
    bytes[i] = terms[i] / unit::B;
  return bytes;
}

}  // namespace triplepoint::trainer
