// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/study.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::report {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::oom:
      return "oom";
    case Verdict::shutdown:
      return "shutdown";
    case Verdict::invalid:
      return "invalid";
    case Verdict::unreadable:
      return "unreadable";
  }
  return "";
}

StudyRow invalid_row(const spec::StudyJob& job) {
  StudyRow row;
  row.name = job.job.name;
  row.job = job.job;
  row.diagnoses = job.diagnoses;
  row.gpus_per_node = job.job.cluster.gpus_per_node;
  return row;
}

namespace {

/// "32 x H200" where all devices have one name; else empty.
std::string machine_of(const std::vector<run::Device>& devices) {
  if (devices.empty() || devices.front().name.empty()) return "";
  const std::string& name = devices.front().name;
  const bool alike =
      std::ranges::all_of(devices, [&](const run::Device& device) { return device.name == name; });
  return alike ? fmt::format("{} x {}", devices.size(), name) : "";
}

}  // namespace

StudyRow result_row(const spec::StudyJob& job, const run::Run& run, metrics::Metrics metrics) {
  StudyRow row = invalid_row(job);
  row.verdict = run.manifest.fits_memory ? Verdict::ok : Verdict::oom;
  if (run.manifest.fits_memory && !run::has_trained(run)) row.verdict = Verdict::shutdown;
  if (row.verdict == Verdict::ok) row.metrics = std::move(metrics);
  row.memory = run.memory;
  row.memory_limit = run.memory_limit;
  for (const run::Device& device : run.devices) {
    row.slots.push_back(device.slot);
    row.nodes.push_back(device.node);
  }
  row.has_job = run.manifest.job.has_value();
  if (!row.has_job) row.told_machine = machine_of(run.devices);
  row.origin = run.manifest.origin;
  return row;
}

std::optional<std::size_t> worst_stage(const StudyRow& row) {
  if (row.memory.empty()) return std::nullopt;
  const auto worst = std::max_element(
      row.memory.begin(), row.memory.end(),
      [](const run::MemoryUse& a, const run::MemoryUse& b) { return a.total() < b.total(); });
  return static_cast<std::size_t>(worst - row.memory.begin());
}

Summary summary_of(const Study& study) {
  const auto count = [&](Verdict verdict) {
    return static_cast<std::size_t>(
        std::count_if(study.rows.begin(), study.rows.end(),
                      [&](const StudyRow& row) { return row.verdict == verdict; }));
  };
  return {study.rows.size(), count(Verdict::ok), count(Verdict::oom), count(Verdict::invalid),
          count(Verdict::unreadable)};
}

namespace {

using Number = std::optional<double>;
using M = const metrics::Metrics&;

struct Key {
  std::string_view name;
  Number (*of)(M);
};

Number seconds(const std::optional<Seconds>& time) {
  return time ? Number(*time / unit::s) : std::nullopt;
}

/// Kernel seconds are known if there are any.
Number kernel(M m, Seconds (*part)(const metrics::KernelSeconds&)) {
  return m.kernels.total() > Seconds() ? Number(part(m.kernels) / unit::s) : std::nullopt;
}
using K = const metrics::KernelSeconds&;

/// Of a class of kernels.
Number launches(M m, const char* kernels, Number (*part)(const metrics::Launches&)) {
  const auto found = m.launches.find(kernels);
  return found == m.launches.end() ? std::nullopt : part(found->second);
}
using L = const metrics::Launches&;

constexpr Key keys[] = {
    {"step_time_s", [](M m) { return seconds(m.step_time); }},
    {"tokens_per_s", [](M m) { return m.tokens_per_second; }},
    {"tokens_per_s_per_gpu", [](M m) { return m.tokens_per_second_per_gpu; }},
    {"mfu", [](M m) { return m.mfu; }},
    {"joules_per_token", [](M m) { return m.joules_per_token; }},
    {"energy_j", [](M m) { return m.energy_j; }},
    {"samples_per_s_mj", [](M m) { return m.samples_per_s_mj; }},
    {"bubble_fraction", [](M m) { return m.bubble_fraction; }},
    {"exposed_communication_s", [](M m) { return seconds(m.exposed_communication); }},
    {"step_without_heat_s", [](M m) { return seconds(m.step_without_heat); }},
    {"launch_gaps_s", [](M m) { return seconds(m.launch_gaps); }},
    {"power_w.mean", [](M m) { return m.power_mean_w; }},
    {"power_w.peak", [](M m) { return m.power_peak_w; }},
    {"temperature_c.mean", [](M m) { return m.temperature_mean_c; }},
    {"temperature_c.peak", [](M m) { return m.temperature_peak_c; }},
    {"temperature_c.hot_mean", [](M m) { return m.hot_mean_c; }},
    {"temperature_c.cool_mean", [](M m) { return m.cool_mean_c; }},
    {"temperature_c.std_within_nodes", [](M m) { return m.temperature_spread_c.within_nodes; }},
    {"temperature_c.std_between_nodes", [](M m) { return m.temperature_spread_c.between_nodes; }},
    {"temperature_c.package_difference", [](M m) { return m.package_difference_c; }},
    {"memory_temperature_c.mean", [](M m) { return m.memory_mean_c; }},
    {"memory_temperature_c.peak", [](M m) { return m.memory_peak_c; }},
    {"utilization.mean", [](M m) { return m.utilization; }},
    {"cool_downs.count", [](M m) { return m.cool_downs.count; }},
    {"cool_downs.share_of_time", [](M m) { return m.cool_downs.share_of_time; }},
    {"cool_downs.largest_fall_k", [](M m) { return m.cool_downs.largest_fall_k; }},
    {"bursts.swing_w", [](M m) { return m.bursts.swing_w; }},
    {"bursts.microbatch_swing_w", [](M m) { return m.bursts.microbatch_swing_w; }},
    {"bursts.ramp_up_w_per_s", [](M m) { return m.bursts.ramp_up_w_per_s; }},
    {"bursts.duty", [](M m) { return m.bursts.duty; }},
    {"sm_clock_mhz.mean", [](M m) { return m.sm_clock_mean_mhz; }},
    {"sm_clock_mhz.hot_mean", [](M m) { return m.hot_clock_mean_mhz; }},
    {"sm_clock_mhz.cool_mean", [](M m) { return m.cool_clock_mean_mhz; }},
    {"sm_clock_mhz.slowest_in_hot_slot", [](M m) { return m.slowest_in_hot_slot; }},
    {"sm_clock_mhz.in_passes", [](M m) { return m.clock_in_passes_mhz; }},
    {"sm_clock_mhz.lost_to_power", [](M m) { return m.clock_lost_to_power_mhz; }},
    {"sm_clock_mhz.lost_to_temperature", [](M m) { return m.clock_lost_to_temperature_mhz; }},
    {"links.scale_up_utilization", [](M m) { return m.links.scale_up_utilization; }},
    {"links.scale_out_utilization", [](M m) { return m.links.scale_out_utilization; }},
    {"launches.total.count",
     [](M m) { return launches(m, "total", [](L l) { return Number(l.count); }); }},
    {"launches.total.blocks",
     [](M m) { return launches(m, "total", [](L l) { return l.blocks; }); }},
    {"launches.total.warps", [](M m) { return launches(m, "total", [](L l) { return l.warps; }); }},
    {"launches.total.occupancy",
     [](M m) { return launches(m, "total", [](L l) { return l.occupancy; }); }},
    {"launches.compute.blocks",
     [](M m) { return launches(m, "compute", [](L l) { return l.blocks; }); }},
    {"launches.compute.warps",
     [](M m) { return launches(m, "compute", [](L l) { return l.warps; }); }},
    {"launches.compute.occupancy",
     [](M m) { return launches(m, "compute", [](L l) { return l.occupancy; }); }},
    {"kernel_time_s.total", [](M m) { return kernel(m, [](K k) { return k.total(); }); }},
    {"kernel_time_s.compute", [](M m) { return kernel(m, [](K k) { return k.compute; }); }},
    {"kernel_time_s.compute_of_slowest_stage",
     [](M m) { return seconds(metrics::compute_of_slowest_stage(m)); }},
    {"kernel_time_s.memory", [](M m) { return kernel(m, [](K k) { return k.memory; }); }},
    {"kernel_time_s.all_gather", [](M m) { return kernel(m, [](K k) { return k.all_gather; }); }},
    {"kernel_time_s.reduce_scatter",
     [](M m) { return kernel(m, [](K k) { return k.reduce_scatter; }); }},
    {"kernel_time_s.all_reduce", [](M m) { return kernel(m, [](K k) { return k.all_reduce; }); }},
    {"kernel_time_s.send_recv", [](M m) { return kernel(m, [](K k) { return k.send_recv; }); }},
    {"kernel_time_s.all_to_all", [](M m) { return kernel(m, [](K k) { return k.all_to_all; }); }},
};

/// Of prefill and decode; which of them the job is decides what it knows.
Number inference_at(const StudyRow& row, std::string_view key) {
  if (!row.has_job || !row.metrics) return std::nullopt;
  const metrics::InferenceSpeed speed = metrics::inference_speed(row.job.task, *row.metrics);
  if (key == "time_to_first_token_s") return seconds(speed.time_to_first_token);
  return seconds(speed.time_per_output_token);
}

constexpr std::string_view throttle_prefix = "throttle.", ledger_prefix = "energy_ledger_j.";

Number memory_at(const StudyRow& row, std::string_view key) {
  const auto stage = worst_stage(row);
  if (!stage) return std::nullopt;
  if (key == "memory_gib.total") return row.memory[*stage].total() / unit::GiB;
  if (key == "memory_gib.limit" && row.memory_limit) return *row.memory_limit / unit::GiB;
  return std::nullopt;
}

Number ledger_at(M m, std::string_view purpose) {
  const auto found = m.energy_ledger_j.find(std::string(purpose));
  return found == m.energy_ledger_j.end() ? std::nullopt : Number(found->second);
}

}  // namespace

std::optional<double> number_at(const StudyRow& row, std::string_view key) {
  if (key.starts_with("memory_gib.")) return memory_at(row, key);
  if (key == "configuration.num_gpus") {
    return row.has_job ? Number(static_cast<double>(row.job.cluster.num_gpus())) : std::nullopt;
  }
  if (key.starts_with("time_")) return inference_at(row, key);
  if (!row.metrics) return std::nullopt;
  if (key.starts_with(throttle_prefix))
    return metrics::throttled_share(*row.metrics, key.substr(throttle_prefix.size()));
  if (key.starts_with(ledger_prefix))
    return ledger_at(*row.metrics, key.substr(ledger_prefix.size()));
  const auto* found = std::find_if(std::begin(keys), std::end(keys),
                                   [&](const Key& candidate) { return candidate.name == key; });
  TPT_EXPECT(found != std::end(keys));
  return found->of(*row.metrics);
}

double known_number(const StudyRow& row, std::string_view key) {
  const Number number = number_at(row, key);
  TPT_EXPECT(number.has_value());
  return *number;
}

std::vector<std::string_view> known_keys() {
  std::vector<std::string_view> names = {"memory_gib.total", "memory_gib.limit",
                                         "configuration.num_gpus"};
  for (const Key& key : keys)
    names.push_back(key.name);
  return names;
}

}  // namespace triplepoint::report
