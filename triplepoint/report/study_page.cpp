// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/study_page.h"

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/report/html.h"
#include "triplepoint/report/study_sections.h"

namespace triplepoint::report {
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
  std::string body = study_header(study) + answers_section(groups) + findings_section(study) +
                     machines_section(groups) + chooser(groups);
  for (const Group& group : groups)
    body += group_section(group, tables);
  body += jobs_section(study);
  return html_page(study.title, body, {{"jobs", jobs_data(study)}, {"tables", std::move(tables)}});
}

}  // namespace triplepoint::report
