// SPDX-License-Identifier: Apache-2.0
// How far the host is ahead of the GPU.
//
// Times are coarse on purpose: only their ratio counts. Where a layer takes the host longer, the
// GPU is never behind; where it takes the GPU longer, a few layers fill the launch queue.
#include "triplepoint/workload/host_lead.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "triplepoint/workload/chunk_work.h"

namespace triplepoint::workload {
namespace {

bool is_inside(const LayerContext& context) {
  const spec::Cluster& cluster = context.job.cluster;
  return context.share.tensor <= std::max(cluster.gpus_per_node, cluster.scale_up.domain_size);
}

/// A ring over the tensor group: the slowest of its links.
BytesPerSecond ring_bandwidth(const LayerContext& context) {
  const spec::Cluster& cluster = context.job.cluster;
  const BytesPerSecond inside = cluster.scale_up.efficiency * cluster.scale_up.bandwidth;
  if (is_inside(context)) return inside;
  const spec::ScaleOut& fabric = cluster.scale_out;
  return std::min(
      inside, fabric.efficiency * static_cast<double>(fabric.nics_per_node) * fabric.nic_bandwidth);
}

Seconds transfer_time(const LayerContext& context, const spec::Op& op) {
  const double ranks = static_cast<double>(context.share.tensor);
  const double passes = op.collective == spec::Collective::all_reduce ? 2 : 1;
  const spec::Cluster& cluster = context.job.cluster;
  const bool inside = is_inside(context);
  const Seconds start = inside ? cluster.scale_up.launch : cluster.scale_out.launch;
  const Seconds step = inside ? cluster.scale_up.latency : cluster.scale_out.latency;
  return start + passes * (ranks - 1) * (step + op.payload / ranks / ring_bandwidth(context));
}

Seconds kernel_time(const LayerContext& context, const spec::Op& op) {
  const spec::Gpu& gpu = context.job.cluster.gpu;
  const spec::KernelCoefficients& kernels = gpu.kernels;
  const bool attention = op.op_class == spec::OpClass::attention;
  Seconds compute, memory;
  const auto peak = gpu.peak(context.job.plan.precision);
  if (op.is_matrix_work() && peak) {
    const double share = attention
                             ? kernels.attention_forward_share * kernels.attention_portable_share
                             : kernels.gemm_peak_share;
    compute = op.flops / (share * *peak);
  }
  if (gpu.hbm_bandwidth) {
    const double share = kernels.hbm_share * (op.is_matrix_work() ? 1 : kernels.elementwise_share);
    memory = op.hbm_bytes / (share * *gpu.hbm_bandwidth);
  }
  const Seconds start = attention ? kernels.attention_start : kernels.kernel_start;
  return kernels.in_context_slowdown * std::max(compute, memory) + op.kernels * start;
}

/// `host`: of the part, beside its launches.
PassTime time_of(const LayerContext& context, Seconds host, const std::vector<spec::Op>& ops) {
  const spec::Stack& stack = context.stack();
  PassTime time{.host = host, .gpu = {}};
  for (const spec::Op& op : ops) {
    time.host += static_cast<double>(op.kernels) * stack.kernel_launch;
    if (op.is_communication() && op.group == spec::GroupKind::tensor)
      time.host += static_cast<double>(context.share.tensor) * stack.tensor_collective_host;
    time.gpu += op.is_communication() ? transfer_time(context, op) : kernel_time(context, op);
  }
  return time;
}

std::vector<spec::Op> backward_of(const Passes& passes) {
  std::vector<spec::Op> ops = passes.backward_input;
  ops.insert(ops.end(), passes.backward_weight.begin(), passes.backward_weight.end());
  return ops;
}

}  // namespace

PassTimes make_pass_times(const LayerContext& context) {
  const ModelParts parts = make_parts(context);
  const Passes& layer = parts.layer(LayerKind::dense).passes;
  const Passes& head = parts.head.passes;
  const spec::Stack& stack = context.stack();
  return {.layer_forward = time_of(context, stack.layer_forward_host, layer.forward),
          .layer_backward = time_of(context, stack.layer_backward_host, backward_of(layer)),
          .head_forward = time_of(context, {}, head.forward),
          .head_backward = time_of(context, {}, backward_of(head))};
}

void HostLead::launch(PassTime pass) {
  host_ += pass.host;
  gpu_ = std::max(gpu_, host_) + pass.gpu;
}

void HostLead::wait_until(Seconds passed) {
  if (passed < std::numeric_limits<double>::infinity() * unit::s) host_ = std::max(host_, passed);
}

void HostLead::synchronize() {
  is_stalled_ = false;
  host_ = gpu_ = std::max(host_, gpu_);
}

Seconds HostLead::end() const {
  return is_stalled_ ? std::numeric_limits<double>::infinity() * unit::s : gpu_;
}

}  // namespace triplepoint::workload
