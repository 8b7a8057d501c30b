// SPDX-License-Identifier: Apache-2.0
// Kernels that stream tensors: norms, activations, residuals, rotary embeddings. Costs are bytes
// per element and launches, fused or op by op, counted by hand from the kernels' source (table:
// vector_ops.h). Launches stand beside bytes, because composed forms may be bound by the host.
#include "triplepoint/workload/vector_ops.h"

namespace triplepoint::workload {
namespace {

using spec::OpClass;

/// Bytes per element and launches, one way.
struct StreamCost {
  double bytes = 0;
  int kernels = 1;
};

struct VectorCost {
  StreamCost forward, backward;
};

/// `in`: bytes of an element of its input, which is the trunk or an activation.
VectorCost norm_cost(const LayerContext& context, double in) {
  const double e = context.share.element;
  const int gain_kernels = context.share.frozen ? 1 : 2;
  if (context.stack().fused_norms) return {{in + e, 1}, {2 * in + e, gain_kernels}};
  if (context.model().normalization == spec::Normalization::layer_norm)
    return {{2 * in + e, 1}, {3 * in + 2 * e, gain_kernels}};
  return {{36, 6}, {60, 10}};
}

VectorCost activation_cost(const LayerContext& context) {
  const double e = context.share.element;
  const bool fused = context.stack().fused_activations;
  switch (context.model().activation) {
    case spec::Activation::swiglu:
      if (fused) return {{3 * e, 1}, {5 * e, 1}};
      return {{5 * e, 2}, {9 * e, 4}};
    case spec::Activation::squared_relu:
      if (fused) return {{2 * e, 1}, {3 * e, 1}};
      return {{4 * e, 2}, {6 * e, 2}};
    case spec::Activation::gelu:
      break;
  }
  // Composed: the bias is its own kernel.
  if (fused || !context.model().biases) return {{2 * e, 1}, {3 * e, 1}};
  return {{4 * e, 2}, {3 * e, 1}};
}

VectorCost residual_cost(const LayerContext& context) {
  const double e = context.share.element, trunk = context.share.residual;
  const bool dropout = context.share.training && context.model().dropout > 0;
  const double mask = dropout ? 1 : 0;
  const StreamCost backward{dropout ? trunk + e + mask : 0, dropout ? 1 : 0};
  if (context.stack().fused_activations) return {{e + 2 * trunk + mask, 1}, backward};
  const int bias = context.model().biases ? 1 : 0;
  const int drop = dropout ? 1 : 0;
  return {{e + 2 * trunk + 2 * e * (bias + drop) + mask, 1 + bias + drop}, backward};
}

VectorCost rotary_cost(const LayerContext& context) {
  const double e = context.share.element;
  const StreamCost cost =
      context.stack().fused_activations ? StreamCost{2 * e, 2} : StreamCost{7 * e, 8};
  return {cost, cost};
}

/// Front to back in both passes: what is pushed later runs earlier backward.
void push(const LayerContext& context, std::string_view name, OpClass op_class, double elements,
          const VectorCost& cost, Passes& passes) {
  const auto op = [&](const StreamCost& one_way) {
    return streaming(context, name, op_class, one_way.bytes * elements, one_way.kernels);
  };
  passes.forward.push_back(op(cost.forward));
  if (!context.share.training || cost.backward.kernels == 0) return;
  passes.backward_input.push_back(op(cost.backward));
  passes.backward_input.back().backward = true;
}

double trunk_elements(const LayerContext& context) {
  return real(context.share.sharded_tokens) * real(context.share.hidden);
}

}  // namespace

void add_norm(const LayerContext& context, std::string_view name, double elements, Passes& passes) {
  push(context, name, OpClass::norm, elements, norm_cost(context, context.share.element), passes);
}

void add_residual_norm(const LayerContext& context, std::string_view name, Passes& passes) {
  if (context.share.training)
    passes.backward_input.push_back(
        streaming(context, "residual_gradient", OpClass::elementwise,
                  3 * context.share.residual * trunk_elements(context)));
  add_module(context, spec::RecomputeModule::layernorm, passes, [&] {
    push(context, name, OpClass::norm, trunk_elements(context),
         norm_cost(context, context.share.residual), passes);
  });
}

void add_residual(const LayerContext& context, std::string_view name, Passes& passes) {
  push(context, name, OpClass::elementwise, trunk_elements(context), residual_cost(context),
       passes);
}

void add_rotary_embedding(const LayerContext& context, double elements, Passes& passes) {
  push(context, "rotary", OpClass::elementwise, elements, rotary_cost(context), passes);
}

void add_activation(const LayerContext& context, double outputs, Passes& passes) {
  push(context, "activation", OpClass::elementwise, outputs, activation_cost(context), passes);
}

}  // namespace triplepoint::workload
