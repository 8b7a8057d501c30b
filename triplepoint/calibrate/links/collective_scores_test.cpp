// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/links/collective_scores.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

TableScores scores_of(const std::string& rows) {
  const auto table = CsvTable::parse(
      "row_id,family,kind,cluster,nic_bandwidth,nvls,op,n_gpus,n_nodes,msg_bytes,latency_us,"
      "busbw_gb_per_s\n" +
          rows,
      "test.csv");
  TableScores scores;
  score_collective_rows(table.value(), spec::default_library(), scores);
  return scores;
}

TEST_CASE("bandwidths and latencies of one prediction agree") {
  const TableScores scores = scores_of(
      "a,f,collective,dgx-h100,,,all_gather,8,1,1073741824,2000,\n"
      "b,f,collective,dgx-h100,,,all_gather,8,1,1073741824,,400\n");
  REQUIRE(scores.scored.size() == 2);
  CHECK(scores.scored[0].quantity == "latency_us");
  CHECK(scores.scored[1].quantity == "busbw_gb_per_s");
  CHECK(scores.scored[0].family == "f/large");
  const double bytes = 1073741824;
  CHECK(scores.scored[1].predicted == Approx(bytes * 7 / 8 / scores.scored[0].predicted / 1000));
}

TEST_CASE("a row's own NICs and switches count") {
  const TableScores scores = scores_of(
      "slow,f,collective,dgx-h100,100 Gb/s,,all_gather,16,2,1073741824,2000,\n"
      "fast,f,collective,dgx-h100,400 Gb/s,,all_gather,16,2,1073741824,2000,\n"
      "off,f,collective,dgx-h100,,false,all_reduce,8,1,1073741824,2000,\n"
      "on,f,collective,dgx-h100,,true,all_reduce,8,1,1073741824,2000,\n");
  REQUIRE(scores.scored.size() == 4);
  CHECK(scores.scored[0].predicted > 2 * scores.scored[1].predicted);
  CHECK(scores.scored[0].notes.size() == 1);
  CHECK(scores.scored[2].predicted > scores.scored[3].predicted);
}

TEST_CASE("collectives that say too little are skipped with a reason") {
  const TableScores scores = scores_of(
      "a,f,collective,dgx-h100,,,gossip,8,1,1024,1,\n"
      "b,f,collective,dgx-h100,,,all_reduce,1,1,1024,1,\n"
      "c,f,collective,dgx-h100,,,all_reduce,8,1,1024,,\n"
      "d,f,collective,abacus,,,all_reduce,8,1,1024,1,\n");
  CHECK(scores.scored.empty());
  REQUIRE(scores.skipped.size() == 4);
  CHECK(scores.skipped[0].reason == "no collective is called 'gossip'");
  CHECK(scores.skipped[1].reason == "fewer than two GPUs are stated");
  CHECK(scores.skipped[2].reason == "no latency or rate is stated");
}

}  // namespace
}  // namespace triplepoint::calibrate
