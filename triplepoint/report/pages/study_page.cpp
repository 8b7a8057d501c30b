// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/study_page.h"

// The table of all jobs of a study, and what the page's script knows of each.

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/pareto.h"
#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/findings/findings_machines.h"
#include "triplepoint/report/findings/study_summary.h"
#include "triplepoint/report/pages/html.h"
#include "triplepoint/report/pages/score_section.h"
#include "triplepoint/report/study.h"

namespace triplepoint::report {
namespace {

struct Column {
  const char* name;
  const char* key;
  int digits;
};
constexpr Column columns[] = {{"step (s)", "step_time_s", 3},
                              {"tokens/s", "tokens_per_s", 4},
                              {"MFU", "mfu", 3},
                              {"J/token", "joules_per_token", 3},
                              {"mean power (W)", "power_w.mean", 3},
                              {"peak power (W)", "power_w.peak", 3},
                              {"mean die (°C)", "temperature_c.mean", 3},
                              {"peak die (°C)", "temperature_c.peak", 3},
                              {"clock (MHz)", "sm_clock_mhz.mean", 4},
                              {"memory (GiB)", "memory_gib.total", 3}};

/// Errors in full, and what a recording lacks; of other warnings the code in words, for they did
/// not keep the job from running.
std::string diagnoses_text(const StudyRow& row) {
  std::string text;
  for (const spec::Diagnosis& diagnosis : row.diagnoses) {
    const bool is_error = diagnosis.severity == spec::Diagnosis::Severity::error;
    std::string code(spec::name_of(diagnosis.code));
    std::ranges::replace(code, '_', ' ');
    text += fmt::format("{}{}", text.empty() ? "" : "; ",
                        is_error || !row.has_job ? diagnosis.what : code);
  }
  return text;
}

std::vector<std::string> job_cells(const StudyRow& row) {
  std::vector<std::string> cells = {row.name, model_title(row), machine_title(row),
                                    row.has_job ? short_label(row) : "",
                                    std::string(name_of(row.verdict))};
  for (const Column& column : columns) {
    const auto value = number_at(row, column.key);
    cells.push_back(value ? significant(*value, column.digits) : "");
  }
  cells.push_back(diagnoses_text(row));
  return cells;
}

}  // namespace

std::string jobs_section(const Study& study) {
  DataTable table{{"job", "model", "machines", "layout", "verdict"}, {}};
  for (const Column& column : columns)
    table.columns.emplace_back(column.name);
  table.columns.emplace_back("diagnosis");
  for (const StudyRow& row : study.rows)
    table.add(job_cells(row), row.name);
  return "<section aria-labelledby=\"jobs\" class=\"jobs\"><h2 id=\"jobs\">All jobs</h2>"
         "<p class=\"filter\" hidden><label>Show only jobs with <input type=\"search\" "
         "id=\"filter\" placeholder=\"e.g. oom, TP8, mixtral\"></label> <span id=\"filter-count\" "
         "role=\"status\"></span></p>" +
         html_table(table, "Every job of the study with its verdict") + "</section>\n";
}

Json jobs_data(const Study& study) {
  Json jobs = Json::array();
  for (const StudyRow& row : study.rows) {
    const std::string options = options_label(row);
    jobs.push_back({{"name", row.name},
                    {"model", model_title(row)},
                    {"machine", machine_title(row)},
                    {"layout", row.has_job ? layout_label(row) : ""},
                    {"variant", !row.has_job      ? ""
                                : options.empty() ? "base"
                                                  : options},
                    {"microbatch", row.has_job ? row.job.plan.micro_batch_size : 0},
                    {"verdict", name_of(row.verdict)},
                    {"page", row.page}});
  }
  return jobs;
}

namespace {

std::string chooser(const std::vector<Group>& groups) {
  std::string html = "<nav class=\"chooser\" aria-label=\"Model and machines\">";
  for (const Group& group : groups)
    html += fmt::format("<a href=\"#group-{}\">{}</a>", group.id, escape(group.title));
  return html + "</nav>\n";
}

}  // namespace

std::string study_page(const Study& study) {
  const std::vector<Group> groups = groups_of(study);
  Json tables = Json::object();
  const std::vector<Finding> findings = find_findings(study);
  std::string body = study_header(study) + (study.score ? score_section(*study.score) : "") +
                     overview_section(groups, findings) + answers_section(groups) +
                     findings_section(findings) + machines_section(groups) + chooser(groups);
  for (const Group& group : groups)
    body += group_section(group, tables);
  body += jobs_section(study);
  return html_page(study.title, body, {{"jobs", jobs_data(study)}, {"tables", std::move(tables)}});
}

namespace {

/// One figure alone does not grow to the width of the page.
constexpr const char* even_columns =
    "grid-template-columns:repeat(auto-fill,minmax(min(100%,380px),1fr))";

std::string figures_html(const std::vector<Figure>& figures, const char* style = "figures") {
  const bool any_wide =
      std::any_of(figures.begin(), figures.end(), [](const Figure& f) { return f.wide; });
  std::string html = any_wide || style != std::string_view("figures")
                         ? fmt::format("<div class=\"{}\">", style)
                         : fmt::format("<div class=\"{}\" style=\"{}\">", style, even_columns);
  for (const Figure& figure : figures)
    html += html_figure(figure);
  return html + "</div>";
}

std::string where_from(const Study& study) {
  std::size_t simulated = 0;
  for (const StudyRow& row : study.rows)
    simulated += row.origin == run::Origin::simulated ? 1 : 0;
  const std::string producer = escape(study.producer);
  if (simulated == study.rows.size()) return "Simulated by " + producer;
  if (simulated == 0) return "Measured; analysed by " + producer;
  return fmt::format("{} simulated, the others measured; analysed by {}", simulated, producer);
}

std::string linked(const Finding& finding) {
  return fmt::format("{} <a class=\"evidence\" href=\"#{}\">See the chart</a>", finding.html(),
                     escape(finding.anchor()));
}

std::string cell(const std::string& html) {
  return "<td>" + (html.empty() ? "–" : html) + "</td>";
}

std::string answers_row(const Group& group) {
  const Answers answers = answers_for(group);
  std::string html = fmt::format("<tr><th scope=\"row\"><a href=\"#group-{}\">{}</a></th>",
                                 group.id, escape(group.title));
  if (answers.fastest == nullptr) {
    const bool ran = std::ranges::any_of(
        group.rows, [](const StudyRow* row) { return row->metrics.has_value(); });
    return html +
           fmt::format("<td colspan=\"4\">{}</td></tr>",
                       ran ? "not known: no run says how many samples a step has" : "no job ran");
  }
  html += cell(answers.fastest_text.html()) + cell(answers.energy_text.html()) +
          cell(answers.limit_text.html());
  html += cell(answers.change_text.html().empty() ? "no change in this study"
                                                  : answers.change_text.html());
  return html + "</tr>";
}

std::string findings_list(const std::vector<Finding>& findings, std::size_t from, std::size_t to) {
  std::string html = fmt::format("<ol class=\"findings\" start=\"{}\">", from + 1);
  for (std::size_t i = from; i < std::min(to, findings.size()); ++i)
    html += "<li>" + linked(findings[i]) + "</li>";
  return html + "</ol>";
}

/// One number of a job: what it is, how much, of which job.
std::string job_tile(const char* name, const StudyRow* row, const char* key, const char* unit,
                     int digits = 3) {
  const auto value = row == nullptr ? std::nullopt : number_at(*row, key);
  if (!value) return "";
  return fmt::format("<li><span>{}</span><b>{}\u00a0{}</b><small>{}</small></li>", name,
                     significant(*value, digits), unit, escape(short_label(*row)));
}

const Group* with_most_jobs(const std::vector<Group>& groups) {
  const auto most = std::max_element(
      groups.begin(), groups.end(),
      [](const Group& a, const Group& b) { return a.that_ran().size() < b.that_ran().size(); });
  return most == groups.end() || most->that_ran().empty() ? nullptr : &*most;
}

/// Whether no other group has as many jobs that ran.
bool is_largest(const Group& group, const std::vector<Group>& groups) {
  const auto as_large = [&](const Group& other) {
    return other.that_ran().size() >= group.that_ran().size();
  };
  return std::ranges::count_if(groups, as_large) == 1;
}

// ---- one group

std::string section_title(const Group& group, const char* id, const char* title) {
  return fmt::format("<h3 id=\"{}-of-{}\">{}</h3>", id, group.id, title);
}

/// What to change, beside the picture of all choices.
std::string choices(const Group& group) {
  std::string html = fmt::format("<div><h3 id=\"change-{}\">What to change</h3>", group.id);
  const std::vector<Recommendation> all = recommendations_for(group);
  const bool known =
      std::ranges::any_of(group.rows, [](const StudyRow* row) { return row->has_job; });
  if (all.empty())
    html += known ? "<p>No change in this study gains 1 % or more.</p>"
                  : "<p>The jobs of these runs are not known, so no change can be weighed.</p>";
  if (!all.empty()) html += "<ul class=\"findings changes\">";
  for (const Recommendation& change : all)
    html += "<li>" + change.text.html() + "</li>";
  if (!all.empty()) html += "</ul>";
  html += "</div>";
  if (const auto pareto = pareto_figure(group)) html += html_figure(*pareto);
  return "<div class=\"figures choices\">" + html + "</div>";
}

/// Figures of which no job that ran knows a number are left out: a measurement without sensors is
/// no reason for a page of empty charts.
std::vector<Figure> known(const Group& group, std::vector<Figure> figures) {
  if (group.that_ran().empty()) return figures;
  std::erase_if(figures,
                [](const Figure& figure) { return figure.title.ends_with(": not known"); });
  return figures;
}

bool knows_throttling(const Group& group) {
  const auto ran = group.that_ran();
  return std::any_of(ran.begin(), ran.end(), [](const StudyRow* row) {
    return row->metrics && metrics::throttled_share(*row->metrics);
  });
}

std::string speed(const Group& group) {
  const std::string title = section_title(group, "speed", "Speed and energy");
  const std::vector<Figure> figures = known(group, speed_figures(group));
  if (figures.empty() && !group.that_ran().empty())
    return title + "<p>Not known: no run says how many samples a step has.</p>";
  return title + html_legend(variant_legend(group)) + figures_html(figures);
}

std::string heat(const Group& group) {
  const std::vector<Figure> figures = known(group, heat_figures(group));
  if (figures.empty())
    return section_title(group, "heat", "Power, heat, clocks") +
           "<p>No readings: no sensor reported, or the devices have none. <code>triplepoint "
           "doctor</code> lists what can be measured on a machine.</p>";
  return section_title(group, "heat", "Power, heat, clocks") + html_legend(variant_legend(group)) +
         figures_html(figures);
}

std::string time(const Group& group) {
  std::vector<Figure> figures = {kernel_figure(group)};
  for (Figure& figure : stage_figures(group))
    figures.push_back(std::move(figure));
  if (knows_throttling(group) || group.that_ran().empty())
    figures.push_back(throttle_figure(group));
  return section_title(group, "time", "Where the time goes") + figures_html(figures);
}

std::string room_and_links(const Group& group) {
  std::vector<Figure> figures = {memory_figure(group)};
  for (Figure& figure : link_figures(group))
    figures.push_back(std::move(figure));
  figures = known(group, std::move(figures));
  if (figures.empty()) return "";
  return section_title(group, "links", "Memory and links") + html_legend(variant_legend(group)) +
         figures_html(figures);
}

std::string sweeps(const Group& group) {
  const std::vector<Figure> figures = known(group, microbatch_figures(group));
  if (figures.empty()) return "";
  return section_title(group, "microbatch", "Microbatch sweep") +
         html_legend(microbatch_legend(group)) + figures_html(figures);
}

std::string maps(const Group& group, Json& tables) {
  std::vector<Figure> figures;
  for (DeviceMap& made : device_maps(group)) {
    tables[made.figure.id] = compact_table(made.map);
    figures.push_back(std::move(made.figure));
  }
  if (figures.empty()) return "";
  return section_title(group, "gpus", "Every GPU") + figures_html(figures);
}

}  // namespace

std::string study_header(const Study& study) {
  const Summary summary = summary_of(study);
  std::string html =
      "<header><p class=\"kicker\">Triplepoint study</p><h1>" + escape(study.title) + "</h1>";
  if (!study.about.empty()) html += "<p class=\"about\">" + escape(study.about) + "</p>";
  html += fmt::format(
      "<p class=\"facts\"><b>{}</b> jobs: <b>{}</b> ran, <b>{}</b> do not fit in memory, <b>{}</b> "
      "invalid. {}; every figure is of {}.</p>",
      summary.jobs, summary.ok, summary.oom, summary.invalid, where_from(study),
      study.score ? "a whole run with its warm-up, but for those of the score"
                  : "one step in the steady state");
  return html + "</header>\n";
}

std::string overview_section(const std::vector<Group>& groups,
                             const std::vector<Finding>& findings) {
  const Group* group = with_most_jobs(groups);
  auto picture = group == nullptr ? std::nullopt : pareto_figure(*group);
  if (!picture) return "";
  picture->id = "overview-choices";
  const Answers answers = answers_for(*group);
  constexpr std::size_t sentences = 3;
  return fmt::format(
             "<section class=\"overview\" aria-label=\"Overview\">{}<ul class=\"tiles\">{}{}{}"
             "<li><span>limits the fastest</span><small>{}</small></li></ul>",
             groups.size() == 1
                 ? ""
                 : fmt::format("<h2>{}{}</h2>", escape(group->title),
                               is_largest(*group, groups) ? ", most jobs of the study" : ""),
             job_tile("fastest", answers.fastest, "tokens_per_s", "tokens/s", 4),
             job_tile("least energy", answers.thriftiest, "joules_per_token", "J/token"),
             job_tile("hottest GPU", answers.hottest, "temperature_c.peak", "°C"),
             answers.limit_text.html()) +
         "<div class=\"figures choices\">" + html_figure(*picture) + "<div>" +
         findings_list(findings, 0, sentences) +
         (findings.size() > sentences ? "<p><a href=\"#findings\">All findings</a></p>" : "") +
         "</div></div></section>\n";
}

std::string answers_section(const std::vector<Group>& groups) {
  std::string html =
      "<section class=\"answers\" aria-labelledby=\"answers\"><h2 id=\"answers\">The short "
      "answers</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"The short "
      "answers\"><table><caption>Best job of each model on each machine</caption><thead><tr>";
  for (const char* heading : {"model and machines", "fastest", "least energy",
                              "what limits the fastest", "what to change"})
    html += fmt::format("<th scope=\"col\">{}</th>", heading);
  html += "</tr></thead><tbody>";
  for (const Group& group : groups)
    html += answers_row(group);
  return html + "</tbody></table></div></section>\n";
}

std::string findings_section(const std::vector<Finding>& findings) {
  std::string html = "<section aria-labelledby=\"findings\"><h2 id=\"findings\">Findings</h2>";
  if (findings.empty()) return html + "<p>No jobs to compare.</p></section>\n";
  return html + findings_list(findings, 0, findings.size()) + "</section>\n";
}

std::string machines_section(const std::vector<Group>& groups) {
  const std::vector<Figure> figures = machine_figures(groups);
  if (figures.empty()) return "";
  return "<section class=\"machines\" aria-labelledby=\"machines\"><h2 id=\"machines\">Scale up or "
         "out</h2><p>The fastest job of each model on each machine, for equal GPUs and memory; for "
         "equal watts the job with the least energy per token.</p>" +
         figures_html(figures) + "</section>\n";
}

/// "A step has 128 samples; of TP8-FSDP 32": seconds and energy of a step compare only within a
/// batch.
std::string batch_sentence(const Group& group) {
  std::map<int64_t, std::set<std::string>> layouts;  // by batch
  std::map<int64_t, std::size_t> jobs;
  for (const StudyRow* row : group.rows) {
    if (!row->has_job) continue;
    layouts[row->job.plan.global_batch_size].insert(layout_label(*row));
    ++jobs[row->job.plan.global_batch_size];
  }
  if (layouts.empty()) return "";
  const auto most = std::max_element(
      jobs.begin(), jobs.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string text = fmt::format("A step has {} samples", most->first);
  for (const auto& [batch, which] : layouts)
    if (batch != most->first)
      text += fmt::format(
          "; of {} it has {}, so that its seconds and its energy of a step do not "
          "compare",
          fmt::join(which, ", "), batch);
  return "<p>" + escape(text) + ".</p>";
}

std::string group_section(const Group& group, Json& tables) {
  return fmt::format("<section class=\"group\" id=\"group-{0}\" data-title=\"{1}\"><h2>{1}</h2>",
                     group.id, escape(group.title)) +
         batch_sentence(group) + choices(group) + speed(group) + heat(group) + time(group) +
         room_and_links(group) + sweeps(group) + maps(group, tables) + "</section>\n";
}

}  // namespace triplepoint::report
