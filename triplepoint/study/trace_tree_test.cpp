// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/trace_tree.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/study/tree_testing.h"

namespace triplepoint::study {
namespace {

using namespace testing;

metrics::TraceOptions asked(const char* analysis, std::vector<std::string> files) {
  metrics::TraceOptions options;
  options.analysis = analysis;
  options.files = std::move(files);
  options.no_cache = true;
  return options;
}

const DataTable& table_of(const metrics::TraceReport& report, const char* name) {
  const auto found = std::find_if(report.tables.begin(), report.tables.end(),
                                  [&](const DataTable& table) { return table.name == name; });
  REQUIRE(found != report.tables.end());
  return *found;
}

std::size_t column_of(const DataTable& table, const char* key) {
  for (std::size_t i = 0; i < table.columns.size(); ++i)
    if (table.columns[i].key == key) return i;
  FAIL("no column ", key);
  return 0;
}

TEST_CASE("a breakdown of a tree has a row for each experiment, and says why one is missing") {
  const Tree tree;
  const auto report =
      trace_experiments(asked("breakdown", {tree.root.string()}), metrics::trace_breakdown).value();
  REQUIRE(report.has_value());
  CHECK(report->shown == std::vector<std::string>{"experiments"});
  const DataTable& table = table_of(*report, "experiments");
  REQUIRE(table.rows.size() == 5);
  const char* const names[] = {"gpt3-175b_1_00000", "gpt3-175b_1_01000", "gpt3-175b_2_01000",
                               "gpt3-175b_3_01000", "gpt3-175b_4_00000"};
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    CHECK(std::get<std::string>(table.rows[i][0]) == names[i]);
  // A GEMM of 300 ms and an elementwise kernel of 100 ms on each of two ranks.
  const std::size_t compute = column_of(table, "compute_ns");
  CHECK(number_in(table.rows[1][compute]) == 400e6);
  CHECK(number_in(table.rows[1][column_of(table, "traced_ranks")]) == 2);
  CHECK_FALSE(number_in(table.rows[2][compute]));
  for (const char* said :
       {"gpt3-175b_1_00000, gpt3-175b_2_01000: no traces",
        "gpt3-175b_1_01000: traces are those of 123_kineto, the newest job; 41_kineto left aside",
        "gpt3-175b_4_00000: the job left no sample, trace or log, which the artifact's scripts "
        "take "
        "for out of memory"})
    CHECK(std::count(report->remarks.begin(), report->remarks.end(), said) == 1);
}

TEST_CASE("tables of a tree's experiments are one table with their names") {
  const Tree tree;
  const auto report =
      trace_experiments(asked("overlap", {tree.whole.string(), tree.traces.string()}),
                        metrics::trace_overlap)
          .value();
  REQUIRE(report.has_value());
  const DataTable& ranks = table_of(*report, "ranks");
  REQUIRE(ranks.rows.size() == 4);
  CHECK(std::get<std::string>(ranks.rows[0][0]) == "gpt3-175b_1_01000");
  CHECK(std::get<std::string>(ranks.rows[3][0]) == "gpt3-175b_3_01000");
  // Smallest and largest over ranks mean nothing where ranks are of different jobs.
  CHECK_FALSE(spread_of_column(ranks, column_of(ranks, "communication_ns")));
}

TEST_CASE("one experiment, and traces in folders, are analyzed as they were") {
  const Tree tree;
  for (const Path& folder : {tree.whole, tree.whole / "123_kineto", tree.sums})
    CHECK_FALSE(trace_experiments(asked("breakdown", {folder.string()}), metrics::trace_breakdown)
                    .value()
                    .has_value());
  CHECK_FALSE(trace_experiments(asked("diff", {tree.whole.string(), tree.traces.string()}),
                                metrics::trace_diff)
                  .value()
                  .has_value());
}

TEST_CASE("an analysis of one timeline names a tree's experiments") {
  const Tree tree;
  const auto refused = trace_experiments(asked("comm", {tree.root.string()}), metrics::trace_comm);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what ==
        tree.root.string() +
            ": a result tree of 4 experiments (trace comm looks at one timeline); name one of " +
            tree.whole.string() + ", " + tree.traces.string() +
            ", or use trace breakdown or overlap");
}

TEST_CASE("a tree without readable traces has no breakdown") {
  const Tree tree;
  for (const Path& folder :
       {tree.whole / "123_kineto", tree.whole / "41_kineto", tree.traces / "7_kineto"})
    for (const char* rank : {"rank-0.json", "rank-1.json"})
      write(folder / rank, "killed\n");
  const auto refused =
      trace_experiments(asked("breakdown", {tree.root.string()}), metrics::trace_breakdown);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("none of 5 experiments has traces that can be read") !=
        std::string::npos);
}

}  // namespace
}  // namespace triplepoint::study
