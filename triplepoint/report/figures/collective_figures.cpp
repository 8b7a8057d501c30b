// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/metrics/trace/lateness.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/figures/trace_figures.h"

namespace triplepoint::report {
namespace {

using metrics::CollectiveRow;

constexpr std::size_t most_bars = 24, most_rows = 500;

double mean(int64_t sum, int64_t number) {
  return number == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(number);
}

std::string size_text(Bytes size) {
  const double bytes = size / unit::B;
  if (bytes <= 0) return "size unknown";
  if (bytes < 1024) return significant(bytes) + " B";
  if (bytes < 1024 * 1024) return significant(bytes / 1024) + " KiB";
  if (bytes < 1024.0 * 1024 * 1024) return significant(size / unit::MiB) + " MiB";
  return significant(size / unit::GiB) + " GiB";
}

/// The indices of the `most` largest amounts, ascending.
std::vector<std::size_t> largest(const std::vector<int64_t>& amounts, std::size_t most) {
  std::vector<std::size_t> order(amounts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return amounts[a] > amounts[b]; });
  order.resize(std::min(most, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

std::string left_out(std::size_t drawn, std::size_t all, const char* by) {
  return drawn == all ? "" : fmt::format(" The {} of {} with most {} are drawn.", drawn, all, by);
}

Bar collective_bar(const CollectiveRow& row) {
  Bar bar{.label = fmt::format("{}, {}", row.label, size_text(row.size)), .parts = {}};
  const double kernel = mean(row.total, row.kernels);
  if (row.wait && row.transfer) {
    const double wait = mean(*row.wait, row.kernels);
    bar.parts = {
        {wait / 1e3, "t-host", fmt::format("waiting: {} us", significant(wait / 1e3))},
        {std::max(0.0, kernel - wait) / 1e3, "t-communication",
         fmt::format("after the last arrival: {} us", significant((kernel - wait) / 1e3))}};
  } else {
    bar.parts = {{kernel / 1e3, "t-communication",
                  fmt::format("kernel, waiting included: {} us", significant(kernel / 1e3))}};
  }
  bar.text = significant(kernel / 1e3);
  return bar;
}

std::string count_or_dash(int64_t count) {
  return count < 0 ? "–" : whole(count);
}

std::vector<std::string> collective_cells(const CollectiveRow& row) {
  const auto us = [](double ns) { return in_unit(ns, {"us", 1e3}); };
  const bool sized = row.size > Bytes();
  return {std::string(row.label),
          sized ? whole(static_cast<int64_t>(row.size / unit::B)) : "–",
          count_or_dash(sized ? row.count : -1),
          row.group_size > 0 ? std::to_string(row.group_size) : "–",
          std::to_string(row.occurrences),
          row.transfer ? us(mean(*row.transfer, row.occurrences)) : "–",
          significant(row.algbw_gb_s),
          significant(row.busbw_gb_s),
          us(mean(row.total, row.kernels)),
          us(static_cast<double>(row.shortest)),
          us(static_cast<double>(row.longest)),
          row.wait ? us(mean(*row.wait, row.kernels)) : "–"};
}

std::string collectives_title(const std::vector<CollectiveRow>& rows) {
  int64_t wait = 0, kernels = 0, all = 0;
  for (const CollectiveRow& row : rows) {
    all += row.total;
    if (!row.wait) continue;
    wait += *row.wait;
    kernels += row.total;
  }
  if (kernels > 0)
    return fmt::format("{} of the time in collectives is waiting for the last rank",
                       percent(mean(wait, kernels)));
  const auto most = std::max_element(rows.begin(), rows.end(),
                                     [](auto& a, auto& b) { return a.total < b.total; });
  return fmt::format("{} of {} takes {} of the time in collectives", most->label,
                     size_text(most->size), percent(mean(most->total, all)));
}

std::string collectives_legend(const std::vector<CollectiveRow>& rows) {
  const bool waits =
      std::any_of(rows.begin(), rows.end(), [](auto& row) { return row.wait.has_value(); });
  if (!waits) return html_legend({{"t-communication", "kernel, waiting included"}});
  return html_legend({{"t-host", "waiting for the last rank"}, {"t-communication", "transfer"}});
}

std::string us_text(int64_t ns) {
  return in_unit(static_cast<double>(ns), {"us", 1e3});
}

std::vector<std::string> late_start_cells(const std::string& label, const metrics::LateStart& start,
                                          const metrics::CollectiveMatch& match) {
  const metrics::Collective& collective = match.collectives[start.collective];
  return {label,
          in_unit(static_cast<double>(collective.first_begin()), {"ms", 1e6}),
          us_text(start.waits),
          us_text(start.start_spread),
          us_text(start.end_spread),
          std::to_string(start.rank),
          us_text(start.lead),
          start.chain.empty() ? "–" : metrics::chain_text(start.chain)};
}

}  // namespace

Figure collectives_figure(const std::vector<metrics::Collective>& all) {
  const std::vector<CollectiveRow> rows = metrics::tabulate(all);
  if (rows.empty()) return {};
  std::vector<int64_t> totals;
  totals.reserve(rows.size());
  for (const CollectiveRow& row : rows)
    totals.push_back(row.total);
  BarChart chart{.title = collectives_title(rows),
                 .unit = "mean kernel of a rank (us)",
                 .bars = {},
                 .cuts = false};
  for (const std::size_t i : largest(totals, most_bars))
    chart.bars.push_back(collective_bar(rows[i]));
  DataTable table{
      {"collective", "size (B)", "count", "ranks", "times", "transfer (us)", "algbw (GB/s)",
       "busbw (GB/s)", "kernel mean (us)", "min (us)", "max (us)", "wait (us)"},
      {}};
  for (const CollectiveRow& row : rows)
    table.rows.push_back(collective_cells(row));
  return {"collectives", chart.title,
          "Sizes, counts and bandwidths as nccl-tests define them; bandwidths are of the transfer, "
          "with one rank alone of the shortest kernel." +
              left_out(chart.bars.size(), rows.size(), "time"),
          collectives_legend(rows) + bar_chart_svg(chart), std::move(table)};
}

Figure late_starts_figure(const metrics::LateRanks& late, const metrics::CollectiveMatch& match) {
  std::vector<int64_t> waits;
  for (const metrics::LateStart& start : late.starts)
    waits.push_back(start.waits);
  DataTable table{{"collective", "begin (ms)", "others waited (us)", "begins apart (us)",
                   "ends apart (us)", "last rank", "after the second (us)", "cause <- behind it"},
                  {}};
  BarChart chart{.title = "Collectives by how long others waited for the last rank",
                 .unit = "total waiting time of the other ranks (us)",
                 .bars = {},
                 .cuts = false};
  std::vector<std::string> labels;
  for (const metrics::LateStart& start : late.starts)
    labels.push_back(
        fmt::format("{}: {}", labels.size() + 1, match.collectives[start.collective].label));
  for (const std::size_t i : largest(waits, most_rows))
    table.rows.push_back(late_start_cells(labels[i], late.starts[i], match));
  if (const auto worst = largest(waits, 1); !worst.empty() && waits[worst[0]] > 0)
    chart.title =
        fmt::format("Collective {} is the most expensive: other ranks waited {} us for rank {}",
                    labels[worst[0]], us_text(waits[worst[0]]), late.starts[worst[0]].rank);
  for (const std::size_t i : largest(waits, most_bars)) {
    const metrics::LateStart& start = late.starts[i];
    Bar bar{.label = fmt::format("{}, rank {}", labels[i], start.rank), .parts = {}};
    const double length = static_cast<double>(start.waits) / 1e3;
    bar.parts = {{length, "t-communication", metrics::chain_text(start.chain)}};
    bar.text = significant(length);
    chart.bars.push_back(std::move(bar));
  }
  return {"late-starts",
          chart.title,
          "In order of time, with the rank that began last; the table lists the cause." +
              left_out(chart.bars.size(), late.starts.size(), "waiting") +
              (late.starts.size() > most_rows
                   ? fmt::format(" The table shows the {} largest.", most_rows)
                   : ""),
          bar_chart_svg(chart),
          std::move(table),
          true,
          late.starts.size() <= most_bars};
}

}  // namespace triplepoint::report
