// SPDX-License-Identifier: Apache-2.0
// From ops to the time and load of a phase at every clock.
//
// An op is estimated once (kernel or collective time, perf/); what depends on the clock is added up
// per repetition of a layer, where two streams lie over each other: collectives that overlap with
// kernels take SMs and bandwidth from them, so both are stretched while they do. A host that
// launches kernels later than the device runs them sets the pace instead. Points are computed for
// the clocks that a governor asks for, and kept.
//
// Cost: one pass over the ops of a group per clock and table; at() is a sum over groups, and sums
// of loads are kept, because the governor asks for them most. Times in seconds at a clock ratio r =
// f / f_max; ops that do not follow the clock (collectives) have one time.
//
// Approximation: streams are laid over each other per repetition of a group, by sums. Order within
// the layer does not enter, so a collective hides behind all kernels of its layer, also those that
// it would have to wait for. It holds where hidden collectives are spread over a layer, as prefetch
// and gradient buckets are.
#include "triplepoint/sim/phase_table.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

namespace triplepoint::sim {
namespace {

using spec::OpClass;
using workload::ActionKind;

/// Backward tensor-parallel collectives run beside the other gradient's GEMM in every Megatron-like
/// stack; the forward ones only with userbuffers.
bool hides(const spec::Op& op, const spec::Plan& plan) {
  switch (op.overlap) {
    case spec::Overlap::none:
      return plan.overlap_expert && op.collective == spec::Collective::all_to_all &&
             op.group == spec::GroupKind::expert;
    case spec::Overlap::tensor:  // the ring of context parallelism runs beside the attention core
      return op.backward || plan.overlap_tensor || op.group == spec::GroupKind::context;
    case spec::Overlap::prefetch: {
      // The host launches a layer's gather for a forward pass behind the kernels of the layer
      // before. With one connection to the device it starts behind them as well. Backward gathers
      // are launched a layer ahead (PyTorch: BackwardPrefetch.BACKWARD_PRE).
      const bool in_launch_order = plan.cuda_device_max_connections == 1;
      return plan.prefetch_depth > 0 && (op.backward || !in_launch_order);
    }
    // FSDP reduces on the stream that gathers: one process group, one NCCL stream.
    case spec::Overlap::gradient:
      return plan.overlap_gradient || plan.sharding == spec::Sharding::parameters;
    case spec::Overlap::parameter:
      return plan.overlap_parameter;
    case spec::Overlap::copy:
      return true;
  }
  return false;
}

perf::GroupPlacement placement_of(const workload::WorkGraph& graph, spec::GroupKind kind) {
  const workload::GroupShape shape = graph.grid.shape(kind);
  return {shape.ranks, shape.nodes, shape.ranks_per_node, shape.groups_per_node};
}

/// Speed of the stack's attention kernels over the best ones for the chip.
double attention_speed(const spec::Job& job) {
  const spec::KernelCoefficients& kernels = job.cluster.gpu.kernels;
  switch (job.stack.attention_kernels) {
    case spec::AttentionKernels::flash_1:
      return kernels.attention_flash_1_share * kernels.attention_portable_share;
    case spec::AttentionKernels::flash_2:
      return kernels.attention_portable_share;
    case spec::AttentionKernels::unfused:
    case spec::AttentionKernels::native:
      break;
  }
  return 1;
}

/// Rate of a kernel within a step over its rate alone, by what kind of kernel it is.
double share_in_context(const spec::Job& job, const spec::Op& op) {
  const spec::KernelCoefficients& kernels = job.cluster.gpu.kernels;
  // Triton's scans use no instructions of the newest chips either.
  if (op.scan) return kernels.scan_share * kernels.attention_portable_share;
  if (op.op_class == OpClass::norm || op.op_class == OpClass::elementwise)
    return kernels.elementwise_share;
  const bool product = op.op_class == OpClass::gemm || op.op_class == OpClass::grouped_gemm;
  const bool rowwise = product && job.stack.rowwise_scales && spec::is_quantized(op.precision);
  return rowwise ? kernels.rowwise_share : 1;
}

/// Time of a kernel within a step, from its time alone.
void apply_in_context_slowdown(const spec::Job& job, const spec::Op& op, perf::KernelTime& time) {
  const double slowdown = job.cluster.gpu.kernels.in_context_slowdown / share_in_context(job, op);
  // Benchmarks run one kernel in a loop with warm caches and no neighbours; within a step it is
  // slower by a factor for all kernels and one for its kind.
  time.compute *= slowdown;
  time.memory *= slowdown;
  if (op.op_class == OpClass::attention) time.compute /= attention_speed(job);
}

/// Kernels, and what each tensor-parallel collective asks of the host for every peer.
Seconds launch_time(const spec::Job& job, const workload::OpGroup& group) {
  if (job.stack.cuda_graphs) return Seconds();
  int64_t kernels = 0, pieces = 0;
  for (const spec::Op& op : group.ops) {
    kernels += op.kernels;
    if (op.is_communication() && !op.is_host_copy() && op.group == spec::GroupKind::tensor)
      pieces += job.plan.tensor_parallel_size;
  }
  return as_real(kernels) * job.stack.kernel_launch +
         as_real(pieces) * job.stack.tensor_collective_host;
}

Seconds host_time(const spec::Job& job, const workload::OpGroup& group, bool forward) {
  const spec::Stack& stack = job.stack;
  const Seconds per_layer = forward ? stack.layer_forward_host : stack.layer_backward_host;
  return (group.is_layer ? group.host_share * per_layer : Seconds()) + launch_time(job, group);
}

/// A pass through a MoE layer stops once for the router's counts, and launches its experts' kernels
/// one by one. Weight gradients do not.
Seconds stall_time(const spec::Job& job, const workload::OpGroup& group) {
  const auto dispatches = [](const spec::Op& op) { return op.op_class == OpClass::router; };
  const bool stops = std::ranges::any_of(group.ops, dispatches);
  if (!stops) return {};
  // The host launches kernels for each local expert after it has read the counts, so it cannot run
  // ahead. Megatron's dispatcher waits for them on a single rank as well ("before_finish").
  const int64_t experts = job.model.moe->num_experts / job.plan.expert_parallel_size;
  return job.stack.moe_layer_host + as_real(experts) * job.stack.moe_expert_host;
}

/// A group of an action with the host's time for it. Weight gradients run layer by layer beside the
/// input gradients: one repetition of a layer holds both.
struct GroupPass {
  const workload::OpGroup* group = nullptr;
  Seconds host;
  bool beside_input_gradients = false;
};

/// The groups of an action in order.
std::vector<GroupPass> passes_of(const spec::Job& job, const workload::ChunkWork& work,
                                 ActionKind kind) {
  std::vector<GroupPass> passes;
  const auto append = [&](const std::vector<workload::OpGroup>& groups, bool forward) {
    for (const workload::OpGroup& group : groups)
      passes.push_back({&group, host_time(job, group, forward), false});
  };
  if (kind == ActionKind::forward) {
    append(work.forward, true);
  } else if (kind == ActionKind::backward_weight) {
    append(work.backward_weight, false);
  } else {
    append(work.recompute, true);
    append(work.backward_input, false);
  }
  if (kind == ActionKind::backward)
    for (const workload::OpGroup& group : work.backward_weight)
      // Their layer's host time is in the input gradients' pass already; only launches come on top.
      passes.push_back({&group, launch_time(job, group), true});
  return passes;
}

}  // namespace

void add_work(spec::GpuLoad& load, const OpEstimate& estimate) {
  const spec::Op& op = *estimate.op;
  load.flops[as_size(op.op_class)] += estimate.energy_flops;
  // Attention draws the same power in 8 bits: softmax and data movement stay what they were.
  const bool narrow = spec::is_quantized(op.precision) && op.op_class != OpClass::attention;
  if (narrow && op.is_matrix_work())
    // Counted in `flops` of the class as well: the power model subtracts what few bits save.
    (op.precision == spec::Precision::nvfp4 ? load.fp4_flops : load.fp8_flops) +=
        estimate.energy_flops;
  load.hbm_bytes += op.hbm_bytes;
  load.scale_up_bytes += estimate.collective.scale_up_bytes;
  load.scale_out_bytes += estimate.collective.scale_out_bytes;
}

void add_time(spec::GpuLoad& load, const OpEstimate& estimate, Seconds time) {
  if (!estimate.op->is_communication())
    load.computing += time;
  else if (!estimate.op->is_host_copy())
    load.communicating += time;
  if (estimate.collective.scale_out_bytes > Bytes()) load.communicating_scale_out += time;
}

Seconds GroupEstimate::length(const GroupPoint& point, double host_factor) const {
  return std::max(point.busy, host_factor * host) + host_factor * stall;
}

Seconds OpEstimate::at(double clock_ratio) const {
  return op->is_communication() ? collective.total() : kernel.at(clock_ratio);
}

namespace {

/// A collective that is cut into buckets waits for each of them.
perf::CollectiveTime in_messages(int messages, perf::CollectiveTime one) {
  one.latency *= messages;
  one.transfer *= messages;
  one.scale_up_bytes *= messages;
  one.scale_out_bytes *= messages;
  return one;
}

}  // namespace

namespace {

perf::CollectiveTime time_of_collective(const spec::Job& job, const workload::WorkGraph& graph,
                                        const spec::Op& op) {
  if (op.is_host_copy()) return {.transfer = op.payload / *job.cluster.gpu.host_bandwidth};
  return in_messages(op.kernels,
                     perf::collective_time(job.cluster, op.collective, op.payload / op.kernels,
                                           placement_of(graph, op.group)));
}

perf::KernelTime time_of_kernel(const spec::Job& job, const spec::Op& op) {
  perf::KernelTime time = perf::kernel_time(job.cluster.gpu, op);
  apply_in_context_slowdown(job, op, time);
  return time;
}

}  // namespace

OpEstimate estimate_op(const spec::Job& job, const workload::WorkGraph& graph, const spec::Op& op) {
  OpEstimate estimate{.op = &op, .hidden = false};
  if (op.is_communication()) {
    estimate.collective = time_of_collective(job, graph, op);
    estimate.hidden = hides(op, job.plan);
  } else {
    estimate.kernel = time_of_kernel(job, op);
    estimate.energy_flops = perf::energy_flops(job.cluster.gpu, op);
  }
  return estimate;
}

namespace {

/// Groups of an action that run side by side, not estimated yet.
struct JoinedGroups {
  GroupEstimate estimate;  // but for the ops
  std::vector<const workload::OpGroup*> parts;
};

std::vector<JoinedGroups> join_groups(const spec::Job& job, const workload::ChunkWork& work,
                                      ActionKind kind) {
  // Recompute has groups of the same names and repetitions in front; weight gradients must not join
  // those.
  const auto first_input =
      static_cast<std::ptrdiff_t>(kind == ActionKind::backward ? work.recompute.size() : 0);
  std::vector<JoinedGroups> joined;
  for (const auto& [group, host, beside] : passes_of(job, work, kind)) {
    auto at = joined.end();
    if (beside)
      at = std::find_if(joined.begin() + first_input, joined.end(),
                        [&, of = group](const JoinedGroups& candidate) {
                          return candidate.estimate.name == of->name &&
                                 candidate.estimate.repeat == of->repeat;
                        });
    if (at == joined.end())
      at = joined.insert(at, {.estimate = {.name = group->name,
                                           .repeat = group->repeat,
                                           .is_layer = group->is_layer,
                                           .stall = stall_time(job, *group)}});
    at->estimate.host += host;
    at->parts.push_back(group);
  }
  return joined;
}

}  // namespace

std::vector<GroupEstimate> estimate_action(const spec::Job& job, const workload::WorkGraph& graph,
                                           const workload::ChunkWork& work, ActionKind kind) {
  std::vector<GroupEstimate> groups;
  for (auto& [estimate, parts] : join_groups(job, work, kind)) {
    GroupEstimate& group = groups.emplace_back(std::move(estimate));
    size_t ops = 0;
    for (const workload::OpGroup* part : parts)
      ops += part->ops.size();
    group.ops.reserve(ops);
    for (const workload::OpGroup* part : parts)
      for (const spec::Op& op : part->ops)
        group.ops.push_back(estimate_op(job, graph, op));
  }
  return groups;
}

PhaseTable::PhaseTable(std::vector<GroupEstimate> groups, const spec::Stack& stack,
                       int64_t clock_steps, double step_ratio)
    : groups_(std::move(groups)),
      overlap_(stack),
      step_ratio_(step_ratio),
      points_(as_size(clock_steps) + 1),
      sums_(points_.size()) {}

void PhaseTable::fill() {
  for (size_t index = 0; index < points_.size(); ++index)
    groups_at(static_cast<int64_t>(index));
}

namespace {

/// Sums of one repetition before streams are laid over each other.
struct StreamSums {
  Seconds matrix, other, exposed, hidden, hidden_by_userbuffers, copied;
};

std::vector<Seconds> times_of(const GroupEstimate& group, double ratio) {
  std::vector<Seconds> times;
  times.reserve(group.ops.size());
  for (const OpEstimate& estimate : group.ops)
    times.push_back(estimate.at(ratio));
  return times;
}

void add_kernel(StreamSums& sums, const spec::Op& op, Seconds time) {
  (op.is_matrix_work() ? sums.matrix : sums.other) += time;
}

void add_collective(StreamSums& sums, const spec::Op& op, bool hidden, Seconds time) {
  const bool userbuffers = op.overlap == spec::Overlap::tensor && !op.backward;
  if (op.is_host_copy())
    sums.copied += time;
  else if (!hidden)
    sums.exposed += time;
  else
    (userbuffers ? sums.hidden_by_userbuffers : sums.hidden) += time;
}

StreamSums sum_streams(const GroupEstimate& group, std::span<const Seconds> times) {
  StreamSums sums;
  for (size_t i = 0; i < times.size(); ++i) {
    const OpEstimate& estimate = group.ops[i];
    if (estimate.op->is_communication())
      add_collective(sums, *estimate.op, estimate.hidden, times[i]);
    else
      add_kernel(sums, *estimate.op, times[i]);
  }
  return sums;
}

/// One repetition of a group whose ops take these times, without its load.
GroupPoint lay_streams(const StreamSums& sums, const OverlapCosts& overlap) {
  const Seconds hidden = sums.hidden + sums.hidden_by_userbuffers;
  GroupPoint point;
  // While a collective runs it takes SMs and bandwidth: in each of its seconds kernels get 1 - loss
  // seconds of work done, so k seconds of kernels that it covers take k / (1 - loss). Matrix
  // products carry the loss, because they fill the chip.
  if (hidden > Seconds() && sums.matrix > Seconds()) {
    const double loss = (overlap.compute_loss * sums.hidden +
                         overlap.tensor_compute_loss * sums.hidden_by_userbuffers) /
                        hidden;
    const Seconds kernels = sums.matrix + sums.other;
    const Seconds beside = loss < 1 ? std::min(hidden, kernels / (1 - loss)) : hidden;
    point.compute_stretch = 1 + loss * beside / sums.matrix;
    point.hidden_stretch = 1 + overlap.transfer_stretch * (beside / hidden);
  }
  point.compute = point.compute_stretch * sums.matrix + sums.other;
  point.hidden = point.hidden_stretch * hidden;
  // The longest stream sets the pace; exposed collectives stand in the compute stream. Copy engines
  // take no SMs, so copies stretch nothing.
  point.busy = std::max({point.compute + sums.exposed, point.hidden, sums.copied});
  return point;
}

}  // namespace

Seconds duration_at_full_clock(const std::vector<GroupEstimate>& groups, const spec::Stack& stack,
                               double host_factor) {
  const OverlapCosts overlap(stack);
  Seconds duration;
  for (const GroupEstimate& group : groups) {
    const GroupPoint point = lay_streams(sum_streams(group, times_of(group, 1)), overlap);
    duration += as_real(group.repeat) * group.length(point, host_factor);
  }
  return duration;
}

std::vector<Seconds> durations_at_full_clock(const Phase& phase, double host_factor,
                                             const std::vector<spec::Plan>& overlaps) {
  const auto& [job, graph, work, kind] = phase;
  const OverlapCosts overlap(job.stack);
  std::vector<Seconds> durations(overlaps.size());
  std::vector<std::pair<const spec::Op*, Seconds>> collectives;
  for (const auto& [group, parts] : join_groups(job, work, kind)) {
    StreamSums kernels;
    collectives.clear();
    for (const workload::OpGroup* part : parts)
      for (const spec::Op& op : part->ops)
        if (op.is_communication())
          collectives.emplace_back(&op, time_of_collective(job, graph, op).total());
        else
          add_kernel(kernels, op, time_of_kernel(job, op).at(1));
    for (size_t i = 0; i < overlaps.size(); ++i) {
      StreamSums sums = kernels;
      for (const auto& [op, time] : collectives)
        add_collective(sums, *op, hides(*op, overlaps[i]), time);
      durations[i] += as_real(group.repeat) * group.length(lay_streams(sums, overlap), host_factor);
    }
  }
  return durations;
}

const std::vector<GroupPoint>& PhaseTable::groups_at(int64_t clock_index) {
  std::vector<GroupPoint>& points = points_[as_size(clock_index)];
  if (!points.empty() || groups_.empty()) return points;
  points.reserve(groups_.size());
  const double r = ratio(clock_index);
  for (const GroupEstimate& group : groups_) {
    const std::vector<Seconds> times = times_of(group, r);
    GroupPoint point = lay_streams(sum_streams(group, times), overlap_);
    for (size_t i = 0; i < times.size(); ++i) {
      const OpEstimate& estimate = group.ops[i];
      add_work(point.load, estimate);
      add_time(point.load, estimate, (estimate.hidden ? point.hidden_stretch : 1) * times[i]);
    }
    point.load.duration = point.busy;
    point.load.computing = point.compute;
    // Hidden and exposed collectives may add up to more than the group lasts; power counts time on
    // the wire once.
    point.load.communicating = std::min(point.busy, point.load.communicating);
    point.load.communicating_scale_out =
        std::min(point.load.communicating, point.load.communicating_scale_out);
    points.push_back(point);
  }
  spec::GpuLoad& sum = sums_[as_size(clock_index)];
  for (size_t i = 0; i < points.size(); ++i)
    sum += as_real(groups_[i].repeat) * points[i].load;
  return points;
}

PhasePoint PhaseTable::at(int64_t clock_index, double host_factor) {
  PhasePoint phase;
  const std::vector<GroupPoint>& points = groups_at(clock_index);
  for (size_t i = 0; i < points.size(); ++i)
    phase.duration += as_real(groups_[i].repeat) * groups_[i].length(points[i], host_factor);
  phase.load = sums_[as_size(clock_index)];
  phase.load.duration = phase.duration;
  return phase;
}

bool PhaseTable::waits_for_host(int64_t clock_index, double host_factor) {
  const std::vector<GroupPoint>& points = groups_at(clock_index);
  for (size_t i = 0; i < points.size(); ++i)
    if (groups_[i].length(points[i], host_factor) != points[i].busy) return true;
  return false;
}

}  // namespace triplepoint::sim
