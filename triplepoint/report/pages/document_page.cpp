// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/document_page.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/charts/chassis_picture.h"
#include "triplepoint/report/charts/study_charts.h"

namespace triplepoint::report {
namespace {

using answers::Remark;

struct Draw {
  bool in_wide_card = false;
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(const answers::BarChart& chart) const {
    return in_wide_card ? bar_chart_svg(chart, 480) : bar_chart_svg(chart);
  }
  std::string operator()(const answers::LineChart& chart) const { return line_chart_svg(chart); }
  std::string operator()(const answers::ScatterChart& chart) const {
    return scatter_chart_svg(chart);
  }
  std::string operator()(const answers::RangeChart& chart) const { return range_chart_svg(chart); }
  std::string operator()(const answers::DifferenceChart& chart) const {
    return difference_chart_svg(chart.title, chart.unit, chart.bars);
  }
  std::string operator()(const answers::HeatMap& map) const { return heat_map_svg(map); }
  std::string operator()(const answers::ChassisPicture&) const { return ""; }  // see drawn()
};

std::string findings_html(const answers::Section& section) {
  std::string html;
  for (const Remark& remark : section.remarks) {
    if (remark.kind != Remark::Kind::finding) continue;
    html += "<li>" + escape(remark.text);
    if (!remark.shown_by.empty())
      html += fmt::format(" <a href=\"#{}\">See why</a>", escape(remark.shown_by));
    html += "</li>";
  }
  return html.empty() ? html : "<ol class=\"findings\">" + html + "</ol>";
}

/// Notes and warnings below the tables, and at last what to run.
std::string notes_html(const answers::Section& section) {
  std::string html, commands;
  for (const Remark& remark : section.remarks) {
    if (remark.kind == Remark::Kind::command) commands += escape(remark.text) + "\n";
    if (remark.kind == Remark::Kind::note || remark.kind == Remark::Kind::warning)
      html +=
          fmt::format("<p class=\"note\">{}: {}</p>",
                      remark.kind == Remark::Kind::note ? "Note" : "Warning", escape(remark.text));
  }
  return html + (commands.empty() ? "" : "<pre>" + commands + "</pre>");
}

}  // namespace

std::string section_html(const answers::Section& section) {
  std::string html = findings_html(section), figures;
  for (const answers::Figure& figure : section.figures)
    if (const Drawing picture = drawn(figure, section.figures.size() <= 2); !picture.markup.empty())
      figures += html_figure(picture);
  if (!figures.empty()) html += "<div class=\"figures\">" + figures + "</div>";
  std::string tables;
  for (const DataTable& table : section.tables)
    if (!table.rows.empty()) {
      const DataTable shown = without_blank_columns(table);
      tables += html_table(shown, table.title.empty() ? section.title : table.title);
    }
  if (section.filtered) html += html_filter();  // the page's script hides the others
  if (!tables.empty())
    html += fmt::format("<div class=\"{}\">{}</div>", escape(section.id), tables);
  html += notes_html(section);
  if (html.empty() || section.title.empty()) return html;
  return html_section(section.id, section.title, html);
}

Drawing drawn(const answers::Figure& figure, bool in_wide_card) {
  if (const auto* chassis = std::get_if<answers::ChassisPicture>(&figure.chart))
    return chassis_figure(*chassis->run, metrics::measure(*chassis->run),
                          {.id = figure.id,
                           .title = figure.title,
                           .slot_words = chassis->slot_words,
                           .range = chassis->range});
  return {figure.id,
          figure.title,
          figure.note,
          (figure.legend.empty() ? "" : html_legend(figure.legend)) +
              std::visit(Draw{in_wide_card}, figure.chart),
          without_blank_columns(figure.table),
          figure.wide};
}

std::string head_html(const answers::Document& document) {
  std::string facts;
  if (!document.verdict.empty()) facts = "<b>" + escape(document.verdict) + "</b> ";
  return html_header(document.kind, document.title, facts + escape(document.facts)) +
         (document.key_figures.empty() ? "" : html_tiles(document.key_figures));
}

std::string document_page(const answers::Document& document, const Json& data) {
  std::string body = head_html(document);
  for (const answers::Section& section : document.sections)
    body += section_html(section);
  return html_page(document.title, body, data);
}

}  // namespace triplepoint::report
