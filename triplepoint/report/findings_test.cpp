// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

#include "triplepoint/metrics/results_json.h"
#include "triplepoint/report/sample_study.h"

namespace triplepoint::report {
namespace {

/// The row as results.json has it.
Json json_of(const StudyRow& row) {
  run::Run run;
  run.manifest.job = row.job;
  run.manifest.name = row.name;
  run.manifest.fits_memory = row.verdict == Verdict::ok;
  run.memory = row.memory;
  run.memory_limit = row.memory_limit;
  run.timeline.spans.emplace_back();  // so that kernel seconds are known
  return metrics::results_json(run, row.metrics.value_or(metrics::Metrics{}));
}

/// The number under a dotted key of the job's object.
double value_at(const Study& study, const std::string& job, const std::string& key) {
  for (const StudyRow& row : study.rows) {
    if (row.name != job) continue;
    Json json = json_of(row);
    std::string rest = key;
    for (std::size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      json = Json(json.at(rest.substr(0, dot)));
      rest.erase(0, dot + 1);
    }
    return json.at(rest).get<double>();
  }
  return NAN;
}

/// The first number in a printed text: "1,465 s" is 1465.
double printed_number(std::string text) {
  std::erase(text, ',');
  return std::stod(text);
}

TEST_CASE("a study opens with at least three findings") {
  CHECK(find_findings(sample_study()).size() >= 3);
}

TEST_CASE("every number in a finding is the one in results.json") {
  const Study study = sample_study();
  for (const Finding& finding : find_findings(study)) {
    CAPTURE(finding.text());
    CHECK(!finding.evidence().empty());
    for (const Evidence& evidence : finding.evidence()) {
      CAPTURE(evidence.key);
      double value = value_at(study, evidence.job, evidence.key);
      if (!evidence.over_job.empty())
        value /= value_at(study, evidence.over_job, evidence.over_key);
      CHECK(evidence.value == doctest::Approx(value).epsilon(1e-12));
      const bool percent = evidence.printed.find('%') != std::string::npos;
      const double printed = printed_number(evidence.printed) / (percent ? 100 : 1);
      CHECK(printed == doctest::Approx(value).epsilon(0.006));
      CHECK(finding.text().find(evidence.printed) != std::string::npos);
    }
  }
}

TEST_CASE("a study without results has no findings and does not fail") {
  CHECK(find_findings({}).empty());
}

TEST_CASE("a study in which nothing runs has no findings") {
  Study study = sample_study();
  for (StudyRow& row : study.rows) {
    row.metrics.reset();
    row.verdict = Verdict::oom;
  }
  CHECK(find_findings(study).empty());
}

}  // namespace
}  // namespace triplepoint::report
