// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <span>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/advise/thermal_groups.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::advise {
namespace {

using Number = std::optional<double>;

Number entry(const std::vector<double>& values, size_t i) {
  if (i >= values.size() || std::isnan(values[i])) return std::nullopt;
  return values[i];
}

/// A number and perhaps its unit behind it, as nvidia-smi writes "412.33 W".
Number leading_number(std::string_view cell) {
  cell = trimmed(cell);
  double value = 0;
  const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const std::string_view rest(read.ptr, static_cast<size_t>(cell.data() + cell.size() - read.ptr));
  if (read.ec != std::errc() || !(rest.empty() || rest.front() == ' ')) return std::nullopt;
  if (!std::isfinite(value)) return std::nullopt;  // "nan": not measured
  return value;
}

std::optional<int64_t> whole_number(std::string_view cell) {
  cell = trimmed(cell);
  int64_t value = 0;
  const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty() || read.ec != std::errc() || read.ptr != cell.data() + cell.size() || value < 0)
    return std::nullopt;
  return value;
}

/// The title without a unit in brackets.
std::string_view bare_title(std::string_view title) {
  return trimmed(title.substr(0, title.find('[')));
}

std::optional<size_t> column_of(const CsvTable& table, std::span<const std::string_view> titles) {
  for (const std::string_view wanted : titles)
    for (size_t c = 0; c < table.header().size(); ++c)
      if (bare_title(table.header()[c]) == wanted) return c;
  return std::nullopt;
}

constexpr std::string_view set_titles[] = {"config", "snapshot_id", "trace_id"};
constexpr std::string_view index_titles[] = {"index", "gpu_index", "device", "local_rank", "gpu"};
constexpr std::string_view node_titles[] = {"node", "host", "hostname"};
constexpr std::string_view temperature_titles[] = {"temperature.gpu", "temp_c", "temperature_c",
                                                   "die_c"};
constexpr std::string_view power_titles[] = {"power.draw", "power.draw.average",
                                             "power.draw.instant", "power_w"};
constexpr std::string_view clock_titles[] = {"clocks.sm", "clocks.current.sm", "sm_mhz",
                                             "sm_clock_mhz"};
constexpr std::string_view throttle_titles[] = {"throttled", "throttled_share"};

/// A table with a row per GPU.
class LongTable {
 public:
  LongTable(const CsvTable& table, const TableChoice& choice, size_t index)
      : table_(table),
        choice_(choice),
        index_(index),
        set_(column_of(table, set_titles)),
        node_(column_of(table, node_titles)),
        temperature_(column_of(table, temperature_titles)),
        power_(column_of(table, power_titles)),
        clock_(column_of(table, clock_titles)),
        throttle_(column_of(table, throttle_titles)) {}

  Result<std::vector<ThermalSample>> read() {
    if (!temperature_ && !clock_ && !throttle_)
      return error(
          fmt::format("{}: no column has temperature, clock or throttling (GPUs cannot be "
                      "grouped); name one temperature.gpu, temp_c, clocks.sm or throttled",
                      table_.name()));
    TPT_TRY(check_choice());
    std::vector<ThermalSample> samples;
    for (size_t row = 0; row < table_.rows(); ++row) {
      if (choice_.row && set_ && table_.at(row, *set_) != *choice_.row) continue;
      TPT_TRY(check_index(row));
      if (auto sample = read_row(row)) samples.push_back(*sample);
    }
    return samples;
  }

 private:
  Result<bool> check_choice() const {
    std::vector<std::string_view> sets;
    for (size_t row = 0; set_ && row < table_.rows(); ++row) {
      const std::string_view set = table_.at(row, *set_);
      if (std::find(sets.begin(), sets.end(), set) == sets.end()) sets.push_back(set);
    }
    if (choice_.row && std::find(sets.begin(), sets.end(), *choice_.row) == sets.end())
      return error(
          fmt::format("{}: no rows of \"{}\" (--row names a config or snapshot_id); there "
                      "are {}",
                      table_.name(), *choice_.row, fmt::join(sets, ", ")));
    if (!choice_.row && sets.size() > 1)
      return error(
          fmt::format("{} holds {} sets of GPUs (they may be different machines); choose one with "
                      "--row: {}",
                      table_.name(), sets.size(), fmt::join(sets, ", ")));
    return true;
  }

  Result<bool> check_index(size_t row) const {
    constexpr int64_t most_devices = 10'000'000;
    if (whole_number(table_.at(row, index_)).value_or(0) < most_devices) return true;
    return error(fmt::format(
        "{}: a GPU has the index {} (beyond {} it is surely a typing error); correct it",
        table_.name(), table_.at(row, index_), most_devices));
  }

  Number cell(size_t row, const std::optional<size_t>& column) const {
    return column ? leading_number(table_.at(row, *column)) : std::nullopt;
  }

  std::optional<ThermalSample> read_row(size_t row) {
    const auto index = whole_number(table_.at(row, index_));
    if (!index) return std::nullopt;  // "32-39": a mean over several
    ThermalSample sample{.node = *index / choice_.gpus_per_node,
                         .local = *index % choice_.gpus_per_node,
                         .temperature_c = cell(row, temperature_),
                         .power_w = cell(row, power_),
                         .clock_mhz = cell(row, clock_),
                         .throttled = cell(row, throttle_)};
    if (node_) {
      const std::string name(table_.at(row, *node_));
      sample.node = nodes_.try_emplace(name, static_cast<int64_t>(nodes_.size())).first->second;
    }
    if (!sample.temperature_c && !sample.clock_mhz && !sample.throttled) return std::nullopt;
    return sample;
  }

  const CsvTable& table_;
  const TableChoice& choice_;
  size_t index_;
  std::optional<size_t> set_, node_, temperature_, power_, clock_, throttle_;
  std::map<std::string, int64_t> nodes_;  // in the order in which they appear
};

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

Result<std::vector<ThermalSample>> read_wide(const CsvTable& table, const TableChoice& choice,
                                             const std::vector<size_t>& gpus) {
  const auto set = column_of(table, set_titles), panel = table.column("panel");
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
      samples[i].*field = TPT_TRY(table.number(row, gpus[i]));
    }
  }
  std::vector<ThermalSample> all;
  for (const auto& [name, samples] : sets)
    all.insert(all.end(), samples.begin(), samples.end());
  if (all.empty())
    return error(
        fmt::format("{}: no row of temperatures{} (nothing to group GPUs by); leave out "
                    "--row, or name a config of the table",
                    table.name(), choice.row ? " of \"" + *choice.row + "\"" : ""));
  return all;
}

}  // namespace

std::vector<ThermalSample> thermal_samples(const run::Run& run) {
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

Result<std::vector<ThermalSample>> read_thermal_table(const CsvTable& table,
                                                      const TableChoice& choice) {
  const std::vector<size_t> gpus = gpu_columns(table);
  if (!gpus.empty()) return read_wide(table, choice, gpus);
  const auto index = column_of(table, index_titles);
  if (!index)
    return error(
        fmt::format("{}: no column gpu0, and none that numbers GPUs (index, gpu_index, "
                    "device); see triplepoint place --help",
                    table.name()));
  std::vector<ThermalSample> samples = TPT_TRY(LongTable(table, choice, *index).read());
  if (samples.empty())
    return error(
        fmt::format("{}: no GPU has a reading (rows need a whole index and a number); "
                    "check the file",
                    table.name()));
  return samples;
}

}  // namespace triplepoint::advise
