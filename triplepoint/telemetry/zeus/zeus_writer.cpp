// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "triplepoint/telemetry/zeus/zeus.h"

namespace triplepoint::telemetry {
namespace {

/// 1700000000.250000000
std::string unix_time_text(int64_t unix_ns) {
  constexpr int64_t second_ns = 1'000'000'000;
  return fmt::format("{}.{:09}", unix_ns / second_ns, unix_ns % second_ns);
}

int64_t epoch_of(const run::Run& run) {
  return run.manifest.epoch_unix_ns.value_or(0);
}

const run::Series* power_of(const run::Run& run, int32_t device) {
  for (const char* signal : {"power_instant_w", "power_w", "power_average_w"}) {
    if (const run::Series* series = find_series(run, signal, device)) return series;
  }
  return nullptr;
}

/// The latest value at a time; nothing before the first.
std::optional<double> value_at(const run::Series& series, Instant when) {
  const auto after = std::upper_bound(series.times.begin(), series.times.end(), when);
  if (after == series.times.begin()) return std::nullopt;
  return series.values[static_cast<size_t>(after - series.times.begin()) - 1];
}

std::string power_table(const run::Run& run) {
  std::vector<const run::Series*> all;
  std::string text = "time";
  for (const run::Device& device : run.devices) {
    const run::Series* series = power_of(run, device.index);
    if (series == nullptr) continue;
    all.push_back(series);
    fmt::format_to(std::back_inserter(text), ",power{}", device.index);
  }
  if (all.empty()) return "";
  text += '\n';
  for (const Instant when : all.front()->times) {
    const int64_t unix_ns = epoch_of(run) + when.nanoseconds();
    if (unix_ns < 0) continue;
    text += unix_time_text(unix_ns);
    for (const run::Series* series : all) {
      const auto value = value_at(*series, when);
      text += value ? fmt::format(",{}", *value) : ",";
    }
    text += '\n';
  }
  return text;
}

/// Joules of a device in a step: of its counter, else of its power as far as that is known.
std::optional<double> step_energy(const run::Run& run, int32_t device,
                                  const run::StepRecord& step) {
  if (const run::Series* counter = find_series(run, "energy_j", device)) {
    if (const auto joules = run::counter_difference(*counter, step.begin, step.end)) return joules;
  }
  const run::Series* power = power_of(run, device);
  if (power == nullptr) return std::nullopt;
  const run::SeriesStatistics all = run::statistics(*power, step.begin, step.end);
  if (all.count == 0) return std::nullopt;
  return all.time_weighted_mean * ((step.end - step.begin) / unit::s);
}

std::string window_table(const run::Run& run) {
  if (run.steps.empty()) return "";
  std::string text = "start_time,window_name,elapsed_time";
  for (const run::Device& device : run.devices)
    fmt::format_to(std::back_inserter(text), ",gpu{}_energy", device.index);
  text += '\n';
  for (const run::StepRecord& step : run.steps) {
    const int64_t unix_ns = epoch_of(run) + step.begin.nanoseconds();
    if (unix_ns < 0) continue;
    fmt::format_to(std::back_inserter(text), "{},step,{}", unix_time_text(unix_ns),
                   (step.end - step.begin) / unit::s);
    for (const run::Device& device : run.devices) {
      const auto joules = step_energy(run, device.index, step);
      text += joules ? fmt::format(",{}", *joules) : ",";
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::vector<run::NamedText> zeus_files(const run::Run& run) {
  std::vector<run::NamedText> files;
  if (std::string text = power_table(run); !text.empty())
    files.push_back({"power.csv", std::move(text)});
  if (std::string text = window_table(run); !text.empty())
    files.push_back({"windows.csv", std::move(text)});
  return files;
}

}  // namespace triplepoint::telemetry
