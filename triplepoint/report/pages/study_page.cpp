// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/study_page.h"

#include <algorithm>
#include <map>
#include <set>

#include "triplepoint/base/json.h"

#include "triplepoint/report/charts/study_charts.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/study_document.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

std::string chooser(const std::vector<Group>& groups) {
  std::string html = "<nav class=\"chooser\" aria-label=\"Model and machines\">";
  for (const Group& group : groups)
    html += fmt::format("<a href=\"#group-{}\">{}</a>", group.id, escape(group.title));
  return html + "</nav>\n";
}

std::string linked(const Finding& finding) {
  return fmt::format("{} <a class=\"evidence\" href=\"#{}\">See the chart</a>", finding.html(),
                     escape(finding.anchor()));
}

std::string findings_list(const std::vector<Finding>& findings, std::size_t from, std::size_t to) {
  std::string html = fmt::format("<ol class=\"findings\" start=\"{}\">", from + 1);
  for (std::size_t i = from; i < std::min(to, findings.size()); ++i)
    html += "<li>" + linked(findings[i]) + "</li>";
  return html + "</ol>";
}

/// Whether no other group has as many jobs that ran.
bool is_largest(const Group& group, const std::vector<Group>& groups) {
  const auto as_large = [&](const Group& other) {
    return other.that_ran().size() >= group.that_ran().size();
  };
  return std::ranges::count_if(groups, as_large) == 1;
}

// ---- one group

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
std::vector<Drawing> known(const Group& group, std::vector<Drawing> figures) {
  if (group.that_ran().empty()) return figures;
  std::erase_if(figures, &Drawing::is_empty);
  return figures;
}

bool knows_throttling(const Group& group) {
  const auto ran = group.that_ran();
  return std::ranges::any_of(ran, [](const StudyRow* row) {
    return row->metrics && metrics::throttled_share(*row->metrics);
  });
}

std::string speed(const Group& group) {
  const std::vector<Drawing> figures = known(group, speed_figures(group));
  if (figures.empty() && !group.that_ran().empty())
    return "<p>Not known: no run says how many samples a step has.</p>";
  return html_legend(variant_legend(group)) + html_figures(figures);
}

std::string heat(const Group& group) {
  const std::vector<Drawing> figures = known(group, heat_figures(group));
  if (figures.empty())
    return "<p>No readings: no sensor reported, or the devices have none. <code>triplepoint "
           "doctor</code> lists what can be measured on a machine.</p>";
  return html_legend(variant_legend(group)) + html_figures(figures);
}

std::string time(const Group& group) {
  std::vector<Drawing> figures = {kernel_figure(group)};
  if (knows_throttling(group) || group.that_ran().empty())
    figures.push_back(throttle_figure(group));
  return html_figures(figures);
}

std::string stages(const Group& group) {
  const std::vector<Drawing> figures = stage_figures(group);
  return figures.empty() ? "" : html_figures(figures);
}

std::string room_and_links(const Group& group) {
  std::vector<Drawing> figures = {memory_figure(group)};
  for (Drawing& figure : link_figures(group))
    figures.push_back(std::move(figure));
  figures = known(group, std::move(figures));
  if (figures.empty()) return "";
  return html_legend(variant_legend(group)) + html_figures(figures);
}

std::string sweeps(const Group& group) {
  const std::vector<Drawing> figures = known(group, microbatch_figures(group));
  if (figures.empty()) return "";
  return html_legend(microbatch_legend(group)) + html_figures(figures);
}

std::string maps(const Group& group, Json& tables) {
  std::vector<Drawing> figures;
  for (DeviceMap& made : device_maps(group)) {
    tables[made.figure.id] = compact_table(made.map);
    figures.push_back(std::move(made.figure));
  }
  if (figures.empty()) return "";
  return html_figures(figures);
}

constexpr std::size_t findings_on_top = 6;

/// The picture of all choices of the group with the most jobs, and the first findings; empty if no
/// job ran.
std::string overview(const std::vector<Group>& groups, const std::vector<Finding>& findings) {
  const Group* group = group_with_most_jobs(groups);
  auto picture = group == nullptr ? std::nullopt : pareto_figure(*group);
  if (!picture) return "";
  picture->id = "overview-choices";
  return fmt::format(
             "<section class=\"overview\" aria-label=\"Overview\">{}",
             groups.size() == 1
                 ? ""
                 : fmt::format("<h2>{}{}</h2>", escape(group->title),
                               is_largest(*group, groups) ? ", most jobs of the study" : "")) +
         "<div class=\"figures choices\">" + html_figure(*picture) + "<div>" +
         findings_list(findings, 0, findings_on_top) + "</div></div></section>\n";
}

/// Those that do not stand beside the picture.
std::string other_findings(const std::vector<Finding>& findings, std::size_t from) {
  return html_section("findings", "Findings",
                      findings.empty()          ? "<p>No jobs to compare.</p>"
                      : from >= findings.size() ? "<p>There are no others.</p>"
                                                : findings_list(findings, from, findings.size()));
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
  const auto most = std::ranges::max_element(
      jobs, [](const auto& a, const auto& b) { return a.second < b.second; });
  std::string text = fmt::format("A step has {} samples", most->first);
  for (const auto& [batch, which] : layouts)
    if (batch != most->first)
      text += fmt::format(
          "; of {} it has {}, so that its seconds and its energy of a step do not compare",
          fmt::join(which, ", "), batch);
  return "<p>" + escape(text) + ".</p>";
}

/// Charts of one kind, opened where a link leads into them.
std::string part(const Group& group, const char* id, const char* title, const std::string& body,
                 const char* open = "") {
  if (body.empty()) return "";
  return fmt::format(
      "<details class=\"part\"{}><summary><h3 id=\"{}-of-{}\">{}</h3></summary>{}</details>", open,
      id, group.id, title, body);
}

std::string group_section(const Group& group, Json& tables) {
  return fmt::format("<section class=\"group\" id=\"group-{0}\" data-title=\"{1}\"><h2>{1}</h2>",
                     group.id, escape(group.title)) +
         batch_sentence(group) + choices(group) +
         part(group, "speed", "Speed and energy", speed(group), " open") +
         part(group, "heat", "Power, heat, clocks", heat(group)) +
         part(group, "time", "Where the time goes", time(group), " open") +
         part(group, "stages", "Pipeline stages", stages(group)) +
         part(group, "links", "Memory and links", room_and_links(group)) +
         part(group, "microbatch", "Microbatch sweep", sweeps(group)) +
         part(group, "gpus", "Every GPU", maps(group, tables)) + "</section>\n";
}

}  // namespace

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

std::string machines_section(const std::vector<Group>& groups) {
  const std::vector<Drawing> figures = machine_figures(groups);
  if (figures.empty()) return "";
  return "<section class=\"machines\" aria-labelledby=\"machines\"><h2 id=\"machines\">Scale up or "
         "out</h2><p>The fastest job of each model on each machine, for equal GPUs and memory; for "
         "equal watts the job with the least energy per token.</p>" +
         html_figures(figures) + "</section>\n";
}

std::string study_page(const Study& study) {
  const std::vector<Group> groups = groups_of(study);
  std::vector<Finding> findings = find_findings(study);
  const answers::Document document = study_document(study);
  if (!findings.empty() && !study.score) findings.erase(findings.begin());  // the verdict
  const std::string picture = overview(groups, findings);
  std::string body = head_html(document) + picture, jobs;
  for (const answers::Section& section : document.sections)
    if (section.id == "jobs")
      jobs = section_html(section);
    else if (section.id == "findings")  // with links to runs, and the formulas of numbers
      body += other_findings(findings, picture.empty() ? 0 : findings_on_top);
    else
      body += section_html(section);
  body += machines_section(groups) + chooser(groups);
  Json tables = Json::object();
  for (const Group& group : groups)
    body += group_section(group, tables);
  return html_page(study.title, body + jobs,
                   {{"jobs", jobs_data(study)}, {"tables", std::move(tables)}});
}

}  // namespace triplepoint::report
