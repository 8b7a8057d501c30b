// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/run_objects.h"

#include <algorithm>
#include <array>

#include "triplepoint/base/json.h"

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/answers/json_of.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/workload/rank_grid.h"
#include "triplepoint/workload/record_rows.h"

namespace triplepoint::answers {
namespace {

using R = const RunResult&;

/// "700 W", or "350 to 700 W" where devices differ.
template <class Quantity, class Unit>
std::string range_text(const std::vector<Quantity>& each, Unit unit, const char* unit_name) {
  const auto [low, high] = std::minmax_element(each.begin(), each.end());
  if (*low == *high) return fmt::format("{:.4g} {}", *low / unit, unit_name);
  return fmt::format("{:.4g} to {:.4g} {}", *low / unit, *high / unit, unit_name);
}

Celsius hottest_die(const run::Run& run) {
  double hottest = 0;
  for (const run::DeviceSummary& summary : run.summaries)
    hottest = std::max({hottest, summary.die_mean_c.value_or(0), summary.die_peak_c.value_or(0)});
  return Celsius(hottest);
}

/// Whether conditions change while the last step of a simulation over time runs.
bool faults_change_in_last_step(const run::Run& run) {
  if (run.manifest.fidelity != run::Fidelity::transient || run.steps.empty() || run.shutdown)
    return false;
  const Seconds begin = run.steps.back().begin - Instant(), end = run.steps.back().end - Instant();
  return std::ranges::any_of(run.manifest.job->environment.faults, [&](const spec::Fault& fault) {
    const std::optional<Seconds> edge = spec::next_edge(fault, begin);
    return fault.kind != spec::FaultKind::node_lost && edge && *edge < end;
  });
}

}  // namespace

bool is_simulated(R r) {
  return r.run != nullptr && r.job != nullptr && r.run->manifest.origin == run::Origin::simulated;
}

Json shutdown_of(R r) {
  const auto& shutdown = r.run != nullptr ? r.run->shutdown : std::nullopt;
  if (!shutdown) return {};
  Json json = {{"gpu", shutdown->device}, {"die_c", shutdown->die_c}, {"time_s", nullptr}};
  if (shutdown->time) json["time_s"] = *shutdown->time / unit::s;
  return json;
}

// ---- what the job was told

Json records_of(R r) {
  const spec::Job& job = *r.job;
  if (!job.records || spec::has_errors(spec::diagnose(job))) return {};
  const workload::RowContent content = workload::row_content(job);
  return {{"name", job.records->name},
          {"layout", spec::enum_name(job.plan.record_layout)},
          {"mean_tokens", content.tokens / content.records},
          {"records_per_row", content.records},
          {"row_tokens", workload::row_shape(job).length},
          {"used_share", content.tokens / workload::real(workload::row_shape(job).length)}};
}

Json overlaps_of(R r) {
  const spec::Plan& plan = r.job->plan;
  Json list = Json::array();
  if (plan.overlap_tensor) list.push_back("tensor");
  if (plan.overlap_gradient) list.push_back("gradient");
  if (plan.overlap_parameter) list.push_back("parameter");
  if (plan.overlap_pipeline) list.push_back("pipeline");
  if (plan.overlap_expert) list.push_back("expert");
  return list;
}

Json power_limits_of(R r) {
  if (!is_simulated(r) || !(r.job->cluster.gpu.tdp || r.job->environment.power_limit)) return {};
  const std::vector<Watts>& each = r.job->environment.device_power_limits;
  return range_text(each.empty() ? std::vector<Watts>{r.job->power_limit()} : each, unit::W, "W");
}

Json clock_locks_of(R r) {
  const std::vector<Hertz>& each = r.job->environment.device_clock_limits;
  return each.empty() ? Json() : Json(range_text(each, unit::MHz, "MHz"));
}

Json faults_of(R r) {
  const std::string faults = metrics::names_of(r.job->environment.faults);
  return faults.empty() ? "none" : faults;
}

Json horizon_of(R r) {
  return is_simulated(r) ? Json(run::horizon_text(*r.run)) : Json();
}

Json producer_of(R r) {
  if (!is_simulated(r) || r.run->manifest.producer.empty()) return {};
  return r.run->manifest.producer;
}

Json digest_of(R r) {
  if (!is_simulated(r) || r.run->manifest.numbers.empty()) return {};
  return r.run->manifest.numbers;
}

// ---- stages, kernels, messages

Json memory_of_stages(R r) {
  return mapped(r.memory, [](const run::MemoryUse& stage) { return stage.total() / unit::GiB; });
}

Json stages_of(R r) {
  Json list = Json::array();
  for (const metrics::Stage& stage : r.metrics.stages) {
    Json json = {{"stage", stage.stage},
                 {"power_mean_w", of(stage.power_mean_w)},
                 {"temperature_mean_c", of(stage.die_mean_c)},
                 {"sm_clock_mean_mhz", of(stage.sm_clock_mean_mhz)}};
    for (const metrics::KernelPart& part : metrics::kernel_parts())
      json[part.key] = part.of(stage.kernels) / unit::s;
    list.push_back(std::move(json));
  }
  return list;
}

Json producer_numbers_of(R r) {
  if (r.run == nullptr || is_simulated(r)) return {};
  Json numbers = Json::object();
  run::visit_numbers(r.run->numbers, [&](const char* key, const auto& number) {
    if (number) numbers[key] = *number;
  });
  return numbers;
}

Json messages_of(R r) {
  return mapped<Json>(r.metrics.links.messages, [&](const metrics::MessageBucket& bucket) -> Json {
    return {{"up_to_bytes", bucket.upper / unit::B},
            {"count", bucket.count},
            {"bytes", bucket.bytes / unit::B}};
  });
}

// ---- who is slow

std::string_view name_of(run::Cause cause) {
  constexpr std::array causes = {"unknown",        "power_limit", "power_cap",  "power_brake",
                                 "power_delivery", "board",       "heat",       "clock_lock",
                                 "links",          "host",        "data_loader"};
  return causes[as_size(cause)];
}

Json bottlenecks_of(R r) {
  constexpr std::array of = {"gpu", "node", "rank"};
  constexpr std::array kinds = {
      "clock", "scale_up",    "scale_out",   "host",        "late_arrivals", "kernels",
      "gaps",  "first_seen",  "late_launch", "data_loader", "host_call",     "power_limit",
      "power", "temperature", "power_cap",   "power_brake", "heat",          "clock_lock"};
  const auto seconds = [](const std::optional<Seconds>& time) {
    return time ? Json(*time / unit::s) : Json();
  };
  Json list = Json::array();
  for (const run::Bottleneck& bottleneck : r.metrics.bottlenecks) {
    Json evidence = Json::array();
    for (const run::Evidence& item : bottleneck.evidence)
      evidence.push_back({{"kind", kinds[as_size(item.kind)]},
                          {"value", item.value},
                          {"peers", item.peers},
                          {"name", item.name}});
    list.push_back({{"of", of[as_size(bottleneck.of)]},
                    {"who", bottleneck.who},
                    {"cause", name_of(bottleneck.cause)},
                    {"cost_s", seconds(bottleneck.cost)},
                    {"at_most", bottleneck.at_most},
                    {"waits_s", seconds(bottleneck.waits)},
                    {"evidence", std::move(evidence)}});
  }
  return list;
}

RunResult result_of(const run::Run& run, const metrics::Metrics& metrics) {
  static const metrics::Metrics nothing;
  const bool trained = run::has_trained(run);
  return {.metrics = trained ? metrics : nothing,
          .job = run.manifest.job ? &*run.manifest.job : nullptr,
          .memory = run.memory,
          .memory_limit = run.memory_limit,
          .has_trained = trained,
          .knows_kernels = trained && metrics.kernels.total() > Seconds(),
          .run = &run};
}

std::optional<std::string> unlimited_die_note(const spec::Gpu& gpu, Celsius hottest) {
  const auto& governor = gpu.governor;
  if (governor && (governor->target_temperature || governor->slowdown_temperature ||
                   governor->shutdown_temperature))
    return std::nullopt;
  constexpr Celsius lowest_known_shutdown(90);  // of the GPUs whose limits are known
  if (hottest < lowest_known_shutdown) return std::nullopt;
  return fmt::format(
      "a die reaches {:.0f} °C and no source states a temperature limit of the {}: a real one "
      "would lower its clock or shut down",
      hottest.degrees(), gpu.name);
}

std::vector<std::string> notes_of(const run::Run& run) {
  std::vector<std::string> notes = run.manifest.notes;
  if (run.manifest.origin != run::Origin::simulated || !run.manifest.job) return notes;
  if (auto note = unlimited_die_note(run.manifest.job->cluster.gpu, hottest_die(run)))
    notes.push_back(*std::move(note));
  if (faults_change_in_last_step(run))
    notes.emplace_back(
        "faults came or went within the last step: its figures are of lasting conditions between "
        "them, in which a step takes as long");
  return notes;
}

}  // namespace triplepoint::answers
