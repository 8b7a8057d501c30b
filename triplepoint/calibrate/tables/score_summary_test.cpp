// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/tables/score_summary.h"

#include <array>
#include <cmath>
#include <limits>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

ScoredRow row(double measured, double predicted, std::string sweep = "",
              std::string quantity = "step_time_s") {
  ScoredRow made;
  made.family = "f";
  made.quantity = std::move(quantity);
  made.sweep = std::move(sweep);
  made.measured = measured;
  made.predicted = predicted;
  return made;
}

ErrorSummary summary_of(const std::vector<ScoredRow>& rows) {
  const std::vector<const ScoredRow*> pointers =
      mapped(rows, [](const ScoredRow& r) { return &r; });
  return summarize(std::span<const ScoredRow* const>(pointers));
}

TEST_CASE("errors of +10, -20, +30 and -40 per cent have these means and quantiles") {
  const ErrorSummary summary =
      summary_of({row(100, 110), row(100, 80), row(100, 130), row(100, 60)});
  CHECK(summary.rows == 4);
  CHECK(*summary.median_abs == Approx(25));
  CHECK(*summary.mean_abs == Approx(25));
  CHECK(*summary.p90_abs == Approx(37));  // 0.7 of the way from 30 to 40
  CHECK(*summary.max_abs == Approx(40));
  CHECK(*summary.signed_mean == Approx(-5));
  CHECK(!summary.rank_correlation);
}

TEST_CASE("without rows there is no error, which is not an error of zero") {
  const ErrorSummary summary = summary_of({});
  CHECK(summary.rows == 0);
  CHECK(!summary.median_abs);
  CHECK(!summary.signed_mean);
}

TEST_CASE("a row that was measured as zero is counted and has no relative error") {
  const ErrorSummary summary = summary_of({row(0, 5), row(100, 90)});
  CHECK(summary.rows == 2);
  CHECK(*summary.max_abs == Approx(10));
}

TEST_CASE("a quantile lies between the smallest and the largest number") {
  const std::vector<double> numbers = {3, 1, 2};
  CHECK(quantile(numbers, 0) == 1);
  CHECK(quantile(numbers, 0.5) == 2);
  CHECK(quantile(numbers, 0.75) == Approx(2.5));
  CHECK(quantile(numbers, 1) == 3);
  CHECK(quantile({7}, 0.9) == 7);
}

TEST_CASE("rank correlation asks for the order alone") {
  const std::array<double, 5> x = {1, 2, 3, 4, 5};
  const std::array<double, 5> same_order = {1, 10, 11, 1000, 1e6};
  const std::array<double, 5> reversed = {5, 4, 3, 2, 1};
  CHECK(*rank_correlation(x, same_order) == Approx(1));
  CHECK(*rank_correlation(x, reversed) == Approx(-1));
  CHECK(*rank_correlation(same_order, reversed) == Approx(-1));
}

TEST_CASE("without ties rank correlation is Spearman's 1 - 6 sum d2 / (n (n2 - 1))") {
  const std::array<double, 5> x = {1, 2, 3, 4, 5};
  const std::array<double, 5> y = {2, 1, 4, 3, 5};  // d2 = 1 + 1 + 1 + 1 + 0
  CHECK(*rank_correlation(x, y) == Approx(1 - 6.0 * 4 / (5 * 24)));
}

TEST_CASE("equal numbers share their mean rank") {
  const std::array<double, 4> x = {1, 2, 2, 3};  // ranks 1, 2.5, 2.5, 4
  const std::array<double, 4> y = {1, 2, 3, 4};
  CHECK(*rank_correlation(x, y) == Approx(4.5 / std::sqrt(4.5 * 5)));
  const std::array<double, 4> flat = {7, 7, 7, 7};
  CHECK(!rank_correlation(x, flat));
  CHECK(
      !rank_correlation(std::span<const double>(x).first(1), std::span<const double>(y).first(1)));
}

TEST_CASE("sweeps of four rows and more are ranked, weighted by their rows") {
  std::vector<ScoredRow> rows;
  for (int i = 1; i <= 4; ++i)  // in order: 1
    rows.push_back(row(i, 2 * i, "a"));
  for (int i = 1; i <= 8; ++i)  // reversed: -1
    rows.push_back(row(i, -i, "b"));
  for (int i = 1; i <= 3; ++i)  // too few
    rows.push_back(row(i, -i, "c"));
  for (int i = 1; i <= 9; ++i)  // no sweep
    rows.push_back(row(i, -i));
  CHECK(*summary_of(rows).rank_correlation == Approx((4.0 - 8.0) / 12));
}

TEST_CASE("quantities of one sweep are not ranked against each other") {
  std::vector<ScoredRow> rows;
  for (int i = 1; i <= 2; ++i) {
    rows.push_back(row(i, i, "a", "step_time_s"));
    rows.push_back(row(i, i, "a", "tokens_per_s_total"));
  }
  CHECK(!summary_of(rows).rank_correlation);
}

TEST_CASE("memory and temperatures are summed up apart from speed and power") {
  TableScores scores;
  scores.scored = {row(100, 150), row(10, 11, "", "mem_gib"), row(60, 63, "", "temperature_c")};
  for (std::size_t i = 0; i < scores.scored.size(); ++i)
    scores.scored[i].row_id = "row" + std::to_string(i);
  const ScoreSummary summary = summarize(scores);
  CHECK(summary.predicted_rows == 3);
  CHECK(*summary.speed.median_abs == Approx(50));
  CHECK(*summary.memory.median_abs == Approx(10));
  CHECK(*summary.temperature.median_abs == Approx(3));  // degrees, not per cent
  CHECK(summary.families.at("f").rows == 1);
  CHECK(summary.quantities.size() == 3);
}

TEST_CASE("a row with two quantities is one predicted row") {
  TableScores scores;
  scores.scored = {row(1, 1), row(2, 2, "", "mem_gib")};
  CHECK(summarize(scores).predicted_rows == 1);
}

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
