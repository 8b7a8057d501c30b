// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/html.h"

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

#include "triplepoint/report/pages/run_page.h"
#include "triplepoint/report/pages/study_page.h"
#include "triplepoint/report/study_testing.h"

namespace triplepoint::report {
namespace {

TEST_CASE("text from jobs cannot become markup") {
  const std::string page = study_page(sample_study());  // one of its jobs is called <TP1-PP32>
  CHECK(contains(page, "llama3-70b-&lt;TP1-PP32&gt;"));
  CHECK(!contains(page, "llama3-70b-<TP1-PP32>"));
}

TEST_CASE("data of a page cannot end its script element") {
  const std::string page = html_page("title", "", {{"name", "</script><script>alert(1)</script>"}});
  CHECK(!contains(page, "alert(1)</script>"));
  CHECK(contains(page, "\\u003c/script>"));
}

TEST_CASE("a page ends with the command that made it, as text") {
  CHECK(!contains(html_page("title", "", {}), "Made by"));
  set_page_command("triplepoint report <b>.run");
  CHECK(contains(html_page("title", "", {}),
                 "Made by: <code>triplepoint report &lt;b&gt;.run</code>"));
  set_page_command("");
}

TEST_CASE("a page asks the network for nothing") {
  for (const std::string& page :
       {study_page(sample_study()), run_page(sample_run(), *sample_study().rows[0].metrics)}) {
    CHECK(contains(page, "default-src 'none'"));
    CHECK(!contains(page, "src=\"http"));
    CHECK(!contains(page, "<link"));
    CHECK(!contains(page, "@import"));
    CHECK(!contains(page, "url(http"));
  }
}

TEST_CASE("every job of a study is in its table, whatever came of it") {
  const Study study = sample_study();
  const std::string page = study_page(study);
  const std::string table = page.substr(page.find("id=\"jobs\""));
  for (const StudyRow& row : study.rows)
    CHECK(contains(table, escape(row.name)));
  CHECK(contains(table, "80 layers on 32 stages"));
}

TEST_CASE("every chart has a title, a unit and its numbers as a table") {
  const std::string page = study_page(sample_study());
  const std::size_t figures = count_of(page, "<figure ");
  CHECK(figures > 20);
  CHECK(count_of(page, "<figcaption>") == figures);
  CHECK(count_of(page, "<summary>Numbers</summary>") == figures);
}

TEST_CASE("jobs without room are marked in every chart of their group") {
  Study study = sample_study();
  const std::string page = study_page(study);
  CHECK(contains(page, ">out of memory<"));
  CHECK(contains(page, " OOM<"));
}

TEST_CASE("jobs of another batch are named, for seconds of a step compare only within a batch") {
  Study study = sample_study();
  CHECK(contains(study_page(study), "A step has 128 samples."));
  for (StudyRow& row : study.rows)
    if (row.job.plan.sharding == spec::Sharding::parameters) row.job.plan.global_batch_size = 32;
  CHECK(contains(study_page(study), "of TP8-FSDP it has 32, so that its seconds"));
}

TEST_CASE("equal studies make equal pages") {
  CHECK(study_page(sample_study()) == study_page(sample_study()));
}

TEST_CASE("an empty study still is a page") {
  CHECK(contains(study_page({}), "Findings"));
}

TEST_CASE("a run that did not fit shows its memory and no speed") {
  run::Run run = sample_run();
  run.manifest.fits_memory = false;
  run.series.clear();
  const std::string page = run_page(run, {});
  CHECK(contains(page, "does not fit in memory"));
  CHECK(!contains(page, "class=\"tiles\""));
}

}  // namespace
}  // namespace triplepoint::report
