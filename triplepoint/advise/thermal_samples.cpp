// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <initializer_list>
#include <map>

#include "triplepoint/run/run.h"
#include "triplepoint/run/throttle_reasons.h"

#include "triplepoint/advise/thermal_groups.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::advise {
namespace {

using Number = std::optional<double>;

Number entry(const std::vector<double>& values, size_t i) {
  if (i >= values.size() || std::isnan(values[i])) return std::nullopt;
  return values[i];
}

constexpr std::string_view set_titles[] = {"config", "snapshot_id", "trace_id"};

std::optional<size_t> set_column(const CsvTable& table) {
  for (const std::string_view title : set_titles)
    if (const auto column = table.column(title)) return column;
  return std::nullopt;
}

/// Columns gpu0, gpu1, ...
std::vector<size_t> gpu_columns(const CsvTable& table) {
  std::vector<size_t> columns;
  while (const auto column = table.column(fmt::format("gpu{}", columns.size())))
    columns.push_back(*column);
  return columns;
}

Number ThermalSample::*field_of_panel(std::string_view panel) {
  const auto has = [&](std::string_view word) { return panel.find(word) != panel.npos; };
  if (has("throttl")) return &ThermalSample::throttled;
  if (has("clock")) return &ThermalSample::clock_mhz;
  if (has("power")) return &ThermalSample::power_w;
  return panel.empty() || has("temp") ? &ThermalSample::temperature_c : nullptr;
}

/// Not what stands for a sensor that is not there: 0, 255 °C.
bool is_reading(const Number& value, Number ThermalSample::*field) {
  if (!value || !std::isfinite(*value) || *value < 0) return false;
  constexpr double hottest_c = 130;
  if (field == &ThermalSample::temperature_c) return *value >= 1 && *value <= hottest_c;
  return *value > 0 || field == &ThermalSample::throttled;
}

Result<std::vector<ThermalSample>> read_wide(const CsvTable& table, const TableChoice& choice,
                                             const std::vector<size_t>& gpus) {
  const auto set = set_column(table), panel = table.column("panel");
  std::map<std::string, std::vector<ThermalSample>> sets;
  for (size_t row = 0; row < table.rows(); ++row) {
    const std::string name(set ? table.at(row, *set) : "");
    const bool wanted = choice.row ? name == *choice.row : name.find("Avg") == name.npos;
    const auto field = field_of_panel(panel ? table.at(row, *panel) : "");
    if (!wanted || field == nullptr) continue;
    std::vector<ThermalSample>& samples = sets[name];
    samples.resize(gpus.size());
    for (size_t i = 0; i < gpus.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      samples[i].node = index / choice.gpus_per_node;
      samples[i].local = index % choice.gpus_per_node;
      const Number value = TPT_TRY(table.number(row, gpus[i]));
      if (is_reading(value, field)) samples[i].*field = value;
    }
  }
  std::vector<ThermalSample> all;
  for (const auto& [name, samples] : sets)
    all.insert(all.end(), samples.begin(), samples.end());
  if (all.empty())
    return error(
        "{}: no row of temperatures{} (nothing to group GPUs by); leave out "
        "--row, or name a config of the table",
        table.name(), choice.row ? " of \"" + *choice.row + "\"" : "");
  return all;
}

const run::Series* first_series(const run::SeriesIndex& index,
                                std::initializer_list<const char*> signals, int32_t device) {
  for (const char* const signal : signals)
    if (const run::Series* const found = index.find(signal, device)) return found;
  return nullptr;
}

/// Each moment of a recording without steps as a sample: a GPU under several loads shows what
/// power does to it.
std::vector<ThermalSample> samples_over_time(const run::Run& run) {
  const run::SeriesIndex index(run);
  std::vector<ThermalSample> samples;
  for (const run::Device& device : run.devices) {
    std::map<Instant, ThermalSample> moments;
    const auto take = [&](std::initializer_list<const char*> signals, Number ThermalSample::*field,
                          auto&& value_of) {
      const run::Series* const series = first_series(index, signals, device.index);
      for (size_t i = 0; series != nullptr && i < series->times.size(); ++i)
        moments[series->times[i]].*field = value_of(series->values[i]);
    };
    const auto as_it_is = [](double value) { return value; };
    take({"die_c", "junction_c"}, &ThermalSample::temperature_c, as_it_is);
    take({"power_instant_w", "power_average_w", "power_w"}, &ThermalSample::power_w, as_it_is);
    take({"sm_clock_mhz"}, &ThermalSample::clock_mhz, as_it_is);
    take({"throttle_reasons"}, &ThermalSample::throttled, [](double bits) {
      return (static_cast<uint64_t>(bits) & run::any_throttle_reason) != 0 ? 1.0 : 0.0;
    });
    take({"throttled_share"}, &ThermalSample::throttled, as_it_is);
    if (moments.empty()) moments.try_emplace(Instant());  // it is there, and nothing is known of it
    for (auto& [when, sample] : moments) {
      sample.node = device.node;
      sample.local = device.local;
      samples.push_back(sample);
    }
  }
  return samples;
}

}  // namespace

std::vector<ThermalSample> thermal_samples(const run::Run& run) {
  if (run.manifest.origin == run::Origin::imported && run.steps.empty() && run.timeline.empty())
    return samples_over_time(run);
  const metrics::Metrics seen = metrics::measure(run);
  std::vector<ThermalSample> samples;
  for (size_t i = 0; i < run.devices.size(); ++i) {
    ThermalSample sample{.node = run.devices[i].node,
                         .local = run.devices[i].local,
                         .temperature_c = entry(seen.temperature_per_gpu_c, i),
                         .power_w = entry(seen.power_per_gpu_w, i),
                         .clock_mhz = entry(seen.sm_clock_per_gpu_mhz, i),
                         .throttled = entry(seen.throttled_per_gpu, i)};
    samples.push_back(sample);
  }
  return samples;
}

bool is_thermal_table(const CsvTable& table) {
  return !gpu_columns(table).empty();
}

Result<std::vector<ThermalSample>> read_thermal_table(const CsvTable& table,
                                                      const TableChoice& choice) {
  const std::vector<size_t> gpus = gpu_columns(table);
  if (!gpus.empty()) return read_wide(table, choice, gpus);
  return error("{}: no columns gpu0, gpu1, ...; see triplepoint place --help", table.name());
}

}  // namespace triplepoint::advise
