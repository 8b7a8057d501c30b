// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/run/shutdown.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/metrics/inference.h"
#include "triplepoint/metrics/layout.h"
#include "triplepoint/metrics/results_json.h"

namespace triplepoint::metrics {

namespace {

/// What a cell is made from.
struct Source {
  const run::Run& run;
  const Metrics& metrics;
  bool shows_time() const { return run::has_trained(run); }
  bool has_timeline() const { return shows_time() && !run.timeline.empty(); }
  const spec::Job* job() const { return run.manifest.job ? &*run.manifest.job : nullptr; }
};

struct Column {
  const char* name;
  std::string (*cell)(const Source&);
};

std::string text(double number) {
  return fmt::format("{}", number);
}
std::string text(int64_t number) {
  return fmt::format("{}", number);
}
std::string text(std::string_view words) {
  return std::string(words);
}
template <class T>
std::string text(const std::optional<T>& value) {
  if constexpr (std::is_same_v<T, Seconds>)
    return value ? text(*value / unit::s) : std::string();
  else
    return value ? text(*value) : std::string();
}

template <class Ask>
std::string of_job(const Source& source, Ask&& ask) {
  return source.job() != nullptr ? text(ask(*source.job())) : std::string();
}
template <class Ask>
std::string of_plan(const Source& source, Ask&& ask) {
  return source.job() != nullptr ? text(ask(source.job()->plan)) : std::string();
}

std::string memory(const Source& source, Bytes (*part)(const run::MemoryUse&)) {
  if (source.run.memory.empty()) return {};
  return text(part(source.run.memory[worst_stage(source.run)]) / unit::GiB);
}

/// What training alone has.
template <class Ask>
std::string of_training(const Source& source, Ask&& ask) {
  return is_inference(source.run) ? std::string() : of_plan(source, ask);
}
std::string training_memory(const Source& source, Bytes (*part)(const run::MemoryUse&)) {
  return is_inference(source.run) ? std::string() : memory(source, part);
}

InferenceSpeed serving(const Source& source) {
  return source.job() != nullptr ? inference_speed(source.job()->task, source.metrics)
                                 : InferenceSpeed{};
}

std::string kernels(const Source& source, Seconds (*part)(const KernelSeconds&)) {
  return source.has_timeline() ? text(part(source.metrics.kernels) / unit::s) : std::string();
}

std::string throttled(const Source& source, const char* reason) {
  const auto found = source.metrics.throttle.find(reason);
  if (source.metrics.sm_clock_per_gpu_mhz.empty()) return {};
  return text(found == source.metrics.throttle.end() ? 0.0 : found->second);
}

using S = const Source&;
using K = const KernelSeconds&;
using M = const run::MemoryUse&;
using P = const spec::Plan&;
using J = const spec::Job&;

constexpr Column job_columns[] = {
    {"name", [](S s) { return s.run.manifest.name; }},
    {"verdict", [](S s) { return text(run::verdict_of(s.run)); }},
    {"origin", [](S s) { return text(run::name_of(s.run.manifest.origin)); }},
    {"fidelity", [](S s) { return text(run::name_of(s.run.manifest.fidelity)); }},
    {"model", [](S s) { return of_job(s, [](J j) { return std::string_view(j.model.name); }); }},
    {"cluster",
     [](S s) { return of_job(s, [](J j) { return std::string_view(j.cluster.name); }); }},
    {"stack", [](S s) { return of_job(s, [](J j) { return std::string_view(j.stack.name); }); }},
    {"task", [](S s) { return of_job(s, [](J j) { return spec::enum_name(j.task); }); }},
    {"num_gpus", [](S s) { return of_job(s, [](J j) { return j.cluster.num_gpus(); }); }},
    {"tensor_parallel_size",
     [](S s) { return of_plan(s, [](P p) { return p.tensor_parallel_size; }); }},
    {"pipeline_parallel_size",
     [](S s) { return of_plan(s, [](P p) { return p.pipeline_parallel_size; }); }},
    {"data_parallel_size",
     [](S s) { return of_job(s, [](J j) { return data_parallel_size(j); }); }},
    {"context_parallel_size",
     [](S s) { return of_plan(s, [](P p) { return p.context_parallel_size; }); }},
    {"expert_parallel_size",
     [](S s) { return of_plan(s, [](P p) { return p.expert_parallel_size; }); }},
    {"virtual_pipeline_size",
     [](S s) { return of_plan(s, [](P p) { return p.virtual_pipeline_size; }); }},
    {"micro_batch_size", [](S s) { return of_plan(s, [](P p) { return p.micro_batch_size; }); }},
    {"global_batch_size", [](S s) { return of_plan(s, [](P p) { return p.global_batch_size; }); }},
    {"sharding", [](S s) { return of_plan(s, [](P p) { return spec::enum_name(p.sharding); }); }},
    {"recompute",
     [](S s) { return of_training(s, [](P p) { return spec::enum_name(p.recompute); }); }},
    {"schedule",
     [](S s) { return of_training(s, [](P p) { return spec::enum_name(p.schedule); }); }},
    {"precision", [](S s) { return of_plan(s, [](P p) { return spec::enum_name(p.precision); }); }},
};

constexpr Column memory_columns[] = {
    {"memory_total_gib", [](S s) { return memory(s, [](M m) { return m.total(); }); }},
    {"memory_limit_gib",
     [](S s) {
       return s.run.memory_limit ? text(*s.run.memory_limit / unit::GiB) : std::string();
     }},
    {"memory_weights_gib", [](S s) { return memory(s, [](M m) { return m.weights; }); }},
    {"memory_gradients_gib",
     [](S s) { return training_memory(s, [](M m) { return m.gradients; }); }},
    {"memory_optimizer_gib",
     [](S s) { return training_memory(s, [](M m) { return m.optimizer; }); }},
    {"memory_activations_gib", [](S s) { return memory(s, [](M m) { return m.activations; }); }},
    {"memory_other_gib",
     [](S s) { return memory(s, [](M m) { return m.logits + m.buffers + m.reserve; }); }},
};

constexpr Column time_columns[] = {
    {"step_time_s", [](S s) { return text(s.metrics.step_time); }},
    {"tokens_per_s", [](S s) { return text(s.metrics.tokens_per_second); }},
    {"tokens_per_s_per_gpu", [](S s) { return text(s.metrics.tokens_per_second_per_gpu); }},
    {"model_tflops_per_gpu", [](S s) { return text(s.metrics.model_tflops_per_gpu); }},
    {"mfu", [](S s) { return text(s.metrics.mfu); }},
    {"hfu", [](S s) { return text(s.metrics.hfu); }},
    {"bubble_fraction", [](S s) { return text(s.metrics.bubble_fraction); }},
    {"kernel_total_s", [](S s) { return kernels(s, [](K k) { return k.total(); }); }},
    {"kernel_compute_s", [](S s) { return kernels(s, [](K k) { return k.compute; }); }},
    {"kernel_send_recv_s", [](S s) { return kernels(s, [](K k) { return k.send_recv; }); }},
    {"kernel_all_gather_s", [](S s) { return kernels(s, [](K k) { return k.all_gather; }); }},
    {"kernel_reduce_scatter_s",
     [](S s) { return kernels(s, [](K k) { return k.reduce_scatter; }); }},
    {"kernel_all_reduce_s", [](S s) { return kernels(s, [](K k) { return k.all_reduce; }); }},
    {"kernel_all_to_all_s", [](S s) { return kernels(s, [](K k) { return k.all_to_all; }); }},
    {"kernel_memory_s", [](S s) { return kernels(s, [](K k) { return k.memory; }); }},
    {"kernel_other_s", [](S s) { return kernels(s, [](K k) { return k.other; }); }},
    {"kernel_waiting_s", [](S s) { return kernels(s, [](K k) { return k.waiting; }); }},
    {"exposed_communication_s", [](S s) { return text(s.metrics.exposed_communication); }},
    {"overlapped_communication_s", [](S s) { return text(s.metrics.overlapped_communication); }},
    {"idle_s", [](S s) { return text(s.metrics.idle); }},
    {"launch_gaps_s", [](S s) { return text(s.metrics.launch_gaps); }},
};

constexpr Column power_and_heat_columns[] = {
    {"power_mean_w", [](S s) { return text(s.metrics.power_mean_w); }},
    {"power_peak_w", [](S s) { return text(s.metrics.power_peak_w); }},
    {"power_kernel_peak_w", [](S s) { return text(s.metrics.power_kernel_peak_w); }},
    {"energy_j", [](S s) { return text(s.metrics.energy_j); }},
    {"node_energy_j", [](S s) { return text(s.metrics.node_energy_j); }},
    {"joules_per_token", [](S s) { return text(s.metrics.joules_per_token); }},
    {"samples_per_s_mj", [](S s) { return text(s.metrics.samples_per_s_mj); }},
    {"temperature_mean_c", [](S s) { return text(s.metrics.temperature_mean_c); }},
    {"temperature_peak_c", [](S s) { return text(s.metrics.temperature_peak_c); }},
    {"hot_mean_c", [](S s) { return text(s.metrics.hot_mean_c); }},
    {"cool_mean_c", [](S s) { return text(s.metrics.cool_mean_c); }},
    {"hottest_over_coolest", [](S s) { return text(s.metrics.hottest_over_coolest); }},
    {"sm_clock_mean_mhz", [](S s) { return text(s.metrics.sm_clock_mean_mhz); }},
    {"throttle_software_power_cap", [](S s) { return throttled(s, "software_power_cap"); }},
    {"throttle_software_thermal", [](S s) { return throttled(s, "software_thermal"); }},
    {"throttle_hardware_thermal", [](S s) { return throttled(s, "hardware_thermal"); }},
};

constexpr Column inference_columns[] = {
    {"prompt_tokens_per_s", [](S s) { return text(serving(s).prompt_tokens_per_s); }},
    {"time_to_first_token_s", [](S s) { return text(serving(s).time_to_first_token); }},
    {"generated_tokens_per_s", [](S s) { return text(serving(s).generated_tokens_per_s); }},
    {"time_per_output_token_s", [](S s) { return text(serving(s).time_per_output_token); }},
};

template <class Visit>
void for_each_column(Visit&& visit) {
  for (const Column& column : job_columns)
    visit(column);
  for (const Column& column : memory_columns)
    visit(column);
  for (const Column& column : time_columns)
    visit(column);
  for (const Column& column : power_and_heat_columns)
    visit(column);
  for (const Column& column : inference_columns)
    visit(column);
}

}  // namespace

std::vector<std::string> results_columns() {
  std::vector<std::string> names;
  for_each_column([&](const Column& column) { names.emplace_back(column.name); });
  return names;
}

std::vector<std::string> results_row(const run::Run& run, const Metrics& metrics) {
  static const Metrics nothing;  // what a job that does not fit has to show
  const Source source{run, run::has_trained(run) ? metrics : nothing};
  std::vector<std::string> cells;
  for_each_column([&](const Column& column) { cells.push_back(column.cell(source)); });
  return cells;
}

}  // namespace triplepoint::metrics
