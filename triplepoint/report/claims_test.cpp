// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/claims.h"

#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

namespace triplepoint::report {
namespace {

using doctest::Approx;

StudyRow row(const std::string& name, double watts, double throttled) {
  StudyRow row;
  row.name = name;
  row.verdict = Verdict::ok;
  row.metrics.emplace();
  row.metrics->power_peak_w = watts;
  row.metrics->power_mean_w = 0.5 * watts;
  if (throttled > 0) row.metrics->throttle["software_power_cap"] = throttled;
  row.metrics->throttled_per_gpu = {throttled};
  return row;
}

/// Two layouts at two microbatches; one peak rises by a fifth, the other falls by a tenth.
Study study_with(const spec::Claim& claim) {
  Study study;
  study.rows = {row("a_TP8", 500, 0), row("a_TP8_mbs8", 600, 0.2), row("a_TP4", 1000, 0.5),
                row("a_TP4_mbs8", 900, 0.1)};
  study.claims = {claim};
  return study;
}

CheckedClaim checked(const spec::Claim& claim) {
  static Study kept;  // results point into it
  kept = study_with(claim);
  return check_claims(kept).front();
}

spec::Claim rises(double least, double share) {
  return {.text = "peaks rise",
          .place = "abstract",
          .jobs = "a_*_mbs8",
          .against = "a_*",
          .number = "power_w.peak",
          .least = least,
          .share = share};
}

TEST_CASE("names match patterns, with the text for each star") {
  CHECK(match_name("a_*_mbs8", "a_TP8_mbs8") == std::vector<std::string>{"TP8"});
  CHECK(match_name("*_*", "a_b_c") == std::vector<std::string>{"a", "b_c"});
  CHECK(match_name("a", "a") == std::vector<std::string>{});
  CHECK(!match_name("a_*_mbs8", "a_TP8"));
  CHECK(!match_name("a", "ab"));
}

TEST_CASE("a claim agrees, is weaker or opposite by the pairs that lie within its bounds") {
  const CheckedClaim half = checked(rises(1.1, 0.5));
  CHECK(half.verdict == ClaimVerdict::agrees);
  CHECK(half.pairs == 2);
  CHECK(half.within == 1);
  CHECK(half.lowest == Approx(0.9));
  CHECK(half.highest == Approx(1.2));
  CHECK(checked(rises(1.3, 0.5)).verdict == ClaimVerdict::weaker);
  CHECK(checked(rises(1.1, 1)).verdict == ClaimVerdict::weaker);
  spec::Claim falling = rises(1.1, 1);
  falling.jobs = "a_TP4_mbs8";
  falling.against = "a_TP4";
  CHECK(checked(falling).verdict == ClaimVerdict::opposite);
}

TEST_CASE("a difference, a quotient, and the best of a pattern") {
  spec::Claim claim = rises(0, 0.5);
  claim.number = "throttle.software_power_cap";
  claim.comparison = spec::Comparison::difference;
  CHECK(checked(claim).highest == Approx(0.2));  // a reason that never occurred is 0
  claim = rises(1, 1);
  claim.number = "power_w.peak / power_w.mean";
  CHECK(checked(claim).median == Approx(1));
  claim = rises(0, 1);
  claim.against = "a_TP*";
  claim.pick = spec::Pick::highest;
  CHECK(checked(claim).pairs == 1);
  CHECK(checked(claim).median == Approx(0.9));
}

TEST_CASE("a number of one job is held against the bounds, and what no job has cannot be said") {
  spec::Claim claim = rises(550, 1);
  claim.against.clear();
  CHECK(checked(claim).verdict == ClaimVerdict::agrees);
  claim.least = 700;
  CHECK(checked(claim).verdict == ClaimVerdict::weaker);
  claim.jobs = "b_*";
  CHECK(checked(claim).verdict == ClaimVerdict::unknown);
  CHECK(checked(claim).missing == "no job is named b_*");
  claim = rises(1, 1);
  claim.number = "power_w.peak / power_w.paek";
  CHECK(checked(claim).missing == "results have no number \"power_w.paek\"");
}

TEST_CASE("results and page name every claim with its verdict") {
  const Study study = study_with(rises(1.1, 0.5));
  const Json json = claims_json(check_claims(study));
  REQUIRE(json.size() == 1);
  CHECK(json[0].at("verdict") == "agrees");
  CHECK(json[0].at("within") == 1);
  const std::string html = claims_section(study);
  CHECK(html.find("claims (1): 1 agree") != std::string::npos);
  CHECK(html.find("peaks rise") != std::string::npos);
  CHECK(claims_section({}).empty());
}

}  // namespace
}  // namespace triplepoint::report
