// SPDX-License-Identifier: Apache-2.0
// What a placement is made of, and what a launcher is told of it.
#include "triplepoint/advise/placement.h"

#include <doctest/doctest.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/place.h"

namespace triplepoint::advise {
namespace {

using doctest::Approx;
using Order = std::vector<int64_t>;

/// Two nodes of eight GPUs; with tp-pp-dp each holds all of four stages.
spec::Job small_job() {
  static const spec::Library library = spec::default_library();
  spec::Job job;
  job.model = spec::load_model(library, "gpt3-20b").value();
  job.cluster = spec::load_cluster(library, "hgx-h200").value();
  job.cluster.num_nodes = 2;
  job.stack = spec::load_stack(library, "megatron-core").value();
  job.plan.tensor_parallel_size = 2;
  job.plan.pipeline_parallel_size = 4;
  job.plan.global_batch_size = 32;
  job.plan.rank_order = spec::RankOrder::tp_pp_dp;
  return job;
}

/// The upper half of each node is hot.
ColdMap upper_half_hot() {
  ColdMap map{.groups = 2, .node_effect = {0, 0}};
  for (size_t d = 0; d < 16; ++d)
    map.group.push_back(d % 8 >= 4 ? 1 : 0);
  return map;
}

TEST_CASE("the order of ranks decides whether a node mixes stages") {
  spec::Job job = small_job();
  CHECK(mixes_stages(job));
  for (const NodeStages& node : stages_of_nodes(job)) {
    CHECK(node.stages == Order{0, 1, 2, 3});
    CHECK(node.locals[1] == Order{2, 3});
  }
  job.plan.rank_order = spec::RankOrder::tp_cp_ep_dp_pp;
  CHECK(stages_of_nodes(job)[0].stages == Order{0, 1});
  job.plan.pipeline_parallel_size = 1;
  CHECK(!mixes_stages(job));
}

TEST_CASE("cold devices go to the stages that are preferred") {
  const spec::Job job = small_job();
  const ColdMap map = upper_half_hot();
  CHECK(place_cold_first(job, map, {}).device_order.empty());  // they are in that order already
  const spec::Plan hot_first = place_cold_first(job, map, {{2, 3, 0, 1}, {2, 3, 0, 1}});
  CHECK(hot_first.device_order == Order{4, 5, 6, 7, 0, 1, 2, 3});
  spec::Job placed = job;
  placed.plan = hot_first;
  CHECK(coldness_of_stages(job, map) == std::vector<double>{0, 0, 1, 1});
  CHECK(coldness_of_stages(placed, map) == std::vector<double>{1, 1, 0, 0});
}

TEST_CASE("a mean over stages knows who sits where, and leaves out what is not measured") {
  spec::Job job = small_job();
  std::vector<double> values = numbered<double>(16, [](int d) { return d % 8; });
  CHECK(stage_means(job, values) == std::vector<double>{0.5, 2.5, 4.5, 6.5});
  job.plan.device_order = {4, 5, 6, 7, 0, 1, 2, 3};
  CHECK(stage_means(job, values) == std::vector<double>{4.5, 6.5, 0.5, 2.5});
  values.resize(2);
  CHECK(stage_means(job, values) == std::vector<double>{0, 0, 0.5, 0});
}

TEST_CASE("orders are written as short as they can be") {
  const spec::Job job = small_job();
  const auto shortened = [&](Order devices, Order nodes) {
    spec::Plan plan = job.plan;
    plan.device_order = std::move(devices);
    plan.node_order = std::move(nodes);
    shorten_orders(plan, job);
    return plan;
  };
  const Order given = {0, 1, 2, 3, 4, 5, 6, 7}, turned = {1, 0, 2, 3, 4, 5, 6, 7};
  Order twice = turned, other = turned;
  twice.insert(twice.end(), turned.begin(), turned.end());
  other.insert(other.end(), given.begin(), given.end());
  CHECK(shortened(given, {0, 1}).device_order.empty());
  CHECK(shortened(given, {0, 1}).node_order.empty());
  CHECK(shortened(twice, {1, 0}).device_order == turned);
  CHECK(shortened(twice, {1, 0}).node_order == Order{1, 0});
  CHECK(shortened(other, {}).device_order == other);
}

TEST_CASE("layers move to colder stages, and none is lost or left without") {
  const spec::Job job = small_job();
  const Order even = layers_of(job);
  const Order moved = shift_layers(job, {0, 0, 1, 1}, 1);
  CHECK(moved == Order{even[0] + 1, even[1] + 1, even[2] - 1, even[3] - 1});
  CHECK(shift_layers(job, {1, 1, 1, 1}, 2) == even);
  CHECK(shift_layers(job, {0, 0, 1, 1}, even[2]).empty());
}

TEST_CASE("samples of one node stand for every node, samples of all for themselves") {
  spec::Job job = small_job();
  std::vector<ThermalSample> one;
  for (int64_t local = 0; local < 8; ++local)
    one.push_back({.node = 0, .local = local, .temperature_c = local < 4 ? 50. : 70.});
  const ColdMap map = cold_map(find_thermal_groups(one), one, job);
  CHECK(map.groups == 2);
  CHECK(map.group == upper_half_hot().group);
  CHECK(map.cold_first(1, 8) == Order{0, 1, 2, 3, 4, 5, 6, 7});
  std::vector<ThermalSample> both = one;
  for (const ThermalSample& sample : one)
    both.push_back(
        {.node = 1, .local = 7 - sample.local, .temperature_c = *sample.temperature_c + 6});
  both = mean_samples(both);  // in order of their indices
  const ColdMap warm = cold_map(find_thermal_groups(both), both, job);
  CHECK(warm.cold_first(1, 8) == Order{4, 5, 6, 7, 0, 1, 2, 3});
  CHECK(warm.node_effect[1] - warm.node_effect[0] == Approx(6));
}

TEST_CASE("a launcher is told the devices of each node, the order of nodes and of ranks") {
  spec::Job job = small_job();
  job.plan.device_order = {1, 0, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 7, 6};
  job.plan.node_order = {1, 0};
  job.plan.layers_per_stage = {12, 12, 10, 10};
  CHECK(visible_devices(job, 0) == "1,0,2,3,4,5,6,7");
  CHECK(visible_devices(job, 1) == "0,1,2,3,4,5,7,6");
  // The first place of the host file is node 1's.
  CHECK(contains(devices_script(job), "  0) export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,7,6 ;;"));
  CHECK(host_file(job, {"anna", "berta"}) == "berta slots=8\nanna slots=8\n");
  CHECK(host_file(job, {}) == "node1 slots=8\nnode0 slots=8\n");
  const std::string lines =
      joined(mapped(launch_lines(job), [](const std::string& line) { return line + "\n"; }), "");
  CHECK(contains(lines, "layers per stage: 12 12 10 10\n"));
  CHECK(contains(lines, "node 0: CUDA_VISIBLE_DEVICES=1,0,2,3,4,5,6,7\n"));
  CHECK(contains(lines, "--pipeline-model-parallel-layout"));
  CHECK(contains(lines, "order of nodes (host file): 1 0\n"));
  CHECK(contains(lines, "--use-tp-pp-dp-mapping"));
}

TEST_CASE("machines are drawn where something is spread, and the expected one has no spread") {
  const spec::Job job = small_job();
  REQUIRE(has_spread(job));
  const std::vector<spec::Job> machines = drawn_machines(job, 3);
  REQUIRE(machines.size() == 3);
  CHECK(machines[0].environment.seed != machines[1].environment.seed);
  const spec::Job expected = on_expected_machine(job);
  CHECK(!has_spread(expected));
  CHECK(drawn_machines(expected).size() == 1);
  const auto coarse = *job.cluster.gpu.governor, fine = *with_fine_clocks(job).cluster.gpu.governor;
  CHECK(fine.clock_step * 8 == coarse.clock_step);
  CHECK(fine.thermal_steps_per_kelvin == Approx(8 * coarse.thermal_steps_per_kelvin));
}

TEST_CASE("gains are summed up by mean, worst and number of machines that gain") {
  const MachineGains gains = summarize_gains({0.02, -0.01, 0.05});
  CHECK(gains.machines == 3);
  CHECK(gains.mean == Approx(0.02));
  CHECK(gains.worst == -0.01);
  CHECK(gains.gaining == 2);
  CHECK(summarize_gains({}).machines == 0);
}

TEST_CASE("groups are told with how sure they are, and slots with their nodes where they differ") {
  GroupedMachine seen;
  for (int64_t node = 0; node < 2; ++node)
    for (int64_t local = 0; local < 8; ++local)
      seen.devices.push_back(
          {.node = node, .local = local, .temperature_c = (local < 4) == (node == 0) ? 50. : 70.});
  seen.groups = find_thermal_groups(seen.devices);
  REQUIRE(seen.groups.groups.size() == 2);
  const answers::Section section = groups_answer(seen).sections.front();
  CHECK(contains(section.remarks[0].text, "2 groups, 20.0 K apart, with 0.0 % of the scatter"));
  CHECK(contains(section.remarks[1].text, "node 0: 0,1,2,3,4,5,6,7; node 1: 4,5,6,7,0,1,2,3"));
  CHECK(section.tables.front().rows.size() == 2);
  seen.devices.resize(3);
  seen.groups = find_thermal_groups(seen.devices);
  CHECK(contains(groups_answer(seen).sections.front().remarks[0].text, "Too few GPUs"));
}

std::string said_of(const GroupedMachine& seen) {
  return groups_answer(seen).sections.front().remarks[0].text;
}

TEST_CASE("equal GPUs, a missing reading and one far hotter than the others are told as such") {
  GroupedMachine seen;
  for (int64_t local = 0; local < 8; ++local)
    seen.devices.push_back({.node = 0, .local = local, .temperature_c = 60.});
  seen.groups = find_thermal_groups(seen.devices);
  CHECK(contains(said_of(seen), "the temperature of all GPUs is alike"));
  seen.devices[6].temperature_c.reset();
  seen.devices[1].temperature_c = 82;
  seen.groups = find_thermal_groups(seen.devices);
  CHECK(contains(said_of(seen), "GPU 6 has no temperature"));
  if (seen.groups.groups.size() == 1)
    CHECK(contains(said_of(seen), "GPU 1 is far hotter"));
  else
    CHECK(seen.groups.groups[1].members == std::vector<size_t>{1});
  CHECK(json_text(groups_answer(seen).numbers, -1).find("6]]") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::advise
