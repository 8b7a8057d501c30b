// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "triplepoint/workload/work_graph.h"

/// Sums over work, for tests that compare it with closed forms.
namespace triplepoint::workload::test {

struct Counted {
  spec::Op op;
  double times;  // per microbatch (or step)
};

inline void add(std::vector<Counted>& all, const std::vector<OpGroup>& groups) {
  for (const OpGroup& group : groups)
    for (const spec::Op& op : group.ops)
      all.push_back({op, static_cast<double>(group.repeat)});
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

}  // namespace triplepoint::workload::test
