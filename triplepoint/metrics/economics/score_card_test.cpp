// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/score_card.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/random.h"

namespace triplepoint::metrics {
namespace {

using doctest::Approx;

Instant at(double seconds) {
  return instant_at(seconds * unit::s);
}

Suite training() {
  auto suite = load_suite(spec::default_library(), "training-v1");
  REQUIRE_MESSAGE(suite, suite.error().what);
  return *std::move(suite);
}

double draw(uint64_t stream, std::size_t i, double low, double high) {
  return low + (high - low) * random_uniform({.seed = 7, .stream = stream}, i);
}

ScoreValues drawn_values(uint64_t stream) {
  return {draw(stream, 0, 100, 20'000), draw(stream, 1, 0.01, 20), draw(stream, 2, 300, 1400),
          draw(stream, 3, 40, 95),      draw(stream, 4, 0, 1),     draw(stream, 5, 0, 30),
          draw(stream, 6, 0, 0.2),      draw(stream, 7, 0, 0.2)};
}

ScoreCard drawn_card(const Suite& suite, uint64_t stream) {
  ScoreCard card;
  card.suite = suite.label();
  for (std::size_t i = 0; i < suite.jobs.size(); ++i) {
    JobResult job = combine_repeats(suite.jobs[i], {drawn_values(100 * stream + i)});
    card.jobs.push_back(std::move(job));
  }
  return card;
}

/// Two GPUs, a step a second; the second GPU is hotter and draws more. The first ten seconds are
/// slow and hot.
run::Run two_gpus() {
  run::Run run;
  for (int32_t d = 0; d < 2; ++d) {
    run.devices.push_back(
        {.index = d, .node = 0, .local = d, .slot = d, .name = "h200", .rank = d});
    for (const char* signal : {"power_w", "die_c", "throttled_share"}) {
      run::Series series{
          .signal = signal, .device = d, .of_node = false, .times = {}, .values = {}};
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
  return values[static_cast<std::size_t>(metric)].value();
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
  CHECK(std::none_of(v.begin(), v.end(), [](const auto& value) { return value.has_value(); }));
}

TEST_CASE("the reference scores one") {
  const Suite suite = training();
  const ScoreCard card = drawn_card(suite, 1);
  const CardScore own = score(card, card, suite);
  CHECK(own.score.value() == 1);
  CHECK(own.is_official);
}

TEST_CASE("the order of jobs does not change a bit of the score") {
  const Suite suite = training();
  const ScoreCard reference = drawn_card(suite, 1), card = drawn_card(suite, 2);
  ScoreCard turned = card;
  std::reverse(turned.jobs.begin(), turned.jobs.end());
  CHECK(score(card, reference, suite).score.value() ==
        score(turned, reference, suite).score.value());
}

TEST_CASE("who is better in every number never scores less") {
  const Suite suite = training();
  for (uint64_t stream = 1; stream < 60; ++stream) {
    const ScoreCard reference = drawn_card(suite, stream), card = drawn_card(suite, stream + 100);
    ScoreCard better = card;
    for (JobResult& job : better.jobs)
      for (std::size_t m = 0; m < score_metric_count; ++m) {
        const double by = draw(stream + 500, m, 0, 0.5);
        const bool more = info_of(static_cast<ScoreMetric>(m)).more_is_better;
        job.values[m] = *job.values[m] * (more ? 1 + by : 1 - by);
      }
    CHECK(score(better, reference, suite).score.value() >=
          score(card, reference, suite).score.value());
  }
}

TEST_CASE("two cards change places when they change places") {
  const Suite suite = training();
  const ScoreCard a = drawn_card(suite, 3), b = drawn_card(suite, 4);
  CHECK(score(a, b, suite).score.value() == Approx(1 / score(b, a, suite).score.value()));
}

TEST_CASE("leaving out a number or a job does not pay with an official score") {
  const Suite suite = training();
  const ScoreCard reference = drawn_card(suite, 1);
  ScoreCard card = drawn_card(suite, 2);
  card.jobs[0].values[3].reset();
  const CardScore without_number = score(card, reference, suite);
  CHECK(!without_number.jobs[0]);
  CHECK(!without_number.is_official);
  card.jobs.erase(card.jobs.begin());
  CHECK(!score(card, reference, suite).is_official);
}

TEST_CASE("a card comes back from its JSON") {
  const Suite suite = training();
  ScoreCard card = drawn_card(suite, 5);
  card.name = "hgx-h200 x 4";
  card.jobs[1].broken = {"too short"};
  card.jobs[2].values[4].reset();
  const auto back =
      card_from_json(*parse_json(json_text(card_json(card, nullptr)), "card"), "card");
  REQUIRE(back);
  CHECK(json_text(card_json(*back, nullptr)) == json_text(card_json(card, nullptr)));
  CHECK(back->jobs[2].values == card.jobs[2].values);
  CHECK(!card_from_json(Json::array(), "list.json"));
}

TEST_CASE("repeats count by their median, and say how far apart they are") {
  const Suite suite = training();
  std::vector<ScoreValues> repeats(3, drawn_values(1));
  repeats[0][0] = 90;
  repeats[1][0] = 100;
  repeats[2][0] = 105;
  const JobResult job = combine_repeats(suite.jobs[0], repeats);
  CHECK(value_of(job.values, ScoreMetric::tokens_per_second_per_gpu) == 100);
  CHECK(job.repeat_spread.value() == Approx(0.15));
}

run::Run run_of(const spec::Job& job) {
  run::Run run = two_gpus();
  run.manifest.job = job;
  return run;
}

bool complains_of(const std::vector<std::string>& broken, std::string_view word) {
  return std::any_of(broken.begin(), broken.end(), [&](const std::string& sentence) {
    return sentence.find(word) != std::string::npos;
  });
}

TEST_CASE("each broken rule is named") {
  Suite suite = training();
  suite.warm_up = 10 * unit::s;
  suite.duration = 100 * unit::s;
  const auto library = spec::default_library();
  const auto cluster = spec::load_cluster(library, "hgx-h200");
  const auto stack = spec::load_stack(library, suite.stack);
  REQUIRE((cluster && stack));
  const SuiteJob& wanted = suite.jobs[0];
  spec::Job job = job_for(wanted, *cluster, *stack);
  CHECK(broken_rules(suite, wanted, run_of(job)).empty());

  spec::Job other = job;
  other.model.num_layers -= 1;
  CHECK(complains_of(broken_rules(suite, wanted, run_of(other)), "model"));
  other = job;
  other.model.sequence_length = 2048;
  CHECK(complains_of(broken_rules(suite, wanted, run_of(other)), "sequence length"));
  other = job;
  other.plan.global_batch_size += 8;
  CHECK(complains_of(broken_rules(suite, wanted, run_of(other)), "sequences"));
  other = job;
  other.plan.precision = spec::Precision::fp8;
  CHECK(complains_of(broken_rules(suite, wanted, run_of(other)), "precision"));
  other = job;
  other.plan.lora = spec::Lora{};
  CHECK(complains_of(broken_rules(suite, wanted, run_of(other)), "weights"));
  suite.duration = 200 * unit::s;
  CHECK(complains_of(broken_rules(suite, wanted, run_of(job)), "warm-up"));
  run::Run blind = run_of(job);
  blind.series.pop_back();
  CHECK(complains_of(broken_rules(suite, wanted, blind), "throttled_share"));
}

TEST_CASE("the plan is free: layout, microbatch, limits and placement break no rule") {
  Suite suite = training();
  suite.warm_up = 10 * unit::s;
  suite.duration = 100 * unit::s;
  const auto cluster = spec::load_cluster(spec::default_library(), "hgx-h200");
  const auto stack = spec::load_stack(spec::default_library(), "megatron-core");
  REQUIRE((cluster && stack));
  spec::Job job = job_for(suite.jobs[0], *cluster, *stack);
  job.plan.tensor_parallel_size = 4;
  job.plan.micro_batch_size = 2;
  job.plan.recompute = spec::Recompute::full;
  job.plan.device_order = {1, 0, 2, 3, 4, 5, 6, 7};
  job.environment.power_limit = 500 * unit::W;
  CHECK(broken_rules(suite, suite.jobs[0], run_of(job)).empty());
}

TEST_CASE("a suite that says nothing, or something unknown, is refused") {
  const auto library = spec::default_library();
  const std::string head =
      "[suite]\nname = \"x\"\nversion = 1\ntitle = \"t\"\nwarm_up = \"1 s\"\nduration = \"2 s\"\n"
      "stack = \"nemo\"\n";
  CHECK(!parse_suite(library, head, "s.toml"));
  CHECK(!parse_suite(library, head + "[[metric]]\nname = \"speed\"\nweight = 1\n", "s.toml"));
  CHECK(!parse_suite(library, head + "[[jobs]]\n", "s.toml"));
  CHECK(parse_suite(library,
                    head + "[[metric]]\nname = \"joules_per_token\"\nweight = 1\n[[job]]\nname = "
                           "\"a\"\nmodel = \"llama3-8b\"\nsequences_per_gpu = 1\n",
                    "s.toml"));
  CHECK(!load_suite(library, "trainin-v1"));
}

TEST_CASE("a weight is a number that better counts by") {
  const auto library = spec::default_library();
  std::string suite = *read_file(Path(library.root) / "suites" / "node-v1.toml");
  const std::string was = "weight = ";
  const auto at = suite.find(was) + was.size();
  const auto end = suite.find_first_of(",}\n ", at);
  for (const char* weight : {"nan", "inf", "-1.0"})
    CHECK(!parse_suite(library, suite.substr(0, at) + weight + suite.substr(end), "s.toml"));
  CHECK(parse_suite(library, suite.substr(0, at) + "2.5" + suite.substr(end), "s.toml"));
}

TEST_CASE("every published suite can be read") {
  const auto library = spec::default_library();
  const auto names = list_suites(library);
  CHECK(names.size() >= 2);
  for (const std::string& name : names) {
    const auto suite = load_suite(library, name);
    REQUIRE_MESSAGE(suite, suite.error().what);
    CHECK(suite->label() == name);
  }
}

}  // namespace
}  // namespace triplepoint::metrics
