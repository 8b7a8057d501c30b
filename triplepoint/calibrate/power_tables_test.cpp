// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/power_tables.h"

#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/calibrate/dvfs_table.h"
#include "triplepoint/calibrate/power_fit.h"

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

CsvTable parsed(std::string text) {
  return CsvTable::parse(std::move(text), "test.csv").value();
}

constexpr const char* kernel_header =
    "system,kernel_source,dtype,m,n,k,latency_ms,power_w,power_limit_w\n";

ScoredRow only_score(const std::string& rows) {
  const auto scores =
      score_kernel_power_table(parsed(kernel_header + rows), spec::default_library());
  REQUIRE(scores);
  REQUIRE(scores->scored.size() == 1);
  return scores->scored[0];
}

TEST_CASE("a large product over and over sits just under the board's limit") {
  const ScoredRow row = only_score("h200_sxm,vllm_default,bfloat16,8192,8192,8192,1.6,691,700\n");
  CHECK(row.quantity == "power_w");
  CHECK(row.measured == Approx(691));
  CHECK(row.predicted <= 700);
  CHECK(row.predicted > 670);
}

TEST_CASE("the measured latency of a long kernel does not enter its predicted power") {
  const auto with_latency = [](const char* ms) {
    return only_score(fmt::format("h200_sxm,vllm_default,bfloat16,8192,8192,8192,{},691,700\n", ms))
        .predicted;
  };
  CHECK(with_latency("1.6") == with_latency("3.2"));
}

TEST_CASE("rows of kernels without a power are skipped with a reason") {
  const auto scores = score_kernel_power_table(
      parsed(std::string(kernel_header) + "h200_sxm,x,bfloat16,4096,4096,4096,0.2,,700\n"),
      spec::default_library());
  REQUIRE(scores);
  CHECK(scores->scored.empty());
  REQUIRE(scores->skipped.size() == 1);
  CHECK(scores->skipped[0].reason == "no power is stated");
}

constexpr const char* dvfs_header =
    "row_id,family,gpu,form,workload,precision,lock_sm_mhz,power_cap_w,sm_clock_avg_mhz,"
    "power_avg_w,power_peak_w,temp_avg_c,perf,perf_unit,mem_gbps,fp32_gflops,duty_on_ms,"
    "duty_off_ms\n";

TableScores dvfs(const std::string& rows) {
  const auto scores = score_dvfs_table(parsed(dvfs_header + rows), spec::default_library());
  REQUIRE(scores);
  return *scores;
}

double predicted(const TableScores& scores, const std::string& row_id, const char* quantity) {
  for (const ScoredRow& row : scores.scored)
    if (row.row_id == row_id && row.quantity == quantity) return row.predicted;
  FAIL("no score of ", row_id);
  return 0;
}

TEST_CASE(
    "a kernel learned at full clock is predicted at its other clocks and caps, never above them") {
  const TableScores scores = dvfs(
      "free,f,A100-80GB,PCIe,k,,1410,300,,290,,,10,it/s,,,,\n"
      "low,f,A100-80GB,PCIe,k,,1005,300,,135,,,7.13,it/s,,,,\n"
      "lock,f,A100-80GB,PCIe,k,,1200,300,,179,,,8.5,it/s,,,,\n"
      "cap,f,A100-80GB,PCIe,k,,1410,200,,199,,,8.9,it/s,,,,\n");
  CHECK(scores.skipped.size() == 2);  // the two points that the kernel is learned from
  CHECK(predicted(scores, "cap", "power_w") <= 200);
  CHECK(predicted(scores, "cap", "power_w") > 180);
  CHECK(predicted(scores, "lock", "power_w") < 290);
  CHECK(predicted(scores, "lock", "rate") == Approx(10 * 1200 / 1410.0).epsilon(0.02));
}

TEST_CASE("a power that hardly falls with the clock is never more than the kernel drew") {
  const TableScores scores = dvfs(
      "free,f,V100,SXM,k,,1530,300,,160,,,1,it/s,,,,\n"
      "mid,f,V100,SXM,k,,1140,300,,150,,,1,it/s,,,,\n"
      "low,f,V100,SXM,k,,750,300,,148,,,1,it/s,,,,\n");
  CHECK(predicted(scores, "mid", "power_w") < 160);
  CHECK(predicted(scores, "mid", "power_w") > 100);
  CHECK(predicted(scores, "mid", "rate") == Approx(1));
}

TEST_CASE("a bandwidth does not follow the clock, its power does") {
  const TableScores scores = dvfs(
      "fast,f,A100-80GB,PCIe,s,,1410,300,,228,,,1687,GB/s,,,,\n"
      "slow,f,A100-80GB,PCIe,s,,1005,300,,145,,,1691,GB/s,,,,\n");
  CHECK(predicted(scores, "slow", "rate") == Approx(1691));
  CHECK(predicted(scores, "slow", "power_w") < predicted(scores, "fast", "power_w") - 40);
}

TEST_CASE("half of the time at work draws the middle of work and rest") {
  const TableScores scores = dvfs(
      "on,f,B300,SXM,steady,bf16,,1100,,1000,,40,2000,it/s,,,,\n"
      "half,f,B300,SXM,duty,bf16,,1100,,600,,40,1000,it/s,,,100,100\n");
  const double half = predicted(scores, "half", "power_w");
  CHECK(half > 0.5 * 1000 + 0.5 * 150);
  CHECK(half < 0.5 * 1000 + 0.5 * 250);
}

TEST_CASE(
    "a cap lowers duty cycles that are longer than the governor's window more than short ones") {
  const auto under = [](const char* milliseconds) {
    const std::string cycle = fmt::format("{0},{0}", milliseconds);
    const TableScores scores = dvfs(
        "on,f,B300,SXM,steady,bf16,,1100,,1040,,55,2000,it/s,,,,\n"
        "free,f,B300,SXM,duty,bf16,,1100,,620,,40,1000,it/s,,," +
        cycle +
        "\n"
        "held,f,B300,SXM,over,bf16,,500,,450,,40,700,it/s,,," +
        cycle + "\n");
    CHECK(predicted(scores, "held", "power_w") < predicted(scores, "free", "power_w"));
    CHECK(predicted(scores, "held", "power_w") <= 500);
    CHECK(predicted(scores, "held", "rate") < 1000);
    return predicted(scores, "held", "rate");
  };
  CHECK(under("500") < under("100"));
  CHECK(under("100") < under("50"));
  CHECK(under("5") == under("10"));  // both far within the window
}

TEST_CASE("GPUs that the library does not have are skipped, not guessed") {
  const TableScores scores = dvfs("x,f,A40,PCIe,k,,1200,250,,200,,,1,it/s,,,,\n");
  CHECK(scores.scored.empty());
  CHECK(scores.skipped.size() == 1);
}

/// Rows that the A100's own coefficients would give, with another energy of memory.
std::string roofline_of(double joules_per_gb) {
  const spec::Gpu gpu = spec::load_gpu(spec::default_library(), "a100-40gb").value();
  std::string rows;
  for (int i = 0; i < 10; ++i) {
    const double gbps = 150.0 * i, tflops = 19.0 - 1.5 * i;
    const double watts = 76 + joules_per_gb * gbps + 4.5 * tflops;
    rows += fmt::format("r{0},f,A100-40GB,SXM,w{0},fp32,,,1410,,{1},50,1,x,{2},{3},,\n", i, watts,
                        gbps, 1000 * tflops);
  }
  return rows;
}

TEST_CASE("a fit finds the energy of memory that made the powers") {
  for (const double truth : {0.09, 0.12}) {
    const auto fits = fit_power(parsed(dvfs_header + roofline_of(truth)), spec::default_library());
    REQUIRE(fits);
    REQUIRE(fits->size() == 1);
    const CoefficientFit& fit = fits->front();
    CHECK(fit.gpu == "a100-40gb");
    CHECK(fit.after.median < 2);
    for (const FoundNumber& number : fit.numbers)
      if (number.key == "power.joules_per_hbm_gb")
        CHECK(number.value == Approx(truth).epsilon(0.1));
    const auto toml = fitted_toml(fit, spec::default_library(), "test.csv");
    REQUIRE(toml);
    CHECK(toml->find("[fit.power]") != std::string::npos);
  }
}

TEST_CASE("a table that tells nothing of energies is an error that says what would") {
  const auto fits = fit_power(
      parsed(std::string(kernel_header) + "h200_sxm,x,bfloat16,4096,4096,4096,0.2,691,700\n"),
      spec::default_library());
  REQUIRE(!fits);
  CHECK(fits.error().what.find("nothing to fit power to") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::calibrate
