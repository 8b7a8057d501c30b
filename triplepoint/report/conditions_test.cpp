// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/conditions.h"

#include <doctest/doctest.h>

#include "triplepoint/report/groups.h"

namespace triplepoint::report {
namespace {

StudyRow row_on(spec::Job job) {
  StudyRow row;
  row.job = std::move(job);
  return row;
}

spec::Job plain_job() {
  spec::Job job;
  job.model.name = "gpt";
  job.cluster.gpu.name = "h200";
  job.cluster.num_nodes = 4;
  job.cluster.scale_out.nics_per_node = 4;
  job.cluster.scale_out.nic_bandwidth = 100 * unit::Gb / unit::s;
  return job;
}

std::vector<std::string> told(const std::vector<spec::Job>& jobs) {
  Study study;
  for (const spec::Job& job : jobs)
    study.rows.push_back(row_on(job));
  tell_conditions(study);
  std::vector<std::string> conditions;
  for (const StudyRow& row : study.rows)
    conditions.push_back(row.condition);
  return conditions;
}

TEST_CASE("equal machines in equal rooms need no words") {
  spec::Job other = plain_job();
  other.plan.micro_batch_size = 2;
  CHECK(told({plain_job(), other}) == std::vector<std::string>{"", ""});
}

TEST_CASE("what differs tells rooms and machines apart, and nothing else is said") {
  spec::Job warm = plain_job();
  warm.environment.ambient = Celsius(45);
  CHECK(told({plain_job(), warm}) == std::vector<std::string>{"inlet 25 °C", "inlet 45 °C"});
  spec::Job fast = plain_job();
  fast.cluster.scale_out.nic_bandwidth = 400 * unit::Gb / unit::s;
  CHECK(told({plain_job(), fast}) == std::vector<std::string>{"4 x 100 Gb/s", "4 x 400 Gb/s"});
}

TEST_CASE("fabrics are told by kind and by what is saved on uplinks") {
  spec::Job torus = plain_job(), tapered = plain_job();
  torus.cluster.scale_out.kind = spec::FabricKind::torus;
  tapered.cluster.scale_out.oversubscription = 4;
  CHECK(told({plain_job(), torus, tapered}) ==
        std::vector<std::string>{"fat tree", "torus", "fat tree 4:1"});
}

TEST_CASE("a difference without words is told by the clusters' names") {
  spec::Job other = plain_job();
  other.cluster.title = "other seats";
  other.cluster.chassis.seats.resize(8);
  spec::Job own = plain_job();
  own.cluster.title = "as built";
  CHECK(told({own, other}) == std::vector<std::string>{"as built", "other seats"});
}

TEST_CASE("other GPUs, or another number of them, are apart already") {
  spec::Job small = plain_job();
  small.cluster.num_nodes = 2;
  small.environment.ambient = Celsius(40);
  CHECK(told({plain_job(), small}) == std::vector<std::string>{"", ""});
}

TEST_CASE("groups are named and parted by their condition") {
  Study study;
  spec::Job warm = plain_job();
  warm.environment.ambient = Celsius(45);
  study.rows = {row_on(plain_job()), row_on(warm)};
  tell_conditions(study);
  const std::vector<Group> groups = groups_of(study);
  REQUIRE(groups.size() == 2);
  CHECK(groups[1].title == "gpt on 32 x H200, inlet 45 °C");
}

}  // namespace
}  // namespace triplepoint::report
