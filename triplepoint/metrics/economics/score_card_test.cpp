// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/score_card.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

Instant at(double seconds) {
  return instant_at(seconds * unit::s);
}

const spec::StudyPlan& training() {
  static const auto suite = spec::load_study(spec::default_library(), "suite/training-v1");
  REQUIRE_MESSAGE(suite, suite.error().what);
  return *suite;
}

double draw(uint64_t stream, std::size_t i, double low, double high) {
  return low + (high - low) * random_uniform({.seed = 7, .stream = stream}, i);
}

ScoreValues drawn_values(uint64_t stream) {
  return {draw(stream, 0, 100, 20'000), draw(stream, 1, 0.01, 20), draw(stream, 2, 300, 1400),
          draw(stream, 3, 40, 95),      draw(stream, 4, 0, 1),     draw(stream, 5, 0, 30),
          draw(stream, 6, 0, 0.2),      draw(stream, 7, 0, 0.2)};
}

ScoreCard drawn_card(uint64_t stream) {
  ScoreCard card;
  for (std::size_t i = 0; i < training().jobs.size(); ++i)
    card.jobs.push_back(
        combine_repeats(training().jobs[i].job.name, {drawn_values(100 * stream + i)}));
  return card;
}

ScoreCard against(const ScoreCard& reference, const ScoreCard& card) {
  return scored(card, reference, *training().score);
}

/// Two GPUs, a step a second; the second GPU is hotter and draws more. The first ten seconds are
/// slow and hot.
run::Run two_gpus() {
  run::Run run;
  for (int32_t d = 0; d < 2; ++d) {
    run.devices.push_back(
        {.index = d, .node = 0, .local = d, .slot = d, .name = "h200", .rank = d});
    for (const char* signal : {"power_w", "die_c", "throttled_share"}) {
      run::Series series{.signal = signal, .device = d, .of_node = false};
      for (int second = 0; second <= 110; ++second) {
        const bool cold = second < 10;
        series.times.push_back(at(second));
        const std::string name = signal;
        series.values.push_back(name == "power_w" ? (cold ? 900 : 500 + 100 * d)
                                : name == "die_c" ? (cold ? 30 : 60 + 8 * d)
                                                  : (cold ? 1 : 0.25 * d));
      }
      run.series.push_back(std::move(series));
    }
  }
  for (int i = 0; i < 5; ++i)
    run.steps.push_back({.begin = at(2 * i), .end = at(2 * i + 2), .samples = 4, .tokens = 4000});
  for (int i = 10; i < 110; ++i)
    run.steps.push_back({.begin = at(i), .end = at(i + 1), .samples = 4, .tokens = 4000});
  return run;
}

double value_of(const ScoreValues& values, ScoreMetric metric) {
  return values[as_size(metric)].value();
}

TEST_CASE("what a run did while it warmed up is in none of the scored numbers but peaks") {
  const ScoreValues v = measure_for_score(two_gpus(), 10 * unit::s);
  CHECK(value_of(v, ScoreMetric::tokens_per_second_per_gpu) == Approx(2000));
  CHECK(value_of(v, ScoreMetric::joules_per_token) == Approx((500 + 600) / 4000.0));
  CHECK(value_of(v, ScoreMetric::power_peak_w) == Approx(600));
  CHECK(value_of(v, ScoreMetric::temperature_peak_c) == Approx(68));
  CHECK(value_of(v, ScoreMetric::thermal_spread_k) == Approx(8));
  CHECK(value_of(v, ScoreMetric::throttled_share) == Approx(0.125));
}

TEST_CASE("equal steps neither vary nor drift") {
  const ScoreValues v = measure_for_score(two_gpus(), 10 * unit::s);
  CHECK(value_of(v, ScoreMetric::step_time_variation) == Approx(0).epsilon(1e-9));
  CHECK(value_of(v, ScoreMetric::step_time_drift) == Approx(0).epsilon(1e-9));
}

TEST_CASE("a cluster that slows down by a tenth drifts by about that") {
  run::Run run;
  double now = 0;
  for (int i = 0; i < 400; ++i) {
    const double step = 1 + 0.1 * i / 399;
    run.steps.push_back({.begin = at(now), .end = at(now + step), .samples = 1, .tokens = 1000});
    now += step;
  }
  const ScoreValues v = measure_for_score(run, Seconds());
  CHECK(value_of(v, ScoreMetric::step_time_drift) == Approx(0.075).epsilon(0.02));
  CHECK(value_of(v, ScoreMetric::step_time_variation) > 0.01);
}

TEST_CASE("numbers that a run does not know are absent") {
  const ScoreValues v = measure_for_score({}, Seconds());
  CHECK(std::ranges::none_of(v, [](const auto& value) { return value.has_value(); }));
}

TEST_CASE("the reference scores one") {
  const ScoreCard own = against(drawn_card(1), drawn_card(1));
  CHECK(own.score.value() == 1);
  CHECK(own.is_official);
}

TEST_CASE("the order of jobs does not change a bit of the score") {
  const ScoreCard reference = drawn_card(1), card = drawn_card(2);
  ScoreCard turned = card;
  std::ranges::reverse(turned.jobs);
  CHECK(against(reference, card).score.value() == against(reference, turned).score.value());
}

TEST_CASE("who is better in every number never scores less") {
  for (uint64_t stream = 1; stream < 60; ++stream) {
    const ScoreCard reference = drawn_card(stream), card = drawn_card(stream + 100);
    ScoreCard better = card;
    for (JobScore& job : better.jobs)
      for (std::size_t m = 0; m < job.values.size(); ++m) {
        const double by = draw(stream + 500, m, 0, 0.5);
        job.values[m] = *job.values[m] * (m == 0 ? 1 + by : 1 - by);  // more tokens, less else
      }
    CHECK(against(reference, better).score.value() >= against(reference, card).score.value());
  }
}

TEST_CASE("two cards change places when they change places") {
  const ScoreCard a = drawn_card(3), b = drawn_card(4);
  CHECK(against(b, a).score.value() == Approx(1 / against(a, b).score.value()));
}

TEST_CASE("leaving out a number or a job does not pay with an official score") {
  const ScoreCard reference = drawn_card(1);
  ScoreCard card = drawn_card(2);
  card.jobs[0].values[3].reset();
  const ScoreCard without_number = against(reference, card);
  CHECK(!without_number.jobs[0].score);
  CHECK(!without_number.is_official);
  card.jobs.erase(card.jobs.begin());
  CHECK(!against(reference, card).is_official);
}

TEST_CASE("repeats count by their median") {
  std::vector<ScoreValues> repeats(3, drawn_values(1));
  repeats[0][0] = 90;
  repeats[1][0] = 100;
  repeats[2][0] = 105;
  repeats[2][1].reset();
  const JobScore job = combine_repeats("dense-small", repeats);
  CHECK(value_of(job.values, ScoreMetric::tokens_per_second_per_gpu) == 100);
  CHECK(!job.values[1]);
}

run::Run run_of(const spec::Job& job) {
  run::Run run = two_gpus();
  run.manifest.job = job;
  return run;
}

bool complains_of(const std::vector<std::string>& broken, std::string_view word) {
  return std::ranges::any_of(broken, [&](const std::string& sentence) {
    return sentence.find(word) != std::string::npos;
  });
}

spec::ScoreRules short_rules() {
  spec::ScoreRules rules = *training().score;
  rules.warm_up = 10 * unit::s;
  rules.duration = 100 * unit::s;
  return rules;
}

/// The suite's job on the two GPUs.
spec::Job on_two_gpus(const spec::Job& wanted) {
  spec::Job job = wanted;
  job.cluster.num_nodes = 1;
  job.cluster.gpus_per_node = 2;
  job.plan.global_batch_size = batch_on(wanted, job.cluster);
  return job;
}

TEST_CASE("each broken rule is named") {
  const spec::Job wanted = training().jobs[0].job;
  spec::ScoreRules rules = short_rules();
  const spec::Job job = on_two_gpus(wanted);
  CHECK(job.plan.global_batch_size == 4);
  CHECK(broken_rules(rules, wanted, run_of(job)).empty());

  const auto complaint = [&](const spec::Job& other, std::string_view word) {
    return complains_of(broken_rules(rules, wanted, run_of(other)), word);
  };
  spec::Job other = job;
  other.model.num_layers -= 1;
  CHECK(complaint(other, "model"));
  other = job;
  other.model.sequence_length = 2048;
  CHECK(complaint(other, "sequence length"));
  other = job;
  other.plan.global_batch_size += 8;
  CHECK(complaint(other, "sequences"));
  other = job;
  other.plan.precision = spec::Precision::fp8;
  CHECK(complaint(other, "precision"));
  other = job;
  other.plan.lora = spec::Lora{};
  CHECK(complaint(other, "weights"));
  other = job;
  other.cluster.num_nodes = 2;
  CHECK(complaint(other, "2 devices were watched, the job has 4"));
  rules.duration = 200 * unit::s;
  CHECK(complaint(job, "warm-up"));
  run::Run blind = run_of(job);
  blind.series.pop_back();
  CHECK(complains_of(broken_rules(rules, wanted, blind), "throttled_share"));
}

TEST_CASE("the plan is free: layout, microbatch, limits and placement break no rule") {
  const spec::Job wanted = training().jobs[0].job;
  spec::Job job = on_two_gpus(wanted);
  job.plan.tensor_parallel_size = 2;
  job.plan.micro_batch_size = 2;
  job.plan.recompute = spec::Recompute::full;
  job.plan.device_order = {1, 0};
  job.environment.power_limit = 500 * unit::W;
  CHECK(broken_rules(short_rules(), wanted, run_of(job)).empty());
}

}  // namespace
}  // namespace triplepoint::metrics
