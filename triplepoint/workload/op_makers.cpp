// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/workload/op_makers.h"

// Makers of ops that all parts of a model share: linear layers, streaming kernels, collectives.
//
// An op is what one rank launches, with flops, bytes and shape; time comes later (perf/). Bytes
// count each operand once: a GEMM's tiles reuse operands in cache, and what that costs beyond is
// part of its efficiency. Casts to few bits are separate ops where no neighbouring kernel writes
// the narrow form.

namespace triplepoint::workload {
namespace {

using spec::GemmShape;
using spec::Op;
using spec::OpClass;
using spec::Precision;

/// Bytes per element of a GEMM's operands.
double operand_bytes(Precision precision) {
  switch (precision) {
    case Precision::fp8:
    case Precision::mxfp8:
      return 1;
    case Precision::nvfp4:
      return 0.5;
    case Precision::fp32:
      return 4;
    default:
      return 2;
  }
}

struct GemmBytes {
  double operand, result;  // per element; a result that is added to counts twice
};

Op gemm(std::string_view name, const GemmShape& shape, Precision precision, GemmBytes bytes) {
  const double m = real(shape.m), n = real(shape.n), k = real(shape.k), count = real(shape.count);
  Op op;
  op.name = name;
  op.op_class = OpClass::gemm;
  op.precision = precision;
  op.flops = 2 * m * n * k * count * unit::FLOP;
  op.hbm_bytes = count * (bytes.operand * (m + n) * k + bytes.result * m * n) * unit::B;
  op.gemm = shape;
  return op;
}

void set_expert_form(Op& op, const Linear& linear) {
  if (linear.count == 1 && !linear.one_kernel_each) return;
  op.op_class = linear.one_kernel_each ? OpClass::gemm : OpClass::grouped_gemm;
  op.kernels = linear.one_kernel_each ? static_cast<int>(linear.count) : 1;
}

/// Input (or output gradient) in few bits, and its transpose for the weight gradient. Fused, one
/// kernel reads it once and writes both; 4-bit scales need the tensor's largest value first, which
/// is another pass over it. Not fused, the largest values are their own pass, and each layout
/// is cast from the 16-bit tensor (torchao, float8 training).
Op quantize(const LayerContext& context, double elements) {
  const Precision precision = context.plan().precision;
  const double copies = context.share.training ? 2 : 1, few = operand_bytes(precision);
  const double fused_reads = precision == Precision::nvfp4 ? 2 : 1;
  // A scale per row needs the largest values of rows and of columns, one pass each.
  const double passes = context.stack().rowwise_scales ? 2 * copies : 1 + copies;
  const double reads = context.stack().fused_casts ? fused_reads : passes;
  Op cast = streaming(context, "fp8_cast", OpClass::elementwise, 0,
                      context.stack().fused_casts ? 1 : static_cast<int>(1 + copies));
  cast.hbm_bytes = elements * (reads * context.share.element + copies * few) * unit::B;
  return cast;
}

/// The weight's cast for a microbatch. Gathered in 8 bits, only its transpose is missing.
Op quantize_weight(const LayerContext& context, double elements) {
  if (gathered_element(context) == context.share.element) return quantize(context, elements);
  return streaming(context, "fp8_transpose", OpClass::elementwise,
                   2 * gathered_element(context) * elements);
}

/// The part of a 4-bit product that stays in bf16 (nvfp4_bf16_share).
Op take_share_in_bf16(Op& op) {
  Op kept = op;
  kept.precision = Precision::bf16;
  kept.flops *= nvfp4_bf16_share;
  kept.hbm_bytes *= nvfp4_bf16_share;
  op.flops *= 1 - nvfp4_bf16_share;
  op.hbm_bytes *= 1 - nvfp4_bf16_share;
  return kept;
}

double weight_gradient_bytes(const LayerContext& context) {
  // FSDP writes a gradient of the layer and reduces it at once; others read, add and write their
  // buffer.
  if (context.plan().sharding == spec::Sharding::parameters) return context.share.element;
  return 2 * context.plan().optimizer.gradient_bytes;
}

/// Both matrices of an adapter are split over TP, whichever way the base is: what is between them,
/// [tokens, rank], is a partial sum in both directions. Source: NeMo, ParallelLinearAdapter.
void sum_between(const LayerContext& context, int64_t tokens, std::vector<Op>& pass) {
  if (context.share.tensor == 1) return;
  pass.push_back(collective("lora_all_reduce", spec::Collective::all_reduce,
                            spec::GroupKind::tensor,
                            context.share.element * real(tokens * context.plan().lora->rank)));
}

/// B A (dropout x) beside W x: two thin GEMMs, scaled and added, and their gradients. No stack here
/// fuses these kernels.
void add_adapter(const LayerContext& context, const Linear& base, Passes& passes) {
  const spec::Lora& lora = *context.plan().lora;
  const Precision precision = context.vector_precision();
  const double element = context.share.element;
  const GemmBytes plain{element, element};
  const GemmBytes accumulated{element, 2 * context.plan().optimizer.gradient_bytes};
  const int64_t t = base.tokens, rank = lora.rank, sharded = context.share.sharded_tokens;
  const double inputs = real(base.row_parallel ? t : sharded) * real(base.in);
  const double outputs = real(base.row_parallel ? sharded : t) * real(base.out);
  const auto stream = [&](std::vector<Op>& pass, std::string_view name, double bytes) {
    pass.push_back(streaming(context, name, OpClass::elementwise, bytes));
  };

  // Backward the adapter's input gradient is added to the base's.
  stream(passes.backward_input, "lora_add", 3 * element * inputs);
  if (lora.dropout > 0) {
    constexpr double mask = 1;
    stream(passes.forward, "lora_dropout", (2 * element + mask) * inputs);
    stream(passes.backward_input, "lora_dropout", (2 * element + mask) * inputs);
  }
  if (!base.row_parallel) enter_adapter(context, passes);
  passes.forward.push_back(gemm("lora_down", {t, rank, base.in}, precision, plain));
  passes.backward_input.push_back(gemm("lora_down_dgrad", {t, base.in, rank}, precision, plain));
  sum_between(context, t, passes.forward);
  sum_between(context, t, passes.backward_input);
  passes.forward.push_back(gemm("lora_up", {t, base.out, rank}, precision, plain));
  passes.backward_input.push_back(gemm("lora_up_dgrad", {t, rank, base.out}, precision, plain));
  if (base.row_parallel) leave_adapter(context, passes);
  stream(passes.forward, "lora_scale", 2 * element * outputs);
  stream(passes.backward_input, "lora_scale", 2 * element * outputs);
  stream(passes.forward, "lora_add", 3 * element * outputs);

  Op down_gradient = gemm("lora_down_wgrad", {rank, base.in, t}, precision, accumulated);
  Op up_gradient = gemm("lora_up_wgrad", {base.out, rank, t}, precision, accumulated);
  down_gradient.backward = up_gradient.backward = true;
  passes.backward_weight.push_back(down_gradient);
  passes.backward_weight.push_back(up_gradient);
}

}  // namespace

Precision LayerContext::vector_precision() const {
  return spec::is_quantized(plan().precision) ? Precision::bf16 : plan().precision;
}

Op streaming(const LayerContext& context, std::string_view name, OpClass op_class, double bytes,
             int kernels) {
  Op op;
  op.name = name;
  op.op_class = op_class;
  op.precision = context.vector_precision();
  op.hbm_bytes = bytes * unit::B;
  op.kernels = kernels;
  return op;
}

Op collective(std::string_view name, spec::Collective kind, spec::GroupKind group, double payload,
              spec::Overlap overlap) {
  Op op;
  op.name = name;
  op.op_class = OpClass::communication;
  op.collective = kind;
  op.group = group;
  op.payload = payload * unit::B;
  op.overlap = overlap;
  return op;
}

double gathered_element(const LayerContext& context) {
  const spec::Stack& stack = context.stack();
  const bool one_scale =
      context.plan().precision == Precision::fp8 && !stack.fused_casts && !stack.rowwise_scales;
  const bool separate = stack.sharded_tensors == spec::ShardedTensors::per_parameter &&
                        context.plan().sharding == spec::Sharding::parameters;
  return one_scale && separate ? operand_bytes(Precision::fp8) : context.share.element;
}

bool is_adapted(const LayerContext& context, std::string_view lora_target) {
  if (!context.plan().lora || lora_target.empty()) return false;
  const auto& targets = context.plan().lora->targets;
  return std::ranges::find(targets, lora_target) != targets.end();
}

void add_linear(const LayerContext& context, const Linear& linear, Passes& passes) {
  const Precision precision =
      linear.quantized ? context.plan().precision : context.vector_precision();
  const bool quantized = spec::is_quantized(precision);
  const GemmBytes bytes{operand_bytes(precision), context.share.element};
  const int64_t t = linear.tokens, count = linear.count;
  const double rows = real(t * count);
  const auto push = [&](std::vector<Op>& pass, Op op) {
    set_expert_form(op, linear);
    if (precision == Precision::nvfp4 && context.share.training)
      pass.push_back(take_share_in_bf16(op));
    pass.push_back(op);
  };

  const bool fused = context.stack().fused_casts;
  if (quantized && !(fused && linear.cast_fused))
    passes.forward.push_back(quantize(context, rows * real(linear.in)));
  // Transformer Engine keeps the cast weights of a step; others cast them for each microbatch.
  if (quantized && !fused)
    passes.forward.push_back(quantize_weight(context, real(linear.in * linear.out * count)));
  push(passes.forward, gemm(linear.name, {t, linear.out, linear.in, count}, precision, bytes));
  if (is_adapted(context, linear.lora_target)) add_adapter(context, linear, passes);
  if (!context.share.training) return;

  push(passes.backward_input,
       gemm(linear.input_gradient, {t, linear.in, linear.out, count}, precision, bytes));
  if (quantized) passes.backward_input.push_back(quantize(context, rows * real(linear.out)));
  if (context.share.frozen) return;

  Op weight_gradient = gemm(linear.weight_gradient, {linear.out, linear.in, t, count}, precision,
                            {bytes.operand, weight_gradient_bytes(context)});
  weight_gradient.backward = true;
  push(passes.backward_weight, weight_gradient);
  if (context.model().biases && linear.bias_rows > 0)
    passes.backward_weight.push_back(
        streaming(context, "bias_gradient", OpClass::elementwise,
                  context.share.element * real(linear.bias_rows) * real(linear.out)));
}

// Kernels that stream tensors: norms, activations, residuals, rotary embeddings. Costs are bytes
// per element and launches, fused or op by op, counted by hand from the kernels' source (table:
// op_makers.h). Launches stand beside bytes, because composed forms may be bound by the host.

namespace {

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

// Collectives at the edges of a tensor-parallel region (payloads and sources: op_makers.h). A
// forward collective and its mirror image backward are written in one function, because they have
// to agree about sequence parallelism; which of them hide depends on what runs beside them.

namespace {

using spec::Collective;
using spec::GroupKind;
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

void enter_adapter(const LayerContext& context, Passes& passes) {
  if (context.share.tensor == 1) return;
  const auto exchange = [&](std::string_view name, Collective kind) {
    return over_tensor(context, name, kind, Overlap::none);
  };
  if (!context.share.sequence_parallel) {
    passes.backward_input.push_back(backward(exchange("lora_all_reduce", Collective::all_reduce)));
    return;
  }
  if (!context.plan().overlap_tensor) return;
  passes.forward.push_back(exchange("lora_all_gather", Collective::all_gather));
  passes.backward_input.push_back(
      backward(exchange("lora_reduce_scatter", Collective::reduce_scatter)));
}

void leave_adapter(const LayerContext& context, Passes& passes) {
  if (context.share.tensor == 1) return;
  const bool joined = context.share.sequence_parallel && context.plan().lora->all_to_all;
  Op exchange =
      joined ? over_tensor(context, "lora_all_to_all", Collective::all_to_all, Overlap::none)
             : over_tensor(context, "lora_all_gather", Collective::all_gather, Overlap::none);
  if (joined) exchange.payload /= real(context.share.tensor);
  passes.forward.push_back(exchange);
  // Without sequence parallelism each rank has the gradient of its part.
  if (context.share.sequence_parallel) passes.backward_input.push_back(backward(exchange));
}

}  // namespace triplepoint::workload
