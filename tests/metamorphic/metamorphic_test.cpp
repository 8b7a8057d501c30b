// SPDX-License-Identifier: Apache-2.0
// What a change to a job may and may not do to its speed, power, heat and memory, on random jobs.
//
// The lists of relations are the tests; this file runs them. A violation names the seed of its job
// (random_job.cpp). The slow test checks more jobs, and writes relations.csv where TPT_RELATIONS
// names it.
#include <cstdlib>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"

#include "tests/metamorphic/relation.h"

namespace triplepoint::metamorphic {
namespace {

const bool many = std::getenv("TPT_MANY_JOBS") != nullptr;
const uint64_t jobs = many ? 200 : 20;

void append_rows(const char* path, const std::string& group, const std::vector<Tally>& tallies) {
  const auto before = read_file(path);
  std::string text = before ? *before : "group,law,jobs,violations,allowed\n";
  for (const Tally& tally : tallies)
    text += fmt::format("{},\"{}\",{},{},\"{}\"\n", group, tally.name, tally.jobs,
                        tally.violations.size(), tally.allowed);
  REQUIRE(write_file_atomically(path, text).has_value());
}

/// The list that docs/models/validation.md links to holds the laws of these lists.
void check_list(const std::string& group, const std::vector<Tally>& tallies) {
  const std::string path = TPT_SOURCE_DIR "/tests/metamorphic/relations.csv";
  const auto table = CsvTable::parse(read_file(path).value(), path);
  REQUIRE(table.has_value());
  std::vector<std::string> listed, laws;
  for (size_t row = 0; row < table->rows(); ++row)
    if (table->at(row, 0) == group) listed.emplace_back(table->at(row, 1));
  for (const Tally& tally : tallies)
    laws.push_back(tally.name);
  CHECK_MESSAGE(listed == laws,
                "relations.csv is stale; run metamorphic_test with TPT_MANY_JOBS and "
                "TPT_RELATIONS set to a new file and put it there");
}

void check(const std::string& group, const std::vector<Tally>& tallies) {
  for (const Tally& tally : tallies)
    CHECK_MESSAGE(tally.violations.empty(),
                  tally.name << fmt::format("\n  {}", fmt::join(tally.violations, "\n  ")));
  if (const char* path = std::getenv("TPT_RELATIONS")) append_rows(path, group, tallies);
  if (!many) return check_list(group, tallies);
  for (const Tally& tally : tallies)
    CHECK_MESSAGE(tally.jobs > 0, tally.name);  // a law that speaks of no job checks nothing
}

TEST_CASE("the room, its limits and its faults do what they may") {
  check("room", check_relations(room_relations(), jobs));
}
TEST_CASE("links, chips, boards and hosts do what they may") {
  check("machine", check_relations(machine_relations(), jobs));
}
TEST_CASE("more or other work does what it may") {
  check("work", check_relations(work_relations(), jobs));
}
TEST_CASE("another layout does what it may") {
  check("layout", check_relations(layout_relations(), jobs));
}
TEST_CASE("the same job in other words is the same") {
  check("words", check_relations(spelling_relations(), jobs));
}
TEST_CASE("the numbers of a job belong together") {
  check("numbers", check_identities(identities(), jobs));
}
TEST_CASE("the same question asked in another way has the same answer") {
  check("other ways", check_identities(other_ways(), jobs));
}

}  // namespace
}  // namespace triplepoint::metamorphic
