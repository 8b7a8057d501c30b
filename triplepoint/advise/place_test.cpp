// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/place.h"

#include <numeric>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"
#include "triplepoint/base/threads_testing.h"

#include "triplepoint/advise/thermal_groups.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {
namespace {

/// GPT on HGX H200 nodes; layers and sizes small enough to simulate in milliseconds.
spec::Job small_job(int64_t layers, int64_t tensor, int64_t pipeline, int64_t nodes) {
  static const spec::Library library = spec::default_library();
  spec::Job job;
  job.model = spec::load_model(library, "gpt3-175b").value();
  job.model.num_layers = layers;
  job.cluster = spec::load_cluster(library, "hgx-h200").value();
  job.cluster.num_nodes = nodes;
  job.stack = spec::load_stack(library, "megatron-core").value();
  job.plan.tensor_parallel_size = tensor;
  job.plan.pipeline_parallel_size = pipeline;
  job.plan.sequence_parallel = tensor > 1;
  job.plan.global_batch_size = 16 * nodes * 8 / (tensor * pipeline);
  job.plan.sharding = spec::Sharding::optimizer;
  job.plan.rank_order = spec::RankOrder::tp_pp_dp;
  job.plan.recompute = spec::Recompute::full;
  return job;
}

ColdMap map_of(const spec::Job& job) {
  const auto samples = thermal_samples(sim::simulate(job, {}));
  return cold_map(find_thermal_groups(samples), mean_samples(samples), job);
}

TEST_CASE("a simulated HGX H200 shows the hot slots of the paper in every node") {
  const spec::Job job = small_job(16, 4, 4, 2);
  const auto samples = thermal_samples(sim::simulate(job, {}));
  const ThermalGroups found = find_thermal_groups(samples);
  REQUIRE(found.groups.size() == 2);
  for (const auto& order : cold_first_order(found, samples))
    CHECK(order == std::vector<int64_t>{1, 2, 5, 7, 0, 3, 4, 6});
}

TEST_CASE("the paper's layers come out: 80 on 4 stages and 96 on 8") {
  spec::Job four = small_job(80, 4, 4, 4), eight = small_job(96, 4, 8, 4);
  const ColdMap map{
      .group = numbered<size_t>(
          32,
          [](int64_t d) { return d % 8 == 0 || d % 8 == 3 || d % 8 == 4 || d % 8 == 6 ? 1 : 0; }),
      .groups = 2,
      .node_effect = std::vector<double>(4)};
  four.plan = place_cold_first(four, map, {});
  eight.plan = place_cold_first(eight, map, {});
  CHECK(four.plan.device_order == std::vector<int64_t>{1, 2, 5, 7, 0, 3, 4, 6});
  CHECK(shift_layers(four, coldness_of_stages(four, map), 1) ==
        std::vector<int64_t>{21, 19, 21, 19});
  CHECK(shift_layers(eight, coldness_of_stages(eight, map), 1) ==
        std::vector<int64_t>{13, 11, 13, 11, 13, 11, 13, 11});
  // What does not divide goes to the last stage.
  four.model.num_layers = 82;
  const auto uneven = shift_layers(four, coldness_of_stages(four, map), 1);
  CHECK(std::accumulate(uneven.begin(), uneven.end(), int64_t{0}) == 82);
}

TEST_CASE("nodes with other cold slots get their own order") {
  const spec::Job job = small_job(16, 4, 4, 2);
  ColdMap map{.group = {1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1},
              .groups = 2,
              .node_effect = {0, 0}};
  CHECK(place_cold_first(job, map, {}).device_order ==
        std::vector<int64_t>{1, 2, 5, 7, 0, 3, 4, 6, 0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(place_cold_first(job, map, {{1, 0}, {1, 0}}).device_order ==
        std::vector<int64_t>{0, 3, 4, 6, 1, 2, 5, 7, 4, 5, 6, 7, 0, 1, 2, 3});
}

TEST_CASE("on a machine that is known the fastest placement is found, and its gain adds up") {
  uint64_t at = 0;
  const auto draw = [&](int64_t below) {
    return static_cast<int64_t>(random_uniform({7, 1}, at++) * as_real(below));
  };
  int better = 0;
  for (int i = 0; i < 6; ++i) {
    const int64_t tensor = int64_t{2} << draw(2), nodes = 1 + draw(2);
    const int64_t pipeline = std::min<int64_t>(8 * nodes / tensor, int64_t{2} << draw(2));
    spec::Job job = small_job(pipeline * (2 + draw(4)), tensor, pipeline, nodes);
    job.environment.seed = static_cast<uint64_t>(i);
    if (draw(2) > 0) job.plan.rank_order = spec::RankOrder::tp_cp_ep_dp_pp;
    PlaceOptions options{.machine_is_known = true};
    options.most_judged = 60;
    const PlaceResult result = place(job, map_of(job), options);
    CHECK(result.judged <= 60);
    const Placement& fastest = result.placements[result.fastest];
    CHECK(spec::diagnose(fastest.job) == spec::diagnose(job));
    for (const Placement& other : result.placements)
      if (other.outcome.fits) CHECK(fastest.outcome.step_time <= other.outcome.step_time);
    const bool worthwhile = result.gain(fastest) >= least_worthwhile_gain;
    CHECK(result.recommended == (worthwhile ? result.fastest : 0));
    if (result.parts)
      CHECK(result.parts->layers.total() + result.parts->order.total() ==
            doctest::Approx(result.placements[0].outcome.step_time - fastest.outcome.step_time));
    better += result.recommended > 0 ? 1 : 0;
  }
  CHECK(better > 0);
}

/// Mean gain in speed of a placement on machines that it was not searched on.
double gain_elsewhere(const Placement& placement, const spec::Job& base) {
  double sum = 0;
  constexpr uint64_t machines = 16;
  for (uint64_t seed = 101; seed < 101 + machines; ++seed) {
    spec::Job before = base, after = base;
    before.environment.seed = after.environment.seed = seed;
    after.plan = placement.job.plan;
    sum += (*judge_time(before) / *judge_time(after) - 1) / machines;
  }
  return sum;
}

TEST_CASE("what gains on average gains on other machines, and is not slower on this one") {
  int gaining = 0;
  for (const int64_t layers : {6, 12, 20}) {
    const spec::Job job = small_job(layers, 4, 2, 2);
    const PlaceResult result = place(job, map_of(job), {});
    CAPTURE(layers);
    const Placement& best = result.placements[result.fastest];
    CHECK((result.recommended > 0) == (best.over.mean >= least_worthwhile_gain));
    if (best.over.mean < min_reported_gain) continue;
    ++gaining;
    CHECK(best.outcome.step_time <= result.placements.front().outcome.step_time);
    CHECK(best.over.machines == drawn_machine_count);
    CHECK(gain_elsewhere(best, job) > 0);
  }
  CHECK(gaining > 0);
}

TEST_CASE("the search ends where no neighbour is faster: no layer moved helps") {
  spec::Job job = small_job(6, 4, 2, 1);
  const ColdMap map = map_of(job);
  const PlaceResult result = place(job, map, {.machine_is_known = true});
  CHECK(result.searched_all);
  const spec::Job& best = result.best().job;
  std::vector<int64_t> layers = layers_of(best);
  for (const int64_t more : {1, -1}) {
    spec::Job moved = best;
    moved.plan.layers_per_stage = {layers[0] + more, layers[1] - more};
    if (layers[0] + more > 0 && layers[1] - more > 0)
      CHECK(judge_time(moved).value_or(1e9) >= result.best().outcome.step_time);
  }
}

/// The fastest of all placements: every split of the layers, every order of the node's stages.
double fastest_of_all(spec::Job job, const ColdMap& map, std::vector<int64_t> layers = {}) {
  const auto stages = as_size(job.plan.pipeline_parallel_size);
  const int64_t left =
      job.model.num_layers - std::accumulate(layers.begin(), layers.end(), int64_t{0});
  double best = 1e9;
  layers.push_back(left);
  if (layers.size() < stages) {
    for (int64_t here = 1; here + static_cast<int64_t>(stages - layers.size()) <= left; ++here) {
      layers.back() = here;
      best = std::min(best, fastest_of_all(job, map, layers));
    }
    return best;
  }
  std::vector<size_t> order(stages);
  std::iota(order.begin(), order.end(), 0);
  do {
    job.plan = place_cold_first(job, map, {order});
    job.plan.layers_per_stage = layers;
    best = std::min(best, judge_time(job).value_or(1e9));
  } while (std::ranges::next_permutation(order).found);
  return best;
}

TEST_CASE("for small jobs the search loses at most 3 % against the best of all placements") {
  for (const spec::Job& job :
       {small_job(6, 4, 2, 1), small_job(9, 4, 2, 1), small_job(8, 2, 4, 1)}) {
    const ColdMap map = map_of(job);
    const PlaceResult result = place(job, map, {.machine_is_known = true});
    const double all = fastest_of_all(job, map);
    CHECK(result.best().outcome.step_time >= all);
    CHECK(result.best().outcome.step_time <= 1.03 * all);
  }
}

TEST_CASE("on a machine of equal slots there is nothing to place, and the answer says so") {
  const spec::Job job = with_equal_slots(on_expected_machine(small_job(8, 4, 2, 1)));
  const ColdMap map = map_of(job);
  CHECK(map.groups == 1);
  const PlaceResult result = place(job, map, {});
  for (const Placement& placement : result.placements)
    CHECK((placement.kind == PlacementKind::baseline || placement.kind == PlacementKind::searched));
  REQUIRE(!result.notes.empty());
  CHECK(result.notes.front().find("nothing separates") != std::string::npos);
}

TEST_CASE("of layers moved on equal slots nothing is put down to heat") {
  spec::Job job = small_job(18, 4, 4, 2);
  job.plan.layers_per_stage = {6, 4, 4, 4};  // out of balance
  const PlaceOptions options{.machine_is_known = true};
  const PlaceResult even = place(with_equal_slots(on_expected_machine(job)), map_of(job), options);
  REQUIRE(even.parts);
  CHECK(even.parts->layers.alike > 0);
  CHECK(even.parts->layers.heat == 0);
  CHECK(even.parts->order.heat == 0);
  CHECK(even.parts->layers.boards == 0);
}

TEST_CASE("any number of threads gives the same placement") {
  const spec::Job job = small_job(16, 4, 4, 2);
  const ColdMap map = map_of(job);
  PlaceOptions one;
  one.most_judged = 40;
  PlaceOptions four = one;
  four.threads = 4;
  const PlaceResult a = place(job, map, one), b = place(job, map, four);
  REQUIRE(a.placements.size() == b.placements.size());
  for (size_t i = 0; i < a.placements.size(); ++i) {
    CHECK(a.placements[i].job.plan == b.placements[i].job.plan);
    CHECK(a.placements[i].outcome.step_time == b.placements[i].outcome.step_time);
  }
  CHECK(a.recommended == b.recommended);
  CHECK(a.judged == b.judged);
}

TEST_CASE("a placement on a thousand GPUs starts no more threads than it may") {
  spec::Job job = small_job(8, 8, 4, 128);
  job.plan.global_batch_size = 64;
  const ColdMap map = map_of(job);
  for (const int threads : {1, 3}) {
    PlaceOptions options;
    options.largest_shift = 1;
    options.most_judged = 4;
    options.threads = threads;
    const auto started = most_threads_in([&] { place(job, map, options); });
    CHECK(started < threads);
    CHECK((started > 0) == (threads > 1));
  }
}

}  // namespace
}  // namespace triplepoint::advise
