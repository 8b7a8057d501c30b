// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/report/charts/bar_chart.h"
#include "triplepoint/report/charts/line_chart.h"
#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/findings/keys.h"
#include "triplepoint/report/findings/pairs.h"

namespace triplepoint::report {
namespace {

constexpr double per_cent = 100;

struct Link {
  std::string id, name, key;
  Bytes metrics::LinkUse::*sent;
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

Figure use_figure(const Link& link, const Group& group, const StudyRow& busiest) {
  BarChart chart;
  chart.title = fmt::format("Use of {}: {} uses most, {} of the bandwidth over its step", link.name,
                            full_label(busiest), percent(known_number(busiest, link.key)));
  chart.unit = "of the datasheet bandwidth, mean over the step (%)";
  chart.cuts = false;
  DataTable table{{"job", "use (%)", "sent per GPU and step (GB)"}, {}};
  const StudyRow* above = nullptr;
  for (const StudyRow* row : group.rows) {
    Bar bar = empty_bar(*row, above);
    above = row;
    const auto use = number_at(*row, link.key);
    if (row->metrics && use) {
      const std::string sent = gigabytes(row->metrics->links.*link.sent);
      bar.parts = {{*use * per_cent, variant_style(*row), ""}};
      bar.text = percent(*use);
      bar.hint = fmt::format("{}: {}, {} GB a GPU and step", full_label(*row), bar.text, sent);
      table.add({full_label(*row), significant(*use * per_cent), sent}, row->name);
    } else if (row->metrics) {
      bar.status = "not known";
    }
    chart.bars.push_back(std::move(bar));
  }
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
  double all = 0;
  for (const metrics::MessageBucket& bucket : row.metrics->links.messages)
    all += bucket.bytes / unit::B;
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
    count += static_cast<double>(bucket.count);
  }
  return count > 0 ? bytes / count : 0;
}

std::string mean_text(double bytes) {
  if (bytes >= 0x1p20) return significant(bytes / 0x1p20) + " MiB";
  return significant(bytes / 0x1p10) + " KiB";
}

std::vector<LegendEntry> message_legend(const std::vector<const StudyRow*>& rows) {
  std::vector<LegendEntry> legend;
  for (std::size_t i = 0; i < rows.size(); ++i)
    legend.push_back({fmt::format("s{}", i), layout_label(*rows[i])});
  return legend;
}

std::vector<Figure> message_figures(const Group& group) {
  const std::vector<const StudyRow*> rows = rows_with_messages(group);
  if (rows.empty()) return {};
  LineChart chart;
  chart.x_name = "message size";
  chart.y_unit = "bytes in messages up to this size (%)";
  for (int power = first_power; power <= last_power; power += step)
    chart.positions.push_back(
        power % (2 * step) == first_power % (2 * step) ? size_text(std::ldexp(1.0, power)) : "");
  DataTable table{{"layout", "mean message"}, {}};
  for (int power = first_power; power <= last_power; power += step)
    table.columns.push_back("up to " + size_text(std::ldexp(1.0, power)) + " (%)");
  const StudyRow* finest = rows.front();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    chart.lines.push_back(message_line(*rows[i], i));
    if (mean_message(*rows[i]) < mean_message(*finest)) finest = rows[i];
    std::vector<std::string> cells = {layout_label(*rows[i]), mean_text(mean_message(*rows[i]))};
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

std::vector<Figure> link_figures(const Group& group) {
  std::vector<Figure> figures;
  for (const Link& link : links())
    if (const StudyRow* busiest = highest(group.that_ran(), link.key))
      figures.push_back(use_figure(link, group, *busiest));
  for (Figure& figure : message_figures(group))
    figures.push_back(std::move(figure));
  return figures;
}

}  // namespace triplepoint::report
