// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/results_json.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/workload/rank_grid.h"
#include "triplepoint/workload/record_rows.h"

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
  const auto share = throttled_share(source.metrics, reason);
  return share ? text(*share) : std::string();
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

namespace {

template <class Number>
Json of(const std::optional<Number>& number) {
  return number ? Json(*number) : Json();
}
Json of(const std::optional<Seconds>& time) {
  return time ? Json(*time / unit::s) : Json();
}

Json memory_gib(const run::Run& run) {
  if (run.memory.empty()) return {};
  const size_t worst = worst_stage(run);
  const run::MemoryUse& use = run.memory[worst];
  const auto gib = [](Bytes bytes) { return bytes / unit::GiB; };
  const bool trains = !is_inference(run);
  Json json = {{"total", gib(use.total())},
               {"limit", run.memory_limit ? Json(gib(*run.memory_limit)) : Json()},
               {"weights", gib(use.weights)},
               {"gradients", trains ? Json(gib(use.gradients)) : Json()},
               {"optimizer", trains ? Json(gib(use.optimizer)) : Json()},
               {"activations", gib(use.activations)},
               {"other", gib(use.logits + use.buffers + use.reserve)},
               {"worst_stage", worst}};
  json["per_stage"] = Json::array();
  for (const run::MemoryUse& stage : run.memory)
    json["per_stage"].push_back(gib(stage.total()));
  return json;
}

Json kernel_time_s(const KernelSeconds& kernels) {
  return {{"total", kernels.total() / unit::s},
          {"compute", kernels.compute / unit::s},
          {"send_recv", kernels.send_recv / unit::s},
          {"all_gather", kernels.all_gather / unit::s},
          {"reduce_scatter", kernels.reduce_scatter / unit::s},
          {"all_reduce", kernels.all_reduce / unit::s},
          {"all_to_all", kernels.all_to_all / unit::s},
          {"memory", kernels.memory / unit::s},
          {"other", kernels.other / unit::s},
          {"waiting", kernels.waiting / unit::s}};
}

/// Total and compute are always there, so that readers find their keys.
Json launches_json(const Metrics& metrics) {
  Json json = {{"total", Json()}, {"compute", Json()}};
  for (const auto* known : {"total", "compute"})
    json[known] = {{"count", Json()}, {"blocks", Json()}, {"warps", Json()}, {"occupancy", Json()}};
  for (const auto& [label, launches] : metrics.launches)
    json[label] = {{"count", launches.count},
                   {"blocks", of(launches.blocks)},
                   {"warps", of(launches.warps)},
                   {"occupancy", of(launches.occupancy)}};
  return json;
}

Json stages(const Metrics& metrics) {
  Json list = Json::array();
  for (const Stage& stage : metrics.stages) {
    Json json = {{"stage", stage.stage}};
    json.update(kernel_time_s(stage.kernels));
    json["bubble_fraction"] = stage.bubble_fraction;
    json["power_mean_w"] = of(stage.power_mean_w);
    json["temperature_mean_c"] = of(stage.die_mean_c);
    json["sm_clock_mean_mhz"] = of(stage.sm_clock_mean_mhz);
    list.push_back(std::move(json));
  }
  return list;
}

Json links(const LinkUse& use) {
  Json json = {{"scale_up_bytes", use.scale_up / unit::B},
               {"scale_out_bytes", use.scale_out / unit::B},
               {"scale_up_utilization", of(use.scale_up_utilization)},
               {"scale_out_utilization", of(use.scale_out_utilization)},
               {"scale_up_per_gpu_bytes", use.scale_up_per_gpu_bytes},
               {"scale_out_per_gpu_bytes", use.scale_out_per_gpu_bytes},
               {"scale_up_received_per_gpu_bytes", use.scale_up_received_per_gpu_bytes},
               {"pcie_received_per_gpu_bytes", use.pcie_received_per_gpu_bytes},
               {"pcie_sent_per_gpu_bytes", use.pcie_sent_per_gpu_bytes}};
  json["messages"] = Json::array();
  for (const MessageBucket& bucket : use.messages)
    json["messages"].push_back({{"up_to_bytes", bucket.upper / unit::B},
                                {"count", bucket.count},
                                {"bytes", bucket.bytes / unit::B}});
  return json;
}

Json stragglers(const Metrics& metrics) {
  Json list = Json::array();
  for (const Straggler& straggler : metrics.stragglers)
    list.push_back({{"rank", straggler.rank},
                    {"stage", straggler.stage},
                    {"share_of_waits", straggler.share_of_waits},
                    {"cause", straggler.cause}});
  return list;
}

std::string_view name_of(run::PaceSetter::By by) {
  switch (by) {
    case run::PaceSetter::By::clock:
      return "clock";
    case run::PaceSetter::By::scale_up:
      return "scale_up";
    case run::PaceSetter::By::scale_out:
      return "scale_out";
    case run::PaceSetter::By::host:
      return "host";
  }
  return "";
}

Json pace_setters(const Metrics& metrics) {
  Json list = Json::array();
  for (const run::PaceSetter& setter : metrics.pace_setters)
    list.push_back({{"by", name_of(setter.by)},
                    {"of", setter.of_nodes ? "node" : "gpu"},
                    {"who", setter.who},
                    {"value", setter.value},
                    {"peers", setter.peers},
                    {"cost_s", setter.cost / unit::s},
                    {"at_most", setter.at_most},
                    {"limit", setter.limit},
                    {"detail", setter.detail}});
  return list;
}

Json step_parts(const std::optional<StepParts>& parts) {
  if (!parts) return {};
  return {{"computing", parts->computing / unit::s},
          {"copying", parts->copying / unit::s},
          {"exposed_communication", parts->exposed_communication / unit::s},
          {"waiting", parts->waiting / unit::s},
          {"bubble", parts->bubble / unit::s},
          {"gaps", parts->gaps / unit::s}};
}

/// What is hidden behind computing.
Json overlaps(const spec::Plan& plan) {
  Json list = Json::array();
  if (plan.overlap_tensor) list.push_back("tensor");
  if (plan.overlap_gradient) list.push_back("gradient");
  if (plan.overlap_parameter) list.push_back("parameter");
  if (plan.overlap_pipeline) list.push_back("pipeline");
  if (plan.overlap_expert) list.push_back("expert");
  return list;
}

/// "700 W", or "350 to 700 W" where devices differ.
std::string power_limits(const spec::Job& job) {
  const std::vector<Watts>& each = job.environment.device_power_limits;
  if (each.empty()) return fmt::format("{:.4g} W", job.power_limit() / unit::W);
  const auto [low, high] = std::minmax_element(each.begin(), each.end());
  if (*low == *high) return fmt::format("{:.4g} W", *low / unit::W);
  return fmt::format("{:.4g} to {:.4g} W", *low / unit::W, *high / unit::W);
}

Json clock_locks(const spec::Job& job) {
  const std::vector<Hertz>& each = job.environment.device_clock_limits;
  if (each.empty()) return {};
  const auto [low, high] = std::minmax_element(each.begin(), each.end());
  if (*low == *high) return fmt::format("{:.4g} MHz", *low / unit::MHz);
  return fmt::format("{:.4g} to {:.4g} MHz", *low / unit::MHz, *high / unit::MHz);
}

/// What the room and the operator set, and the program and data that computed with it. A recording
/// has measured its conditions: its series have them.
void add_conditions(Json& json, const run::Run& run) {
  if (run.manifest.origin != run::Origin::simulated) return;
  const spec::Job& job = *run.manifest.job;
  const spec::Chassis chassis = job.chassis();
  const std::string faults = names_of(job.environment.faults);
  json["inlet"] = fmt::format("{:.4g} °C", chassis.inlet.degrees());
  json["cooling"] = spec::enum_name(chassis.cooling);
  if (job.cluster.gpu.tdp || job.environment.power_limit) json["power_limit"] = power_limits(job);
  json["clock_lock"] = clock_locks(job);
  json["faults"] = faults.empty() ? "none" : faults;
  json["seed"] = job.environment.seed;
  const auto horizon = run.manifest.facts.find("horizon");
  if (horizon != run.manifest.facts.end()) json["horizon"] = horizon->second;
  if (!run.manifest.producer.empty()) json["producer"] = run.manifest.producer;
  if (!run.manifest.numbers.empty()) json["numbers"] = run.manifest.numbers;
}

/// The job's records, and the rows that they become; null where every record fills its sequence.
Json records(const spec::Job& job) {
  if (!job.records || spec::has_errors(spec::diagnose(job))) return {};
  const workload::RowContent content = workload::row_content(job);
  return {{"name", job.records->name},
          {"layout", spec::enum_name(job.plan.record_layout)},
          {"mean_tokens", content.tokens / content.records},
          {"records_per_row", content.records},
          {"row_tokens", workload::row_shape(job).length},
          {"used_share", content.tokens / workload::real(workload::row_shape(job).length)}};
}

Json plan_and_cluster(const run::Run& run) {
  if (!run.manifest.job) return {};
  const spec::Job& job = *run.manifest.job;
  const spec::Plan& plan = job.plan;
  const bool trains = !is_inference(run);
  return {{"job", job.name},
          {"task", spec::enum_name(job.task)},
          {"model", job.model.name},
          {"cluster", job.cluster.name},
          {"gpu", job.cluster.gpu.name},
          {"stack", job.stack.name},
          {"num_gpus", job.cluster.num_gpus()},
          {"num_nodes", job.cluster.num_nodes},
          {"tensor_parallel_size", plan.tensor_parallel_size},
          {"pipeline_parallel_size", plan.pipeline_parallel_size},
          {"data_parallel_size", of(data_parallel_size(job))},
          {"context_parallel_size", plan.context_parallel_size},
          {"expert_parallel_size", plan.expert_parallel_size},
          {"expert_group_nodes", of(expert_group_nodes(job))},
          {"virtual_pipeline_size", plan.virtual_pipeline_size},
          {"micro_batch_size", plan.micro_batch_size},
          {"global_batch_size", plan.global_batch_size},
          {"num_microbatches", of(num_microbatches(job))},
          {"sequence_length", job.model.sequence_length},
          {"records", records(job)},
          {"sequence_parallel", plan.sequence_parallel},
          {"sharding", spec::enum_name(plan.sharding)},
          {"recompute", trains ? Json(spec::enum_name(plan.recompute)) : Json()},
          {"overlap", overlaps(plan)},
          {"schedule", trains ? Json(spec::enum_name(plan.schedule)) : Json()},
          {"precision", spec::enum_name(plan.precision)}};
}

Json configuration(const run::Run& run) {
  Json json = plan_and_cluster(run);
  if (!json.is_null()) add_conditions(json, run);
  return json;
}

void add_speed(Json& json, const Metrics& m, bool has_timeline) {
  json["step_time_s"] = of(m.step_time);
  json["tokens_per_s"] = of(m.tokens_per_second);
  json["tokens_per_s_per_gpu"] = of(m.tokens_per_second_per_gpu);
  json["samples_per_s"] = of(m.samples_per_second);
  json["model_tflops_per_gpu"] = of(m.model_tflops_per_gpu);
  json["mfu"] = of(m.mfu);
  json["hfu"] = of(m.hfu);
  json["bubble_fraction"] = of(m.bubble_fraction);
  json["kernel_time_s"] = has_timeline ? kernel_time_s(m.kernels) : Json();
  if (has_timeline)
    json["kernel_time_s"]["compute_of_slowest_stage"] = of(compute_of_slowest_stage(m));
  json["launches"] = launches_json(m);
  json["stages"] = stages(m);
  json["exposed_communication_s"] = of(m.exposed_communication);
  json["overlapped_communication_s"] = of(m.overlapped_communication);
  json["step_parts_s"] = step_parts(m.parts);
  json["idle_s"] = of(m.idle);
  json["launch_gaps_s"] = of(m.launch_gaps);
  json["step_without_heat_s"] = of(m.step_without_heat);
}

/// Keys that only inference has.
void add_inference(Json& json, const run::Run& run, const Metrics& m) {
  if (!is_inference(run)) return;
  const InferenceSpeed speed = inference_speed(run.manifest.job->task, m);
  const auto add = [&](const char* key, const Json& value) {
    if (!value.is_null()) json[key] = value;
  };
  add("prompt_tokens_per_s", of(speed.prompt_tokens_per_s));
  add("time_to_first_token_s", of(speed.time_to_first_token));
  add("generated_tokens_per_s", of(speed.generated_tokens_per_s));
  add("time_per_output_token_s", of(speed.time_per_output_token));
}

void add_power_and_heat(Json& json, const Metrics& m) {
  json["power_w"] = {{"mean", of(m.power_mean_w)},
                     {"peak", of(m.power_peak_w)},
                     {"kernel_peak", of(m.power_kernel_peak_w)},
                     {"std_within_nodes", of(m.power_spread_w.within_nodes)},
                     {"std_between_nodes", of(m.power_spread_w.between_nodes)},
                     {"per_gpu", m.power_per_gpu_w},
                     {"peak_per_gpu", m.power_peak_per_gpu_w},
                     {"memory_per_gpu", m.memory_power_per_gpu_w}};
  json["energy_j"] = of(m.energy_j);
  json["node_energy_j"] = of(m.node_energy_j);
  json["joules_per_token"] = of(m.joules_per_token);
  json["samples_per_s_mj"] = of(m.samples_per_s_mj);
  json["energy_ledger_j"] = m.energy_ledger_j;
  json["temperature_c"] = {{"mean", of(m.temperature_mean_c)},
                           {"peak", of(m.temperature_peak_c)},
                           {"hot_mean", of(m.hot_mean_c)},
                           {"cool_mean", of(m.cool_mean_c)},
                           {"hot_over_cool", of(m.hot_over_cool)},
                           {"std_within_nodes", of(m.temperature_spread_c.within_nodes)},
                           {"std_between_nodes", of(m.temperature_spread_c.between_nodes)},
                           {"package_difference", of(m.package_difference_c)},
                           {"hottest_over_coolest", of(m.hottest_over_coolest)},
                           {"per_gpu", m.temperature_per_gpu_c},
                           {"peak_per_gpu", m.temperature_peak_per_gpu_c},
                           {"hot_slots", m.hot_slots}};
  json["memory_temperature_c"] = {{"mean", of(m.memory_mean_c)},
                                  {"peak", of(m.memory_peak_c)},
                                  {"std_within_nodes", of(m.memory_spread_c.within_nodes)},
                                  {"std_between_nodes", of(m.memory_spread_c.between_nodes)},
                                  {"per_gpu", m.memory_per_gpu_c}};
  json["utilization"] = {{"mean", of(m.utilization)},
                         {"std_within_nodes", of(m.utilization_spread.within_nodes)},
                         {"std_between_nodes", of(m.utilization_spread.between_nodes)},
                         {"per_gpu", m.utilization_per_gpu}};
  json["cool_downs"] = {{"count", of(m.cool_downs.count)},
                        {"share_of_time", of(m.cool_downs.share_of_time)},
                        {"mean_length_s", of(m.cool_downs.mean_length)},
                        {"largest_fall_k", of(m.cool_downs.largest_fall_k)},
                        {"share_per_gpu", m.cool_downs.share_per_gpu}};
  json["bursts"] = {{"swing_w", of(m.bursts.swing_w)},
                    {"microbatch_swing_w", of(m.bursts.microbatch_swing_w)},
                    {"ramp_up_w_per_s", of(m.bursts.ramp_up_w_per_s)},
                    {"ramp_down_w_per_s", of(m.bursts.ramp_down_w_per_s)},
                    {"duty", of(m.bursts.duty)},
                    {"swing_per_gpu_w", m.bursts.swing_per_gpu_w}};
  json["sm_clock_mhz"] = {{"mean", of(m.sm_clock_mean_mhz)},
                          {"std_within_nodes", of(m.clock_spread_mhz.within_nodes)},
                          {"std_between_nodes", of(m.clock_spread_mhz.between_nodes)},
                          {"hot_mean", of(m.hot_clock_mean_mhz)},
                          {"cool_mean", of(m.cool_clock_mean_mhz)},
                          {"slowest_in_hot_slot", of(m.slowest_in_hot_slot)},
                          {"in_passes", of(m.clock_in_passes_mhz)},
                          {"lost_to_power", of(m.clock_lost_to_power_mhz)},
                          {"lost_to_temperature", of(m.clock_lost_to_temperature_mhz)},
                          {"per_gpu", m.sm_clock_per_gpu_mhz},
                          {"min_per_gpu", m.sm_clock_min_per_gpu_mhz}};
  json["throttle"] = Json::object();
  for (const auto& [reason, share] : m.throttle)
    json["throttle"][reason] = share;
  json["throttle_per_gpu"] = m.throttle_per_gpu;
  json["throttled_per_gpu"] = m.throttled_per_gpu;
}

void leave_out_devices(Json& json) {
  for (auto entry = json.begin(); entry != json.end();) {
    const bool of_devices = entry.key().find("per_gpu") != std::string::npos &&
                            (entry->is_array() || entry->is_object());
    if (of_devices) {
      entry = json.erase(entry);
      continue;
    }
    if (entry->is_object()) leave_out_devices(*entry);
    ++entry;
  }
}

}  // namespace

size_t worst_stage(const run::Run& run) {
  const auto worst = std::max_element(
      run.memory.begin(), run.memory.end(),
      [](const run::MemoryUse& a, const run::MemoryUse& b) { return a.total() < b.total(); });
  return static_cast<size_t>(worst - run.memory.begin());
}

namespace {

Json shutdown_json(const run::Shutdown& shutdown) {
  Json json = {{"gpu", shutdown.device}, {"die_c", shutdown.die_c}, {"time_s", nullptr}};
  if (shutdown.time) json["time_s"] = *shutdown.time / unit::s;
  return json;
}

}  // namespace

Json results_json(const run::Run& run, const Metrics& metrics) {
  Json json = {{"verdict", run::verdict_of(run)}, {"memory_gib", memory_gib(run)}};
  if (const auto shutdown = run::shutdown_of(run)) json["shutdown"] = shutdown_json(*shutdown);
  if (run::has_trained(run)) {
    add_speed(json, metrics, !run.timeline.empty());
    add_inference(json, run, metrics);
    add_power_and_heat(json, metrics);
    json["links"] = links(metrics.links);
    json["stragglers"] = stragglers(metrics);
    json["pace_setters"] = pace_setters(metrics);
  }
  json["name"] = run.manifest.name;
  json["origin"] = run::name_of(run.manifest.origin);
  json["fidelity"] = run::name_of(run.manifest.fidelity);
  json["configuration"] = configuration(run);
  json["notes"] = run.manifest.notes;
  json["facts"] = run.manifest.facts;
  if (run.devices.size() > most_listed_devices) leave_out_devices(json);
  return json;
}

}  // namespace triplepoint::metrics
