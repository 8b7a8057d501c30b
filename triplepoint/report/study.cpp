// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/study.h"

#include <algorithm>

#include "triplepoint/base/result.h"

#include "triplepoint/run/device_number.h"

#include "triplepoint/answers/quantities.h"

namespace triplepoint::report {

std::string_view name_of(Verdict verdict) {
  return word_for<Verdict::invalid>({"ok", "oom", "shutdown", "invalid"}, verdict);
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

constexpr std::string_view throttle_prefix = "throttle.", ledger_prefix = "energy_ledger_j.";

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
  row.gpus = run::device_numbers(run);
  row.has_job = run.manifest.job.has_value();
  if (!row.has_job) row.inferred_machine = machine_of(run.devices);
  row.origin = run.manifest.origin;
  return row;
}

std::optional<std::size_t> worst_stage(const StudyRow& row) {
  if (row.memory.empty()) return std::nullopt;
  return metrics::fullest_stage(row.memory);
}

Summary summary_of(const Study& study) {
  const auto count = [&](Verdict verdict) {
    return as_size(std::ranges::count(study.rows, verdict, &StudyRow::verdict));
  };
  return {study.rows.size(), count(Verdict::ok), count(Verdict::oom), count(Verdict::invalid)};
}

std::optional<double> number_at(const StudyRow& row, std::string_view key) {
  static const metrics::Metrics nothing;
  const metrics::Metrics& metrics = row.metrics ? *row.metrics : nothing;
  if (key.starts_with(throttle_prefix))
    return row.metrics ? metrics::throttled_share(metrics, key.substr(throttle_prefix.size()))
                       : std::nullopt;
  if (key.starts_with(ledger_prefix))
    return value_at(metrics.energy_ledger_j, std::string(key.substr(ledger_prefix.size())));
  return answers::number_of(key, {.metrics = metrics,
                                  .job = row.has_job ? &row.job : nullptr,
                                  .memory = row.memory,
                                  .memory_limit = row.memory_limit,
                                  .has_trained = row.metrics.has_value(),
                                  .knows_kernels = metrics.kernels.total() > Seconds()});
}

double known_number(const StudyRow& row, std::string_view key) {
  const std::optional<double> number = number_at(row, key);
  TPT_EXPECT(number.has_value());
  return *number;
}

}  // namespace triplepoint::report
