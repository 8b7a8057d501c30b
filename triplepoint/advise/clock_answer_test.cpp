// SPDX-License-Identifier: Apache-2.0
// What is said of a clock plan, by plans written by hand.
#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/clock_plan.h"

namespace triplepoint::advise {
namespace {

/// One node of eight GPUs in two stages.
spec::Job small_job() {
  static const spec::Library library = spec::default_library();
  spec::Job job;
  job.name = "small";
  job.model = spec::load_model(library, "gpt3-5b").value();
  job.cluster = spec::load_cluster(library, "hgx-h200").value();
  job.cluster.num_nodes = 1;
  job.plan.tensor_parallel_size = 4;
  job.plan.pipeline_parallel_size = 2;
  job.plan.global_batch_size = 8;
  return job;
}

JudgedStep step_of(double seconds, double joules) {
  return {.time = seconds * unit::s,
          .energy = joules * unit::J,
          .device_energy = joules * unit::J,
          .times = {seconds, seconds},
          .energies = {joules, joules},
          .hottest = Celsius(70),
          .mean = joules / seconds / 8 * unit::W,
          .clock_ratio = std::vector<double>(8, 0.9),
          .device_power = std::vector<Watts>(8, 600 * unit::W)};
}

ClockPoint point_of(double seconds, double joules) {
  ClockPoint point;
  point.step = point.capped = step_of(seconds, joules);
  point.clocks.assign(8, 1500 * unit::MHz);
  point.clocks[7] = 1400 * unit::MHz;
  point.caps.assign(8, 550 * unit::W);
  point.slowdown = seconds / 10 - 1;
  point.saving = point.device_saving = 1 - joules / 40e3;
  point.speedups = {.machines = 2, .mean = -point.slowdown, .worst = -point.slowdown};
  return point;
}

/// A step of 10 s and 40 kJ; settings of 0, 2 and 5 % more time.
ClockPlan small_plan() {
  ClockPlan plan;
  plan.baseline = step_of(10, 40e3);
  plan.frontier = {point_of(10, 38e3), point_of(10.2, 36e3), point_of(10.5, 35e3)};
  plan.stages = {{.stage = 0, .worked = 0.9}, {.stage = 1, .worked = 0.8}};
  return plan;
}

TEST_CASE("the chosen point is the last that is no slower than asked, within the tolerance") {
  const ClockPlan plan = small_plan();
  CHECK(chosen_point(plan, 0) == &plan.frontier[0]);
  CHECK(chosen_point(plan, 0.019) == &plan.frontier[0]);
  CHECK(chosen_point(plan, 0.03) == &plan.frontier[1]);
  CHECK(chosen_point(plan, 1) == &plan.frontier[2]);
  ClockPlan slow = plan;
  slow.frontier.erase(slow.frontier.begin());
  CHECK(chosen_point(slow, 0) == nullptr);
}

TEST_CASE("the frontier begins with the job as it is") {
  const DataTable table = clock_answer(small_job(), small_plan(), nullptr).sections[0].tables[0];
  REQUIRE(table.rows.size() == 4);
  const auto column =
      std::ranges::find(table.columns, "clock_mhz", &DataColumn::key) - table.columns.begin();
  CHECK(std::get<std::string>(table.rows[0][as_size(column)]) == "as it is");
  CHECK(std::get<std::string>(table.rows[1][as_size(column)]) == "1400-1500");
  CHECK(number_in(table.rows[0][1]) == 0);
  CHECK(number_in(table.rows[3][1]) == doctest::Approx(0.05));
}

TEST_CASE("a stage has the clocks of its GPUs, and no power afterwards where nothing was chosen") {
  const ClockPlan plan = small_plan();
  const spec::Job job = small_job();
  const auto stages = [&](const ClockPoint* point) {
    return answers::document_json(clock_answer(job, plan, point))["stages"];
  };
  const Json chosen = stages(&plan.frontier[0]);
  CHECK(chosen[0]["clock_mhz"] == "1500");
  CHECK(chosen[1]["clock_mhz"] == "1400-1500");
  CHECK(chosen[0]["power_w"].get<double>() == doctest::Approx(600));
  CHECK(chosen[0]["clock_before_mhz"].get<double>() ==
        doctest::Approx(0.9 * (*job.cluster.gpu.max_clock / unit::MHz)));
  const Json none = stages(nullptr);
  CHECK(none[0]["power_w"].is_null());
}

TEST_CASE("JSON has the clocks and caps of every GPU, if a point was chosen") {
  const ClockPlan plan = small_plan();
  const spec::Job job = small_job();
  const auto json_of = [&](const ClockPoint* point) {
    return answers::document_json(clock_answer(job, plan, point));
  };
  const Json json = json_of(&plan.frontier[1]);
  CHECK(json["gpus"] == 8);
  CHECK(json["frontier"].size() == 4);
  CHECK(json["chosen"]["device_clock_mhz"][7] == doctest::Approx(1400));
  CHECK(json["chosen"]["device_cap_w"].size() == 8);
  CHECK(json["chosen"]["worst_slowdown"].get<double>() == doctest::Approx(0.02));
  CHECK(!json_of(nullptr).contains("chosen"));
  CHECK(contains(clock_answer(job, plan, &plan.frontier[1]).verdict,
                 "10.00 % less energy of the GPUs at 2.00 % longer"));
  CHECK(contains(clock_answer(job, plan, nullptr).verdict, "Leave the clocks"));
  ClockPlan interrupted = plan;
  interrupted.interrupted = true;
  CHECK(contains(clock_answer(job, interrupted, nullptr).verdict, "concludes nothing"));
  CHECK(chosen_point(interrupted, 1) == nullptr);
}

TEST_CASE(
    "of the points that are allowed the one that saves most is chosen, and none for nothing") {
  ClockPlan plan = small_plan();
  plan.frontier[2].saving = 0.06;  // in another scope a longer step may cost more than it saves
  CHECK(chosen_point(plan, 1) == &plan.frontier[1]);
  for (ClockPoint& point : plan.frontier)
    point.saving = 1e-4;
  CHECK(chosen_point(plan, 1) == nullptr);
  plan.scope = metrics::EnergyScope::site;
  const auto answer = clock_answer(small_job(), plan, nullptr);
  CHECK(answer.numbers["energy_scope"] == "site");
  CHECK(!answer.numbers.contains("chosen"));
}

TEST_CASE("each stage has a reason that covers most of what its clock is lowered by") {
  ClockPlan plan = small_plan();
  CHECK(reason_of(plan, plan.stages[0], 0) == "works longest: it sets the pace");
  CHECK(reason_of(plan, plan.stages[1], 0) == "keeps its clock");
  CHECK(contains(reason_of(plan, plan.stages[1], 0.2), "10.0 % of the step less than stage 0"));
  StageSlack stage{.stage = 1, .worked = 0.89};
  CHECK(contains(reason_of(plan, stage, 0.02), "1.0 % of the step less"));
  CHECK(contains(reason_of(plan, stage, 0.04), "no single cause"));
  stage.waited = 0.06;
  CHECK(contains(reason_of(plan, stage, 0.1), "waits for 6.0 % of the step for other stages"));
  stage.replica_waits = true;
  CHECK(contains(reason_of(plan, stage, 0.1), "slower replicas"));
  stage.forward_slack = stage.backward_slack = 0.5 * unit::s;
  CHECK(contains(reason_of(plan, stage, 0.1), "5.0 % of a step later"));
  stage.lowest_member = 0.97;
  stage.slowest_device = 5;
  CHECK(contains(reason_of(plan, stage, 0.05), "waits for GPU 5, whose clock is 3.0 % below"));
  CHECK(contains(reason_of(plan, stage, 0.1), "of a step later"));
  stage.free_clock = 0.6;
  CHECK(contains(reason_of(plan, stage, 0.05), "60 % of the clock"));
  stage.working_clock = 0.61;  // a power cap holds it there anyway
  CHECK(contains(reason_of(plan, stage, 0.05), "waits for GPU 5"));
  stage.working_clock = 1;
  stage.free_clock = stage.lowest_member = 0.9;  // its slowest member sets the pace, no link
  CHECK(contains(reason_of(plan, stage, 0.05), "waits for GPU 5"));
  plan.stages[0].free_clock = plan.stages[0].working_clock = 0.83;
  CHECK(contains(reason_of(plan, plan.stages[0], 0), "83 % of the highest clock: power or heat"));
  plan.stages.resize(1);
  plan.stages[0].worked = 0.41;
  CHECK(contains(reason_of(plan, plan.stages[0], 0), "its passes take 41 % of the step"));
}

TEST_CASE("a fault is to be mended before clocks are locked for it") {
  const ClockPlan plan = small_plan();
  spec::Job job = small_job();
  CHECK(clock_answer(job, plan, &plan.frontier[0]).verdict.starts_with("Lock the clocks"));
  job.environment.faults = {{.gpu = 3, .share = 0.25}};
  CHECK(clock_answer(job, plan, &plan.frontier[0])
            .verdict.starts_with(
                "Mend the fault gpu=3,power=0.25 first. As long as it lasts, lock "));
}

}  // namespace
}  // namespace triplepoint::advise
