// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"

#include "triplepoint/calibrate/predict_job.h"
#include "triplepoint/calibrate/table_kind.h"
#include "triplepoint/calibrate/training_row.h"
#include "triplepoint/workload/model_flops.h"

namespace triplepoint::calibrate {
namespace {

const spec::Library library = spec::default_library();

// What the row leaves open, and memory decides.
constexpr std::string_view as_fits = "as fits";

CsvTable table_at(const char* name) {
  const std::string path = fmt::format("{}/tests/rows/{}", TPT_SOURCE_DIR, name);
  Result<CsvTable> table = CsvTable::parse(read_file(path).value(), path);
  REQUIRE_MESSAGE(table, table.error().what);
  return *std::move(table);
}

std::string cell(const CsvTable& table, std::size_t row, std::string_view title) {
  return std::string(table.at(row, table.require_column(title).value()));
}

std::string layout_of(const spec::Plan& plan) {
  return fmt::format("TP{} PP{} VP{} CP{} EP{} mbs{} gbs{}", plan.tensor_parallel_size,
                     plan.pipeline_parallel_size, plan.virtual_pipeline_size,
                     plan.context_parallel_size, plan.expert_parallel_size, plan.micro_batch_size,
                     plan.global_batch_size);
}

std::string recompute_of(const spec::Plan& plan) {
  if (plan.recompute == spec::Recompute::none) return "none";
  std::string parts;
  for (const spec::RecomputeModule part : plan.recompute_modules)
    parts += fmt::format("{}{}", parts.empty() ? "" : "+", spec::enum_name(part));
  if (!parts.empty()) return parts;
  if (plan.recompute == spec::Recompute::selective) return "selective";
  return plan.recompute_layers ? fmt::format("{} layers", *plan.recompute_layers) : "full";
}

std::string sharding_of(const spec::Plan& plan) {
  const char* const names[] = {"none", "optimizer", "gradients", "parameters"};
  const std::string name = names[static_cast<int>(plan.sharding)];
  const int64_t group = plan.sharding_group_size;
  return group > 0 ? fmt::format("{} by {}", name, group) : name;
}

/// How rows reach their experts.
std::string experts_of(const spec::Job& job) {
  const std::string how = job.stack.moe_sends_every_copy ? "every copy" : "once";
  return job.plan.overlap_expert ? how + ", overlapped" : how;
}

TEST_CASE("rows of every kind of source are read as their authors meant them") {
  const CsvTable table = table_at("training.csv");
  const auto rows = read_training_rows(table);
  REQUIRE_MESSAGE(rows, rows.error().what);
  for (std::size_t r = 0; r < rows->size(); ++r) {
    CAPTURE(rows->at(r).row_id);
    const auto resolved = resolve(rows->at(r), library);
    REQUIRE_MESSAGE(resolved, resolved.error().what);
    const spec::Job& job = resolved->job;
    CHECK(job.model.name == cell(table, r, "expect_model"));
    CHECK(job.cluster.name == cell(table, r, "expect_cluster"));
    CHECK(job.stack.name == cell(table, r, "expect_stack"));
    CHECK(spec::name_of(job.plan.precision) == cell(table, r, "expect_precision"));
    const std::string layout = cell(table, r, "expect_layout");
    if (layout != as_fits) CHECK(layout_of(job.plan) == layout);
    CHECK(sharding_of(job.plan) == cell(table, r, "expect_sharding"));
    const std::string recompute = cell(table, r, "expect_recompute");
    if (recompute != as_fits) CHECK(recompute_of(job.plan) == recompute);
    const std::string experts = cell(table, r, "expect_experts");
    if (!experts.empty()) CHECK(experts_of(job) == experts);
  }
}

/// Model FLOPs over the peak of the row's own precision.
double utilization(const spec::Job& job, Seconds step) {
  const auto peak =
      *job.cluster.gpu.peak(job.plan.precision) * step * static_cast<double>(job.world_size());
  return workload::count_step_flops(job).model / peak;
}

TEST_CASE("rows that are known to run fit in memory and keep their chips reasonably busy") {
  const CsvTable table = table_at("training.csv");
  const auto rows = read_training_rows(table);
  REQUIRE_MESSAGE(rows, rows.error().what);
  for (const TrainingRow& row : *rows) {
    CAPTURE(row.row_id);
    const spec::Job job = resolve(row, library).value().job;
    const auto prediction = predict_job(job);
    REQUIRE_MESSAGE(prediction, prediction.error().what);
    CHECK(prediction->fits);
    const double share = utilization(job, prediction->step_time);
    CHECK(share > 0.04);
    CHECK(share < 0.75);
  }
}

TEST_CASE("rows with hostile cells are skipped with a reason or read without them, never a crash") {
  const CsvTable table = table_at("hostile.csv");
  const auto scores = score_table(table, {.library = library, .threads = 1});
  REQUIRE_MESSAGE(scores, scores.error().what);
  for (const SkippedRow& skipped : scores->skipped)
    CHECK(skipped.reason.size() > 20);
  std::size_t predicted = 0;
  for (const ScoredRow& scored : scores->scored) {
    CAPTURE(scored.row_id);
    CHECK(std::isfinite(scored.predicted));
    predicted += scored.quantity == "tokens_per_s_per_gpu" ? 1 : 0;
  }
  CHECK(predicted + scores->skipped.size() == table.rows());
}

TEST_CASE("rows of every other kind of table are recognized and scored where they can be") {
  struct Expected {
    const char *file, *kind;
    std::size_t scored;
  };
  for (const Expected& expected : {Expected{"kernels.csv", "kernels", 25}}) {
    CAPTURE(expected.file);
    const CsvTable table = table_at(expected.file);
    CHECK(recognize_table(table).value()->name == expected.kind);
    const auto scores = score_table(table, {.library = library, .threads = 1});
    REQUIRE_MESSAGE(scores, scores.error().what);
    CHECK(scores->scored.size() == expected.scored);
    for (const ScoredRow& row : scores->scored) {
      CAPTURE(row.row_id);
      CHECK(row.predicted > 0);
    }
  }
}

}  // namespace
}  // namespace triplepoint::calibrate
