// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/summary.h"

#include <algorithm>

#include "triplepoint/base/json.h"

#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/groups.h"
#include "triplepoint/report/findings/recommendations.h"

namespace triplepoint::report {
namespace {

Json terms_json(const std::vector<Term>& terms) {
  Json list = Json::array();
  for (const Term& term : terms)
    list.push_back({{"job", term.job.empty() ? Json() : Json(term.job)}, {"key", term.key}});
  return list;
}

const char* name_of(Evidence::Form form) {
  switch (form) {
    case Evidence::Form::value:
      return "value";
    case Evidence::Form::more:
      return "more";
    case Evidence::Form::less:
      return "less";
    case Evidence::Form::difference:
      return "difference";
  }
  return "";
}

Json sentence_json(const Finding& finding) {
  Json json = {{"text", finding.text()}, {"chart", finding.anchor()}};
  json["numbers"] = Json::array();
  for (const Evidence& evidence : finding.evidence())
    json["numbers"].push_back({{"printed", evidence.printed},
                               {"value", evidence.value},
                               {"form", name_of(evidence.form)},
                               {"above", terms_json(evidence.above)},
                               {"below", terms_json(evidence.below)}});
  return json;
}

Json name_or_null(const StudyRow* row) {
  return row != nullptr ? Json(row->name) : Json();
}

Json group_json(const Group& group) {
  const Answers answers = answers_for(group);
  Json json = {{"id", group.id},
               {"title", group.title},
               {"fastest", name_or_null(answers.fastest)},
               {"least_energy", name_or_null(answers.thriftiest)},
               {"hottest", name_or_null(answers.hottest)},
               {"limit", sentence_json(answers.limit_text)}};
  json["jobs"] = Json::array();
  for (const StudyRow* row : group.rows)
    json["jobs"].push_back(row->name);
  json["recommendations"] = Json::array();
  for (const Recommendation& change : recommendations_for(group)) {
    Json entry = sentence_json(change.text);
    entry["from"] = change.from->name;
    entry["to"] = change.to->name;
    entry["gain"] = change.gain;
    json["recommendations"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace

Json conclusions_json(const Study& study) {
  const Summary summary = summary_of(study);
  Json json = {{"summary",
                {{"jobs", summary.jobs},
                 {"valid", summary.ok + summary.oom},
                 {"ok", summary.ok},
                 {"oom", summary.oom},
                 {"invalid", summary.invalid}}}};
  json["findings"] = Json::array();
  for (const Finding& finding : find_findings(study))
    json["findings"].push_back(sentence_json(finding));
  json["groups"] = Json::array();
  for (const Group& group : groups_of(study))
    json["groups"].push_back(group_json(group));
  return json;
}

}  // namespace triplepoint::report
