// SPDX-License-Identifier: Apache-2.0
// The pages of plan, place and validate.
#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

#include "triplepoint/report/answers_testing.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

TEST_CASE("validation: every row is a point and a line of the table, whatever it is called") {
  const std::string page = sample_validation_page();
  CHECK(count_of(page, "class=\"dot ") == 12);
  CHECK(count_of(page.substr(page.find("id=\"jobs\"")), "<tr data-job=") == 12);
  CHECK(contains(page, "row-&lt;3&gt;"));
  CHECK(!contains(page, "row-<3>"));
}

TEST_CASE("validation: the source that is farthest off is named, with the side") {
  const std::string page = sample_validation_page();
  CHECK(contains(page, "far is farthest off: median 200.0\u00a0%"));
  CHECK(contains(page, "too high"));
  CHECK(contains(page, "32 stages cannot share 16 layers"));
}

TEST_CASE("validation: a measurement outside of its interval looks different") {
  const std::string page = sample_validation_page();  // six rows lie far below what is promised
  CHECK(count_of(page, "class=\"dot s2\"") == 6);
  CHECK(count_of(page, "class=\"dot s3\"") == 6);
  CHECK(contains(page, "50\u00a0% of the measured values lie in their interval"));
}

TEST_CASE("validation: a job that ran and is called out of memory is the largest miss") {
  calibrate::TableScores scores = sample_scores();
  scores.scored[4].predicted = 0;
  for (const answers::Section& section : validation_document({{"rows.csv", scores}}, 3).sections) {
    if (section.id != "misses") continue;
    const auto& rows = section.tables.front().rows;
    REQUIRE(rows.size() == 3);
    CHECK(std::get<std::string>(rows[0][0]) == scores.scored[4].row_id);
    CHECK(std::get<std::string>(rows[0][4]) == "does not fit");
  }
}

TEST_CASE("validation: of no rows there still is a page") {
  CHECK(contains(validation_page({}, 5), "Predicted against measured"));
}

TEST_CASE("plan: the user's job stands among the choices, and what does not fit says by how much") {
  const std::string page = sample_plan_page();
  CHECK(contains(page, ">your job</text>"));
  CHECK(contains(page, "4.50\u00a0GiB short"));
  CHECK(contains(page, "out of memory by 4.50\u00a0GiB"));
  CHECK(contains(page, "+50\u00a0%"));  // 24 s against 16 s
  CHECK(contains(page, "limits kept: die at most 75.0\u00a0°C"));
}

TEST_CASE("plan: only what is faster or thriftier than all others is ringed") {
  const std::string page =
      sample_plan_page();  // two plans trade speed for energy, one does neither
  CHECK(count_of(page, "class=\"ring\"") == 2);
}

TEST_CASE("place: the gain is that of drawn machines, with the worst of them") {
  const std::string page = sample_place_page();
  CHECK(contains(page, "<b>+1.50 <i>%</i></b>"));
  CHECK(contains(page, "searched placement; before 20.00"));
  CHECK(contains(page, "Launch the searched placement: 1.50\u00a0% faster on average over 16"));
  CHECK(contains(page, "(-0.40\u00a0% on the worst; faster on 14 of them)"));
}

TEST_CASE("numbers keep their units: no line breaks between them, outside of tags") {
  const std::string page =
      html_page("title", "<p data-x=\"3 s\">12.5 GiB of 40 pages, 7 % and 3 stages</p>", {});
  CHECK(contains(page, "12.5\u00a0GiB of 40 pages, 7\u00a0% and 3 stages"));
  CHECK(contains(page, "data-x=\"3 s\""));
}

}  // namespace
}  // namespace triplepoint::report
