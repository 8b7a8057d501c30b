// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/compare_page.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/json.h"

#include "triplepoint/report/compare_charts.h"
#include "triplepoint/report/html.h"

namespace triplepoint::report {
namespace {

std::string header(const char* kicker, const std::string& title, const std::string& facts) {
  return fmt::format(
      "<header><p class=\"kicker\">{}</p><h1>{}</h1><p class=\"facts\">{}</p></header>\n", kicker,
      escape(title), escape(facts));
}

std::string findings(const std::vector<std::string>& sentences) {
  std::string html =
      "<section aria-labelledby=\"findings\"><h2 id=\"findings\">What changed</h2><ol "
      "class=\"findings\">";
  for (const std::string& sentence : sentences)
    html += "<li>" + escape(sentence) + "</li>";
  return html + "</ol></section>\n";
}

std::string section(const std::string& id, const std::string& heading, const std::string& inside) {
  if (inside.empty()) return "";
  return fmt::format("<section aria-labelledby=\"{0}\"><h2 id=\"{0}\">{1}</h2>", id,
                     escape(heading)) +
         inside + "</section>\n";
}

std::string figures(const std::vector<Figure>& all) {
  std::string html;
  for (const Figure& figure : all)
    if (!figure.drawing.empty()) html += html_figure(figure);
  if (html.empty()) return "";
  // Wider than elsewhere: the bars have long labels.
  return "<div class=\"figures\" style=\"grid-template-columns:repeat(auto-fit,minmax(min(100%,"
         "500px),1fr))\">" +
         html + "</div>";
}

std::string settings_table(const Comparison& c) {
  if (c.settings.empty()) return "";
  DataTable table{{"setting"}, {}};
  for (const Side& side : c.sides)
    table.columns.push_back(side.name);
  for (const auto& [name, values] : c.settings) {
    std::vector<std::string> cells = {name};
    cells.insert(cells.end(), values.begin(), values.end());
    table.rows.push_back(std::move(cells));
  }
  return html_table(table, "What was set up differently");
}

std::vector<std::string> number_columns(const std::vector<std::string>& names) {
  std::vector<std::string> columns = {"number"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    columns.push_back(names[i]);
    if (i > 0) columns.push_back(names.size() == 2 ? "difference" : names[i] + ", difference");
  }
  return columns;
}

std::string section_table(const Comparison& c, const ComparedSection& of,
                          const std::vector<std::string>& names) {
  DataTable table{number_columns(names), {}};
  for (const ComparedRow& row : of.rows) {
    std::vector<std::string> cells = {
        row.unit.empty() ? row.title : fmt::format("{} ({})", row.title, row.unit)};
    for (std::size_t i = 0; i < c.sides.size(); ++i) {
      std::string value = row.value_text(i);
      if (!row.whose.empty() && !row.whose[i].empty()) value += ", " + row.whose[i];
      cells.push_back(std::move(value));
      if (i > 0) cells.push_back(difference_text(row, i));
    }
    table.rows.push_back(std::move(cells));
  }
  return html_table(table, of.title);
}

std::string all_numbers(const Comparison& c, const std::vector<std::string>& names) {
  std::string html;
  for (const ComparedSection& of : c.sections) {
    const bool is_long = of.name == "stages";
    if (is_long) html += "<details class=\"data\"><summary>" + escape(of.title) + "</summary>";
    html += section_table(c, of, names);
    if (is_long) html += "</details>";
  }
  return html;
}

std::string facts_of(const Comparison& c) {
  std::vector<std::string> facts;
  facts.reserve(c.sides.size());
  for (const Side& side : c.sides)
    facts.push_back(fmt::format("{}: {}, {} GPUs", side.name, side.origin, side.num_gpus));
  return fmt::format("{}. Differences are against {}.", fmt::join(facts, "; "), c.sides[0].name);
}

std::string title_of(const std::vector<std::string>& names) {
  std::vector<std::string> others(names.begin() + 1, names.end());
  return fmt::format("{} against {}", fmt::join(others, ", "), names[0]);
}

struct ShownNumber {
  const char *key, *title;
};
constexpr ShownNumber shown_numbers[] = {{"step_time_s", "step (s)"},
                                         {"energy_j", "energy (MJ)"},
                                         {"power_mean_w", "power (W)"},
                                         {"temperature_peak_c", "peak (°C)"},
                                         {"sm_clock_mean_mhz", "clock (MHz)"}};

std::vector<std::string> job_columns(const std::vector<std::string>& names) {
  std::vector<std::string> columns = {"job"};
  for (const std::string& name : names)
    columns.push_back(name + ": verdict");
  for (const ShownNumber& number : shown_numbers)
    for (std::size_t i = 0; i < names.size(); ++i) {
      columns.push_back(names[i] + ": " + number.title);
      if (i > 0) columns.emplace_back("difference");
    }
  return columns;
}

std::vector<std::string> job_cells(const ComparedJob& job, std::size_t studies) {
  std::vector<std::string> cells = {job.name};
  for (const std::string& verdict : job.verdicts)
    cells.push_back(verdict.empty() ? "–" : verdict);
  for (const ShownNumber& number : shown_numbers) {
    const ComparedRow* row = job.numbers.find(number.key);
    for (std::size_t i = 0; i < studies; ++i) {
      cells.push_back(row != nullptr ? row->value_text(i) : "–");
      if (i > 0) cells.push_back(row != nullptr ? difference_text(*row, i) : "–");
    }
  }
  return cells;
}

std::string jobs_table(const StudyComparison& c) {
  DataTable table{job_columns(c.names), {}};
  for (const ComparedJob& job : c.jobs)
    table.rows.push_back(job_cells(job, c.names.size()));
  return "<p class=\"filter\" hidden><label>Filter <input type=\"search\" id=\"filter\"></label> "
         "<span id=\"filter-count\" role=\"status\"></span></p><div class=\"jobs\">" +
         html_table(table, "Every job of the studies") + "</div>";
}

}  // namespace

std::string compare_page(const Comparison& c) {
  std::vector<std::string> names;
  names.reserve(c.sides.size());
  for (const Side& side : c.sides)
    names.push_back(side.name);
  const std::string title = title_of(names);
  std::string body = header("Triplepoint comparison", title, facts_of(c));
  body += findings(sentences_of(c));
  body += section("overview", "At a glance",
                  figures({headline_figure(c), kernels_figure(c), ledger_figure(c), steps_figure(c),
                           stages_figure(c)}));
  body += section("gpus", "Every GPU", figures(gpu_figures(c)));
  body += section("settings", "What was set up differently", settings_table(c));
  body += section("numbers", "Every number", all_numbers(c, names));
  return html_page(title, body, Json::object());
}

std::string compare_page(const StudyComparison& c) {
  const std::string title = title_of(c.names);
  std::string body = header("Triplepoint comparison of studies", title,
                            fmt::format("{} jobs, joined by name.", c.jobs.size()));
  body += findings(sentences_of(c));
  std::vector<Figure> drawings;
  drawings.reserve(c.names.size());
  for (std::size_t i = 1; i < c.names.size(); ++i)
    drawings.push_back(jobs_figure(c, i));
  body += section("overview", "Job by job", figures(drawings));
  body += section("jobs", "All jobs", jobs_table(c));
  return html_page(title, body, Json::object());
}

}  // namespace triplepoint::report
