// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/results_json.h"

#include <algorithm>

#include "triplepoint/base/json.h"

#include "triplepoint/run/shutdown.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/metrics/inference.h"
#include "triplepoint/metrics/layout.h"

namespace triplepoint::metrics {

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
               {"scale_out_per_gpu_bytes", use.scale_out_per_gpu_bytes}};
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

Json configuration(const run::Run& run) {
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
          {"sequence_parallel", plan.sequence_parallel},
          {"sharding", spec::enum_name(plan.sharding)},
          {"recompute", trains ? Json(spec::enum_name(plan.recompute)) : Json()},
          {"overlap", overlaps(plan)},
          {"schedule", trains ? Json(spec::enum_name(plan.schedule)) : Json()},
          {"precision", spec::enum_name(plan.precision)}};
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
  json["stages"] = stages(m);
  json["exposed_communication_s"] = of(m.exposed_communication);
  json["overlapped_communication_s"] = of(m.overlapped_communication);
  json["idle_s"] = of(m.idle);
  json["launch_gaps_s"] = of(m.launch_gaps);
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
                     {"per_gpu", m.power_per_gpu_w},
                     {"peak_per_gpu", m.power_peak_per_gpu_w}};
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
                           {"hottest_over_coolest", of(m.hottest_over_coolest)},
                           {"per_gpu", m.temperature_per_gpu_c},
                           {"peak_per_gpu", m.temperature_peak_per_gpu_c},
                           {"hot_seats", m.hot_seats}};
  json["sm_clock_mhz"] = {{"mean", of(m.sm_clock_mean_mhz)},
                          {"hot_mean", of(m.hot_clock_mean_mhz)},
                          {"cool_mean", of(m.cool_clock_mean_mhz)},
                          {"slowest_in_hot_seat", of(m.slowest_in_hot_seat)},
                          {"lost_to_power", of(m.clock_lost_to_power_mhz)},
                          {"lost_to_temperature", of(m.clock_lost_to_temperature_mhz)},
                          {"per_gpu", m.sm_clock_per_gpu_mhz},
                          {"min_per_gpu", m.sm_clock_min_per_gpu_mhz}};
  json["throttle"] = Json::object();
  for (const auto& [reason, share] : m.throttle)
    json["throttle"][reason] = share;
  json["throttle_per_gpu"] = m.throttle_per_gpu;
}

// Numbers of single devices stay in the run where there are more: nobody reads 100,000 of them as
// text, and a study of such jobs would write hundreds of megabytes.
constexpr size_t most_listed_devices = 4096;

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
