// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/figures/trace_figures.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/trace_tracks.h"

#include "triplepoint/metrics/trace/lateness.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/measures.h"

namespace triplepoint::report {
namespace {

constexpr int64_t most_spans = 1'000'000;  // beyond, chains of dependencies take too long

std::string section(const std::string& id, const std::string& heading, const std::string& inside) {
  return "<section aria-labelledby=\"" + id + "\"><h2 id=\"" + id + "\">" + heading + "</h2>" +
         inside + "</section>\n";
}

std::string paragraph(const std::string& sentence) {
  return "<p>" + escape(sentence) + "</p>";
}

std::string figures(const std::string& inside) {
  return "<div class=\"figures\">" + inside + "</div>";
}

/// Collectives, and who was last into them where that is known.
std::string collectives_section(const metrics::CollectiveMatch& match,
                                const metrics::LateRanks& late) {
  std::string said, drawings;
  if (!late.starts.empty()) {
    for (const std::string& sentence : lateness_sentences(late))
      said += paragraph(sentence);
    drawings += html_figure(lateness_figure(late));
  }
  for (const std::string& remark : match.remarks)
    said += paragraph("Note: " + remark + ".");
  drawings += html_figure(collectives_figure(match.collectives));
  if (!late.starts.empty()) drawings += html_figure(late_starts_figure(late, match));
  return section("late", late.starts.empty() ? "Collectives" : "Collectives, and who was late",
                 said + figures(drawings));
}

/// A path that loses itself early would be taken for the whole: it is left out, and that is said.
std::string path_part(const run::Timeline& timeline, const metrics::CriticalPath& path) {
  if (path.shares.empty()) return "";
  if (path.is_whole()) return html_figure(path_figure(path, !timeline.details.empty()));
  const int64_t whole = path.length() + path.not_followed;
  const TimeUnit unit = time_unit(whole);
  return fmt::format(
      "<p class=\"note\">The critical path is left out: it can be followed back over {0} {2} of "
      "{1} {2} only, as the timeline does not hold what its first piece waited for.</p>",
      in_unit(static_cast<double>(path.length()), unit), in_unit(static_cast<double>(whole), unit),
      unit.name);
}

/// Waits, causes and chains of dependencies, of a timeline without instances.
TraceSection across_ranks(const run::Run& run, const run::Timeline& timeline,
                          const std::string& breakdown) {
  const metrics::CollectiveMatch match =
      metrics::match_collectives(timeline, metrics::job_ranks_of(run));
  const metrics::CriticalPath path = metrics::critical_path(timeline);
  std::string drawings = breakdown;
  drawings += path_part(timeline, path);
  TraceSection answer{section("time-went", "Where the time went", figures(drawings))};
  const metrics::LateRanks late =
      metrics::find_late_ranks(timeline, match, run.series.empty() ? nullptr : &run);
  answer.names_stragglers = !late.starts.empty();
  answer.straggler = lateness_sentences(late).front();
  if (!match.collectives.empty()) answer.html += collectives_section(match, late);
  return answer;
}

}  // namespace

TraceSection trace_section(const run::Run& run) {
  const std::vector<metrics::RankBreakdown> ranks = metrics::breakdown_of_ranks(run.timeline);
  if (ranks.empty()) return {};
  const std::string breakdown = html_figure(breakdown_figure(ranks));
  if (run::count_spans(run.timeline) > most_spans)
    return {section("time-went", "Where the time went",
                    paragraph("More than a million spans: collectives, late ranks and the critical "
                              "path are omitted; use triplepoint trace.") +
                        figures(breakdown))};
  if (run.timeline.instances.empty()) return across_ranks(run, run.timeline, breakdown);
  return across_ranks(run, run::expand(run.timeline), breakdown);
}

namespace {

using metrics::RankBreakdown;

constexpr std::size_t most_bars = 64, most_of_each = 8;

double ratio(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// One quantity of a rank: a column of the table, and a part of its bar if it has a style.
struct Quantity {
  const char* name;
  const char* style;
  int64_t (*of)(const RankBreakdown&);
};
// clang-format off
constexpr std::array quantities = {
    Quantity{"compute", "t-compute", [](const RankBreakdown& r) { return r.compute; }},
    Quantity{"exposed communication", "t-communication", [](const RankBreakdown& r) { return r.exposed_communication; }},
    Quantity{"exposed copies", "t-copy", [](const RankBreakdown& r) { return r.exposed_copy; }},
    Quantity{"idle: host late", "t-host", [](const RankBreakdown& r) { return r.idle_time.host_wait; }},
    Quantity{"idle: next kernel", "t-next", [](const RankBreakdown& r) { return r.idle_time.kernel_wait; }},
    Quantity{"idle: other waits", "t-wait", [](const RankBreakdown& r) { return r.idle_time.other; }},
    Quantity{"idle: cause unknown", "t-unknown", [](const RankBreakdown& r) { return r.idle_time.unknown; }},
    Quantity{"all idle", nullptr, [](const RankBreakdown& r) { return r.idle(); }},
    Quantity{"span", nullptr, [](const RankBreakdown& r) { return r.span(); }},
    Quantity{"all communication", nullptr, [](const RankBreakdown& r) { return r.communication; }},
    Quantity{"of it overlapped", nullptr, [](const RankBreakdown& r) { return r.overlapped; }},
};
// clang-format on

template <class Of>
int64_t sum_over(const std::vector<RankBreakdown>& ranks, Of of) {
  int64_t sum = 0;
  for (const RankBreakdown& rank : ranks)
    sum += of(rank);
  return sum;
}

/// "Of all ranks' time 49 % is idle: host late, 43 % exposed communication, 7.6 % compute"
std::string breakdown_title(const std::vector<RankBreakdown>& ranks) {
  std::vector<std::pair<int64_t, const char*>> parts;
  for (const Quantity& quantity : quantities)
    if (const int64_t sum = sum_over(ranks, quantity.of); quantity.style != nullptr && sum > 0)
      parts.emplace_back(sum, quantity.name);
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (parts.empty()) return "Nothing ran on the devices";
  const int64_t all = sum_over(ranks, [](const RankBreakdown& r) { return r.span(); });
  const auto is_nothing = [&](const auto& part) { return ratio(part.first, all) < 5e-4; };
  parts.erase(std::find_if(parts.begin() + 1, parts.end(), is_nothing), parts.end());
  std::string title = ranks.size() > 1 ? "Of all ranks' time, " : "Of the time, ";
  for (std::size_t i = 0; i < std::min<std::size_t>(3, parts.size()); ++i)
    title += fmt::format("{}{} is {}", i == 0 ? "" : ", ", percent(ratio(parts[i].first, all)),
                         parts[i].second);
  return title;
}

Bar breakdown_bar(const RankBreakdown& rank, const TimeUnit& unit) {
  Bar bar{.label = fmt::format("rank {}", rank.rank), .parts = {}};
  for (const Quantity& quantity : quantities) {
    if (quantity.style == nullptr) continue;
    const auto ns = static_cast<double>(quantity.of(rank));
    bar.parts.push_back({ns / unit.ns, quantity.style,
                         fmt::format("{}: {} {}, {}", quantity.name, in_unit(ns, unit), unit.name,
                                     percent(ratio(quantity.of(rank), rank.span())))});
  }
  bar.text = significant(static_cast<double>(rank.span()) / unit.ns);
  return bar;
}

std::vector<LegendEntry> breakdown_legend(const std::vector<RankBreakdown>& ranks) {
  std::vector<LegendEntry> legend;
  for (const Quantity& quantity : quantities)
    if (quantity.style != nullptr && sum_over(ranks, quantity.of) > 0)
      legend.push_back({quantity.style, quantity.name});
  return legend;
}

/// Rows of a quantity's smallest, median and largest value, each above the rank that has it.
void add_spreads(const std::vector<RankBreakdown>& ranks, const TimeUnit& unit, DataTable& table) {
  std::vector<std::vector<std::string>> rows = {{"smallest"}, {"of rank"}, {"median"},
                                                {"of rank"},  {"largest"}, {"of rank"}};
  for (const Quantity& quantity : quantities) {
    std::vector<RankValue> values;
    values.reserve(ranks.size());
    for (const RankBreakdown& rank : ranks)
      values.push_back({rank.rank, static_cast<double>(quantity.of(rank))});
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

DataTable breakdown_table(const std::vector<RankBreakdown>& ranks, const TimeUnit& unit) {
  DataTable table{{"rank"}, {}};
  for (const Quantity& quantity : quantities)
    table.columns.push_back(fmt::format("{} ({})", quantity.name, unit.name));
  for (const RankBreakdown& rank : ranks) {
    std::vector<std::string> cells = {std::to_string(rank.rank)};
    for (const Quantity& quantity : quantities)
      cells.push_back(in_unit(static_cast<double>(quantity.of(rank)), unit));
    table.rows.push_back(std::move(cells));
  }
  if (ranks.size() > 1) add_spreads(ranks, unit, table);
  return table;
}

/// What is left out of a drawing; empty if nothing is.
std::string drawn_note(std::size_t drawn, std::size_t all) {
  if (drawn == all) return "";
  return fmt::format(
      " {} of {} ranks are drawn, the {} worst, the {} around the median and the {} best; the "
      "table has all.",
      drawn, all, most_of_each, most_of_each, most_of_each);
}

std::string lateness_title(const metrics::LateRanks& late) {
  int64_t all = 0, worst = 0;
  for (const metrics::RankLateness& rank : late.ranks) {
    all += rank.caused;
    if (late.straggler == rank.rank) worst = rank.blamed;
  }
  if (all == 0) return "No rank is waited for";
  return late.straggler ? fmt::format("{} of all waiting comes from delays of rank {}",
                                      percent(ratio(worst, all)), *late.straggler)
                        : "No rank's delays are beyond the noise";
}

DataTable lateness_table(const metrics::LateRanks& late, const TimeUnit& unit) {
  DataTable table{{"rank", "collectives", "times last", "others waited", "later than the second",
                   "waited itself", "in communication kernels"},
                  {}};
  for (std::size_t i = 3; i < table.columns.size(); ++i)
    table.columns[i] += fmt::format(" ({})", unit.name);
  const auto cell = [&](int64_t ns) { return in_unit(static_cast<double>(ns), unit); };
  for (const metrics::RankLateness& rank : late.ranks)
    table.rows.push_back({std::to_string(rank.rank), std::to_string(rank.collectives),
                          std::to_string(rank.times_last), cell(rank.caused), cell(rank.alone),
                          cell(rank.waited), cell(rank.in_communication)});
  return table;
}

std::string path_title(const metrics::CriticalPath& path, bool knows_launches) {
  if (path.shares.empty()) return "The critical path";
  const metrics::PathShare& most = path.shares[0];
  const TimeUnit unit = time_unit(path.length());
  std::string title = fmt::format("{} of the critical path is {}",
                                  percent(ratio(most.on_path, path.length())), most.label);
  if (knows_launches)
    title += fmt::format("; without it the step would be {} {} shorter",
                         in_unit(static_cast<double>(most.saved_if_free), unit), unit.name);
  return title;
}

std::vector<BarPart> path_parts(const metrics::PathShare& share, const TimeUnit& unit,
                                bool knows_launches) {
  const auto on_path = static_cast<double>(share.on_path);
  const auto saved = static_cast<double>(share.saved_if_free);
  if (!knows_launches)
    return {{on_path / unit.ns, "t-compute",
             fmt::format("{} {} on the path", in_unit(on_path, unit), unit.name)}};
  return {{saved / unit.ns, "t-compute",
           fmt::format("saved if free: {} {}", in_unit(saved, unit), unit.name)},
          {std::max(0.0, on_path - saved) / unit.ns, "t-next",
           "on the path; another chain is equally long"}};
}

}  // namespace

std::vector<std::size_t> drawn_of(const std::vector<double>& amounts) {
  std::vector<std::size_t> order(amounts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (order.size() <= most_bars) return order;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return amounts[a] > amounts[b]; });
  const std::size_t middle = order.size() / 2 - most_of_each / 2;
  std::vector<std::size_t> drawn;
  for (const std::size_t first : {std::size_t{0}, middle, order.size() - most_of_each})
    for (std::size_t i = 0; i < most_of_each; ++i)
      drawn.push_back(order[first + i]);
  std::sort(drawn.begin(), drawn.end());
  return drawn;
}

Figure breakdown_figure(const std::vector<RankBreakdown>& ranks) {
  int64_t longest = 0;
  std::vector<double> not_computing;
  for (const RankBreakdown& rank : ranks) {
    longest = std::max(longest, rank.span());
    not_computing.push_back(static_cast<double>(rank.span() - rank.compute));
  }
  const TimeUnit unit = time_unit(longest);
  BarChart chart{.title = breakdown_title(ranks),
                 .unit = fmt::format("first to last activity of the rank's device ({})", unit.name),
                 .bars = {},
                 .cuts = false};
  for (const std::size_t i : drawn_of(not_computing))
    chart.bars.push_back(breakdown_bar(ranks[i], unit));
  const std::string note =
      "Exposed: without concurrent compute. Idle time by the kernel that follows: launched too "
      "late (host late), the device's own gap, or a wait for another stream." +
      drawn_note(chart.bars.size(), ranks.size());
  return {"time-by-rank", chart.title, note,
          html_legend(breakdown_legend(ranks)) + bar_chart_svg(chart),
          breakdown_table(ranks, unit)};
}

Figure lateness_figure(const metrics::LateRanks& late) {
  int64_t longest = 0;
  std::vector<double> caused;
  for (const metrics::RankLateness& rank : late.ranks) {
    longest = std::max({longest, rank.caused, rank.in_communication});
    caused.push_back(static_cast<double>(rank.caused));
  }
  const TimeUnit unit = time_unit(longest);
  BarChart chart{.title = lateness_title(late),
                 .unit = fmt::format("total waiting time of the other ranks ({})", unit.name),
                 .bars = {},
                 .cuts = false};
  for (const std::size_t i : drawn_of(caused)) {
    const metrics::RankLateness& rank = late.ranks[i];
    chart.bars.push_back(
        {.label = fmt::format("rank {}", rank.rank),
         .parts = {{caused[i] / unit.ns, "t-communication",
                    fmt::format("last into {} of {}", rank.times_last, rank.collectives)}},
         .text = significant(caused[i] / unit.ns)});
  }
  return {"late-ranks", chart.title,
          "Waiting in a collective is attributed to the rank that began last." +
              drawn_note(chart.bars.size(), late.ranks.size()),
          bar_chart_svg(chart), lateness_table(late, unit)};
}

Figure path_figure(const metrics::CriticalPath& path, bool knows_launches) {
  const TimeUnit unit = time_unit(path.length());
  BarChart chart{.title = path_title(path, knows_launches),
                 .unit = fmt::format("time on the critical path ({})", unit.name),
                 .bars = {},
                 .cuts = false};
  DataTable table{{"class", fmt::format("on the path ({})", unit.name), "share of the path",
                   "pieces", fmt::format("saved if free ({})", unit.name), "saved of the path"},
                  {}};
  for (const metrics::PathShare& share : path.shares) {
    const std::string of_path = percent(ratio(share.on_path, path.length()));
    chart.bars.push_back({.label = std::string(share.label),
                          .parts = path_parts(share, unit, knows_launches),
                          .text = of_path});
    table.rows.push_back(
        {std::string(share.label), in_unit(static_cast<double>(share.on_path), unit), of_path,
         std::to_string(share.pieces),
         knows_launches ? in_unit(static_cast<double>(share.saved_if_free), unit) : "–",
         knows_launches ? percent(ratio(share.saved_if_free, path.length())) : "–"});
  }
  const std::string legend =
      knows_launches ? html_legend({{"t-compute", "saved if it were free"},
                                    {"t-next", "on the path; another chain is equally long"}})
                     : "";
  const std::string note = fmt::format(
      "The longest chain of dependencies: {} {} in {} pieces. Waiting in collectives is on no "
      "path.",
      in_unit(static_cast<double>(path.length()), unit), unit.name, path.pieces.size());
  return {"critical-path", chart.title, note, legend + bar_chart_svg(chart), std::move(table)};
}

}  // namespace triplepoint::report
