// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/power/steady_scores.h"

#include <string>

#include <doctest/doctest.h>

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

TableScores scores_of(const std::string& rows) {
  const auto table = CsvTable::parse(
      "row_id,family,gpu,kernel,precision,lock_mhz,cap_w,power_w,die_c,rate,rate_unit,"
      "mem_gb_per_s,fp32_gflops,duty_on_ms,duty_off_ms\n" +
          rows,
      "test.csv");
  return score_steady_power(table.value(), {.library = spec::default_library()}).value();
}

double predicted(const TableScores& scores, const std::string& row_id, const char* quantity) {
  for (const ScoredRow& row : scores.scored)
    if (row.row_id == row_id && row.quantity == quantity) return row.predicted;
  FAIL("no score of ", row_id);
  return 0;
}

TEST_CASE(
    "a kernel learned at full clock is predicted at its other clocks and caps, never above them") {
  const TableScores scores = scores_of(
      "free,f,a100-80gb,k,,1410,300,290,,10,it/s,,,,\n"
      "low,f,a100-80gb,k,,1005,300,135,,7.13,it/s,,,,\n"
      "lock,f,a100-80gb,k,,1200,300,179,,8.5,it/s,,,,\n"
      "cap,f,a100-80gb,k,,1410,200,199,,8.9,it/s,,,,\n");
  CHECK(scores.skipped.size() == 2);  // the two points that the kernel is learned from
  CHECK(predicted(scores, "cap", "power_w") <= 200);
  CHECK(predicted(scores, "cap", "power_w") > 180);
  CHECK(predicted(scores, "lock", "power_w") < 290);
  CHECK(predicted(scores, "lock", "rate") == Approx(10 * 1200 / 1410.0).epsilon(0.02));
}

TEST_CASE("a power that hardly falls with the clock is never more than the kernel drew") {
  const TableScores scores = scores_of(
      "free,f,v100-32gb,k,,1530,300,160,,1,it/s,,,,\n"
      "mid,f,v100-32gb,k,,1140,300,150,,1,it/s,,,,\n"
      "low,f,v100-32gb,k,,750,300,148,,1,it/s,,,,\n");
  CHECK(predicted(scores, "mid", "power_w") < 160);
  CHECK(predicted(scores, "mid", "power_w") > 100);
  CHECK(predicted(scores, "mid", "rate") == Approx(1));
}

TEST_CASE("a bandwidth does not follow the clock, its power does") {
  const TableScores scores = scores_of(
      "fast,f,a100-80gb,s,,1410,300,228,,1687,GB/s,,,,\n"
      "slow,f,a100-80gb,s,,1005,300,145,,1691,GB/s,,,,\n");
  CHECK(predicted(scores, "slow", "rate") == Approx(1691));
  CHECK(predicted(scores, "slow", "power_w") < predicted(scores, "fast", "power_w") - 40);
}

TEST_CASE("half of the time at work draws the middle of work and rest") {
  const TableScores scores = scores_of(
      "on,f,b300,steady,bf16,,1100,1000,40,2000,it/s,,,,\n"
      "half,f,b300,duty,bf16,,1100,600,40,1000,it/s,,,100,100\n");
  const double half = predicted(scores, "half", "power_w");
  CHECK(half > 0.5 * 1000 + 0.5 * 150);
  CHECK(half < 0.5 * 1000 + 0.5 * 250);
}

TEST_CASE("a cap lowers long duty cycles more than short ones") {
  const auto under = [](const char* milliseconds) {
    const std::string cycle = fmt::format("{0},{0}", milliseconds);
    const TableScores scores = scores_of(
        "on,f,b300,steady,bf16,,1100,1040,55,2000,it/s,,,,\n"
        "free,f,b300,duty,bf16,,1100,620,40,1000,it/s,,," +
        cycle +
        "\n"
        "held,f,b300,duty,bf16,,500,450,40,700,it/s,,," +
        cycle + "\n");
    CHECK(predicted(scores, "held", "power_w") < predicted(scores, "free", "power_w"));
    CHECK(predicted(scores, "held", "power_w") <= 500);
    CHECK(predicted(scores, "held", "rate") < 1000);
    return predicted(scores, "held", "rate");
  };
  CHECK(under("500") < under("100"));
  CHECK(under("100") < under("50"));
  CHECK(under("50") < under("5"));
}

TEST_CASE("GPUs that the library does not have are skipped, not guessed") {
  const TableScores scores = scores_of("x,f,a40,k,,1200,250,200,,1,it/s,,,,\n");
  CHECK(scores.scored.empty());
  CHECK(scores.skipped.size() == 1);
}

}  // namespace
}  // namespace triplepoint::calibrate
