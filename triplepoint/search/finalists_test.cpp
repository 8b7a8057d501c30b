// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/finalists.h"

#include <numeric>
#include <set>

#include "triplepoint/base/parallel.h"
#include "triplepoint/base/threads_testing.h"

#include "triplepoint/search/neighbours.h"
#include "triplepoint/search/testing.h"

namespace triplepoint::search {
namespace {

spec::Job paper_job() {
  return test::job_on("gpt3-175b", "hgx-h200", {.nodes = 4, .batch = 128});
}

Ranking rank(const char* fixed, const Objective& objective, const Limits& limits, int threads = 1) {
  const Space space(paper_job(), Reach::launchable, must(parse_fixed(fixed)));
  return rank_plans(space, objective, limits,
                    {.search = {.threads = threads, .keep = 6}, .top = 3});
}

constexpr const char* layouts = "cp=1,sp=on,vpp=1,uneven=off,overlap-tp=off";

TEST_CASE("finalists are ranked by what they reach in full, with terms that add up") {
  const Ranking ranking = rank(layouts, {}, {});
  REQUIRE(ranking.ranked.size() == 6);
  for (size_t i = 0; i < ranking.ranked.size(); ++i) {
    const Finalist& plan = ranking.ranked[i];
    if (i > 0) CHECK(plan.value >= ranking.ranked[i - 1].value);
    CHECK(std::accumulate(plan.terms.begin(), plan.terms.end(), 0.0) == doctest::Approx(plan.time));
    // Single boards and heat can only hold the others up, but the reference temperature is a guess.
    CHECK(plan.time > 0.97 * plan.candidate.step.time);
    CHECK(plan.node_power > 8 * plan.power_mean);
  }
  CHECK(ranking.ranked[0].on_front);
  const Loss loss = largest_loss(ranking.ranked.back(), ranking.ranked[0]);
  CHECK(loss.seconds > 0);
}

TEST_CASE("a job simulated in full has the layout of its plan") {
  for (const Finalist& plan : rank(layouts, {}, {}).ranked) {
    spec::Job job = paper_job();
    job.plan = plan.candidate.plan;
    const Finalist alone = simulate_in_full(job, {});
    CHECK(alone.candidate.layout == plan.candidate.layout);
    CHECK(alone.candidate.layout.data == job.data_parallel_size());
  }
}

TEST_CASE("the same finalists at any number of threads, to the bit") {
  const Ranking one = rank(layouts, {}, {}, 1), three = rank(layouts, {}, {}, 3);
  REQUIRE(one.ranked.size() == three.ranked.size());
  for (size_t i = 0; i < one.ranked.size(); ++i) {
    CHECK(one.ranked[i].candidate.index == three.ranked[i].candidate.index);
    CHECK(one.ranked[i].time == three.ranked[i].time);
    CHECK(one.ranked[i].energy == three.ranked[i].energy);
  }
}

TEST_CASE("plans beside the ranking are simulated on as many threads as are available") {
  spec::Job job = test::job_on("gpt3-175b", "hgx-h200", {.nodes = 128, .batch = 256});
  job.plan.tensor_parallel_size = 8;
  job.plan.pipeline_parallel_size = 4;
  job.plan.recompute = spec::Recompute::full;
  for (const int threads : {1, 4}) {
    const ThreadLimit limit(threads);
    const auto started = most_threads_in([&] { judged_plan("own", job, {}, {}); });
    CHECK(started < threads);
    CHECK((started > 0) == (threads > 1));
  }
}

TEST_CASE("a limit refuses what is above it, and says so") {
  const std::string kept = std::string(layouts) + ",power-cap=off";
  const Ranking free = rank(kept.c_str(), {}, {});
  Limits limits;
  limits.temperature = Celsius(free.ranked[0].hottest - 0.01);
  const Ranking limited = rank(kept.c_str(), {}, limits);
  for (const Finalist& plan : limited.ranked)
    CHECK(plan.hottest <= limits.temperature->degrees());
  REQUIRE_FALSE(limited.refused.empty());
  CHECK(limited.refused[0].refused.find(" °C is above ") != std::string::npos);
  CHECK(limited.ranked.size() + limited.refused.size() >= free.ranked.size());
}

TEST_CASE("a plan that breaks a limit gets the highest power limit that keeps it") {
  const Ranking free = rank(layouts, {}, {});
  Limits limits;
  limits.temperature = Celsius(free.ranked[0].hottest - 8);
  const Ranking limited = rank(layouts, {}, limits);
  REQUIRE(limited.ranked.size() >= 3);
  const Finalist& first = limited.ranked[0];
  REQUIRE(first.power_limit);
  CHECK(first.hottest <= limits.temperature->degrees());
  CHECK(first.time > free.ranked[0].time);
  const spec::Job job = job_of(paper_job(), first);
  CHECK(simulate_in_full(job, {}).time == first.time);
  spec::Job warmer = job;
  warmer.environment.power_limit = *first.power_limit + power_limit_step;
  CHECK(simulate_in_full(warmer, {}).hottest > limits.temperature->degrees());
}

TEST_CASE("a limit that no power limit keeps refuses everything, and says how low was tried") {
  Limits limits;
  limits.temperature = Celsius(30);
  const Ranking none =
      rank("cp=1,sp=on,vpp=1,uneven=off,overlap-tp=off,tp=4,dp=1,mbs=1", {}, limits);
  CHECK(none.ranked.empty());
  REQUIRE_FALSE(none.refused.empty());
  CHECK(none.refused[0].refused.find(", also at 200 W a GPU") != std::string::npos);
}

TEST_CASE("with power-cap=off no plan gets a power limit") {
  Limits limits;
  limits.temperature = Celsius(rank(layouts, {}, {}).ranked[0].hottest - 0.01);
  const std::string fixed = std::string(layouts) + ",power-cap=off";
  for (const Finalist& plan : rank(fixed.c_str(), {}, limits).ranked)
    CHECK_FALSE(plan.power_limit);
}

TEST_CASE("for energy a lower power limit is searched, and is the best of its neighbours") {
  const Objective energy{.goal = Goal::energy};
  const Ranking thrifty = rank(layouts, energy, {});
  const Finalist& first = thrifty.ranked[0];
  REQUIRE(first.power_limit);
  for (const double steps : {-4., -2., 2., 4.}) {
    spec::Job other = job_of(paper_job(), first);
    other.environment.power_limit = *first.power_limit + steps * power_limit_step;
    CHECK(simulate_in_full(other, energy).energy >= 0.998 * first.energy);
  }
}

TEST_CASE("a power limit for least energy at the site raises it on no plan") {
  spec::Job job = paper_job();
  job.environment.pue = 1.5;
  const auto ranked_in = [&](metrics::EnergyScope scope) {
    const Objective objective = objective_of(Goal::energy, job, {}, scope);
    const Space space(job, Reach::launchable, must(parse_fixed(layouts)));
    auto ranked = rank_plans(space, objective, {}, {.search = {.keep = 6}, .top = 3}).ranked;
    for (const Finalist& plan : ranked) {
      spec::Job at_full_power = job_of(job, plan);
      at_full_power.environment.power_limit.reset();
      const double energy = simulate_in_full(at_full_power, objective).scope_energy;
      CHECK(plan.scope_energy <= energy);
    }
    return ranked;
  };
  const Finalist of_site = ranked_in(metrics::EnergyScope::site).front();
  const Finalist of_gpus = ranked_in(metrics::EnergyScope::gpu).front();
  CHECK(of_site.scope_energy == doctest::Approx(1.5 * 4 * of_site.node_power * of_site.time));
  // What hosts, fans and supplies draw meanwhile speaks for less of a limit.
  REQUIRE(of_gpus.power_limit);
  CHECK(of_site.power_limit.value_or(job.power_limit()) > *of_gpus.power_limit);
}

TEST_CASE("the objective decides: no plan of the energy ranking beats it in energy") {
  const Ranking fast = rank(layouts, {}, {});
  const Ranking thrifty = rank(layouts, {.goal = Goal::energy}, {});
  CHECK(thrifty.ranked[0].energy <= fast.ranked[0].energy);
  CHECK(fast.ranked[0].time <= thrifty.ranked[0].time);
}

TEST_CASE("shown plans differ in more than chunks, and say what they are best of") {
  const Space space(paper_job(), Reach::launchable, must(parse_fixed("sp=on,uneven=off")));
  const auto ranked =
      rank_plans(space, {}, {}, {.search = {.keep = 8}, .top = 5, .kinds = true}).ranked;
  REQUIRE(ranked.size() >= 5);
  std::set<Layout> sizes;
  std::string kinds;
  for (size_t i = 0; i < ranked.size(); ++i) {
    Layout layout = ranked[i].candidate.layout;
    layout.chunks = 1;
    if (ranked[i].candidate.plan.sharding != spec::Sharding::parameters)
      CHECK(sizes.insert(layout).second);
    if (i > 0 && i < 5) CHECK(ranked[i].value >= ranked[i - 1].value);
    kinds += ranked[i].kind + ";";
    if (!ranked[i].kind.empty()) CHECK(i < 5);
  }
  for (const char* kind : {"best without CP", "least energy", "least memory", "simplest"})
    CHECK(kinds.find(kind) != std::string::npos);
}

TEST_CASE("causes in seconds add up to the gap, and a change that is named gains") {
  spec::Job job = paper_job();
  job.plan.tensor_parallel_size = 8;
  job.plan.pipeline_parallel_size = 4;
  job.plan.recompute = spec::Recompute::full;
  job.plan.sequence_parallel = true;
  const Finalist own = simulate_in_full(job, {});
  const auto changes = best_changes(job, {}, {});
  REQUIRE_FALSE(changes.empty());
  double before = own.time;
  for (const OtherPlan& change : changes) {
    CHECK(change.plan.time < before);
    before = change.plan.time;
    double sum = 0;
    for (size_t t = 0; t < term_count; ++t)
      sum += change.plan.terms[t] - own.terms[t];
    CHECK(sum == doctest::Approx(change.plan.time - own.time));
  }
}

TEST_CASE("two changes are found of which one alone does not fit") {
  spec::Job job = test::job_on("llama3-70b", "dgx-h100", {.nodes = 8, .batch = 512});
  job.plan.tensor_parallel_size = 8;
  job.plan.pipeline_parallel_size = 8;
  job.plan.recompute = spec::Recompute::full;
  const auto changes = best_changes(job, {}, {});
  REQUIRE(changes.size() == 2);
  CHECK(changes[1].plan.candidate.plan.recompute == spec::Recompute::none);
  CHECK(changes[1].plan.time < 0.8 * simulate_in_full(job, {}).time);
}

TEST_CASE("a plan that fits but for the headroom is simulated, and says what it lacks") {
  spec::Job job = paper_job();
  job.plan.tensor_parallel_size = 8;
  job.plan.pipeline_parallel_size = 4;
  const Limits limits{.headroom = *job.cluster.gpu.memory};
  const OtherPlan plan = judged_plan("", job, {}, limits);
  CHECK(plan.missing == Bytes());
  CHECK(plan.missing_headroom == plan.plan.candidate.memory);
  CHECK(plan.plan.hottest > 0);
  CHECK(why_not(plan, plan.plan, Goal::throughput).find("short of --memory-headroom") !=
        std::string::npos);
}

TEST_CASE("on ranks that share cores nothing is judged: what does not fit has no remedy") {
  CHECK_FALSE(nearest_that_fits(test::job_on("llama3-8b", "laptop", {.nodes = 1, .batch = 8})));
}

TEST_CASE("for a job out of memory the fastest way to save is named") {
  spec::Job job = test::job_on("llama3-70b", "dgx-h100", {.nodes = 8, .batch = 64});
  job.plan.tensor_parallel_size = 8;
  job.plan.sharding = spec::Sharding::optimizer;
  job.plan.optimizer =
      must(spec::load_optimizer(spec::default_library(), "distributed_fused_adam_bf16"));
  const auto fits = nearest_that_fits(job);
  REQUIRE(fits);
  CHECK(flags_between(job, *fits) == "--sequence-parallel");
}

TEST_CASE("nothing on the front is beaten in everything, and everything else is") {
  std::vector<Finalist> plans(4);
  const double times[] = {1, 2, 3, 2}, energies[] = {4, 3, 3, 5};
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].time = times[i];
    plans[i].scope_energy = energies[i];
  }
  mark_front(plans);
  CHECK(plans[0].on_front);
  CHECK(plans[1].on_front);
  CHECK_FALSE(plans[2].on_front);
  CHECK_FALSE(plans[3].on_front);
}

}  // namespace
}  // namespace triplepoint::search
