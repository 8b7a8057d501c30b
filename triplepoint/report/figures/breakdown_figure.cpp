// SPDX-License-Identifier: Apache-2.0
// A bar per rank that shows where its time went, of traces and of simulated runs.
#include <algorithm>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/figures/trace_figures.h"

namespace triplepoint::report {
namespace {

double ratio(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// One quantity of a rank: a column of the table, and a part of its bar if it has a style.
struct Quantity {
  const char* name;
  const char* style;
};

struct RankTimes {
  int32_t rank = 0;
  double whole = 0;        // ns
  std::vector<double> ns;  // of each quantity
};

struct TimesByRank {
  std::vector<Quantity> quantities;
  std::vector<RankTimes> ranks;

  double sum(std::size_t quantity) const {
    return sum_of(ranks, [&](const RankTimes& rank) { return rank.ns[quantity]; });
  }
  double whole() const { return sum_of(ranks, &RankTimes::whole); }
  TimeUnit unit() const {
    const double longest = most_of(ranks, &RankTimes::whole);
    return time_unit(static_cast<int64_t>(longest));
  }
};

/// "Of all ranks' time, 49 % is idle: host late, 43 % is exposed communication, 7.6 % is compute"
std::string title_of(const TimesByRank& times) {
  std::vector<std::pair<double, const char*>> parts;
  for (std::size_t i = 0; i < times.quantities.size(); ++i)
    if (times.quantities[i].style != nullptr && times.sum(i) > 0)
      parts.emplace_back(times.sum(i), times.quantities[i].name);
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first > b.first; });
  if (parts.empty()) return "Nothing ran on the devices";
  const double all = times.whole();
  const auto is_nothing = [&](const auto& part) { return ratio(part.first, all) < 5e-4; };
  parts.erase(std::find_if(parts.begin() + 1, parts.end(), is_nothing), parts.end());
  std::string title = times.ranks.size() > 1 ? "Of all ranks' time, " : "Of the time, ";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, parts.size()); ++i)
    title += fmt::format("{}{} is {}", i == 0 ? "" : ", ", percent(ratio(parts[i].first, all)),
                         parts[i].second);
  return title;
}

Bar bar_of(const TimesByRank& times, const RankTimes& rank, const TimeUnit& unit) {
  Bar bar{.label = fmt::format("rank {}", rank.rank)};
  for (std::size_t i = 0; i < times.quantities.size(); ++i) {
    const Quantity& quantity = times.quantities[i];
    if (quantity.style == nullptr) continue;
    bar.parts.push_back({rank.ns[i] / unit.ns, quantity.style,
                         fmt::format("{}: {} {}, {}", quantity.name, in_unit(rank.ns[i], unit),
                                     unit.name, percent(ratio(rank.ns[i], rank.whole)))});
  }
  bar.text = significant(rank.whole / unit.ns);
  return bar;
}

std::vector<LegendEntry> times_legend(const TimesByRank& times) {
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < times.quantities.size(); ++i)
    if (times.quantities[i].style != nullptr && times.sum(i) > 0)
      legend.push_back({times.quantities[i].style, times.quantities[i].name});
  return legend;
}

/// Rows of a quantity's smallest, median and largest value, each above the rank that has it.
void add_spreads(const TimesByRank& times, const TimeUnit& unit, DataTable& table) {
  std::vector<std::vector<DataCell>> rows = {{"smallest"}, {"of rank"}, {"median"},
                                             {"of rank"},  {"largest"}, {"of rank"}};
  for (std::size_t i = 0; i < times.quantities.size(); ++i) {
    std::vector<RankValue> values = mapped(times.ranks, [&](const RankTimes& rank) {
      return RankValue{rank.rank, rank.ns[i]};
    });
    const RankSpread spread = *spread_of(std::move(values));
    rows[0].push_back(in_unit(spread.minimum, unit));
    rows[1].push_back(std::to_string(spread.minimum_rank));
    rows[2].push_back(in_unit(spread.median, unit));
    rows[3].push_back(std::to_string(spread.median_rank));
    rows[4].push_back(in_unit(spread.maximum, unit));
    rows[5].push_back(std::to_string(spread.maximum_rank));
  }
  std::move(rows.begin(), rows.end(), std::back_inserter(table.rows));
}

DataTable table_of(const TimesByRank& times, const TimeUnit& unit) {
  DataTable table = titled_table({"rank"});
  for (const Quantity& quantity : times.quantities)
    table.columns.push_back({.title = fmt::format("{} ({})", quantity.name, unit.name)});
  for (const RankTimes& rank : times.ranks) {
    std::vector<DataCell> cells = {std::to_string(rank.rank)};
    for (const double ns : rank.ns)
      cells.push_back(in_unit(ns, unit));
    table.rows.push_back(std::move(cells));
  }
  if (times.ranks.size() > 1) add_spreads(times, unit, table);
  return table;
}

Drawing figure_of(const TimesByRank& times, const std::string& whole, const std::string& note) {
  const TimeUnit unit = times.unit();
  const std::vector<double> not_computing =
      mapped(times.ranks, [](const RankTimes& rank) { return rank.whole - rank.ns.front(); });
  BarChart chart{
      .title = title_of(times), .unit = fmt::format("{} ({})", whole, unit.name), .cuts = false};
  for (const std::size_t i : drawn_of(not_computing))
    chart.bars.push_back(bar_of(times, times.ranks[i], unit));
  return {"time-by-rank", chart.title, note + drawn_note(chart.bars.size(), times.ranks.size()),
          html_legend(times_legend(times)) + bar_chart_svg(chart), table_of(times, unit)};
}

}  // namespace

Drawing breakdown_figure(const std::vector<metrics::RankBreakdown>& ranks,
                         const std::vector<metrics::ExposedWaits>& waits) {
  TimesByRank times{{{"compute", "t-compute"},
                     {"exposed communication", "t-communication"},
                     {"waiting for the pipeline", "t-pipeline"},
                     {"waiting for late peers", "t-late"},
                     {"exposed copies", "t-copy"},
                     {"idle: host late", "t-host"},
                     {"idle: next kernel", "t-next"},
                     {"idle: other waits", "t-wait"},
                     {"idle: cause unknown", "t-unknown"},
                     {"all idle", nullptr},
                     {"span", nullptr},
                     {"all communication", nullptr},
                     {"of it overlapped", nullptr}},
                    {}};
  for (const metrics::RankBreakdown& rank : ranks) {
    const auto number = as_size(rank.rank);
    const metrics::ExposedWaits wait =
        number < waits.size() ? waits[number] : metrics::ExposedWaits{};
    const int64_t transfer = rank.exposed_communication - wait.pipeline - wait.late_peers;
    RankTimes& row = times.ranks.emplace_back();
    row.rank = rank.rank;
    row.whole = as_real(rank.span());
    for (const int64_t ns :
         {rank.compute, transfer, wait.pipeline, wait.late_peers, rank.exposed_copy,
          rank.idle_time.host_wait, rank.idle_time.kernel_wait, rank.idle_time.other,
          rank.idle_time.unknown, rank.idle(), rank.span(), rank.communication, rank.overlapped})
      row.ns.push_back(as_real(ns));
  }
  return figure_of(times, "first to last activity of the rank's device",
                   "Exposed: without concurrent compute. Idle time by the kernel that follows: "
                   "launched too late (host late), the device's own gap, or a wait for another "
                   "stream.");
}

Drawing step_parts_figure(const std::vector<metrics::RankParts>& ranks) {
  TimesByRank times{{{"computing", "t-compute"},
                     {"copying", "t-copy"},
                     {"communication that nothing hides", "t-communication"},
                     {"waiting for late peers", "t-late"},
                     {"the pipeline's bubble", "t-pipeline"},
                     {"gaps between kernels", "t-next"},
                     {"step", nullptr}},
                    {}};
  for (const metrics::RankParts& rank : ranks) {
    const metrics::StepParts& parts = rank.parts;
    RankTimes& row = times.ranks.emplace_back();
    row.rank = rank.rank;
    row.whole = parts.total() / unit::ns;
    for (const Seconds part : {parts.computing, parts.copying, parts.exposed_communication,
                               parts.waiting, parts.bubble, parts.gaps, parts.total()})
      row.ns.push_back(part / unit::ns);
  }
  const std::string bubble =
      times.sum(4) > 0 ? "The bubble is what the pipeline's schedule leaves without work, waiting "
                         "in messages between stages included. "
                       : "";
  return figure_of(times, "one step", bubble + "The first that applies counts.");
}

}  // namespace triplepoint::report
