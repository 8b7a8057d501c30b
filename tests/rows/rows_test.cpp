// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/must_testing.h"

#include "triplepoint/calibrate/jobs/job_rows.h"
#include "triplepoint/calibrate/tables/table_kind.h"

namespace triplepoint::calibrate {
namespace {

const spec::Library library = spec::default_library();

CsvTable table_at(const char* name) {
  const std::string path = fmt::format("{}/tests/rows/{}", TPT_SOURCE_DIR, name);
  return must(CsvTable::parse(read_file(path).value(), path));
}

std::string cell(const CsvTable& table, std::size_t row, std::string_view title) {
  return std::string(table.at(row, table.require_column(title).value()));
}

TableScores scores_of(const CsvTable& table) {
  return must(score_table(table, {.library = library, .threads = 1}));
}

std::map<std::string, spec::Job> jobs_of(const CsvTable& table) {
  const auto rows = must(read_job_rows(table));
  std::map<std::string, spec::Job> jobs;
  for (const JobRow& row : rows) {
    CAPTURE(row.row_id);
    std::vector<std::string> notes;
    auto job = must(job_of(row, table.name(), library, notes));
    jobs.emplace(row.row_id, std::move(job));
  }
  return jobs;
}

std::string recompute_of(const spec::Plan& plan) {
  if (plan.recompute == spec::Recompute::full && plan.recompute_layers) return "block";
  return std::string(spec::enum_name(plan.recompute));
}

TEST_CASE("what memory decides is decided as the rows expect") {
  const CsvTable table = table_at("jobs.csv");
  const auto jobs = jobs_of(table);
  for (std::size_t r = 0; r < table.rows(); ++r) {
    const std::string id = cell(table, r, "row_id"), recompute = cell(table, r, "note_recompute");
    CAPTURE(id);
    const spec::Plan& plan = jobs.at(id).plan;
    CHECK(std::to_string(plan.micro_batch_size) == cell(table, r, "note_micro_batch"));
    if (recompute != "any") CHECK(recompute_of(plan) == recompute);
  }
  CHECK(jobs.at("sharded").plan.sharding == spec::Sharding::parameters);
}

TEST_CASE("cells become what the same keys of a job file would be") {
  const auto jobs = jobs_of(table_at("jobs.csv"));
  CHECK(jobs.at("shape").model.num_layers == 24);
  CHECK(jobs.at("shape").world_size() == 4);
  CHECK(jobs.at("layers").model.num_layers == 8);
  CHECK(jobs.at("layers").model.moe->num_experts == 256);
  CHECK(jobs.at("layers").stack.cuda_graphs);
  CHECK(jobs.at("layers").cluster.scale_out.nic_bandwidth == 100 * unit::Gb / unit::s);
  CHECK(jobs.at("adapters").plan.lora->targets.size() == 2);
  CHECK(jobs.at("adapters").environment.power_limit == 600 * unit::W);
  CHECK(jobs.at("modules").plan.recompute_modules.size() == 2);
}

TEST_CASE("every row is scored or has a verdict, with its interval and assumptions") {
  const TableScores scores = scores_of(table_at("jobs.csv"));
  CHECK(scores.table == "jobs");
  CHECK(scores.skipped.empty());
  CHECK(scores.scored.size() == 9);
  CHECK(scores.fit.failed_and_does_not_fit == 1);
  CHECK(scores.fit.false_oom.empty());
  for (const ScoredRow& row : scores.scored) {
    CAPTURE(row.row_id);
    CHECK(row.predicted > 0);
    REQUIRE(row.interval);
    CHECK(row.interval->low < row.predicted);
    CHECK(row.predicted < row.interval->high);
  }
  CHECK(scores.scored[0].notes.size() == 3);  // two of the row, one choice
  CHECK(scores.scored[0].predicted == scores.scored[1].predicted);
}

TEST_CASE("a wrong row is skipped with a reason that names what is wrong, and stops no other") {
  const CsvTable table = table_at("hostile_jobs.csv");
  const TableScores scores = scores_of(table);
  std::map<std::string, std::string> reasons;
  for (const SkippedRow& skipped : scores.skipped)
    reasons[skipped.row_id] = skipped.reason;
  for (std::size_t r = 0; r < table.rows(); ++r) {
    const std::string id = cell(table, r, "row_id"), expected = cell(table, r, "note_reason");
    CAPTURE(id);
    CHECK(reasons.count(id) == (expected.empty() ? 0 : 1));
    CHECK_MESSAGE(reasons[id].find(expected) != std::string::npos, reasons[id]);
  }
  REQUIRE(scores.scored.size() == 1);
  CHECK(scores.scored[0].row_id == "good");
}

TEST_CASE("a column that means nothing is an error of the table") {
  const auto read = [](const std::string& columns) {
    const auto table = CsvTable::parse(
        "row_id,family,cluster,plan.global_batch_size," + columns + "\n", "jobs.csv");
    return read_job_rows(*table);
  };
  CHECK(read("plan.recompute,note,notes_of_ours"));
  const auto wrong = read("plan.recompte");
  REQUIRE(!wrong);
  CHECK(wrong.error().what.find("\"plan.recompute\"") != std::string::npos);
}

TEST_CASE("rows of every other kind of table are recognized and scored where they can be") {
  const CsvTable table = table_at("kernels.csv");
  const TableScores scores = scores_of(table);
  CHECK(scores.table == "kernels");
  CHECK(scores.scored.size() == 25);
  for (const ScoredRow& row : scores.scored) {
    CAPTURE(row.row_id);
    CHECK(row.predicted > 0);
  }
}

}  // namespace
}  // namespace triplepoint::calibrate
