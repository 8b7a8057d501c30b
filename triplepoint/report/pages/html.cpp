// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/html.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/json.h"
#include "triplepoint/base/lists.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"

namespace triplepoint::report {
namespace {

std::string& page_command() {
  static std::string command;
  return command;
}

bool looks_like_number(const std::string& cell) {
  return cell == "–" || cell.find_first_not_of("0123456789.,+-−% ") == std::string::npos;
}

/// A column stands right if most of what it holds are numbers.
bool is_numeric(const DataTable& table, std::size_t column) {
  if (column == 0) return false;
  return std::ranges::all_of(table.rows, [&](const auto& row) {
    const std::string text = cell_text(row[column], table.columns[column]);
    return text.empty() || looks_like_number(text);
  });
}

constexpr std::string_view units[] = {
    "%",    "°C",      "K",       "W",        "kW",      "MW",       "J",    "kJ",   "MJ",
    "GJ",   "kWh",     "MWh",     "s",        "ms",      "us",       "µs",   "min",  "h",
    "B",    "kB",      "MB",      "GB",       "TB",      "KiB",      "MiB",  "GiB",  "TiB",
    "Hz",   "MHz",     "GHz",     "x",        "USD",     "days",     "GPUs", "GB/s", "Gb/s",
    "TB/s", "TFLOP/s", "PFLOP/s", "tokens/s", "J/token", "tokens/J", "times"};

/// The word that begins at `from`, as far as letters, digits, "/" and signs of units go.
std::string_view word_at(std::string_view text, std::size_t from) {
  std::size_t end = from;
  while (end < text.size() && !contains(std::string_view(" <>.,;:()&\n"), text[end]))
    ++end;
  return text.substr(from, end - from);
}

/// Blanks between a number and its unit that do not break, outside of tags.
std::string with_units_kept(std::string_view html) {
  std::string text;
  text.reserve(html.size() + html.size() / 64);
  bool in_tag = false;
  for (std::size_t i = 0; i < html.size(); ++i) {
    const char c = html[i];
    if (c == '<' || c == '>') in_tag = c == '<';
    const bool after_number = c == ' ' && !in_tag && i > 0 && is_digit(html[i - 1]);
    const bool is_kept = after_number && std::find(std::begin(units), std::end(units),
                                                   word_at(html, i + 1)) != std::end(units);
    text += is_kept ? std::string_view("\u00a0") : html.substr(i, 1);
  }
  return text;
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
      width, height, 0.8 * width, 1.25 * width, escape(title));
}

std::string fixed(double value, int decimals) {
  return decimals == 0 && std::isfinite(value) ? whole(std::llround(value))
                                               : fixed_point(value, decimals);
}

std::string cell_text(const DataCell& cell, const DataColumn& column) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const auto number = number_in(cell);
  if (!number) return "–";
  const double shown = *number / column.scale;
  return column.significant ? significant(shown, column.digits) : fixed(shown, column.digits);
}

std::string html_table(const DataTable& table, std::string_view caption) {
  const std::vector<bool> numeric =
      numbered(table.columns.size(), [&](std::size_t i) { return is_numeric(table, i); });
  std::string html =
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">",
                  escape(caption)) +
      "<table><caption>" + escape(caption) + "</caption><thead><tr>";
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", numeric[i] ? " class=\"num\"" : "",
                        escape(table.columns[i].title));
  html += "</tr></thead><tbody>";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    const auto& row = table.rows[r];
    TPT_EXPECT(row.size() == table.columns.size());
    const bool of_job = r < table.jobs.size() && !table.jobs[r].empty();
    html += of_job ? "<tr data-job=\"" + escape(table.jobs[r]) + "\">" : "<tr>";
    html += "<th scope=\"row\">" + escape(cell_text(row[0], table.columns[0])) + "</th>";
    for (std::size_t i = 1; i < row.size(); ++i)
      html += fmt::format("<td{}>{}</td>", numeric[i] ? " class=\"num\"" : "",
                          escape(cell_text(row[i], table.columns[i])));
    html += "</tr>";
  }
  return html + "</tbody></table></div>";
}

std::string html_figure(const Drawing& figure) {
  std::string html =
      fmt::format("<figure id=\"{}\"{}><figcaption>{}</figcaption>", escape(figure.id),
                  figure.wide ? " class=\"wide\"" : "", escape(figure.title));
  html += "<div class=\"drawing\">" + figure.markup + "</div>";
  if (!figure.note.empty()) html += "<p class=\"note\">" + escape(figure.note) + "</p>";
  if (!figure.table.columns.empty())
    html += fmt::format("<details class=\"data\"{}><summary>Numbers</summary>",
                        figure.shows_table ? " open" : "") +
            html_table(figure.table, figure.title) + "</details>";
  else if (figure.has_compact_table)
    html += fmt::format(
        "<details class=\"data\" data-table=\"{}\"><summary>Numbers</summary></details>",
        escape(figure.id));
  return html + "</figure>\n";
}

std::string html_header(std::string_view kicker, std::string_view title, std::string_view facts) {
  return fmt::format(
      "<header><p class=\"kicker\">Triplepoint {}</p><h1>{}</h1><p "
      "class=\"facts\">{}</p></header>\n",
      kicker, escape(title), facts);
}

std::string html_tiles(const std::vector<answers::KeyFigure>& figures) {
  std::string html;
  for (const answers::KeyFigure& tile : figures) {
    const std::size_t blank = tile.value.rfind(' ');
    const bool has_unit =
        blank != std::string::npos && blank > 0 && is_digit(tile.value[blank - 1]);
    const std::string value = has_unit
                                  ? fmt::format("{} <i>{}</i>", escape(tile.value.substr(0, blank)),
                                                escape(tile.value.substr(blank + 1)))
                                  : escape(tile.value);
    html += fmt::format("<li><span>{}</span><b>{}</b><small>{}</small></li>", escape(tile.label),
                        value, escape(tile.remark));
  }
  return "<ul class=\"tiles\">" + html + "</ul>\n";
}

std::string html_section(std::string_view id, std::string_view title, std::string_view inner) {
  return fmt::format("<section aria-labelledby=\"{0}\"><h2 id=\"{0}\">{1}</h2>{2}</section>\n",
                     escape(id), escape(title), inner);
}

std::string html_figures(const std::vector<Drawing>& figures) {
  std::string html = "<div class=\"figures\">";
  for (const Drawing& figure : figures)
    html += html_figure(figure);
  return html + "</div>";
}

std::string html_filter() {
  return "<p class=\"filter\" hidden><label>Show only rows with <input type=\"search\" "
         "id=\"filter\"></label> <span id=\"filter-count\" role=\"status\"></span></p>";
}

std::string html_legend(const std::vector<LegendEntry>& entries) {
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : entries)
    html += fmt::format(
        "<li><svg viewBox=\"0 0 12 12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" "
        "rx=\"2\" class=\"{}\"/></svg>{}</li>",
        escape(entry.style), escape(entry.text));
  return html + "</ul>";
}

std::string html_command(std::string_view what, std::string_view command) {
  if (command.empty()) return "";
  return fmt::format("<p class=\"command\">{}: <code>{}</code></p>\n", what, escape(command));
}

void set_page_command(std::string command) {
  page_command() = std::move(command);
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
  page += with_units_kept(body) + html_command("Made by", page_command());
  copy_until("{{data}}");
  page += script_safe(data);
  copy_until("");
  return page;
}

}  // namespace triplepoint::report
