// SPDX-License-Identifier: Apache-2.0
// Ops of a Mamba-2 layer (formulas and sources: state_space.h).
//
// The scan in chunks turns a recurrence over tokens into products within chunks and a short
// recurrence over chunks. Each kernel of the reference code is an op, a GEMM of its shape with the
// bytes it moves; bytes decide, as states and scores of a chunk travel through memory between the
// kernels. The backward pass repeats the forward kernels whose results were not kept and has one
// kernel for each gradient.
#include "triplepoint/workload/state_space.h"

#include <algorithm>

namespace triplepoint::workload {
namespace {

using spec::Collective;
using spec::GemmShape;
using spec::GroupKind;
using spec::Op;
using spec::OpClass;

constexpr double state_bytes = 4;  // of an element, as chunks write it and decoding keeps it

/// What one rank scans: under context parallelism all tokens of fewer heads.
struct Scan {
  int64_t tokens, chunks;
  StateSpaceShare part;
  double element;

  double inner() const { return element * real(tokens * part.inner()); }
  double grouped() const { return element * real(tokens * part.groups * part.state); }  // B or C
  double states(double bytes) const { return bytes * real(chunks * part.inner() * part.state); }
  double scores() const { return 4 * real(tokens * part.groups * part.chunk); }
  double steps() const { return 4 * real(tokens * part.heads); }
};

Scan scan_of(const LayerContext& context) {
  const RankShare& share = context.share;
  Scan scan{share.tokens * share.context, 0, state_space_share(context), share.element};
  scan.part.heads = divide_up(scan.part.heads, share.context);
  scan.part.groups = divide_up(scan.part.groups, share.context);
  // A short sequence is one chunk; without the bound the scores would be padded to a whole chunk.
  scan.part.chunk = std::min(scan.part.chunk, std::max<int64_t>(1, share.key_length));
  scan.chunks = share.sequences * divide_up(share.key_length, scan.part.chunk);
  return scan;
}

Op product(const LayerContext& context, std::string_view name, const GemmShape& shape,
           double bytes) {
  Op op = streaming(context, name, OpClass::gemm, bytes);
  op.scan = true;
  op.flops = 2 * real(shape.m) * real(shape.n) * real(shape.k) * real(shape.count) * unit::FLOP;
  op.gemm = shape;
  return op;
}

Op scores(const LayerContext& context, const Scan& scan) {
  const StateSpaceShare& s = scan.part;
  return product(context, "scan_scores", {s.chunk, s.chunk, s.state, scan.chunks * s.groups},
                 2 * scan.grouped() + scan.scores());
}

Op states(const LayerContext& context, const Scan& scan) {
  const StateSpaceShare& s = scan.part;
  return product(context, "scan_states", {s.head_dim, s.state, s.chunk, scan.chunks * s.heads},
                 scan.inner() + scan.grouped() + 3 * scan.steps() + scan.states(state_bytes));
}

/// The recurrence over chunks: every state is read in floats, as the kernel before wrote it, and
/// written in the element that products read.
Op passing(const LayerContext& context, const Scan& scan) {
  Op op = streaming(context, "scan_passing", OpClass::elementwise,
                    scan.states(state_bytes + scan.element));
  op.scan = true;
  return op;
}

Op output(const LayerContext& context, const Scan& scan) {
  const StateSpaceShare& s = scan.part;
  return product(context, "scan_output",
                 {s.chunk, s.head_dim, s.chunk + s.state, scan.chunks * s.heads},
                 2 * scan.inner() + scan.grouped() + scan.scores() + scan.states(scan.element));
}

/// In the order of execution.
std::vector<Op> scan_backward(const LayerContext& context, const Scan& scan) {
  const StateSpaceShare& s = scan.part;
  const int64_t heads = scan.chunks * s.heads, groups = scan.chunks * s.groups;
  const double x = scan.inner(), bc = scan.grouped();
  const double kept = scan.states(scan.element), fresh = scan.states(state_bytes);
  std::vector<Op> ops = {scores(context, scan), states(context, scan), passing(context, scan)};
  const auto add = [&](std::string_view name, const GemmShape& shape, double bytes) {
    ops.push_back(product(context, name, shape, bytes));
  };
  add("scan_states_gradient", {s.head_dim, s.state, s.chunk, heads}, x + bc + fresh);
  ops.push_back(
      streaming(context, "scan_passing_backward", OpClass::elementwise, fresh + 2 * kept));
  add("scan_input_gradient", {s.chunk, s.head_dim, s.chunk + s.state, heads},
      3 * x + bc + scan.scores() + kept);
  add("scan_write_gradient", {s.chunk, s.state, s.head_dim, heads}, x + kept + 2 * bc);
  add("scan_read_gradient", {s.chunk, s.state, s.head_dim, heads}, x + kept + 2 * bc);
  add("scan_scores_gradient", {s.chunk, s.chunk, s.head_dim, heads}, 2 * x + scan.scores());
  add("scan_group_gradients", {s.chunk, s.state, s.chunk, 2 * groups}, 2 * scan.scores() + 4 * bc);
  add("scan_decay_gradient", {s.chunk, s.chunk, s.head_dim, heads},
      2 * x + scan.scores() + 3 * scan.steps());
  for (Op& op : ops)
    op.backward = true;
  return ops;
}

/// Passes are written front to back: the backward one the other way round.
void push_backward(const std::vector<Op>& ops, Passes& passes) {
  passes.backward_input.insert(passes.backward_input.end(), ops.rbegin(), ops.rend());
}

void add_convolution_and_scan(const LayerContext& context, Passes& passes) {
  const Scan scan = scan_of(context);
  const double channels = scan.element * real(scan.tokens * scan.part.channels());
  const Op convolution = streaming(context, "conv1d", OpClass::elementwise, 2 * channels);
  for (const Op& op : {convolution, scores(context, scan), states(context, scan),
                       passing(context, scan), output(context, scan)})
    passes.forward.push_back(op);
  if (!context.share.training) return;
  std::vector<Op> backward = scan_backward(context, scan);
  backward.insert(backward.begin(), convolution);  // its output was not kept
  backward.push_back(streaming(context, "conv1d_backward", OpClass::elementwise, 3 * channels));
  push_backward(backward, passes);
}

/// One token a sequence: state and the last inputs of the convolution, read and written.
void add_state_update(const LayerContext& context, Passes& passes) {
  passes.forward.push_back(streaming(context, "state_update", OpClass::elementwise,
                                     2 * state_space_cache_bytes(context, context.share.sequences),
                                     2));
}

/// z gates the scan's output before its norm.
void add_gated_norm(const LayerContext& context, Passes& passes) {
  const double once =
      context.share.element * real(context.share.tokens * state_space_share(context).inner());
  passes.forward.push_back(streaming(context, "gated_norm", OpClass::norm, 3 * once));
  if (!context.share.training) return;
  passes.backward_input.push_back(
      streaming(context, "gated_norm_backward", OpClass::norm, 5 * once, 2));
  passes.backward_input.back().backward = true;
}

/// Heads for tokens, or back: `width` elements a token of this rank.
void exchange(const LayerContext& context, int64_t width, Passes& passes) {
  const RankShare& share = context.share;
  if (share.context == 1 || context.job.task == spec::Task::decode) return;
  const Op op = collective("cp_all_to_all", Collective::all_to_all, GroupKind::context,
                           share.element * real(share.tokens * width));
  passes.forward.push_back(op);
  if (share.training) passes.backward_input.push_back(op);
}

void add_product_in(const LayerContext& context, const StateSpaceShare& space, Passes& passes) {
  add_linear(context,
             {.name = "state_space_in",
              .input_gradient = "state_space_in_dgrad",
              .weight_gradient = "state_space_in_wgrad",
              .tokens = context.share.tokens,
              .in = context.share.hidden,
              .out = space.projected(),
              .cast_fused = context.stack().fused_norms},
             passes);
  gather_for_weight_gradient(context, passes);
}

void add_product_out(const LayerContext& context, const StateSpaceShare& space, Passes& passes) {
  add_linear(context,
             {.name = "state_space_out",
              .input_gradient = "state_space_out_dgrad",
              .weight_gradient = "state_space_out_wgrad",
              .tokens = context.share.tokens,
              .in = space.inner(),
              .out = context.share.hidden},
             passes);
}

}  // namespace

StateSpaceShare state_space_share(const LayerContext& context) {
  const spec::StateSpace& space = *context.model().state_space;
  return {.heads = divide_up(space.num_heads, context.share.tensor),
          .head_dim = space.head_dim,
          .groups = divide_up(space.num_groups, context.share.tensor),
          .state = space.state_size,
          .chunk = space.chunk_size,
          .conv_width = space.conv_width};
}

void add_state_space(const LayerContext& context, Passes& passes) {
  const StateSpaceShare space = state_space_share(context);
  add_residual_norm(context, "input_norm", passes);
  enter_tensor_region(context, passes);
  add_product_in(context, space, passes);
  exchange(context, space.projected(), passes);
  if (context.job.task == spec::Task::decode)
    add_state_update(context, passes);
  else
    add_convolution_and_scan(context, passes);
  exchange(context, space.inner(), passes);
  add_gated_norm(context, passes);
  add_product_out(context, space, passes);
  leave_tensor_region(context, passes);
  add_residual(context, "state_space_residual", passes);
}

double state_space_activation_bytes(const LayerContext& context) {
  const StateSpaceShare space = state_space_share(context);
  // The product in and the scan's output; the gated norm's is what the product out reads.
  return context.share.element * real(context.share.tokens * (space.projected() + space.inner()));
}

double state_space_served_bytes(const LayerContext& context) {
  const StateSpaceShare space = state_space_share(context);
  const double rows = real(context.share.hidden + space.projected() + 2 * space.inner());
  const double held = context.share.element * real(context.share.tokens) * rows;
  if (context.job.task == spec::Task::decode) return held;
  const Scan scan = scan_of(context);
  return held + scan.states(state_bytes) + scan.scores();
}

double state_space_cache_bytes(const LayerContext& context, int64_t sequences) {
  const StateSpaceShare space = state_space_share(context);
  const double state = state_bytes * real(space.inner() * space.state);
  const double window = context.share.element * real((space.conv_width - 1) * space.channels());
  return real(sequences) * (state + window);
}

}  // namespace triplepoint::workload
