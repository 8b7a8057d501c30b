// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/html.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"

namespace triplepoint::report {
namespace {

bool looks_like_number(const std::string& cell) {
  return cell == "–" || cell.find_first_not_of("0123456789.,-% ") == std::string::npos;
}

/// A column stands right if most of what it holds are numbers.
bool is_numeric(const DataTable& table, std::size_t column) {
  if (column == 0) return false;
  return std::all_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return row[column].empty() || looks_like_number(row[column]);
  });
}

/// JSON that may stand inside a script element: no end tag can appear in it.
std::string script_safe(const Json& data) {
  std::string text = json_text(data, -1);
  std::string safe;
  safe.reserve(text.size());
  for (char c : text)
    safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

}  // namespace

std::string escape(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string svg_begin(double width, double height, std::string_view title) {
  return fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" style=\"min-width:{:.0f}px;max-width:{:.0f}px\" "
      "role=\"img\" aria-label=\"{}\">",
      width, height, 0.92 * width, 1.25 * width, escape(title));
}

void DataTable::add(std::vector<std::string> cells, std::string job) {
  jobs.resize(rows.size());
  rows.push_back(std::move(cells));
  jobs.push_back(std::move(job));
}

std::string html_table(const DataTable& table, std::string_view caption) {
  std::vector<bool> numeric;
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    numeric.push_back(is_numeric(table, i));
  std::string html =
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">",
                  escape(caption)) +
      "<table><caption>" + escape(caption) + "</caption><thead><tr>";
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    html += fmt::format("<th scope=\"col\"{}>{}</th>", numeric[i] ? " class=\"num\"" : "",
                        escape(table.columns[i]));
  }
  html += "</tr></thead><tbody>";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    TPT_EXPECT(row.size() == table.columns.size());
    const bool of_job = r < table.jobs.size() && !table.jobs[r].empty();
    html += of_job ? "<tr data-job=\"" + escape(table.jobs[r]) + "\">" : "<tr>";
    html += "<th scope=\"row\">" + escape(row[0]) + "</th>";
    for (std::size_t i = 1; i < row.size(); ++i) {
      html += fmt::format("<td{}>{}</td>", numeric[i] ? " class=\"num\"" : "", escape(row[i]));
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string html_figure(const Figure& figure) {
  std::string html =
      fmt::format("<figure id=\"{}\"{}><figcaption>{}</figcaption>", escape(figure.id),
                  figure.wide ? " class=\"wide\"" : "", escape(figure.title));
  html += "<div class=\"drawing\">" + figure.drawing + "</div>";
  if (!figure.note.empty()) html += "<p class=\"note\">" + escape(figure.note) + "</p>";
  if (!figure.table.columns.empty()) {
    html += fmt::format("<details class=\"data\"{}><summary>Numbers</summary>",
                        figure.shows_table ? " open" : "") +
            html_table(figure.table, figure.title) + "</details>";
  } else if (figure.has_compact_table) {
    html += fmt::format(
        "<details class=\"data\" data-table=\"{}\"><summary>Numbers</summary></details>",
        escape(figure.id));
  }
  return html + "</figure>\n";
}

std::string html_legend(const std::vector<LegendEntry>& entries) {
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries) {
    html += fmt::format(
        "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" "
        "rx=\"2\" class=\"{}\"/></svg>{}</li>",
        escape(entry.style), escape(entry.text));
  }
  return html + "</ul>";
}

std::string html_page(std::string_view title, std::string_view body, const Json& data) {
  const std::string_view around = page_template();
  std::string page;
  page.reserve(around.size() + body.size() + 4096);
  auto copy_until = [&, at = std::size_t{0}](std::string_view mark) mutable {
    const std::size_t found = mark.empty() ? around.size() : around.find(mark, at);
    TPT_EXPECT(found != std::string_view::npos);
    page += around.substr(at, found - at);
    at = found + mark.size();
  };
  copy_until("{{title}}");
  page += escape(title);
  copy_until("{{body}}");
  page += body;
  copy_until("{{data}}");
  page += script_safe(data);
  copy_until("");
  return page;
}

}  // namespace triplepoint::report
