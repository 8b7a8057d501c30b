// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

constexpr std::size_t most_columns = 512;

using Values = std::vector<double>;

bool says_something(const Values& values) {
  return std::any_of(values.begin(), values.end(),
                     [](double value) { return std::isfinite(value) && value != 0; });
}

struct Mean {
  double sum = 0, count = 0;
  void add(double value) {
    if (!std::isfinite(value)) return;
    sum += value;
    count += 1;
  }
  double value() const { return count > 0 ? sum / count : std::nan(""); }
};

/// Mean over all jobs, device by device.
Values mean_of_jobs(const std::vector<HeatRow>& rows) {
  std::size_t widest = 0;
  for (const HeatRow& row : rows)
    widest = std::max(widest, row.values.size());
  Values means;
  for (std::size_t i = 0; i < widest; ++i) {
    Mean mean;
    for (const HeatRow& row : rows)
      if (i < row.values.size()) mean.add(row.values[i]);
    means.push_back(mean.value());
  }
  return means;
}

/// The mean of each slot over all nodes.
std::map<int32_t, Mean> means_of_slots(const Values& devices, const std::vector<int32_t>& slots) {
  std::map<int32_t, Mean> means;
  for (std::size_t i = 0; i < devices.size(); ++i)
    means[slots[i]].add(devices[i]);
  return means;
}

/// A column per node instead of one per device.
Values mean_of_nodes(const Values& devices, std::size_t per_node) {
  Values nodes;
  for (std::size_t begin = 0; begin < devices.size(); begin += per_node) {
    Mean mean;
    for (std::size_t i = begin; i < std::min(devices.size(), begin + per_node); ++i)
      mean.add(devices[i]);
    nodes.push_back(mean.value());
  }
  return nodes;
}

/// "slot 4 is hottest (63.7 mean °C), slot 1 coolest (51.2)"; "all alike" where both numbers read
/// the same.
std::string extremes(const DeviceSignal& signal, const Values& values, const std::string& column) {
  const auto is_known = [](double value) { return std::isfinite(value); };
  if (std::none_of(values.begin(), values.end(), is_known)) return "not known";
  std::size_t high = 0, low = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!is_known(values[i])) continue;
    if (!is_known(values[high]) || values[i] > values[high]) high = i;
    if (!is_known(values[low]) || values[i] < values[low]) low = i;
  }
  const std::string most = significant(values[high]), least = significant(values[low]);
  if (most == least) return "all alike";
  return fmt::format("{} {} {} ({} {}), {} {} {} ({})", column, high, signal.highest, most,
                     signal.unit, column, low, signal.lowest, least);
}

/// What the columns of a group's maps stand for.
struct Columns {
  std::vector<int32_t> slots;  // of each device; empty: not known, or jobs differ
  std::size_t per_node = 8, devices = 0;
  bool by_node = false;
};

Columns columns_of(const Group& group, const DeviceSignal& signal) {
  Columns columns;
  for (const StudyRow* row : group.that_ran()) {
    const Values values = signal.of(*row->metrics);
    if (values.size() <= columns.devices) continue;
    columns.devices = values.size();
    columns.slots = row->slots.size() == values.size() ? row->slots : std::vector<int32_t>();
    columns.per_node = static_cast<std::size_t>(std::max<int64_t>(1, row->gpus_per_node));
  }
  columns.by_node = columns.devices > most_columns;
  return columns;
}

std::string label_of(const StudyRow& row) {
  if (!row.has_job) return row.name;
  const std::string options = options_label(row);
  return fmt::format("{}{}{}", layout_label(row), options.empty() ? "" : " + " + options,
                     row.job.plan.micro_batch_size == 1
                         ? ""
                         : fmt::format(" mbs {}", row.job.plan.micro_batch_size));
}

std::vector<HeatRow> rows_of(const Group& group, const DeviceSignal& signal,
                             const Columns& columns) {
  std::vector<HeatRow> rows;
  for (const StudyRow* row : group.that_ran()) {
    Values values = signal.of(*row->metrics);
    if (values.empty()) continue;
    if (columns.by_node) values = mean_of_nodes(values, columns.per_node);
    rows.push_back({label_of(*row), std::move(values), row->name});
  }
  return rows;
}

bool has_slots(const DeviceSignal& signal, const Columns& columns) {
  return signal.by_slot && !columns.by_node && columns.slots.size() == columns.devices &&
         columns.devices > columns.per_node;
}

std::string note_of(const Columns& columns, bool slots) {
  std::string note = columns.by_node ? "A column is a node, the mean of its GPUs; "
                                     : "A column is a GPU, gaps separate nodes; ";
  note += "the first row is the mean of all jobs";
  if (slots) note += ", the second repeats the mean of each slot in every node";
  return note + ".";
}

/// The median of the jobs.
std::string spread_of_jobs(const DeviceSignal& signal, const Group& group) {
  if (signal.spread == nullptr) return "";
  Values within, between;
  for (const StudyRow* row : group.that_ran()) {
    const metrics::Spread& spread = row->metrics.value().*signal.spread;
    if (spread.within_nodes) within.push_back(*spread.within_nodes);
    if (spread.between_nodes) between.push_back(*spread.between_nodes);
  }
  const auto middle = [](const Values& all) {
    return all.empty() ? std::nullopt : std::optional(median(all));
  };
  return spread_text(signal, metrics::Spread{middle(within), middle(between)},
                     ", median of the jobs");
}

void round_values(HeatMap& map, int decimals) {
  const double scale = std::pow(10.0, decimals);
  for (HeatRow& row : map.rows)
    for (double& value : row.values)
      value = std::round(value * scale) / scale;
}

std::optional<DeviceMap> map_of(const DeviceSignal& signal, const Group& group) {
  const Columns columns = columns_of(group, signal);
  HeatMap map;
  map.unit = signal.unit;
  map.rows = rows_of(group, signal, columns);
  map.per_node = columns.by_node ? 1 : static_cast<int64_t>(columns.per_node);
  map.names_nodes = !columns.by_node;
  const Values mean = mean_of_jobs(map.rows);
  if (!says_something(mean)) return std::nullopt;
  const bool slots = has_slots(signal, columns);
  std::string found = extremes(signal, mean, columns.by_node ? "node" : "GPU");
  if (slots) {
    std::map<int32_t, Mean> means = means_of_slots(mean, columns.slots);
    Values by_slot, repeated;
    for (const auto& [slot, value] : means)
      by_slot.push_back(value.value());
    for (const int32_t slot : columns.slots)
      repeated.push_back(means[slot].value());
    map.rows.insert(map.rows.begin(), {"mean of the slot", std::move(repeated)});
    found = extremes(signal, by_slot, "slot");
  }
  if (map.rows.size() > 1) map.rows.insert(map.rows.begin(), {"mean of all jobs", mean});
  round_values(map, signal.decimals);
  map.title = capitalized(signal.id) + ": " + found;
  DeviceMap made{{fmt::format("heat-{}-{}", identifier(signal.id), group.id),
                  map.title,
                  note_of(columns, slots) + signal.note + spread_of_jobs(signal, group),
                  heat_map_svg(map),
                  {},
                  true},
                 std::move(map)};
  made.figure.has_compact_table = true;
  return made;
}

}  // namespace

std::vector<DeviceMap> device_maps(const Group& group) {
  std::vector<DeviceMap> maps;
  for (const DeviceSignal& signal : device_signals())
    if (auto map = map_of(signal, group)) maps.push_back(*std::move(map));
  return maps;
}

Json compact_table(const HeatMap& map) {
  Json columns = Json::array({"job"}), labels = Json::array(), jobs = Json::array(),
       values = Json::array();
  std::size_t widest = 0;
  for (const HeatRow& row : map.rows) {
    widest = std::max(widest, row.values.size());
    labels.push_back(row.label);
    jobs.push_back(row.job);
    values.push_back(row.values);
  }
  for (std::size_t i = 0; i < widest; ++i)
    columns.push_back(fmt::format("{} {} ({})", map.names_nodes ? "GPU" : "node", i, map.unit));
  return {{"columns", std::move(columns)},
          {"labels", std::move(labels)},
          {"jobs", std::move(jobs)},
          {"values", std::move(values)}};
}

}  // namespace triplepoint::report
