// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/compare/compare.h"

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/must_testing.h"

#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/report/study_testing.h"

namespace triplepoint::report {
namespace {

StudyRow row_of(const std::string& name, double step_s, run::Origin origin) {
  StudyRow row;
  row.name = name;
  row.verdict = Verdict::ok;
  row.origin = origin;
  row.metrics.emplace();
  row.metrics->step_time = step_s * unit::s;
  return row;
}

Study study_of(const std::vector<double>& steps, run::Origin origin) {
  Study study;
  for (std::size_t i = 0; i < steps.size(); ++i)
    study.rows.push_back(row_of("job" + std::to_string(i), steps[i], origin));
  return study;
}

TEST_CASE("a prediction is scored against what was measured, whichever is named first") {
  const Study measured = study_of({1, 2, 4}, run::Origin::measured);
  const Study simulated = study_of({1.1, 2, 3}, run::Origin::simulated);
  for (const bool first : {true, false}) {
    const StudyComparison c = first ? compare_studies({measured, simulated}, {"m", "s"})
                                    : compare_studies({simulated, measured}, {"s", "m"});
    const auto score = must(score_prediction(c, 1));
    CHECK(score.jobs == 3);
    CHECK(score.median_error == doctest::Approx(0.1));
    CHECK(score.largest_error == doctest::Approx(0.25));
    CHECK(score.worst == "job2");
    CHECK(*score.rank_correlation == doctest::Approx(1));
  }
}

TEST_CASE("two studies of one kind predict nothing") {
  const Study a = study_of({1, 2, 4}, run::Origin::measured);
  CHECK_FALSE(score_prediction(compare_studies({a, a}, {"a", "b"}), 1));
}

using doctest::Approx;

Side sample_side(const std::string& name, double step_s, int64_t gpus = 32) {
  Side side{.name = name, .row = row_of(name, step_s, run::Origin::simulated)};
  side.fidelity = "transient";
  side.row.slots.resize(as_size(gpus));
  metrics::Metrics& m = *side.row.metrics;
  m.tokens_per_second = 1e5 / step_s;
  m.tokens_per_second_per_gpu = 1e5 / step_s / as_real(gpus);
  m.joules_per_token = 2;
  m.kernels.compute = 0.6 * step_s * unit::s;
  m.kernels.all_reduce = 0.2 * step_s * unit::s;
  m.temperature_per_gpu_c = {50, 60, 70};
  m.stages = {{0, m.kernels, {}, {}, {}}, {1, m.kernels, {}, {}, {}}};
  return side;
}

const ComparedRow& row(const Comparison& c, const std::string& key) {
  const ComparedRow* found = c.find(key);
  REQUIRE(found != nullptr);
  return *found;
}

bool says(const std::vector<std::string>& sentences, const std::string& part) {
  for (const std::string& sentence : sentences)
    if (contains(sentence, part)) return true;
  return false;
}

TEST_CASE("compare: a predicted layout is surely faster or a tie, and other rooms err alike") {
  Side a = sample_side("a", 4), near = sample_side("b", 4.1), far = sample_side("b", 6);
  const auto first = [&](const Side& b) { return sentences_of(compare_runs({a, b})).front(); };
  CHECK(!contains(first(near), "a tie"));
  near.row.job.plan.tensor_parallel_size = far.row.job.plan.tensor_parallel_size = 2;
  CHECK(contains(first(near), "a tie"));
  CHECK(contains(first(far), "order is right with a probability of"));
}

TEST_CASE("compare: a run and itself differ in nothing") {
  const Comparison c = compare_runs({sample_side("a", 4), sample_side("b", 4)});
  for (const ComparedSection& section : c.sections)
    for (const ComparedRow& each : section.rows) {
      CHECK(difference_text(each, 1) == "same");
      CHECK(judgement(each, 1) == 0);
    }
  CHECK(c.settings.empty());
  CHECK(says(sentences_of(c), "b is as fast as a"));
}

TEST_CASE("compare: exchanging two runs turns every difference around") {
  const Comparison there = compare_runs({sample_side("a", 4), sample_side("b", 5)});
  const Comparison back = compare_runs({sample_side("b", 5), sample_side("a", 4)});
  for (const ComparedSection& section : there.sections)
    for (const ComparedRow& each : section.rows) {
      const auto forward = must(difference(each, 1));
      const auto backward = must(difference(row(back, each.key), 1));
      CHECK(forward.absolute == Approx(-backward.absolute));
      CHECK(judgement(each, 1) == -judgement(row(back, each.key), 1));
    }
}

TEST_CASE("compare: a shorter step is good news, fewer tokens a second are not") {
  const Comparison c = compare_runs({sample_side("a", 4), sample_side("b", 3)});
  CHECK(judgement(row(c, "step_time_s"), 1) == 1);
  CHECK(judgement(row(c, "tokens_per_s"), 1) == 1);
  CHECK(difference(row(c, "step_time_s"), 1)->relative == Approx(-0.25));
  CHECK(difference_text(row(c, "step_time_s"), 1) == "−25 %");
  CHECK(says(sentences_of(c), "b is 33 % faster than a"));
}

TEST_CASE("compare: runs of different size say what each GPU does") {
  const Comparison c = compare_runs({sample_side("a", 4, 32), sample_side("b", 4, 64)});
  CHECK(says(sentences_of(c), "64 GPUs instead of 32, each with 50 % fewer tokens/s"));
}

TEST_CASE("compare: what one side does not know has no difference") {
  Side b = sample_side("b", 4);
  b.row.metrics->joules_per_token.reset();
  b.row.metrics->temperature_per_gpu_c.clear();
  const Comparison c = compare_runs({sample_side("a", 4), b});
  CHECK(difference_text(row(c, "joules_per_token"), 1) == "–");
  CHECK(row(c, "hottest_gpu_c").value_text(1) == "–");
  CHECK(row(c, "hottest_gpu_c").whose[0] == "GPU 2 (GPU 2 of node 0)");
  CHECK(comparison_json(c)["sections"][1]["rows"][0]["values"][1].is_null());
}

TEST_CASE("compare: a difference below what steps of one run differ is called noise") {
  Side a = sample_side("a", 4), b = sample_side("b", 4.1);
  a.step_s = {3.5, 3.8, 4, 4, 4.2, 4.5};
  CHECK(says(sentences_of(compare_runs({a, b})), "so not significant"));
  a.step_s = {4, 4, 4, 4, 4, 4};
  CHECK_FALSE(says(sentences_of(compare_runs({a, b})), "so not significant"));
}

TEST_CASE("compare: a slower run is told by its longer step") {
  const Comparison c = compare_runs({sample_side("a", 4), sample_side("b", 8)});
  CHECK(says(sentences_of(c), "A step of b takes 2.0 times as long as one of a: 8.000 s against"));
  CHECK_FALSE(says(sentences_of(c), "slower"));
}

TEST_CASE("compare: of a run over time all of it counts, not its last step") {
  Side fault = sample_side("fault", 4);
  fault.whole = answers::WholeRun{{.power_w = 500, .peak_c = 88}, 5 * unit::s, 3.0};
  const Comparison c = compare_runs({sample_side("steady", 4), fault});
  CHECK(row(c, "whole_tokens_per_s").values[1] == Approx(1e5 / 5));
  const std::vector<std::string> sentences = sentences_of(c);
  CHECK(
      says(sentences, "Over the whole run, a step of fault takes 25 % longer than one of steady"));
  CHECK_FALSE(says(sentences, "as fast as"));
}

TEST_CASE("compare: the parts of a step that changed most are named, however few kernels did") {
  Side a = sample_side("a", 4), b = sample_side("b", 8);
  a.row.metrics->parts = {.computing = 3.9 * unit::s, .gaps = 0.1 * unit::s};
  b.row.metrics->parts = {
      .computing = 3.7 * unit::s, .waiting = 0.1 * unit::s, .gaps = 4.2 * unit::s};
  CHECK(says(sentences_of(compare_runs({a, b})),
             "change most in: gaps between kernels +4.10 s (×42.0)."));
}

TEST_CASE("compare: a side that knows nothing of its job was not set up differently") {
  Side a = sample_side("a", 4);
  a.settings = {{"micro_batch_size", "1"}};
  CHECK(compare_runs({a, sample_side("b", 5)}).settings.empty());
}

TEST_CASE("compare: a job that does not fit shows only its memory") {
  Side b = sample_side("b", 4);
  b.row.verdict = Verdict::oom;
  b.row.metrics.reset();
  b.row.memory = {{.weights = 200 * unit::GiB}};
  const Comparison c = compare_runs({sample_side("a", 4), b});
  CHECK_FALSE(row(c, "step_time_s").values[1]);
  CHECK(row(c, "memory_gib").values[1] == Approx(200));
  CHECK(says(sentences_of(c), "b does not fit in memory (200 GiB)"));
}

TEST_CASE("compare: studies are joined by name, whatever their order") {
  Study first = sample_study(), second = sample_study();
  std::ranges::reverse(second.rows);
  second.rows.pop_back();  // the first job of the first study
  const StudyComparison c = compare_studies({first, second}, {"before", "after"});
  CHECK(c.jobs.size() == first.rows.size());
  CHECK(c.mean_ratio("step_time_s", 1)->ratio == Approx(1));
  CHECK(c.jobs[0].verdicts[1].empty());
  CHECK(says(sentences_of(c), "Not in after: " + first.rows[0].name));
}

TEST_CASE("compare: the CSV has one line per number and reads back") {
  const Comparison c = compare_runs({sample_side("a", 4), sample_side("b", 5)});
  const auto table = must(CsvTable::parse(comparison_csv(c), "compare.csv"));
  std::size_t rows = 0;
  for (const ComparedSection& section : c.sections)
    rows += section.rows.size();
  CHECK(table.rows() == rows);
  CHECK(*table.number(0, *table.require_column("b relative")) == Approx(0.25));
}

TEST_CASE("compare: names of runs cannot become markup") {
  const std::string page = document_page(
      comparison_document(compare_runs({sample_side("<a>", 4), sample_side("b&c", 5)}), true));
  CHECK(!contains(page, "<a> against"));
  CHECK(contains(page, "b&amp;c against &lt;a&gt;"));
}

TEST_CASE("a class of kernels that a recording lacks is not known, and its marks are compared") {
  Side recorded = sample_side("r", 1, 0);
  recorded.row.origin = run::Origin::measured;
  metrics::Metrics& m = *recorded.row.metrics;
  m.kernels.compute = {};
  m.bubble_fraction = 0.002;
  m.samples_per_second = 900;
  recorded.row.job.plan.global_batch_size = 64;
  recorded.row.job.model.sequence_length = 8192;
  const Comparison c = compare_runs({sample_side("s", 1), recorded});
  CHECK(row(c, "kernel_all_reduce_s").values[1].has_value());
  CHECK_FALSE(row(c, "kernel_compute_s").values[1].has_value());
  CHECK_FALSE(row(c, "kernel_total_s").values[1].has_value());
  CHECK(c.find("bubble_fraction") == nullptr);
  CHECK(c.find("samples_per_s") == nullptr);
  const std::vector<std::string> sentences = sentences_of(c);
  CHECK(says(sentences, "r recorded no GPU"));
  CHECK(says(sentences, "marked with 100,000 tokens, a batch of its job has 524,288"));
  CHECK_FALSE(says(sentences, "compute −"));
}

TEST_CASE("a lost sensor moves no mean: it is of the GPUs that both sides know") {
  Side whole = sample_side("whole", 1), lost = sample_side("lost", 1);
  whole.row.metrics->temperature_mean_c = 60;
  lost.row.metrics->temperature_mean_c = 65;
  lost.row.metrics->temperature_per_gpu_c[0] = std::nan("");
  const Comparison c = compare_runs({whole, lost});
  const ComparedRow& mean = row(c, "temperature_mean_c");
  CHECK(mean.title == "temperature, mean of 2 of 3 GPUs");
  CHECK(*mean.values[0] == Approx(65));
  CHECK(*mean.values[1] == Approx(65));
}

TEST_CASE("compare: tokens of another model do not compare, its model FLOPs do") {
  Side one = sample_side("one", 1), other = sample_side("other", 2);
  one.row.has_job = other.row.has_job = true;
  one.row.job.model.name = "a", other.row.job.model.name = "b";
  other.row.metrics->tokens_per_second = 1e6;
  const std::vector<std::string> sentences = sentences_of(compare_runs({one, other}));
  CHECK(says(sentences, "Tokens and steps do not compare: other trains b, one a."));
  CHECK_FALSE(says(sentences, "tokens/s"));
  CHECK_FALSE(says(sentences, "A token costs"));
}

TEST_CASE("kernels of another batch are compared for as many tokens, and a digest is no setting") {
  Side one = sample_side("one", 1), twice = sample_side("twice", 2);
  twice.row.metrics->tokens_per_second = 1e5;
  one.settings = {{"numbers", "cdd14b73"}, {"seed", "1"}};
  twice.settings = {{"numbers", "e8fc88e8"}, {"seed", "7"}};
  const std::vector<std::string> sentences = sentences_of(compare_runs({one, twice}));
  CHECK_FALSE(says(sentences, "Kernel seconds"));
  CHECK(says(sentences, "twice has seed 7 instead of 1. Another seed draws other boards"));
}

}  // namespace

}  // namespace triplepoint::report
