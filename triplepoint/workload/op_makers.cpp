// SPDX-License-Identifier: Apache-2.0
// Makers of ops that all parts of a model share: linear layers, streaming kernels, collectives.
//
// An op is what one rank launches, with flops, bytes and shape; time comes later (perf/). Bytes
// count each operand once: a GEMM's tiles reuse operands in cache, and what that costs beyond is
// part of its efficiency. Casts to few bits are separate ops where no neighbouring kernel writes
// the narrow form.
#include "triplepoint/workload/op_makers.h"

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

/// The recipe for training in 4 bits leaves some of the linear layers in bf16 (about 15 per cent,
/// NVIDIA 2025, arXiv 2509.25149): each layer here carries its part of them.
Op take_share_in_bf16(Op& op) {
  constexpr double in_bf16 = 0.15;
  Op kept = op;
  kept.precision = Precision::bf16;
  kept.flops *= in_bf16;
  kept.hbm_bytes *= in_bf16;
  op.flops *= 1 - in_bf16;
  op.hbm_bytes *= 1 - in_bf16;
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

/// B A x beside W x: two thin GEMMs and a scaled addition, and their gradients.
void add_adapter(const LayerContext& context, const Linear& base, Passes& passes) {
  const int64_t rank = context.plan().lora->rank;
  const Precision precision = context.vector_precision();
  const double element = context.share.element;
  const GemmBytes plain{element, element};
  const GemmBytes accumulated{element, 2 * context.plan().optimizer.gradient_bytes};
  const double added = 3 * element * real(base.tokens) * real(base.out);
  const int64_t t = base.tokens;
  passes.forward.push_back(gemm("lora_down", {t, rank, base.in}, precision, plain));
  sum_between(context, t, passes.forward);
  passes.forward.push_back(gemm("lora_up", {t, base.out, rank}, precision, plain));
  passes.forward.push_back(streaming(context, "lora_add", OpClass::elementwise, added));
  // Backward the adapter's input gradient is added to the base's.
  const double joined = 3 * element * real(t) * real(base.in);
  passes.backward_input.push_back(streaming(context, "lora_add", OpClass::elementwise, joined));
  passes.backward_input.push_back(gemm("lora_down_dgrad", {t, base.in, rank}, precision, plain));
  sum_between(context, t, passes.backward_input);
  passes.backward_input.push_back(gemm("lora_up_dgrad", {t, rank, base.out}, precision, plain));
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

bool is_adapted(const LayerContext& context, std::string_view lora_target) {
  if (!context.plan().lora || lora_target.empty()) return false;
  const auto& targets = context.plan().lora->targets;
  return std::find(targets.begin(), targets.end(), lora_target) != targets.end();
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
    passes.forward.push_back(quantize(context, real(linear.in * linear.out * count)));
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

}  // namespace triplepoint::workload
