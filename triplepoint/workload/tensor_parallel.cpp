// SPDX-License-Identifier: Apache-2.0
// Collectives at the edges of a tensor-parallel region (payloads and sources: tensor_parallel.h). A
// forward collective and its mirror image backward are written in one function, because they have
// to agree about sequence parallelism; which of them hide depends on what runs beside them.
#include "triplepoint/workload/tensor_parallel.h"

namespace triplepoint::workload {
namespace {

using spec::Collective;
using spec::GroupKind;
using spec::Op;
using spec::Overlap;

Op over_tensor(const LayerContext& context, std::string_view name, Collective kind,
               Overlap overlap) {
  return collective(name, kind, GroupKind::tensor, activation_payload(context), overlap);
}

Overlap userbuffers(const LayerContext& context) {
  return context.plan().overlap_tensor && context.share.sequence_parallel ? Overlap::tensor
                                                                          : Overlap::none;
}

/// The mirror image, in a backward pass.
Op backward(Op op) {
  op.backward = true;
  return op;
}

/// Behind the weight gradient, if there is one.
Overlap behind_weight_gradient(const LayerContext& context) {
  return context.share.frozen ? userbuffers(context) : Overlap::tensor;
}

}  // namespace

double activation_payload(const LayerContext& context) {
  return context.share.element * real(context.share.tokens) * real(context.share.hidden);
}

void enter_tensor_region(const LayerContext& context, Passes& passes) {
  if (context.share.tensor == 1) return;
  const Overlap async = behind_weight_gradient(context);
  if (!context.share.sequence_parallel) {
    if (context.share.training)
      passes.backward_input.push_back(
          backward(over_tensor(context, "tp_all_reduce", Collective::all_reduce, async)));
    return;
  }
  passes.forward.push_back(
      over_tensor(context, "tp_all_gather", Collective::all_gather, userbuffers(context)));
  if (!context.share.training) return;
  passes.backward_input.push_back(
      backward(over_tensor(context, "tp_reduce_scatter", Collective::reduce_scatter, async)));
}

void gather_for_weight_gradient(const LayerContext& context, Passes& passes) {
  if (!context.share.sequence_parallel || !context.share.training || context.share.frozen) return;
  passes.backward_weight.push_back(
      backward(over_tensor(context, "tp_all_gather", Collective::all_gather, Overlap::tensor)));
}

void leave_tensor_region(const LayerContext& context, Passes& passes) {
  if (context.share.tensor == 1) return;
  if (!context.share.sequence_parallel) {
    passes.forward.push_back(
        over_tensor(context, "tp_all_reduce", Collective::all_reduce, Overlap::none));
    return;
  }
  passes.forward.push_back(
      over_tensor(context, "tp_reduce_scatter", Collective::reduce_scatter, userbuffers(context)));
  if (!context.share.training) return;
  passes.backward_input.push_back(backward(
      over_tensor(context, "tp_all_gather", Collective::all_gather, userbuffers(context))));
}

}  // namespace triplepoint::workload
