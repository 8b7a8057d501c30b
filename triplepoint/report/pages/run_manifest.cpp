// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/chrono.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/run.h"

#include "triplepoint/answers/results.h"
#include "triplepoint/answers/run_objects.h"
#include "triplepoint/report/pages/html.h"
#include "triplepoint/report/pages/run_page.h"

namespace triplepoint::report {
namespace {

std::string wall_clock(int64_t unix_ns) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                     fmt::gmtime(static_cast<std::time_t>(unix_ns / 1'000'000'000)));
}

/// "clock lost to power, MHz" of clock_lost_to_power_mhz.
std::string fact_name(std::string name) {
  constexpr std::pair<std::string_view, std::string_view> units[] = {
      {"_mhz", ", MHz"}, {"_s", ", s"}, {"_w", ", W"}, {"_j", ", J"}, {"_c", ", °C"}};
  for (const auto& [suffix, unit] : units)
    if (name.ends_with(suffix)) name.replace(name.size() - suffix.size(), suffix.size(), unit);
  std::ranges::replace(name, '_', ' ');
  return name;
}

void add_job(DataTable& table, const run::Run& run) {
  for (const auto& [name, value] : answers::settings_of(run))
    table.rows.push_back({fact_name(name), value});
}

std::string about(const run::Run& run) {
  const run::Manifest& m = run.manifest;
  DataTable table = titled_table({"fact", "value"});
  table.rows.push_back({"origin", std::string(run::name_of(m.origin))});
  table.rows.push_back({"fidelity", std::string(run::name_of(m.fidelity))});
  if (!m.producer.empty()) table.rows.push_back({"producer", m.producer});
  if (m.epoch_unix_ns) table.rows.push_back({"time zero", wall_clock(*m.epoch_unix_ns)});
  if (!m.hosts.empty())
    table.rows.push_back({"hosts", fmt::format("{}", fmt::join(m.hosts, ", "))});
  if (!m.anchors.empty()) table.rows.push_back({"clock anchors", std::to_string(m.anchors.size())});
  if (!run.devices.empty())
    table.rows.push_back(
        {"devices",
         fmt::format("{} x {}", run.devices.size(),
                     run.devices.front().name.empty() ? "GPU" : run.devices.front().name)});
  run::visit_numbers(run.numbers, [&](const char* name, const auto& number) {
    if (number) table.rows.push_back({fact_name(name), fmt::format("{}", *number)});
  });
  for (const auto& [name, value] : m.facts)
    table.rows.push_back({fact_name(name), value});
  for (const std::string& note : answers::notes_of(run))
    table.rows.push_back({"note", note});
  add_job(table, run);
  return html_table(table, "Program, job and settings of the run");
}

// ---- sensors

std::string time_text(const std::optional<Seconds>& time) {
  if (!time) return "–";
  if (*time < unit::s) return significant(*time / unit::ms) + " ms";
  return significant(*time / unit::s) + " s";
}

/// Readings of one kind of sensor: the devices differ, the rest is equal.
struct SensorRow {
  std::string scope, kind, sensor, period, window;
  int64_t devices = 0, values = 0;
};

std::string sensors(const run::Run& run) {
  std::map<std::tuple<std::string, std::string, bool>, SensorRow> rows;  // signal, sensor, of node
  const run::SeriesIndex index(run);
  for (const run::SeriesSource& source : run.sources) {
    SensorRow& row = rows[{source.signal, source.sensor, source.of_node}];
    row.scope = run::name_of(source.scope);
    row.kind = run::name_of(source.kind);
    row.sensor = source.sensor;
    row.period = time_text(source.period);
    row.window = time_text(source.window);
    ++row.devices;
    if (const auto* series = index.find(source.signal, source.device, source.of_node))
      row.values += static_cast<int64_t>(series->values.size());
  }
  DataTable table = titled_table({"signal", "of", "scope", "kind", "sensor", "update period",
                                  "averaged over", "devices", "values"});
  for (const auto& [key, row] : rows)
    table.rows.push_back({std::get<0>(key), std::get<2>(key) ? "node" : "device", row.scope,
                          row.kind, row.sensor, row.period, row.window, whole(row.devices),
                          whole(row.values)});
  return html_section("sensors", "What measured it",
                      "<p>Overlapping scopes are never added. An average lags behind the signal; a "
                      "period is the measured one, or the vendor's.</p>" +
                          html_table(table, "Sensors, with quantity and period"));
}

/// What a run without sensors holds: series by signal.
std::string series(const run::Run& run) {
  std::map<std::pair<std::string, bool>, std::pair<int64_t, int64_t>> rows;
  for (const run::Series& one : run.series) {
    auto& [devices, values] = rows[{one.signal, one.of_node}];
    ++devices;
    values += static_cast<int64_t>(one.values.size());
  }
  DataTable table = titled_table({"signal", "of", "devices", "values"});
  for (const auto& [key, counts] : rows)
    table.rows.push_back(
        {key.first, key.second ? "node" : "device", whole(counts.first), whole(counts.second)});
  return html_table(table, "Series of this run");
}

// ---- what a prediction rests on

std::string sources(const std::vector<spec::Provenance>& numbers) {
  std::map<std::string, int64_t> by_kind;
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<std::string>> by_source;
  for (const spec::Provenance& number : numbers) {
    const std::string kind(spec::enum_name(number.kind));
    ++by_kind[kind];
    by_source[{number.file, kind, number.cite}].push_back(number.key);
  }
  std::vector<std::string> counts;
  for (const char* kind : {"datasheet", "measured", "fitted", "assumed"})
    if (by_kind.contains(kind)) counts.push_back(fmt::format("{} {}", by_kind.at(kind), kind));
  DataTable table = titled_table({"file", "kind", "source", "numbers"});
  for (const auto& [key, keys] : by_source) {
    constexpr std::size_t most = 6;
    const std::vector<std::string> shown(
        keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(std::min(most, keys.size())));
    std::string list = fmt::format("{}", fmt::join(shown, ", "));
    if (keys.size() > most) list += fmt::format(" and {} more", keys.size() - most);
    table.rows.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), list});
  }
  return html_section(
      "sources", "Sources of the prediction",
      fmt::format("<p>{} numbers of the model, the cluster and its calibrations: {}.</p>",
                  numbers.size(), fmt::join(counts, ", ")) +
          "<details class=\"data\"><summary>Every source</summary>" +
          html_table(table, "Sources of the numbers, by file and kind") + "</details>");
}

}  // namespace

std::string assumed_text(const std::vector<spec::Provenance>& numbers) {
  const auto assumed =
      std::ranges::count(numbers, spec::NumberKind::assumed, &spec::Provenance::kind);
  if (numbers.empty()) return "";
  return fmt::format(" {} of its {} parameters are assumed (sources below).", assumed,
                     numbers.size());
}

std::string manifest_sections(const run::Run& run, const std::vector<spec::Provenance>& numbers) {
  std::string html;
  if (!run.sources.empty()) html += sensors(run);
  if (!numbers.empty()) html += sources(numbers);
  std::string inside = about(run);
  if (run.sources.empty() && !run.series.empty()) inside += series(run);
  return html + html_section("manifest", "Origin of the run",
                             "<details class=\"data\" open><summary>Manifest</summary>" + inside +
                                 "</details>");
}

}  // namespace triplepoint::report
