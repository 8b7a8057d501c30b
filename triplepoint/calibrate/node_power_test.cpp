// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/calibrate/node_power_phases.h"
#include "triplepoint/calibrate/node_power_runs.h"
#include "triplepoint/calibrate/node_power_tables.h"

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

CsvTable parsed(std::string text) {
  return CsvTable::parse(std::move(text), "test.csv").value();
}

TableScores runs(const std::string& rows) {
  const std::string header =
      "run_id,family,gpu,cooling,measured_at,benchmark,n_nodes,n_gpus,run_s,node_mean_w,"
      "node_p50_w,energy_nodes_kwh\n";
  const auto scores = score_node_power_table(parsed(header + rows), spec::default_library());
  REQUIRE(scores);
  return *scores;
}

double predicted(const TableScores& scores, const char* row_id, const char* quantity) {
  for (const ScoredRow& row : scores.scored)
    if (row.row_id == row_id && row.quantity == quantity) return row.predicted;
  FAIL("no score of ", row_id);
  return 0;
}

TEST_CASE("a node draws more before its power supplies than behind them") {
  const TableScores scores = runs(
      "ac,f,H100-SXM5-80GB,immersion,node power at AC side,bert,1,8,300,6800,6900,0.57\n"
      "dc,f,H100-SXM5-80GB,immersion,node power at DC side,bert,1,8,300,6600,6700,0.55\n");
  CHECK(predicted(scores, "ac", "node_p50_w") > predicted(scores, "dc", "node_p50_w"));
}

TEST_CASE("the shorter a run, the more of it is start-up, and the lower its mean") {
  const TableScores scores = runs(
      "short,f,H100-SXM5-80GB,immersion,AC,bert,1,8,60,6000,6900,0.1\n"
      "long,f,H100-SXM5-80GB,immersion,AC,bert,1,8,6000,6900,6900,11.5\n");
  CHECK(predicted(scores, "short", "node_mean_w") < predicted(scores, "long", "node_mean_w"));
  CHECK(predicted(scores, "short", "node_p50_w") == predicted(scores, "long", "node_p50_w"));
}

TEST_CASE("air costs kilowatts that water does not, because fans follow the devices") {
  const TableScores scores = runs(
      "air,f,B200-SXM-180GB,air,AC,llama2_70b_lora,1,8,700,10000,10000,2\n"
      "water,f,B200-SXM-180GB,direct water,AC,llama2_70b_lora,1,8,700,10000,10000,2\n");
  CHECK(predicted(scores, "air", "node_p50_w") > predicted(scores, "water", "node_p50_w") + 500);
}

NodePhases lora_phases(Seconds run, double batch) {
  const NodeRun lora{.gpu = "H100", .benchmark = "llama2_70b_lora", .cooling = {}};
  const auto protocol = load_run_protocol(spec::default_library());
  REQUIRE_MESSAGE(protocol, protocol.error().what);
  return phases_of(*protocol, lora, {.step = 0.7 * unit::s, .host = 0.1 * unit::s, .batch = batch},
                   {.busy = 6000 * unit::W, .idle = 2500 * unit::W}, run);
}

TEST_CASE("the phases of a run last as long as the run") {
  for (const double seconds : {5.0, 20.0, 130.0, 150.0, 155.0, 300.0, 3000.0})
    for (const double batch : {8.0, 64.0}) {
      const NodePhases phases = lora_phases(seconds * unit::s, batch);
      CHECK(phases.rest.seconds + phases.training.seconds + phases.evaluating.seconds +
                phases.mixed.seconds ==
            Approx(seconds));
    }
}

TEST_CASE("evaluations draw less than training and more than a node at rest") {
  const NodePhases phases = lora_phases(600 * unit::s, 8);
  REQUIRE(phases.evaluating.seconds > 0);
  CHECK(phases.evaluating.watts < phases.training.watts);
  CHECK(phases.evaluating.watts > phases.rest.watts);
  CHECK(phases.mean_w() < phases.median_w());
}

TEST_CASE("a meter sees evaluations that end before its reading mixed with training") {
  const NodePhases phases = lora_phases(120 * unit::s, 64);
  CHECK(phases.evaluating.seconds == 0);
  CHECK(phases.mixed.watts < phases.training.watts);
  CHECK(phases.median_w() == phases.mixed.watts);
}

TEST_CASE("energy is mean power times the run, over all nodes") {
  const TableScores scores = runs("r,f,H100-SXM5-80GB,immersion,AC,bert,1,8,3600,6900,6900,6.9\n");
  CHECK(predicted(scores, "r", "energy_kwh") ==
        Approx(predicted(scores, "r", "node_mean_w") / 1000));
}

TEST_CASE("a benchmark that is no transformer training is skipped with a reason") {
  const TableScores scores = runs("r,f,B200,water,AC,stable_diffusion,1,8,900,10000,10000,2.6\n");
  CHECK(scores.scored.empty());
  REQUIRE(scores.skipped.size() == 1);
  CHECK(scores.skipped[0].reason.find("not modelled") != std::string::npos);
}

TEST_CASE("a trace's name tells benchmark, machine and cooling") {
  std::string rows = "trace_id,t_s,power_w,n_nodes\n";
  for (int t = -4; t < 400; t += 2)
    rows += fmt::format("bert-8xH100-smc-ac-node_0,{},6900,1\n", t);
  const auto scores = score_node_power_table(parsed(rows), spec::default_library());
  REQUIRE(scores);
  REQUIRE(scores->scored.size() == 2);
  CHECK(scores->scored[0].measured == Approx(6900));
}

}  // namespace
}  // namespace triplepoint::calibrate
