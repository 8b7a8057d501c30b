// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/crossover.h"

#include <cmath>

#include <doctest/doctest.h>

namespace triplepoint::study {
namespace {

constexpr double gigabit = 1e9 / 8;

CrossoverQuestion question(Varied over, std::vector<double> values) {
  CrossoverQuestion asked;
  asked.over = over;
  asked.values = std::move(values);
  asked.base.cluster.name = "base";
  asked.base.cluster.num_nodes = 4;
  asked.against.cluster.name = "against";
  asked.against.cluster.num_nodes = 8;
  asked.base.plan.global_batch_size = asked.against.plan.global_batch_size = 128;
  return asked;
}

/// A plan whose step has this value.
PlannedSide planned(const spec::Job& job, double value) {
  PlannedSide side{.job = job, .plan = search::Finalist(), .why_none = {}};
  side.plan->value = value;
  return side;
}

bool never() {
  return false;
}

/// Base takes 1 at any bandwidth; the other 300 Gb/s over its NIC's.
Result<PlannedSide> waits_for_links(const spec::Job& job) {
  if (job.cluster.name == "base") return planned(job, 1);
  return planned(job, 300 * gigabit / job.cluster.scale_out.nic_bandwidth.in_base_units());
}

TEST_CASE("a crossover is enclosed, closer with each halving") {
  for (const int halvings : {0, 3, 6}) {
    CrossoverQuestion asked =
        question(Varied::nic_bandwidth, {100 * gigabit, 200 * gigabit, 400 * gigabit});
    asked.halvings = halvings;
    const auto answer = find_crossovers(asked, waits_for_links, never).value();
    REQUIRE(answer.crossovers.size() == 1);
    const Crossover& found = answer.crossovers[0];
    CHECK(found.low <= 300 * gigabit);
    CHECK(found.high >= 300 * gigabit);
    CHECK(std::log2(found.high / found.low) == doctest::Approx(std::pow(0.5, halvings)));
    CHECK_FALSE(found.base_leads_above);
    CHECK(answer.points.size() == 3 + static_cast<size_t>(halvings));
    for (size_t i = 1; i < answer.points.size(); ++i)
      CHECK(answer.points[i - 1].value < answer.points[i].value);
  }
}

TEST_CASE("where one cluster is better at every value there is no crossover") {
  const auto answer =
      find_crossovers(question(Varied::nic_bandwidth, {400 * gigabit, 800 * gigabit}),
                      waits_for_links, never)
          .value();
  CHECK(answer.crossovers.empty());
  CHECK(*answer.points[0].advantage() == doctest::Approx(0.75));
}

TEST_CASE("a cluster without a plan loses to one that has one") {
  const auto fits_on_many = [](const spec::Job& job) -> Result<PlannedSide> {
    if (job.cluster.name == "base") return planned(job, 1);
    if (job.cluster.num_nodes < 8) return without_plan(job, {"out of memory"});
    return planned(job, 0.5);
  };
  const auto answer =
      find_crossovers(question(Varied::against_nodes, {4, 8, 16}), fits_on_many, never).value();
  REQUIRE(answer.crossovers.size() == 1);
  CHECK(answer.crossovers[0].low == 4);  // counts are not halved
  CHECK(answer.crossovers[0].high == 8);
  CHECK(std::isinf(*answer.points[0].advantage()));
}

TEST_CASE("one cluster overtakes the other through equality") {
  const auto by_nodes = [](const spec::Job& job) -> Result<PlannedSide> {
    return planned(job, 16 / static_cast<double>(job.cluster.num_nodes));
  };
  // Base has 4 nodes throughout.
  const auto answer =
      find_crossovers(question(Varied::against_nodes, {2, 4, 8}), by_nodes, never).value();
  REQUIRE(answer.crossovers.size() == 1);
  CHECK(answer.crossovers[0].low == 2);
  CHECK(answer.crossovers[0].high == 8);
  CHECK_FALSE(answer.crossovers[0].base_leads_above);
  CHECK(find_crossovers(question(Varied::against_nodes, {2, 4}), by_nodes, never)
            .value()
            .crossovers.empty());
}

TEST_CASE("each distinct job is planned once, however often it stands in the question") {
  int asked_jobs = 0;
  const auto count = [&](const spec::Job& job) -> Result<PlannedSide> {
    ++asked_jobs;
    return planned(job, static_cast<double>(job.cluster.num_nodes));
  };
  (void)find_crossovers(question(Varied::against_nodes, {2, 4, 8}), count, never);
  CHECK(asked_jobs == 4);  // base once
}

TEST_CASE("both clusters change with what is varied, nodes in proportion") {
  const JobPair batch = jobs_at(question(Varied::batch, {}), 64).value();
  CHECK(batch.base.plan.global_batch_size == 64);
  CHECK(batch.against.plan.global_batch_size == 64);
  const JobPair nodes = jobs_at(question(Varied::nodes, {}), 6).value();
  CHECK(nodes.base.cluster.num_nodes == 6);
  CHECK(nodes.against.cluster.num_nodes == 12);
  CrossoverQuestion odd = question(Varied::nodes, {});
  odd.against.cluster.num_nodes = 6;
  CHECK_FALSE(jobs_at(odd, 3));
  CHECK(usual_values(odd) == std::vector<double>{2, 4, 8, 16});
  CHECK(usual_values(question(Varied::batch, {})).size() == 5);
}

TEST_CASE("values of a quantity that cannot be are refused") {
  CHECK(parse_varied(Varied::nic_bandwidth, "200 Gb/s").value() == 200 * gigabit);
  CHECK(varied_text(Varied::nic_bandwidth, 200 * gigabit) == "200 Gb/s");
  CHECK_FALSE(parse_varied(Varied::nic_bandwidth, "0 Gb/s"));
  CHECK_FALSE(parse_varied(Varied::nic_bandwidth, "200"));
  CHECK_FALSE(parse_varied(Varied::batch, "0"));
  CHECK_FALSE(parse_varied(Varied::nodes, "many"));
}

}  // namespace
}  // namespace triplepoint::study
