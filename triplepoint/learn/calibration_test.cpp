// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/calibration.h"

#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/learn/priors.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::learn {
namespace {

using doctest::Approx;

Priors shipped_priors() {
  auto priors = load_priors(spec::default_library());
  REQUIRE_MESSAGE(priors, priors.error().what);
  return *priors;
}

/// LLaMA-2 7B on eight-GPU nodes.
spec::Job job_of(int nodes, int tensor, int micro, int64_t sequence = 4096) {
  return must(spec::parse_job(
      spec::default_library(),
      fmt::format("model = \"llama2-7b\"\ncluster = \"hgx-h100\"\nnodes = {}\nstack = "
                  "\"megatron-core\"\nsequence_length = {}\n[plan]\ntensor_parallel_size = {}\n"
                  "micro_batch_size = {}\nglobal_batch_size = 128\n",
                  nodes, sequence, tensor, micro),
      "test.toml"));
}

std::vector<spec::Job> sweep() {
  return {job_of(1, 2, 1), job_of(1, 4, 2), job_of(2, 2, 2),
          job_of(4, 4, 1), job_of(8, 8, 1), job_of(4, 2, 1, 2048)};
}

std::size_t index_of(std::string_view name) {
  std::size_t k = 0;
  while (coefficients()[k].name != name)
    ++k;
  return k;
}

double seconds_of(const spec::Job& job) {
  const auto time = must(log_step_time(job));
  return std::exp(time);
}

/// Runs of the jobs on a place that differs by these factors.
std::vector<OwnRun> runs_at(const std::vector<spec::Job>& jobs, const LogFactors& truth) {
  std::vector<OwnRun> runs;
  runs.reserve(jobs.size());
  for (const spec::Job& job : jobs)
    runs.push_back({.name = fmt::format("run {}", runs.size()),
                    .job = job,
                    .seconds = seconds_of(scaled(job, truth))});
  return runs;
}

Learned learned_from(const std::vector<OwnRun>& runs, int threads = 2) {
  return must(learn_from(shipped_priors(), runs, {}, threads));
}

double forecast_of(const Calibration& known, const spec::Job& job) {
  return seconds_of(known.applied(job));
}

double spread_of(const Calibration& known, const spec::Job& job) {
  const spec::Job applied = known.applied(job);
  return std::log(known.interval_factor(applied, seconds_of(applied)));
}

TEST_CASE("a place that differs in a few coefficients is recognized within their spread") {
  LogFactors truth{};
  truth[index_of("in_context")] = 0.15;
  truth[index_of("link")] = 0.3;
  truth[index_of("nic")] = 0.6;
  const Learned learned = learned_from(runs_at(sweep(), truth));
  const Posterior& known = learned.calibration.posterior();
  for (std::size_t k = 0; k < coefficient_count; ++k) {
    CAPTURE(coefficients()[k].name);
    CHECK(std::abs(known.mean()[k] - truth[k]) < 2 * known.spreads()[k] + 1e-9);
  }
  const spec::Job unseen = job_of(4, 8, 2);
  const double measured = seconds_of(scaled(unseen, truth));
  CHECK(std::abs(std::log(seconds_of(unseen) / measured)) > 0.1);
  CHECK(forecast_of(learned.calibration, unseen) == Approx(measured).epsilon(0.03));
}

TEST_CASE("one given run predicts itself, and another of its kind better than before") {
  LogFactors truth{};
  truth[index_of("in_context")] = 0.25;
  const auto runs = runs_at({job_of(1, 2, 1)}, truth);
  const Learned learned = learned_from(runs);
  CHECK(forecast_of(learned.calibration, runs[0].job) == Approx(runs[0].seconds).epsilon(0.06));
  const spec::Job other = job_of(1, 2, 2);
  const double measured = seconds_of(scaled(other, truth));
  CHECK(std::abs(std::log(forecast_of(learned.calibration, other) / measured)) <
        0.5 * std::abs(std::log(seconds_of(other) / measured)));
}

double kernel_seconds(const spec::Job& job, TimeOf of) {
  const auto time = must(log_time(job, of));
  return std::exp(time);
}

TEST_CASE("kernels in a recording tell slow kernels from a slow network, which a step does not") {
  const spec::Job job = job_of(4, 2, 1);
  for (const char* slower : {"in_context", "nic"}) {
    CAPTURE(slower);
    LogFactors truth{};
    truth[index_of(slower)] = slower == std::string_view("nic") ? 0.8 : 0.15;
    const spec::Job there = scaled(job, truth);
    OwnRun run{.name = "run", .job = job, .seconds = seconds_of(there)};
    const Learned by_step = learned_from({run});
    run.kernels = {{TimeOf::compute, kernel_seconds(there, TimeOf::compute)},
                   {TimeOf::memory, kernel_seconds(there, TimeOf::memory)}};
    const Learned by_kernels = learned_from({run});
    const std::size_t kernels = index_of("in_context");
    const auto miss = [&](const Learned& learned) {
      return std::abs(learned.calibration.posterior().mean()[kernels] - truth[kernels]);
    };
    CHECK(miss(by_kernels) < 0.7 * miss(by_step));
    const auto spread = [&](const Learned& learned) {
      return learned.calibration.posterior().spreads()[kernels];
    };
    CHECK(spread(by_kernels) < 0.85 * spread(by_step));
    CHECK(by_kernels.runs.size() == 3);
    CHECK(by_kernels.calibration.runs() == 1);
  }
}

TEST_CASE("a run is foretold from the other runs, and not from its own kernels") {
  std::vector<OwnRun> runs = runs_at({job_of(1, 2, 1), job_of(1, 4, 2)}, {});
  runs[0].seconds *= 1.2;
  runs[0].kernels = {{TimeOf::compute, 1.2 * kernel_seconds(runs[0].job, TimeOf::compute)}};
  const Learned learned = learned_from(runs);
  REQUIRE(learned.runs.size() == 3);
  CHECK(learned.runs[0].left_out == Approx(learned.runs[0].shipped).epsilon(0.02));
  CHECK(learned.runs[1].left_out == Approx(learned.runs[1].shipped).epsilon(0.02));
  CHECK(learned.runs[2].left_out > 1.02 * learned.runs[2].shipped);
}

TEST_CASE("a run on fewer nodes narrows the forecast of a plan by what is said of it") {
  const auto runs = runs_at({job_of(1, 2, 1)}, {});
  const Calibration known = learned_from(runs).calibration;
  const spec::Job planned = job_of(8, 4, 2);
  const auto next = must(smaller_run(known, planned, known.forecast(planned, seconds_of(planned))));
  const int64_t nodes = next.gpus / 8;
  CHECK(nodes < 8);
  spec::Job smaller = job_of(static_cast<int>(nodes), 4, 2);
  smaller.plan.global_batch_size = 16 * nodes;
  CHECK(next.seconds == Approx(seconds_of(smaller)));
  const Calibration after =
      learned_from({runs[0], {.name = "next", .job = smaller, .seconds = seconds_of(smaller)}})
          .calibration;
  const auto width = [&](const Calibration& by) {
    return by.posterior().spread(by.forecast(planned, seconds_of(planned)));
  };
  CHECK(next.narrowing > 0.05);
  CHECK(width(after) / width(known) == Approx(1 - next.narrowing).epsilon(0.15));
}

TEST_CASE(
    "kernels far from what is predicted teach nothing, nor do those of a run that is left out") {
  const spec::Job job = job_of(1, 2, 1);
  const double memory = kernel_seconds(job, TimeOf::memory);
  OwnRun run{.name = "run", .job = job, .seconds = seconds_of(job)};
  run.kernels = {{TimeOf::memory, memory / 3}};
  const Learned far = learned_from({run});
  CHECK(far.runs.size() == 1);
  REQUIRE(far.left_out.size() == 1);
  CHECK(far.left_out[0].second.find("too far apart to be the same kernels") != std::string::npos);
  CHECK(far.calibration.posterior().mean()[index_of("elementwise")] == Approx(0).epsilon(0.01));
  run.seconds *= 200;
  run.kernels = {{TimeOf::memory, 1.5 * memory}};
  const OwnRun other{.name = "run", .job = job_of(2, 2, 2), .seconds = seconds_of(job_of(2, 2, 2))};
  const Learned without = learned_from({run, other});
  REQUIRE(without.runs.size() == 1);
  CHECK(without.runs[0].name == "run (2)");
}

TEST_CASE("forecasts are surer with more runs, and less sure further away") {
  const auto runs = runs_at(sweep(), {});
  const Calibration none(Posterior(shipped_priors(), {}));
  const Calibration one = learned_from({runs[0]}).calibration;
  const Calibration all = learned_from(runs).calibration;
  const spec::Job near = job_of(1, 2, 2), far = job_of(8, 8, 2);
  CHECK(spread_of(one, near) < spread_of(none, near));
  CHECK(spread_of(all, near) < spread_of(one, near));
  CHECK(spread_of(one, near) < spread_of(one, far));
}

TEST_CASE("of two jobs the order is surer than the times, and most of all of jobs that are alike") {
  const Calibration all = learned_from(runs_at(sweep(), {})).calibration;
  const auto forecast = [&](const spec::Job& job) {
    return all.forecast(all.applied(job), forecast_of(all, job));
  };
  const spec::Job a = job_of(4, 2, 2), alike = job_of(4, 2, 4), other = job_of(8, 8, 2);
  const auto ratio = [&](const spec::Job& b) {
    return all.posterior().spread_of_ratio(forecast(a), forecast(b));
  };
  CHECK(ratio(a) == Approx(0).epsilon(1e-6));
  CHECK(ratio(alike) < ratio(other));
  CHECK(ratio(other) < std::hypot(spread_of(all, a), spread_of(all, other)));
  const auto longer = [&](double more) {
    return all.probability_longer(forecast(alike), more, forecast(a), 1);
  };
  CHECK(longer(1) == Approx(0.5));
  CHECK(longer(1.01) > 0.5);
  CHECK(longer(1.01) + longer(1 / 1.01) == Approx(1));
  CHECK(longer(1.5) > 0.99);
}

double watts_of(const spec::Job& job) {
  const run::Run run = sim::simulate(job, {});
  REQUIRE(!run.summaries.empty());
  return run.summaries.front().power_mean_w.value();
}

TEST_CASE("boards that take less energy are recognized by their power") {
  const PowerFactors truth = {-0.3, 0.1};
  // Below the power limit, and not for want of work: the host keeps up.
  const auto busy = [](spec::Job job) {
    job.stack.layer_forward_host = job.stack.layer_backward_host = 0.2 * unit::ms;
    return job;
  };
  std::vector<OwnRun> runs;
  for (const spec::Job& job : {busy(job_of(1, 2, 1)), busy(job_of(2, 8, 1))}) {
    const spec::Job there = with_power(job, truth);
    runs.push_back(
        {.name = "run", .job = job, .seconds = seconds_of(there), .watts = watts_of(there)});
  }
  const Calibration known = learned_from(runs).calibration;
  CHECK(known.power().runs == 2);
  for (std::size_t k = 0; k < truth.size(); ++k)
    CHECK(std::abs(known.power().mean[k] - truth[k]) < 2 * known.power().spread[k]);
  const spec::Job other = busy(job_of(1, 4, 2));
  const double measured = watts_of(with_power(other, truth));
  const double before = std::abs(std::log(watts_of(other) / measured));
  CHECK(before > 0.05);
  CHECK(std::abs(std::log(watts_of(known.applied(other)) / measured)) < 0.5 * before);
  // A file has it as well.
  const ScratchFolder scratch;
  const std::string folder = scratch.path("mine");
  REQUIRE(known.write(folder));
  CHECK(Calibration::read(folder).value().power() == known.power());
}

TEST_CASE("without measured power, power stays as it is shipped") {
  const Calibration known = learned_from(runs_at({job_of(1, 2, 1)}, {})).calibration;
  CHECK(known.power() == LearnedPower{});
}

TEST_CASE("nothing measured changes no bit of a job") {
  const Calibration none(Posterior(shipped_priors(), {}));
  const spec::Job job = job_of(1, 2, 1);
  CHECK(none.applied(job) == job);
}

TEST_CASE("what was learned is the same for any number of threads, and after a file") {
  LogFactors truth{};
  truth[index_of("attention")] = 0.3;
  const auto runs = runs_at({job_of(1, 2, 1), job_of(2, 2, 2)}, truth);
  const Calibration known = learned_from(runs, 1).calibration;
  CHECK(learned_from(runs, 4).calibration.posterior().evidence() == known.posterior().evidence());
  const ScratchFolder scratch;
  const std::string folder = scratch.path("mine");
  REQUIRE(known.write(folder));
  const auto read = must(Calibration::read(folder));
  CHECK(read.posterior().evidence() == known.posterior().evidence());
  CHECK(read.posterior().mean() == known.posterior().mean());
  CHECK(read.posterior().priors() == known.posterior().priors());
}

TEST_CASE("runs of one job that lie a third apart are told, and teach no more than that") {
  const spec::Job job = job_of(1, 2, 1);
  const double seconds = seconds_of(job);
  const Learned learned = learned_from({{.name = "a", .job = job, .seconds = seconds},
                                        {.name = "b", .job = job, .seconds = 1.4 * seconds}});
  REQUIRE(learned.contradictions.size() == 1);
  CHECK(learned.contradictions[0].runs == std::vector<std::string>{"a", "b"});
  CHECK(learned.contradictions[0].ratio == Approx(1.4));
  const Learned agreeing = learned_from({{.name = "a", .job = job, .seconds = seconds},
                                         {.name = "b", .job = job, .seconds = 1.02 * seconds}});
  CHECK(agreeing.contradictions.empty());
  CHECK(spread_of(learned.calibration, job) > 2 * spread_of(agreeing.calibration, job));
}

TEST_CASE(
    "what was unexplained takes as much of the step as it is said to, under a power limit, too") {
  spec::Job job = job_of(1, 2, 1);
  job.environment.power_limit = 450 * unit::W;
  const double seconds = seconds_of(job);
  const Calibration known =
      learned_from({{.name = "a", .job = job, .seconds = 1.3 * seconds}}).calibration;
  const double foretold = *log_step_time(scaled(job, known.posterior().mean())) +
                          known.posterior().remainder(knobs_of(job));
  CHECK(seconds_of(known.applied(job)) == Approx(std::exp(foretold)).epsilon(0.005));
}

TEST_CASE("runs of another GPU, stack or task make no forecast surer") {
  const spec::Job job = job_of(1, 2, 1);
  const Calibration known =
      learned_from({{.name = "a", .job = job, .seconds = 1.1 * seconds_of(job)}}).calibration;
  CHECK(known.knows(job));
  CHECK(known.knows(job_of(2, 4, 1)));
  spec::Job other = job;
  other.cluster.gpu.name = "another";
  CHECK(!known.knows(other));
  other = job;
  other.stack.name = "another";
  CHECK(!known.knows(other));
}

TEST_CASE("on another GPU half of what was learned holds") {
  LogFactors truth{};
  truth[index_of("nic")] = 0.6;
  const Learned learned = learned_from(runs_at(sweep(), truth));
  const Posterior& known = learned.calibration.posterior();
  Knobs other = knobs_of(sweep().front());
  CHECK(known.mean(other) == known.mean());
  other.words[1] = "another";
  REQUIRE(word_knobs[1] == "gpu");
  for (std::size_t k = 0; k < coefficient_count; ++k)
    CHECK(known.mean(other)[k] ==
          Approx(known.priors().remainder.other_gpu * known.mean()[k]).epsilon(1e-9));
}

TEST_CASE("a time that no place explains is left out: milliseconds for seconds") {
  const spec::Job job = job_of(1, 2, 1);
  const double seconds = seconds_of(job);
  const Learned learned = learned_from({{.name = "s", .job = job, .seconds = seconds},
                                        {.name = "ms", .job = job, .seconds = 1000 * seconds}});
  CHECK(learned.runs.size() == 1);
  CHECK(learned.contradictions.empty());
  REQUIRE(learned.left_out.size() == 1);
  CHECK(learned.left_out[0].first == "ms");
  CHECK(learned.left_out[0].second.find("check the unit") != std::string::npos);
}

TEST_CASE("a run that does not fit in memory is left out, and alone it is an error") {
  spec::Job huge = job_of(1, 1, 8, 65536);
  const auto alone =
      learn_from(shipped_priors(), {{.name = "a", .job = huge, .seconds = 1}}, {}, 1);
  REQUIRE(!alone);
  CHECK(alone.error().what.find("nothing is learned") != std::string::npos);
  const spec::Job fine = job_of(1, 2, 1);
  const Learned learned = learned_from({{.name = "a", .job = huge, .seconds = 1},
                                        {.name = "b", .job = fine, .seconds = seconds_of(fine)}});
  REQUIRE(learned.left_out.size() == 1);
  CHECK(learned.left_out[0].first == "a");
  CHECK(learned.runs.size() == 1);
}

TEST_CASE("the next run is one that can run and that narrows forecasts") {
  const Learned learned = learned_from(runs_at({job_of(1, 2, 1)}, {}));
  REQUIRE(!learned.next.empty());
  for (const NextRun& next : learned.next) {
    CHECK(next.narrowing > 0);
    CHECK(next.narrowing < 1);
    CHECK(next.seconds > 0);
    CHECK(next.of == "run 0");
  }
}

}  // namespace
}  // namespace triplepoint::learn
