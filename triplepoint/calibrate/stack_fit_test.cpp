// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/stack_fit.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/calibrate/predict_job.h"

namespace triplepoint::calibrate {
namespace {

const spec::Library library = spec::default_library();
const ScoreContext context{.library = library};

/// A small GPT on one node, batch and length of sequences at will.
spec::Job small_job(int64_t batch, int64_t length) {
  Result<spec::Job> job = spec::parse_job(library,
                                          "model = \"gpt3-1.3b\"\ncluster = \"dgx-h100\"\n"
                                          "nodes = 1\nstack = \"megatron-core\"\n[plan]\n"
                                          "global_batch_size = 8\n",
                                          "job.toml");
  REQUIRE_MESSAGE(job, job.error().what);
  job->plan.global_batch_size = batch;
  job->model.sequence_length = length;
  return *std::move(job);
}

std::vector<FitRow> runs_of(const spec::Stack& stack) {
  std::vector<FitRow> rows;
  for (const int64_t batch : {8, 32})
    for (const int64_t length : {1024, 4096}) {
      spec::Job job = small_job(batch, length);
      job.stack = stack;
      const Result<JobPrediction> played = predict_job(job);
      REQUIRE(played);
      rows.push_back({"r", "f", job, played->step_time});
    }
  return rows;
}

TEST_CASE("a neutral stack keeps what it is made of") {
  spec::Stack stack = small_job(8, 1024).stack;
  stack.flash_attention = false;
  stack.attention_share = 0.5;
  const spec::Stack neutral = neutral_stack(stack);
  CHECK(!neutral.flash_attention);
  CHECK(neutral.attention_share == 1);
  CHECK(neutral_stack(neutral) == neutral);
  for (const StackParameter& parameter : stack_parameters()) {
    CAPTURE(parameter.name);
    CHECK(parameter.low <= parameter.neutral);
    CHECK(parameter.neutral <= parameter.high);
    spec::Stack changed = neutral;
    parameter.set(changed, parameter.high);
    CHECK(parameter.get(changed) == doctest::Approx(parameter.high));
  }
}

TEST_CASE("runs of the neutral stack leave it neutral") {
  const spec::Stack stack = neutral_stack(small_job(8, 1024).stack);
  const StackFit fit = fit_stack(stack, runs_of(stack), context);
  CHECK(fit.stack == stack);
  CHECK(fit.rows == 4);
  CHECK(fit.median_after == doctest::Approx(0));
}

TEST_CASE("runs of a slower stack are matched better after the fit than before") {
  const spec::Stack neutral = neutral_stack(small_job(8, 1024).stack);
  spec::Stack slow = neutral;
  slow.step_overhead = 200 * unit::ms;
  const StackFit fit = fit_stack(neutral, runs_of(slow), context);
  CHECK(fit.median_before > 5);
  CHECK(fit.median_after < 0.3 * fit.median_before);
}

TEST_CASE("without rows nothing is learned") {
  const spec::Stack neutral = neutral_stack(small_job(8, 1024).stack);
  const StackFit fit = fit_stack(neutral, {}, context);
  CHECK(fit.stack == neutral);
  CHECK(fit.rows == 0);
}

TEST_CASE("a family that is left out does not change what it is predicted with") {
  const auto row = [](const std::string& family, double seconds) {
    TrainingRow made;
    made.row_id = family;
    made.family = family;
    made.gpu = "H100-SXM-80GB";
    made.gpus = 8;
    made.model = "gpt3-1.3b";
    made.framework = "Megatron-Core";
    made.precision = "BF16";
    made.recompute = "none";
    made.workload = "pretrain";
    made.tensor = made.pipeline = made.context = 1;
    made.data = 8;
    made.global_batch = 64;
    made.micro_batch = 4;
    made.step_time_s = seconds;
    return made;
  };
  const auto predicted = [&](double own_seconds) {
    const LessonScores lessons = score_with_fitted_stacks(
        tried_rows({row("a", own_seconds), row("b", 1)}), StackLesson::left_out, context);
    REQUIRE(lessons.scores.scored.size() == 2);
    CHECK(lessons.scores.rows == 2);
    return lessons.scores.scored[0].predicted;
  };
  CHECK(predicted(0.5) == predicted(5));
}

}  // namespace
}  // namespace triplepoint::calibrate
