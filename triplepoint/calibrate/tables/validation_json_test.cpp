// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/tables/validation_json.h"

#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"

namespace triplepoint::calibrate {
namespace {

ScoredRow row(std::string id, std::string quantity, double measured, double predicted) {
  ScoredRow made;
  made.row_id = std::move(id);
  made.family = "a family";
  made.quantity = std::move(quantity);
  made.sweep = "a sweep";
  made.measured = measured;
  made.predicted = predicted;
  made.notes = {"bf16", "one node"};
  made.interval = {0.9 * predicted, 1.2 * predicted};
  made.regime = {{"experts", "moe"}};
  return made;
}

std::vector<ValidatedFile> sample() {
  TableScores scores;
  scores.table = "jobs";
  scores.rows = 4;
  scores.scored = {row("r1", "step_time_s", 10, 11), row("r1", "mem_gib", 50, 40),
                   row("r2", "temperature_c", 60, 66)};
  scores.skipped = {{"r3", "no such model"}};
  scores.fit.ran_and_fits = 3;
  scores.fit.false_fit = {"r4"};
  return {{"rows.csv", scores}};
}

std::set<std::string> keys(const Json& json) {
  std::set<std::string> names;
  for (const auto& [key, value] : json.items())
    names.insert(key);
  return names;
}

TEST_CASE("the object has the keys that docs/formats.md lists") {
  const Json json = validation_json(sample());
  CHECK(json["schema"] == 1);
  CHECK(keys(json) ==
        std::set<std::string>{"schema", "tables", "rows", "predicted", "median_abs_error_pct",
                              "mean_abs_error_pct", "p90_abs_error_pct", "max_abs_error_pct",
                              "signed_mean_error_pct", "rank_correlation", "families", "quantities",
                              "memory", "temperature", "fit", "skipped", "per_row"});
  CHECK(keys(json["families"]["a family"]) ==
        std::set<std::string>{"rows", "median_abs_error_pct", "mean_abs_error_pct",
                              "p90_abs_error_pct", "max_abs_error_pct", "signed_mean_error_pct",
                              "rank_correlation"});
  CHECK(keys(json["per_row"][0]) == std::set<std::string>{"table", "row_id", "family", "quantity",
                                                          "measured", "predicted", "error_pct",
                                                          "sweep", "assumptions", "interval_low",
                                                          "interval_high", "regime"});
  CHECK(json["per_row"][0]["interval_high"] == doctest::Approx(13.2));
  CHECK(json["per_row"][0]["regime"]["experts"] == "moe");
  CHECK(json["temperature"]["median_abs_error_c"] == doctest::Approx(6));
  CHECK(json["memory"]["median_abs_error_pct"] == doctest::Approx(20));
  CHECK(json["median_abs_error_pct"] == doctest::Approx(10));
  CHECK(json["rank_correlation"].is_null());
}

TEST_CASE("rows are predicted, skipped, or failed with a verdict, and add up") {
  const Json json = validation_json(sample());
  CHECK(json["rows"] == 4);
  CHECK(json["predicted"].get<int>() + static_cast<int>(json["skipped"].size()) == 4);
  CHECK(json["skipped"][0]["row_id"] == "r3");
  CHECK(json["skipped"][0]["reason"] == "no such model");
  CHECK(json["fit"]["false_fit"][0] == "r4");
  CHECK(json["fit"]["false_fit_rate_pct"] == doctest::Approx(100));
  CHECK(json["fit"]["false_oom_rate_pct"] == doctest::Approx(0));
}

TEST_CASE("several files are one answer, each named") {
  std::vector<ValidatedFile> files = sample();
  files.push_back(files[0]);
  files[1].file = "more.csv";
  const Json json = validation_json(files);
  CHECK(json["tables"].size() == 2);
  CHECK(json["tables"][1]["file"] == "more.csv");
  CHECK(json["rows"] == 8);
  CHECK(json["per_row"].size() == 6);
}

TEST_CASE("what is no number is null in JSON") {
  std::vector<ValidatedFile> files = sample();
  files[0].scores.scored[0].measured = 0;
  files[0].scores.scored[0].predicted = std::numeric_limits<double>::infinity();
  const Json json = parse_json(json_text(validation_json(files)), "answer").value();
  CHECK(json["per_row"][0]["predicted"].is_null());
  CHECK(json["per_row"][0]["error_pct"].is_null());
}

TEST_CASE("as CSV there is one line per prediction") {
  const Result<CsvTable> table = CsvTable::parse(validation_csv(sample()), "answer");
  REQUIRE_MESSAGE(table, table.error().what);
  CHECK(table->rows() == 3);
  CHECK(table->at(0, *table->column("row_id")) == "r1");
  CHECK(*table->number(0, *table->column("error_pct")).value() == doctest::Approx(10));
  CHECK(table->at(0, *table->column("assumptions")) == "bf16; one node");
}

}  // namespace
}  // namespace triplepoint::calibrate
