// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/node_power_scores.h"

#include <doctest/doctest.h>

namespace triplepoint::calibrate {
namespace {

CsvTable parsed(std::string text) {
  return CsvTable::parse(std::move(text), "test.csv").value();
}

/// A run of BERT on one node: its name, where it is measured, seconds, cluster and cooling.
std::string run(const char* name, const char* side, int seconds, const char* cluster,
                const char* cooling) {
  return fmt::format(
      "{},f,bert,{},{},{},1,{},6900,6900,0.5,1,bert-large,megatron-graphs,48,384,fp8\n", name, side,
      seconds, cluster, cooling);
}

TableScores scores_of(const std::string& rows) {
  const auto scores = score_node_power(
      parsed("row_id,family,benchmark,measured_at,run_s,cluster,cluster.num_nodes,"
             "environment.cooling,node_mean_w,node_p50_w,energy_kwh,energy_nodes,model,stack,"
             "plan.micro_batch_size,plan.global_batch_size,plan.precision\n" +
             rows),
      {.library = spec::default_library()});
  REQUIRE_MESSAGE(scores, scores.error().what);
  return *scores;
}

double predicted(const TableScores& scores, const char* row_id, const char* quantity) {
  for (const ScoredRow& row : scores.scored)
    if (row.row_id == row_id && row.quantity == quantity) return row.predicted;
  FAIL("no score of ", row_id);
  return 0;
}

TEST_CASE("a node draws more before its power supplies than behind them") {
  const TableScores scores = scores_of(run("ac", "wall", 300, "hgx-h100-immersion", "") +
                                       run("dc", "supplied", 300, "hgx-h100-immersion", ""));
  CHECK(predicted(scores, "ac", "node_p50_w") > predicted(scores, "dc", "node_p50_w"));
}

TEST_CASE("the shorter a run, the more of it is start-up, and the lower its mean") {
  const TableScores scores = scores_of(run("short", "wall", 60, "hgx-h100-immersion", "") +
                                       run("long", "wall", 6000, "hgx-h100-immersion", ""));
  CHECK(predicted(scores, "short", "node_mean_w") < predicted(scores, "long", "node_mean_w"));
  CHECK(predicted(scores, "short", "node_p50_w") == predicted(scores, "long", "node_p50_w"));
}

TEST_CASE("air costs kilowatts that water does not, because fans follow the devices") {
  const auto lora = [](const char* name, const char* cooling) {
    return fmt::format(
        "{},f,llama2-70b,8192,dgx-b200,1,megatron-graphs,true,lora,1,true,8,"
        "distributed_fused_adam_bf16,true,true,false,fp8,false,1,16,"
        "\"[attention_qkv, attention_dense]\",{},llama2_70b_lora,2,1,wall,10000,10000,700\n",
        name, cooling);
  };
  const auto scores = score_node_power(
      parsed("row_id,family,model,model.sequence_length,cluster,cluster.num_nodes,stack,"
             "stack.fp8_frozen_weights,task,plan.context_parallel_size,plan.fp8_attention,"
             "plan.global_batch_size,plan.optimizer,plan.overlap_gradient,plan.overlap_parameter,"
             "plan.overlap_tensor,plan.precision,plan.sequence_parallel,plan.tensor_parallel_size,"
             "plan.lora.rank,plan.lora.targets,environment.cooling,benchmark,energy_kwh,"
             "energy_nodes,measured_at,node_mean_w,node_p50_w,run_s\n" +
             lora("air", "") + lora("water", "liquid")),
      {.library = spec::default_library()});
  REQUIRE_MESSAGE(scores, scores.error().what);
  CHECK(predicted(*scores, "air", "node_p50_w") > predicted(*scores, "water", "node_p50_w") + 500);
}

NodePhases lora_phases(Seconds run, double batch) {
  const auto protocol = load_run_protocol(spec::default_library());
  REQUIRE_MESSAGE(protocol, protocol.error().what);
  return phases_of(*protocol, "llama2_70b_lora",
                   {.time = 0.7 * unit::s, .host = 0.1 * unit::s, .batch = batch},
                   {.busy = 6000 * unit::W, .idle = 2500 * unit::W}, run);
}

TEST_CASE("the phases of a run last as long as the run") {
  for (const double seconds : {5.0, 20.0, 130.0, 150.0, 155.0, 300.0, 3000.0})
    for (const double batch : {8.0, 64.0}) {
      const NodePhases phases = lora_phases(seconds * unit::s, batch);
      CHECK(phases.rest.seconds + phases.training.seconds + phases.evaluating.seconds +
                phases.mixed.seconds ==
            doctest::Approx(seconds));
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
  const TableScores scores = scores_of(run("r", "wall", 3600, "hgx-h100-immersion", ""));
  CHECK(predicted(scores, "r", "energy_kwh") ==
        doctest::Approx(predicted(scores, "r", "node_mean_w") / 1000));
}

}  // namespace
}  // namespace triplepoint::calibrate
