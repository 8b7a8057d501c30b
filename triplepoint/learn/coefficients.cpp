// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/coefficients.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/spec/names.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::learn {
namespace {

/// A share of a peak for work that takes exp(log_factor) times as long.
void slow(double& share, double log_factor) {
  share = std::min(std::max(share, 1.0), share * std::exp(-log_factor));
}

void in_context(double x, spec::Job& job) {
  job.cluster.gpu.kernels.in_context_slowdown *= std::exp(x);
}

// What the job has nothing of stays as it is: such a coefficient costs no simulation.

void few_bits(double x, spec::Job& job) {
  if (!spec::is_quantized(job.plan.precision)) return;
  spec::KernelCoefficients& kernels = job.cluster.gpu.kernels;
  slow(kernels.gemm_fp8_share, x);
  if (kernels.gemm_mxfp8_share) slow(*kernels.gemm_mxfp8_share, x);
  if (kernels.gemm_fp4_share) slow(*kernels.gemm_fp4_share, x);
}

void elementwise(double x, spec::Job& job) {
  slow(job.cluster.gpu.kernels.elementwise_share, x);
}

void hbm(double x, spec::Job& job) {
  slow(job.cluster.gpu.kernels.hbm_share, x);
}

void attention(double x, spec::Job& job) {
  slow(job.cluster.gpu.kernels.attention_forward_share, x);
  slow(job.cluster.gpu.kernels.attention_backward_share, x);
}

/// Python between modules differs more than the driver that it calls.
void layer_host(double x, spec::Job& job) {
  job.stack.layer_forward_host *= std::exp(x);
  job.stack.layer_backward_host *= std::exp(x);
  job.stack.kernel_launch *= std::exp(0.5 * x);
}

void microbatch_gap(double x, spec::Job& job) {
  job.stack.microbatch_gap *= std::exp(x);
}

void step_overhead(double x, spec::Job& job) {
  job.stack.step_overhead *= std::exp(x);
}

void nic(double x, spec::Job& job) {
  if (job.cluster.num_nodes == 1) return;
  spec::ScaleOut& links = job.cluster.scale_out;
  slow(links.efficiency, x);
  slow(links.point_to_point_efficiency, x);
  slow(links.all_to_all_efficiency, x);
}

void link(double x, spec::Job& job) {
  spec::ScaleUp& links = job.cluster.scale_up;
  slow(links.efficiency, x);
  slow(links.point_to_point_efficiency, x);
  slow(links.all_to_all_efficiency, x);
  slow(links.nvls_efficiency, x);
}

void start(double x, spec::Job& job) {
  spec::ScaleUp& up = job.cluster.scale_up;
  spec::ScaleOut& out = job.cluster.scale_out;
  for (Seconds* time : {&up.launch, &up.latency, &up.bulk_latency, &up.nvls_latency, &out.launch,
                        &out.latency, &out.hop_latency})
    *time *= std::exp(x);
}

void moe(double x, spec::Job& job) {
  if (!job.model.moe) return;
  job.stack.moe_layer_host *= std::exp(x);
  job.stack.moe_expert_host *= std::exp(x);
}

void overlap(double x, spec::Job& job) {
  for (double* loss : {&job.stack.overlap_compute_loss, &job.stack.tensor_overlap_compute_loss,
                       &job.stack.overlap_transfer_stretch})
    *loss *= std::exp(x);
}

constexpr std::array<Coefficient, coefficient_count> all = {{
    {"in_context", "time of kernels within a step over the same alone", in_context},
    {"few_bits", "time of matrix products in 8 and 4 bits", few_bits},
    {"elementwise", "time of norms and elementwise kernels", elementwise},
    {"hbm", "time to read and write device memory", hbm},
    {"attention", "time of attention kernels", attention},
    {"layer_host", "host time of a layer and its launches", layer_host},
    {"microbatch_gap", "host time between microbatches", microbatch_gap},
    {"step_overhead", "host time of a step", step_overhead},
    {"nic", "time of transfers between nodes", nic},
    {"link", "time of transfers inside of a node", link},
    {"start", "latency of collectives", start},
    {"moe", "host time of expert dispatch", moe},
    {"overlap", "what communication and kernels at once cost each other", overlap},
}};

constexpr double difference = 0.25;

}  // namespace

std::span<const Coefficient, coefficient_count> coefficients() {
  return all;
}

spec::Job scaled(spec::Job job, const LogFactors& factors) {
  for (std::size_t k = 0; k < coefficient_count; ++k)
    if (factors[k] != 0) all[k].apply(factors[k], job);
  return job;
}

spec::Job stretched(spec::Job job, double log_factor) {
  if (log_factor == 0) return job;
  for (const auto slower : {in_context, microbatch_gap, step_overhead, nic, link, start, moe})
    slower(log_factor, job);
  spec::Stack& stack = job.stack;
  for (Seconds* time : {&stack.layer_forward_host, &stack.layer_backward_host, &stack.kernel_launch,
                        &stack.tensor_collective_host})
    *time *= std::exp(log_factor);
  return job;
}

std::optional<double> log_time(const spec::Job& job, TimeOf of) {
  if (of == TimeOf::step) return log_step_time(job);
  const metrics::Metrics simulated = metrics::measure(sim::simulate(job, {.causes = false}));
  const Seconds time = of == TimeOf::compute ? simulated.kernels.compute : simulated.kernels.memory;
  if (!(time > Seconds())) return std::nullopt;
  return std::log(time / unit::s);
}

std::optional<double> log_step_time(const spec::Job& job) {
  const std::optional<Seconds> time = sim::find_steady_step_time(job);
  if (!time || !(*time > Seconds())) return std::nullopt;
  return std::log(*time / unit::s);
}

LogFactors sensitivities(const spec::Job& job, double log_seconds, TimeOf of) {
  LogFactors slopes{};
  for (std::size_t k = 0; k < coefficient_count; ++k) {
    LogFactors slower{};
    slower[k] = difference;
    const spec::Job there = scaled(job, slower);
    if (there == job) continue;  // the job has nothing of it
    if (const std::optional<double> time = log_time(there, of))
      slopes[k] = (*time - log_seconds) / difference;
  }
  return slopes;
}

Knobs knobs_of(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  const spec::ParameterCount parameters = spec::count_parameters(job.model);
  const std::array<double, size_knobs.size() - 1> sizes = {as_real(plan.micro_batch_size),
                                                           as_real(plan.tensor_parallel_size),
                                                           as_real(plan.pipeline_parallel_size),
                                                           as_real(plan.virtual_pipeline_size),
                                                           as_real(plan.context_parallel_size),
                                                           as_real(plan.expert_parallel_size),
                                                           as_real(job.data_parallel_size()),
                                                           as_real(job.cluster.num_nodes),
                                                           as_real(job.model.sequence_length),
                                                           as_real(plan.global_batch_size),
                                                           parameters.total(),
                                                           parameters.active()};
  Knobs knobs;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    knobs.sizes[k] = std::log2(std::max(1.0, sizes[k]));
  knobs.sizes.back() = as_real(plan.recompute);
  knobs.words = {job.model.name,
                 job.cluster.gpu.name,
                 job.stack.name,
                 std::string(spec::enum_name(plan.precision)),
                 std::string(spec::enum_name(plan.sharding)),
                 std::string(spec::name_of(job.task))};
  return knobs;
}

}  // namespace triplepoint::learn
