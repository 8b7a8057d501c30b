// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace_report/analyses.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/json.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on

/// All tables, whatever is shown: who reads JSON takes what he needs.
Json report_json(const TraceReport& report, const TraceOptions& options) {
  Json tables = Json::object();
  for (const DataTable& table : report.tables)
    tables[table.name] = table_json(table);
  return {{"schema", 1},
          {"analysis", options.analysis},
          {"files", options.files},
          {"headlines", report.headlines},
          {"tables", std::move(tables)},
          {"written", report.written},
          {"remarks", report.remarks}};
}

DataTable in_one_unit(DataTable table) {
  double longest = 0;
  for (const auto& row : table.rows)
    for (std::size_t i = 0; i < row.size(); ++i)
      if (table.columns[i].scale == 0)
        longest = std::max(longest, std::abs(number_in(row[i]).value_or(0)));
  const TimeUnit unit = time_unit(static_cast<int64_t>(longest));
  for (DataColumn& column : table.columns)
    if (column.scale == 0) column.scale = unit.ns, column.title += std::string(" ") + unit.name;
  return table;
}

Result<std::vector<const DataTable*>> chosen_tables(const TraceReport& report,
                                                    const TraceOptions& options) {
  std::vector<std::string> names = report.shown, known;
  for (const DataTable& table : report.tables)
    known.push_back(table.name);
  if (options.show) names = *options.show == "all" ? known : TPT_TRY(split_list(*options.show));
  std::vector<const DataTable*> chosen;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(report.tables, name, &DataTable::name);
    if (found == report.tables.end())
      return error("--show: {} has no table \"{}\"; it has {}", options.analysis, name,
                   fmt::join(known, ", "));
    chosen.push_back(&*found);
  }
  return chosen;
}

}  // namespace triplepoint::trace_report
