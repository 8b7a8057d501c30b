// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/figures/trace_figures.h"

namespace triplepoint::report {
namespace {

using metrics::CollectiveRow;

constexpr std::size_t most_bars = 24;

double mean(int64_t sum, int64_t number) {
  return number == 0 ? 0 : as_real(sum) / as_real(number);
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
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return amounts[a] > amounts[b]; });
  order.resize(std::min(most, order.size()));
  std::ranges::sort(order);
  return order;
}

std::string left_out(std::size_t drawn, std::size_t all) {
  return drawn == all ? "" : fmt::format(" The {} of {} with most time are drawn.", drawn, all);
}

std::string in_words(double ns, const TimeUnit& unit) {
  return significant(ns / unit.ns) + " " + unit.name;
}

Bar collective_bar(const CollectiveRow& row, const TimeUnit& unit) {
  Bar bar{.label = fmt::format("{}, {}", row.label, size_text(row.size))};
  double kernel = mean(row.total, row.kernels);
  if (row.timed > 0) {
    const double wait = *row.mean_wait(), transfer = std::max(0.0, *row.mean_transfer());
    kernel = wait + transfer;
    bar.parts = {{wait / unit.ns, "t-host", "waiting: " + in_words(wait, unit)},
                 {transfer / unit.ns, "t-communication",
                  "after the last arrival: " + in_words(transfer, unit)}};
  } else {
    bar.parts = {{kernel / unit.ns, "t-communication",
                  "kernel, waiting included: " + in_words(kernel, unit)}};
  }
  bar.text = significant(kernel / unit.ns);
  return bar;
}

std::string count_or_dash(int64_t count) {
  return count < 0 ? "–" : whole(count);
}

std::vector<DataCell> collective_cells(const CollectiveRow& row, const TimeUnit& unit) {
  const auto time = [&](double ns) { return in_unit(ns, unit); };
  const bool sized = row.size > Bytes();
  return {std::string(row.label),
          sized ? whole(static_cast<int64_t>(row.size / unit::B)) : "–",
          count_or_dash(sized ? row.count : -1),
          row.group_size > 0 ? std::to_string(row.group_size) : "–",
          std::to_string(row.timed > 0 ? row.timed : row.occurrences),
          row.timed > 0 ? time(*row.mean_transfer()) : "–",
          significant(row.algbw_gb_s),
          significant(row.busbw_gb_s),
          time(mean(row.total, row.kernels)),
          time(as_real(row.shortest)),
          time(as_real(row.longest)),
          row.timed > 0 ? time(*row.mean_wait()) : "–"};
}

/// What the kernels of collectives whose waits are known take, in ns.
struct WaitShares {
  double kernels = 0, pipeline = 0, late_peers = 0;
};
void add(WaitShares& shares, const metrics::Collective& collective,
         const metrics::SpanList& spans) {
  if (!collective.knows_waits()) return;
  double& waiting =
      metrics::waits_for_schedule(collective, spans) ? shares.pipeline : shares.late_peers;
  for (const metrics::CollectivePart& part : collective.parts) {
    shares.kernels += as_real(part.duration());
    waiting += as_real(collective.wait_of(part));
  }
}

std::string collectives_title(const std::vector<CollectiveRow>& rows, const WaitShares& shares) {
  if (shares.kernels > 0 && shares.pipeline > 0)
    return fmt::format(
        "Of the time in collectives and messages, {} is waiting for the pipeline, {} for late "
        "peers, {} is transfer",
        percent(shares.pipeline / shares.kernels), percent(shares.late_peers / shares.kernels),
        percent(1 - (shares.pipeline + shares.late_peers) / shares.kernels));
  if (shares.kernels > 0)
    return fmt::format("{} of the time in collectives is waiting for late peers",
                       percent(shares.late_peers / shares.kernels));
  const int64_t all = sum_of(rows, &CollectiveRow::total);
  const auto most =
      std::ranges::max_element(rows, [](auto& a, auto& b) { return a.total < b.total; });
  return fmt::format("{} of {} takes {} of the time in collectives", most->label,
                     size_text(most->size), percent(mean(most->total, all)));
}

/// Of the mean kernels, so that a table has one unit.
TimeUnit unit_of(const std::vector<CollectiveRow>& rows) {
  return time_unit(most_of(rows, &CollectiveRow::longest));
}

std::string collectives_legend(const std::vector<CollectiveRow>& rows) {
  const bool waits = std::ranges::any_of(rows, [](auto& row) { return row.timed > 0; });
  if (!waits) return html_legend({{"t-communication", "kernel, waiting included"}});
  return html_legend(
      {{"t-host", "waiting for the last to begin"}, {"t-communication", "transfer"}});
}

}  // namespace

Drawing collectives_figure(const metrics::CollectiveMatch& match, const metrics::SpanList& spans) {
  metrics::CollectiveTable added;
  WaitShares shares;
  metrics::for_each_collective(spans, match, [&](const metrics::Collective& collective) {
    added.add(collective);
    add(shares, collective, spans);
  });
  const std::vector<CollectiveRow> rows = added.rows();
  if (rows.empty()) return {};
  const std::vector<int64_t> totals = mapped(rows, &CollectiveRow::total);
  const TimeUnit unit = unit_of(rows);
  BarChart chart{.title = collectives_title(rows, shares),
                 .unit = fmt::format("mean kernel of a rank ({})", unit.name),
                 .cuts = false};
  for (const std::size_t i : largest(totals, most_bars))
    chart.bars.push_back(collective_bar(rows[i], unit));
  DataTable table =
      titled_table({"collective", "size (B)", "count", "ranks", "times", "transfer", "algbw (GB/s)",
                    "busbw (GB/s)", "kernel mean", "min", "max", "wait"});
  for (const std::size_t i : {5, 8, 9, 10, 11})
    table.columns[i].title += fmt::format(" ({})", unit.name);
  for (const CollectiveRow& row : rows)
    table.rows.push_back(collective_cells(row, unit));
  return {"collectives", chart.title,
          "Sizes, counts and bandwidths as nccl-tests define them; bandwidths are of the transfer, "
          "with one rank alone of the shortest kernel." +
              left_out(chart.bars.size(), rows.size()),
          collectives_legend(rows) + bar_chart_svg(chart), std::move(table)};
}

}  // namespace triplepoint::report
