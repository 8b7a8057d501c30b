// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/index_page.h"

#include <algorithm>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

std::string link(const std::string& to, const std::string& words) {
  return to.empty() ? escape(words)
                    : fmt::format("<a href=\"{}\">{}</a>", escape(to), escape(words));
}

std::string scope_of(const IndexEntry& entry) {
  const auto scope = metrics::energy_scopes[as_size(entry.energy_scope)];
  return entry.energy_scope == metrics::EnergyScope::gpu ? "GPUs" : std::string(scope);
}

std::string row_of(const IndexEntry& entry, bool with_numbers) {
  // Two that are ticked are compared (web/src/ticks.ts).
  std::string html = with_numbers && !entry.is_broken
                         ? fmt::format("<tr data-run=\"{}.run\">", escape(entry.name))
                         : "<tr>";
  html += "<th scope=\"row\">" + link(entry.link, entry.name) + "</th>";
  const auto cell = [&](const std::string& text, bool is_number) {
    html += fmt::format("<td{}>{}</td>", is_number ? " class=\"num\"" : "", text);
  };
  cell(escape(entry.state), false);
  if (with_numbers) {
    cell(entry.num_gpus ? whole(static_cast<int64_t>(*entry.num_gpus)) : "–", true);
    cell(significant(entry.step_time_s), true);
    cell(significant(entry.tokens_per_s_per_gpu), true);
    cell(entry.mfu ? percent(*entry.mfu) : "–", true);
    cell(significant(entry.joules_per_token), true);
    cell(entry.joules_per_token ? scope_of(entry) : "", false);
    cell(significant(entry.power_mean_w), true);
    cell(significant(entry.temperature_peak_c), true);
  }
  cell(escape(entry.changed), false);
  return html + "</tr>";
}

std::string table_of(const std::vector<IndexEntry>& entries, bool studies) {
  struct Column {
    const char* title;
    bool is_number = false;
  };
  std::vector<Column> columns = {{studies ? "study" : "run"}, {"state"}};
  const auto number = [](const char* title) { return Column{title, true}; };
  if (!studies)
    columns.insert(columns.end(), {number("GPUs"), number("step (s)"), number("tokens/s a GPU"),
                                   number("MFU"), number("J/token"), Column{"energy of"},
                                   number("power (W)"), number("peak (°C)")});
  columns.push_back({"changed"});
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>"
      "<caption>{0}</caption><thead><tr>",
      studies ? "Studies of this folder" : "Runs of this folder, newest first");
  for (const auto& [title, is_number] : columns)
    html += fmt::format("<th scope=\"col\"{}>{}</th>", is_number ? " class=\"num\"" : "",
                        escape(title));
  html += "</tr></thead><tbody>";
  for (const IndexEntry& entry : entries)
    if (entry.is_study == studies) html += row_of(entry, !studies);
  return html + "</tbody></table></div>";
}

}  // namespace

IndexEntry index_entry(const run::Run& header) {
  IndexEntry entry;
  const metrics::Metrics m = metrics::measure(header);
  entry.state = run::name_of(header.manifest.origin);
  if (!header.manifest.fits_memory) entry.state += ", out of memory";
  if (header.shutdown) entry.state += ", shut down by heat";
  if (!header.devices.empty()) entry.num_gpus = as_real(header.devices.size());
  if (m.step_time) entry.step_time_s = *m.step_time / unit::s;
  entry.tokens_per_s_per_gpu = m.tokens_per_second_per_gpu;
  entry.mfu = m.mfu;
  entry.joules_per_token = m.joules_per_token;
  entry.energy_scope = m.energy_scope;
  entry.power_mean_w = m.power_mean_w;
  entry.temperature_peak_c = m.temperature_peak_c;
  return entry;
}

std::string index_page(const std::string& folder, const std::vector<IndexEntry>& entries) {
  const auto studies = std::ranges::count_if(entries, &IndexEntry::is_study);
  const auto runs = static_cast<std::ptrdiff_t>(entries.size()) - studies;
  const std::string title = "Runs and studies in " + folder;
  std::string body = fmt::format(
      "<header><p class=\"kicker\">Triplepoint</p><h1>{}</h1><p class=\"facts\"><b>{}</b> studies, "
      "<b>{}</b> runs. New ones appear by themselves. "
      "<a href=\"/explore\">Explore a job</a> that has not run.</p></header>\n",
      escape(title), studies, runs);
  if (entries.empty())
    body +=
        "<p>Nothing here yet. <code>triplepoint characterize STUDY -o FOLDER</code> or "
        "<code>triplepoint simulate JOB -o FOLDER/NAME.run</code> add runs.</p>";
  if (studies > 0) body += html_section("studies", "Studies", table_of(entries, true));
  if (runs > 0)
    body +=
        html_section("runs", "Runs",
                     html_filter() + "<div class=\"jobs\">" + table_of(entries, false) + "</div>");
  return html_page(title, body, Json::object());
}

std::string notice_page(const std::string& title, const std::string& sentence) {
  return html_page(title,
                   fmt::format("<header><p class=\"kicker\">Triplepoint</p><h1>{}</h1></header>"
                               "<p>{}</p><p><a href=\"/\">All runs and studies</a></p>",
                               escape(title), escape(sentence)),
                   Json::object());
}

}  // namespace triplepoint::report
