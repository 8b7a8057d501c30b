// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/measures.h"
#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

constexpr std::size_t most_columns = 512;
constexpr double per_cent = 100;

using Values = std::vector<double>;

/// One quantity of every GPU.
struct Signal {
  std::string id, unit, highest, lowest;  // "is hottest", "is coolest"
  Values (*of)(const metrics::Metrics&);
  bool by_slot = true;  // slots of a chassis differ in it
  int decimals = 1;
  const metrics::Spread metrics::Metrics::*spread = nullptr;  // null: none is told
  double scale = 1;                                           // of the spread, to the map's unit
  std::string note = {};                                      // what is counted, below the map
};

Values in_gigabytes(Values bytes) {
  for (double& value : bytes)
    value /= 1e9;
  return bytes;
}

Values in_per_cent(Values shares) {
  for (double& share : shares)
    share *= per_cent;
  return shares;
}

std::vector<Signal> signals() {
  using M = const metrics::Metrics&;
  return {
      {"temperature", "mean °C", "is hottest", "is coolest",
       [](M m) { return m.temperature_per_gpu_c; }, true, 1,
       &metrics::Metrics::temperature_spread_c},
      {"memory temperature", "mean °C", "has the hottest memory", "the coolest",
       [](M m) { return m.memory_per_gpu_c; }, true, 1, &metrics::Metrics::memory_spread_c},
      {"power", "mean W", "draws most", "draws least", [](M m) { return m.power_per_gpu_w; }, true,
       1, &metrics::Metrics::power_spread_w},
      {"memory power", "mean W", "has the memory that draws most", "the memory that draws least",
       [](M m) { return m.memory_power_per_gpu_w; }},
      {"clock", "mean MHz", "is fastest", "is slowest", [](M m) { return m.sm_clock_per_gpu_mhz; },
       true, 0, &metrics::Metrics::clock_spread_mhz},
      {"utilization", "% of time with a kernel", "is used most", "is used least",
       [](M m) { return in_per_cent(m.utilization_per_gpu); }, false, 1,
       &metrics::Metrics::utilization_spread, per_cent},
      {"throttling", "% of time", "is held back most", "is held back least",
       [](M m) { return in_per_cent(m.throttled_per_gpu); }, true, 1, nullptr, 1,
       " Time with any reason for a clock below the requested one; reasons at once count once. "
       "In a recording: what polled reasons show, and at least the longest reason's counter."},
      {"scale-up traffic", "GB sent inside the node, a step", "sends most", "sends least",
       [](M m) { return in_gigabytes(m.links.scale_up_per_gpu_bytes); }, false, 2},
      {"scale-out traffic", "GB sent between nodes, a step", "sends most", "sends least",
       [](M m) { return in_gigabytes(m.links.scale_out_per_gpu_bytes); }, false, 2},
      {"PCIe received", "GB a step", "receives most", "receives least",
       [](M m) { return in_gigabytes(m.links.pcie_received_per_gpu_bytes); }, false, 3},
      {"PCIe sent", "GB a step", "sends most", "sends least",
       [](M m) { return in_gigabytes(m.links.pcie_sent_per_gpu_bytes); }, false, 3}};
}

bool says_something(const Values& values) {
  return std::ranges::any_of(values,
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
  const std::size_t widest = most_of(rows, [](const HeatRow& row) { return row.values.size(); });
  Values means;
  for (std::size_t i = 0; i < widest; ++i) {
    Mean mean;
    for (const HeatRow& row : rows)
      if (i < row.values.size()) mean.add(row.values[i]);
    means.push_back(mean.value());
  }
  return means;
}

/// Every device shows the mean of its slot over all nodes.
Values mean_of_slots(const Values& devices, const std::vector<int32_t>& slots) {
  std::map<int32_t, Mean> means;
  for (std::size_t i = 0; i < devices.size(); ++i)
    means[slots[i]].add(devices[i]);
  Values values;
  for (std::size_t i = 0; i < devices.size(); ++i)
    values.push_back(means[slots[i]].value());
  return values;
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
std::string extremes(const Signal& signal, const Values& values, const std::string& column,
                     const StudyRow* row = nullptr) {
  const auto is_known = [](double value) { return std::isfinite(value); };
  if (std::ranges::none_of(values, is_known)) return "not known";
  std::size_t high = 0, low = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!is_known(values[i])) continue;
    if (!is_known(values[high]) || values[i] > values[high]) high = i;
    if (!is_known(values[low]) || values[i] < values[low]) low = i;
  }
  const std::string most = significant(values[high]), least = significant(values[low]);
  if (most == least) return "all alike";
  const auto name = [&](std::size_t i) {
    return row == nullptr ? std::to_string(i) : run::device_number(row->gpus, i);
  };
  return fmt::format("{} {} {} ({} {}), {} {} {} ({})", column, name(high), signal.highest, most,
                     signal.unit, column, name(low), signal.lowest, least);
}

/// What the columns of a group's maps stand for.
struct Columns {
  std::vector<int32_t> slots;  // of each device; empty: not known, or jobs differ
  std::size_t per_node = 8, devices = 0;
  bool by_node = false;
  const StudyRow* row = nullptr;  // that names the GPUs
};

Columns columns_of(const Group& group, const Signal& signal) {
  Columns columns;
  for (const StudyRow* row : group.that_ran()) {
    const Values values = signal.of(*row->metrics);
    if (values.size() <= columns.devices) continue;
    columns.devices = values.size();
    columns.row = row;
    columns.slots = row->slots.size() == values.size() ? row->slots : std::vector<int32_t>();
    columns.per_node = as_size(std::max<int64_t>(1, row->gpus_per_node));
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

std::vector<HeatRow> rows_of(const Group& group, const Signal& signal, const Columns& columns) {
  std::vector<HeatRow> rows;
  for (const StudyRow* row : group.that_ran()) {
    Values values = signal.of(*row->metrics);
    if (values.empty()) continue;
    if (columns.by_node) values = mean_of_nodes(values, columns.per_node);
    rows.push_back({label_of(*row), std::move(values), row->name});
  }
  return rows;
}

bool has_slots(const Signal& signal, const Columns& columns) {
  return signal.by_slot && !columns.by_node && columns.slots.size() == columns.devices &&
         columns.devices > columns.per_node;
}

/// One value per slot, in the order of slots.
Values by_slot(const Values& devices, const std::vector<int32_t>& slots) {
  std::map<int32_t, Mean> means;
  for (std::size_t i = 0; i < devices.size(); ++i)
    means[slots[i]].add(devices[i]);
  Values values;
  for (const auto& [slot, mean] : means)
    values.push_back(mean.value());
  return values;
}

std::string note_of(const Columns& columns, bool slots) {
  std::string note = columns.by_node ? "A column is a node, the mean of its GPUs; "
                                     : "A column is a GPU, gaps separate nodes; ";
  note += "the first row is the mean of all jobs";
  if (slots) note += ", the second repeats the mean of each slot in every node";
  return note + ".";
}

/// " Standard deviation, median of the jobs: 5.6 °C within a node, 0.4 between nodes.", or nothing.
std::string spread_text(const Signal& signal, const Group& group) {
  if (signal.spread == nullptr) return "";
  Values within, between;
  for (const StudyRow* row : group.that_ran()) {
    const metrics::Spread& spread = row->metrics.value().*signal.spread;
    if (spread.within_nodes) within.push_back(*spread.within_nodes * signal.scale);
    if (spread.between_nodes) between.push_back(*spread.between_nodes * signal.scale);
  }
  if (within.empty() && between.empty()) return "";
  std::string text = " Standard deviation, median of the jobs:";
  if (!within.empty()) text += fmt::format(" {} within a node", deviation_text(median(within)));
  if (!between.empty())
    text += fmt::format("{} {} between the means of nodes", within.empty() ? "" : ",",
                        deviation_text(median(between)));
  return text + ".";
}

void round_values(HeatMap& map, int decimals) {
  const double scale = std::pow(10.0, decimals);
  for (HeatRow& row : map.rows)
    for (double& value : row.values)
      value = std::round(value * scale) / scale;
}

std::optional<DeviceMap> map_of(const Signal& signal, const Group& group) {
  const Columns columns = columns_of(group, signal);
  HeatMap map;
  map.unit = signal.unit;
  map.rows = rows_of(group, signal, columns);
  map.per_node = columns.by_node ? 1 : static_cast<int64_t>(columns.per_node);
  map.names_nodes = !columns.by_node;
  const Values mean = mean_of_jobs(map.rows);
  if (!says_something(mean)) return std::nullopt;
  const bool slots = has_slots(signal, columns);
  std::string found =
      columns.by_node ? extremes(signal, mean, "node") : extremes(signal, mean, "GPU", columns.row);
  if (slots) {
    map.rows.insert(map.rows.begin(), {"mean of the slot", mean_of_slots(mean, columns.slots)});
    found = extremes(signal, by_slot(mean, columns.slots), "slot");
  }
  if (map.rows.size() > 1) map.rows.insert(map.rows.begin(), {"mean of all jobs", mean});
  round_values(map, signal.decimals);
  map.title = answers::capitalized(signal.id) + ": " + found;
  DeviceMap made{{fmt::format("heat-{}-{}", identifier(signal.id), group.id),
                  map.title,
                  note_of(columns, slots) + signal.note + spread_text(signal, group),
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
  for (const Signal& signal : signals())
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

namespace {

struct Link {
  std::string id, name, key;
  std::optional<Bytes> metrics::LinkUse::*sent;
};

std::vector<Link> links() {
  return {{"scale-up", "links inside a node", "links.scale_up_utilization",
           &metrics::LinkUse::scale_up},
          {"scale-out", "links between nodes", "links.scale_out_utilization",
           &metrics::LinkUse::scale_out}};
}

std::string gigabytes(Bytes bytes) {
  return significant(bytes / unit::GB);
}

Drawing use_figure(const Link& link, const Group& group, const StudyRow& busiest) {
  BarChart chart;
  chart.title = fmt::format("Use of {}: {} uses most, {} of the bandwidth over its step", link.name,
                            full_label(busiest), percent(known_number(busiest, link.key)));
  chart.unit = "of the datasheet bandwidth, mean over the step (%)";
  chart.cuts = false;
  DataTable table = titled_table({"job", "use (%)", "sent per GPU and step (GB)"});
  chart.bars = job_bars(group, [&](const StudyRow& row, Bar& bar) {
    const auto use = number_at(row, link.key);
    if (row.metrics && use) {
      const std::string sent = gigabytes((row.metrics->links.*link.sent).value_or(Bytes()));
      bar.parts = {{*use * per_cent, variant_style(row), ""}};
      bar.text = percent(*use);
      bar.hint = fmt::format("{}: {}, {} GB a GPU and step", full_label(row), bar.text, sent);
      table.add({full_label(row), significant(*use * per_cent), sent}, row.name);
    } else if (row.metrics) {
      bar.status = "not known";
    }
  });
  return {link.id + "-" + group.id, chart.title, "", bar_chart_svg(chart), std::move(table)};
}

// ---- message sizes

/// Of each layout the first job with messages.
std::vector<const StudyRow*> rows_with_messages(const Group& group) {
  std::vector<const StudyRow*> rows;
  for (const StudyRow* row : group.that_ran()) {
    if (row->metrics->links.messages.empty()) continue;
    if (rows.empty() || layout_label(*rows.back()) != layout_label(*row)) rows.push_back(row);
  }
  constexpr std::size_t most = 8;  // colours
  rows.resize(std::min(rows.size(), most));
  return rows;
}

std::string size_text(double bytes) {
  if (bytes >= 0x1p30) return fmt::format("{:.0f} GiB", bytes / 0x1p30);
  if (bytes >= 0x1p20) return fmt::format("{:.0f} MiB", bytes / 0x1p20);
  return bytes >= 0x1p10 ? fmt::format("{:.0f} KiB", bytes / 0x1p10)
                         : fmt::format("{:.0f} B", bytes);
}

constexpr int first_power = 14, last_power = 32, step = 2;  // 16 KiB to 4 GiB

/// Share of a job's bytes in messages up to each size.
Line message_line(const StudyRow& row, std::size_t index) {
  Line line{layout_label(row), fmt::format("s{}", index), {}, {}};
  double all = sum_of(row.metrics->links.messages,
                      [&](const metrics::MessageBucket& bucket) { return bucket.bytes / unit::B; });
  for (int power = first_power; power <= last_power; power += step) {
    double below = 0;
    for (const metrics::MessageBucket& bucket : row.metrics->links.messages)
      if (bucket.upper / unit::B <= std::ldexp(1.0, power)) below += bucket.bytes / unit::B;
    line.values.push_back(all > 0 ? below / all * per_cent : 0);
    line.jobs.push_back(row.name);
  }
  return line;
}

double mean_message(const StudyRow& row) {
  double bytes = 0, count = 0;
  for (const metrics::MessageBucket& bucket : row.metrics->links.messages) {
    bytes += bucket.bytes / unit::B;
    count += as_real(bucket.count);
  }
  return count > 0 ? bytes / count : 0;
}

std::string mean_text(double bytes) {
  if (bytes >= 0x1p20) return significant(bytes / 0x1p20) + " MiB";
  return significant(bytes / 0x1p10) + " KiB";
}

std::vector<LegendEntry> message_legend(const std::vector<const StudyRow*>& rows) {
  return numbered(rows.size(), [&](std::size_t i) {
    return LegendEntry{fmt::format("s{}", i), layout_label(*rows[i])};
  });
}

std::vector<Drawing> message_figures(const Group& group) {
  const std::vector<const StudyRow*> rows = rows_with_messages(group);
  if (rows.empty()) return {};
  LineChart chart;
  chart.x_name = "message size";
  chart.y_unit = "bytes in messages up to this size (%)";
  for (int power = first_power; power <= last_power; power += step)
    chart.positions.push_back(
        power % (2 * step) == first_power % (2 * step) ? size_text(std::ldexp(1.0, power)) : "");
  DataTable table = titled_table({"layout", "mean message"});
  for (int power = first_power; power <= last_power; power += step)
    table.columns.push_back({.title = "up to " + size_text(std::ldexp(1.0, power)) + " (%)"});
  const StudyRow* finest = rows.front();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    chart.lines.push_back(message_line(*rows[i], i));
    if (mean_message(*rows[i]) < mean_message(*finest)) finest = rows[i];
    std::vector<DataCell> cells = {layout_label(*rows[i]), mean_text(mean_message(*rows[i]))};
    for (const auto& value : chart.lines.back().values)
      cells.push_back(significant(value));
    table.add(std::move(cells), rows[i]->name);
  }
  chart.title = fmt::format("Message sizes: {} sends the smallest, {} on average",
                            layout_label(*finest), mean_text(mean_message(*finest)));
  return {{"messages-" + group.id, chart.title,
           "Of each layout the job with fewest options. Small messages under-use a link.",
           html_legend(message_legend(rows)) + line_chart_svg(chart), std::move(table)}};
}

}  // namespace

std::vector<Drawing> link_figures(const Group& group) {
  std::vector<Drawing> figures;
  for (const Link& link : links())
    if (const StudyRow* busiest = highest(group.that_ran(), link.key))
      figures.push_back(use_figure(link, group, *busiest));
  for (Drawing& figure : message_figures(group))
    figures.push_back(std::move(figure));
  return figures;
}

}  // namespace triplepoint::report
